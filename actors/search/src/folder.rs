//! The index of a job on the disk of one machine: parts that are never changed, and a list of them that is replaced as a whole. It is made
//! of the indexes of volumes, and can be made of them again.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;

use nix::fcntl::{Flock, FlockArg};
use tantivy::Index;

use crate::bundle::{self, FORMAT};
use crate::compaction::{self, PartSize};
use crate::error::SearchError;
use crate::list::{Part, PartList, Refused, Version};
use crate::part::{self, Source};
use crate::snapshot::Snapshot;
use crate::vectors::{ModelHash, Vectors};
use crate::volume::Fields;

const LIST: &str = "index.json";
const LOCK: &str = "lock";

/// Folder with the index of a job.
#[derive(Debug, Clone)]
pub struct IndexFolder {
    path: PathBuf,
}

/// Index of a volume that is to be in the index of the job.
#[derive(Debug, Clone)]
pub struct AddedVolume {
    volume: String,
    version: Version,
    index: Index,
    vectors: Option<Vectors>,
    documents: u64,
    bytes: usize,
}

impl AddedVolume {
    /// Opens the bytes that [`index_volume`](crate::index_volume) gave.
    ///
    /// # Errors
    ///
    /// [`SearchError::DamagedBundle`] if they are not the index of this volume, or of another version of this program.
    pub fn open(volume: &str, version: &str, packed: &[u8]) -> Result<Self, SearchError> {
        let (index, vectors) = bundle::unpack(packed, volume)?;
        Ok(Self {
            volume: volume.to_owned(),
            version: version.to_owned(),
            documents: documents(&index)?,
            index,
            vectors,
            bytes: packed.len(),
        })
    }

    /// Memory that it takes.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }
}

impl IndexFolder {
    pub const fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// Volumes in the index, with their versions; none where there is no index yet.
    ///
    /// # Errors
    ///
    /// If the list of parts cannot be read.
    pub fn volumes(&self) -> Result<BTreeMap<String, Version>, SearchError> {
        Ok(self.list()?.volumes())
    }

    /// Opens the index as it is now. Whoever has it open sees nothing of what is written after.
    ///
    /// # Errors
    ///
    /// If a part cannot be read.
    pub fn snapshot(&self) -> Result<Snapshot, SearchError> {
        self.snapshot_after(None)
    }

    /// Opens the index as it is now, or returns the last snapshot of it if nothing has changed since.
    ///
    /// # Errors
    ///
    /// If a part cannot be read.
    pub fn snapshot_after(&self, last: Option<&Snapshot>) -> Result<Snapshot, SearchError> {
        let list = self.list()?;
        if let Some(last) = last.filter(|last| *last.list == list) {
            return Ok(last.clone());
        }
        // A part may be merged into another one between the reading of the list and its opening; the list of after has that one.
        Snapshot::open(&self.path, list).or_else(|_| Snapshot::open(&self.path, self.list()?))
    }

    /// Deletes the index, unless somebody is writing it.
    ///
    /// # Errors
    ///
    /// [`SearchError::Locked`] if it is being written, or if it cannot be deleted.
    pub fn delete(&self) -> Result<(), SearchError> {
        let writer = self.writer()?;
        // Moved away first: whoever begins an index here now begins a new one.
        let gone = self.path.with_extension("deleted");
        fs::rename(&self.path, &gone).map_err(SearchError::io(&self.path))?;
        drop(writer);
        fs::remove_dir_all(&gone).map_err(SearchError::io(&gone))
    }

    /// Takes the index for writing.
    ///
    /// # Errors
    ///
    /// [`SearchError::Locked`] if another process, or another part of this one, is writing it.
    pub fn writer(&self) -> Result<IndexWriter, SearchError> {
        fs::create_dir_all(&self.path).map_err(SearchError::io(&self.path))?;
        let lock = self.path.join(LOCK);
        let file = File::create(&lock).map_err(SearchError::io(&lock))?;
        let lock = Flock::lock(file, FlockArg::LockExclusiveNonblock)
            .map_err(|_| SearchError::Locked(self.path.clone()))?;
        let mut list = match self.list() {
            Ok(list) => list,
            // A damaged list is made anew; one that cannot be reached now may be there again later.
            Err(SearchError::DamagedFolder { .. }) => PartList::new(),
            Err(error) => return Err(error),
        };
        // The volumes of a part that is gone or damaged are missing from then on, and put in again.
        list.parts
            .retain(|part| Source::open(&part.folder(&self.path), BTreeSet::new()).is_ok());
        let writer = IndexWriter {
            path: self.path.clone(),
            list,
            fields: Fields::new(),
            _lock: lock,
        };
        writer.write_list()?;
        writer.remove_unlisted()?;
        Ok(writer)
    }

    /// Reads the list of parts. One of another version is as good as none: the index is made anew.
    fn list(&self) -> Result<PartList, SearchError> {
        let path = self.path.join(LIST);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(PartList::new()),
            Err(error) => return Err(SearchError::io(&path)(error)),
        };
        let list: PartList = serde_json::from_slice(&text).map_err(|error| SearchError::DamagedFolder {
            folder: self.path.clone(),
            reason: error.to_string(),
        })?;
        Ok(if list.format == FORMAT {
            list
        } else {
            PartList::new()
        })
    }
}

/// Right to write an index, until it is dropped.
#[derive(Debug)]
pub struct IndexWriter {
    path: PathBuf,
    list: PartList,
    fields: Fields,
    _lock: Flock<File>,
}

