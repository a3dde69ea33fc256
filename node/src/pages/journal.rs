//! Records of the filings of a manifest that are done, by which an interrupted run goes on.
//!
//! There is a file for each chunk, with a line for each filing: array jobs write different ones. A line that was cut off is none. A
//! filing that is recorded wrongly or not at all is at worst done twice, so nothing is flushed.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use parkhang_store::artifact::Digest;
use tracing::warn;

/// Number of hexadecimal digits of the name of a manifest.
const NAME_LENGTH: usize = 16;

/// Folder with the records of one manifest.
#[derive(Debug, Clone)]
pub struct Journal {
    folder: PathBuf,
}

/// Records of one chunk.
#[derive(Debug)]
pub struct ChunkRecords {
    path: PathBuf,
    done: BTreeSet<usize>,
    file: Option<File>,
}

impl Journal {
    /// Records below a folder of what is done of a manifest. They are found again by the same bytes and by what else decides what a
    /// filing is.
    pub fn new<'a>(folder: &Path, manifest: &'a [u8], others: impl IntoIterator<Item = &'a str>) -> Self {
        let others = others.into_iter().map(str::as_bytes);
        let name = Digest::of_parts(std::iter::once(manifest).chain(others)).to_hex();
        Self {
            folder: folder.join(&name[..NAME_LENGTH]),
        }
    }

    /// Opens the records of the chunk that has these entries. Without a place for them there are none, and a warning.
    pub fn chunk(&self, entries: &Range<usize>) -> ChunkRecords {
        let path = self.folder.join(format!("{}-{}", entries.start, entries.end));
        let opened = std::fs::create_dir_all(&self.folder).and_then(|()| {
            let text = read(&path)?;
            Ok((
                done(&text),
                OpenOptions::new().create(true).append(true).open(&path)?,
            ))
        });
        match opened {
            Ok((done, file)) => {
                let file = Some(file);
                ChunkRecords { path, done, file }
            }
            Err(error) => {
                warn!("an interrupted run will begin anew: {}: {error}", path.display());
                ChunkRecords {
                    path,
                    done: BTreeSet::new(),
                    file: None,
                }
            }
        }
    }

    /// Forgets all that is done.
    ///
    /// # Errors
    ///
    /// If a file cannot be deleted.
    pub fn forget(&self) -> io::Result<()> {
        match std::fs::remove_dir_all(&self.folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

impl ChunkRecords {
    /// True for an entry, by its place in the manifest, that an earlier run has done.
    pub fn has(&self, entry: usize) -> bool {
        self.done.contains(&entry)
    }

    /// Number of entries that are done.
    pub fn len(&self) -> usize {
        self.done.len()
    }

    /// Records that an entry is done.
    pub fn add(&mut self, entry: usize) {
        self.done.insert(entry);
        let Some(file) = &mut self.file else { return };
        // One write, so that lines of two processes cannot mix.
        if let Err(error) = file.write_all(format!("{entry}\n").as_bytes()) {
            warn!(
                "an interrupted run will repeat filings: {}: {error}",
                self.path.display()
            );
            self.file = None;
        }
    }

    /// Forgets the records, as the chunk is done: the next run is to do it again.
    pub fn forget(self) {
        match std::fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                warn!("the next run will do nothing: {}: {error}", self.path.display());
            }
            _ => {}
        }
        // That of the manifest goes with its last chunk.
        if let Some(folder) = self.path.parent() {
            let _ = std::fs::remove_dir(folder);
        }
    }
}

fn read(path: &Path) -> io::Result<String> {
    match std::fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        text => text,
    }
}

/// Entries that a text records. A number without the end of its line may be the beginning of another one.
fn done(text: &str) -> BTreeSet<usize> {
    let lines = text
        .split_inclusive('\n')
        .filter_map(|line| line.strip_suffix('\n'));
    lines.filter_map(|line| line.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_knows_what_is_done_until_it_is_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::new(folder.path(), b"a.pdf\nb.pdf", ["HKEX"]);
        let mut records = journal.chunk(&(0..1000));
        records.add(0);
        records.add(999);
        drop(records);
        let path = folder.path().join(&journal.folder).join("0-1000");
        let mut text = std::fs::read_to_string(&path).unwrap();
        text.push_str("17");
        std::fs::write(&path, text).unwrap();
        let records = journal.chunk(&(0..1000));
        assert!(records.has(0) && records.has(999) && !records.has(17));
        assert_eq!(records.len(), 2);
        assert_eq!(journal.chunk(&(1000..1001)).len(), 0);
        let others = Journal::new(folder.path(), b"a.pdf\nb.pdf", ["SGX"]);
        assert!(
            !others.chunk(&(0..1000)).has(0),
            "another exchange, other filings"
        );
        records.forget();
        assert!(!journal.chunk(&(0..1000)).has(0));
        journal.forget().unwrap();
        others.forget().unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn without_a_place_for_records_nothing_is_done() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        let mut records = Journal::new(&file, b"", []).chunk(&(0..1));
        records.add(0);
        records.forget();
    }
}