impl IndexWriter {
    /// Volumes in the index, with their versions.
    pub fn volumes(&self) -> BTreeMap<String, Version> {
        self.list.volumes()
    }

    /// Volumes that cannot be indexed in these versions, with the reasons.
    pub fn refused(&self) -> &BTreeMap<String, Refused> {
        &self.list.refused
    }

    /// Notes volumes that cannot be indexed, so that nobody tries these versions again.
    ///
    /// # Errors
    ///
    /// If the folder cannot be written.
    pub fn refuse(&mut self, volumes: BTreeMap<String, Refused>) -> Result<(), SearchError> {
        self.list.refused.extend(volumes);
        self.write_list()
    }

    /// Puts volumes into the index, in place of earlier versions of them, and takes others out, in one step for whoever searches.
    ///
    /// # Errors
    ///
    /// If the folder cannot be written.
    pub fn update(&mut self, added: Vec<AddedVolume>, removed: &[String]) -> Result<(), SearchError> {
        let gone = removed.iter().chain(added.iter().map(|volume| &volume.volume));
        for volume in gone {
            self.list.refused.remove(volume);
            for part in &mut self.list.parts {
                if let Some((_, documents)) = part.volumes.remove(volume) {
                    part.replaced.insert(volume.clone(), documents);
                }
            }
        }
        let mut by_model: BTreeMap<Option<ModelHash>, Vec<AddedVolume>> = BTreeMap::new();
        for volume in added {
            let model = volume.vectors.as_ref().and_then(Vectors::model);
            by_model.entry(model).or_default().push(volume);
        }
        for added in by_model.into_values() {
            let volumes = added
                .iter()
                .map(|volume| (volume.volume.clone(), (volume.version.clone(), volume.documents)))
                .collect();
            let sources: Vec<Source> = added
                .into_iter()
                .map(|volume| Source {
                    index: volume.index,
                    vectors: volume.vectors,
                    replaced: BTreeSet::new(),
                })
                .collect();
            let part = self.write_part(&sources, volumes)?;
            self.list.parts.push(part);
        }
        self.write_list()
    }

    /// Merges parts of which there are too many, or most of which was replaced. Returns whether there were any; there may be more.
    ///
    /// # Errors
    ///
    /// If a part cannot be read or the folder cannot be written.
    pub fn compact(&mut self) -> Result<bool, SearchError> {
        let sizes: Vec<PartSize> = self.list.parts.iter().map(Part::size).collect();
        let Some(chosen) = compaction::choose(&sizes) else {
            return Ok(false);
        };
        let parts: Vec<Part> = chosen
            .iter()
            .filter_map(|index| self.list.parts.get(*index))
            .cloned()
            .collect();
        let sources: Vec<Source> = parts
            .iter()
            .map(|part| Source::open(&part.folder(&self.path), part.replaced()))
            .collect::<Result<_, _>>()?;
        let volumes: BTreeMap<_, _> = parts.iter().flat_map(|part| part.volumes.clone()).collect();
        let merged = if volumes.is_empty() {
            None
        } else {
            Some(self.write_part(&sources, volumes)?)
        };
        let is_merged = |part: &Part| parts.iter().any(|merged| merged.number == part.number);
        self.list.parts.retain(|part| !is_merged(part));
        self.list.parts.extend(merged);
        self.write_list()?;
        self.remove_unlisted()?;
        Ok(true)
    }

    fn write_part(
        &mut self,
        sources: &[Source],
        volumes: BTreeMap<String, (Version, u64)>,
    ) -> Result<Part, SearchError> {
        let mut part = Part {
            number: self.list.next,
            documents: 0,
            volumes,
            replaced: BTreeMap::new(),
            model: sources
                .iter()
                .find_map(|source| source.vectors.as_ref().and_then(Vectors::model)),
        };
        self.list.next += 1;
        let folder = part.folder(&self.path);
        fs::create_dir_all(&folder).map_err(SearchError::io(&folder))?;
        part.documents = part::write(sources, &self.fields, &folder)?;
        Ok(part)
    }

    /// Replaces the list. The parts that it names are on the disk by then.
    fn write_list(&self) -> Result<(), SearchError> {
        let path = self.path.join(LIST);
        let text = serde_json::to_vec(&self.list).map_err(|error| SearchError::io(&path)(error.into()))?;
        let mut file = tempfile::NamedTempFile::new_in(&self.path).map_err(SearchError::io(&self.path))?;
        file.write_all(&text).map_err(SearchError::io(&path))?;
        file.as_file().sync_all().map_err(SearchError::io(&path))?;
        file.persist(&path)
            .map_err(|error| SearchError::io(&path)(error.error))?;
        Ok(())
    }

    /// Removes what a process left that died between a part and its list, and parts that were merged. Who still has one open can read it on.
    fn remove_unlisted(&self) -> Result<(), SearchError> {
        let listed: BTreeSet<PathBuf> = self
            .list
            .parts
            .iter()
            .map(|part| part.folder(&self.path))
            .collect();
        for entry in fs::read_dir(&self.path).map_err(SearchError::io(&self.path))? {
            let path = entry.map_err(SearchError::io(&self.path))?.path();
            let is_part = path
                .file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("part-"));
            if is_part && !listed.contains(&path) {
                fs::remove_dir_all(&path).map_err(SearchError::io(&path))?;
            }
        }
        Ok(())
    }
}

fn documents(index: &Index) -> Result<u64, SearchError> {
    Ok(index
        .load_metas()?
        .segments
        .iter()
        .map(|segment| u64::from(segment.num_docs()))
        .sum())
}
