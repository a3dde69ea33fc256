//! Output folder of `node ocr`: a lock for one process at a time, and a note about the run.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use parkhang_core::domain::{LayoutName, VolumeId};
use serde::{Deserialize, Serialize};

use crate::config::{Pages, S3};

const LOCK: &str = ".parkhang.lock";
const NOTE: &str = "parkhang.json";

/// Note in the folder about its runs, for later runs, exports and evaluations.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Note {
    pub version: u32,
    /// Job of the volumes that `jobs` does not name.
    pub job: String,
    /// Jobs by volume.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub jobs: BTreeMap<VolumeId, String>,
    /// Layout of the artifacts.
    #[serde(default)]
    pub layout: LayoutName,
    /// Bucket of the artifacts; `None` if they are in the folder itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bucket: Option<S3>,
    /// Folder of the scans of each volume, or its address in a bucket.
    pub sources: BTreeMap<VolumeId, PathBuf>,
    /// Library that scans were read from; `None` if they came from folders named one by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pages: Option<Pages>,
}

/// Output folder, locked by this process until this is dropped.
#[derive(Debug)]
pub struct OutputFolder {
    path: PathBuf,
    /// Folders that were created for it, the folder itself first.
    made: Vec<PathBuf>,
    _lock: File,
}

impl OutputFolder {
    /// Creates the folder if it does not exist, and takes its lock.
    ///
    /// # Errors
    ///
    /// If the folder cannot be written, or another process has the lock.
    pub fn open(path: &Path) -> Result<Self> {
        let made = path
            .ancestors()
            .take_while(|folder| !folder.as_os_str().is_empty() && !folder.exists())
            .map(Path::to_owned)
            .collect();
        std::fs::create_dir_all(path)
            .with_context(|| format!("cannot make the output folder {}", path.display()))?;
        // Absolute and without links, because the name of the folder's database is a digest of it.
        let path = path
            .canonicalize()
            .with_context(|| format!("cannot read {}", path.display()))?;
        let lock =
            File::create(path.join(LOCK)).with_context(|| format!("cannot write to {}", path.display()))?;
        if let Err(error) = lock.try_lock() {
            match error {
                std::fs::TryLockError::WouldBlock => {
                    bail!(
                        "another process is writing to {}: wait for it, or choose another --out",
                        path.display()
                    )
                }
                std::fs::TryLockError::Error(error) => {
                    return Err(error).with_context(|| format!("cannot lock {}", path.display()));
                }
            }
        }
        Ok(Self {
            path,
            made,
            _lock: lock,
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the note of a run, and keeps the volumes of earlier ones with their jobs.
    ///
    /// # Errors
    ///
    /// If earlier runs had another bucket or layout, or the note cannot be written.
    pub fn remember(&self, run: Note) -> Result<Note> {
        let mut note = run;
        let job = &note.job;
        let jobs = note.sources.keys().map(|volume| (volume.clone(), job.clone()));
        note.jobs = jobs.collect();
        if let Some(earlier) = read_note(&self.path)? {
            ensure!(
                (&earlier.bucket, earlier.layout) == (&note.bucket, note.layout),
                "{} has runs with another output bucket or layout: choose another --out",
                self.path.display()
            );
            let mut sources = earlier.sources;
            // The new places win over those of earlier runs, as the scans may have been moved.
            sources.append(&mut note.sources);
            // A note of an earlier version names no job of a volume: all were of the one.
            let unnamed = sources.keys().filter(|volume| !note.jobs.contains_key(*volume));
            let unnamed: Vec<VolumeId> = unnamed.cloned().collect();
            for volume in unnamed {
                let job = earlier.jobs.get(&volume).unwrap_or(&earlier.job);
                note.jobs.insert(volume, job.clone());
            }
            note.sources = sources;
            note.pages = note.pages.or(earlier.pages);
        }
        let path = self.path.join(NOTE);
        let text = serde_json::to_string_pretty(&note).context("the note is plain data")?;
        // Written aside and renamed, so that a run that is killed leaves the earlier note whole.
        let draft = self.path.join(format!(".{NOTE}.new"));
        std::fs::write(&draft, text + "\n").with_context(|| format!("cannot write {}", draft.display()))?;
        std::fs::rename(&draft, &path).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(note)
    }
}

impl Drop for OutputFolder {
    /// Removes the folders that were created if nothing was written to them.
    fn drop(&mut self) {
        let Some(folder) = self.made.first() else {
            return;
        };
        let only_the_lock = std::fs::read_dir(folder)
            // An entry that cannot be read is taken for none; `remove_dir` then refuses a folder that is not
            // empty.
            .is_ok_and(|entries| entries.flatten().all(|entry| entry.file_name() == LOCK));
        if only_the_lock && std::fs::remove_file(folder.join(LOCK)).is_ok() {
            // The first folder that is not empty stops this, which is meant.
            let _ = self.made.iter().try_for_each(std::fs::remove_dir);
        }
    }
}

/// Reads the note of an output folder; `None` if `node ocr` has not written there.
///
/// # Errors
///
/// If the note cannot be read or is damaged.
pub fn read_note(out: &Path) -> Result<Option<Note>> {
    let path = out.join(NOTE);
    match std::fs::read(&path) {
        Ok(bytes) => {
            let note =
                serde_json::from_slice(&bytes).with_context(|| format!("{} is damaged", path.display()))?;
            Ok(Some(note))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(volume: &str) -> Note {
        Note {
            version: 1,
            job: "ocr".to_owned(),
            sources: BTreeMap::from([(volume.parse().unwrap(), PathBuf::from("/scans"))]),
            ..Note::default()
        }
    }

    #[test]
    fn one_process_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let first = OutputFolder::open(folder.path()).unwrap();
        assert!(
            OutputFolder::open(folder.path())
                .unwrap_err()
                .to_string()
                .contains("another process")
        );
        drop(first);
        OutputFolder::open(folder.path()).unwrap();
    }

    #[test]
    fn the_note_gathers_volumes() {
        let folder = tempfile::tempdir().unwrap();
        let output = OutputFolder::open(folder.path()).unwrap();
        output.remember(note("W1-I1")).unwrap();
        output.remember(note("W1-I2")).unwrap();
        let other_job = Note {
            job: "page_ocr".to_owned(),
            ..note("W1-I4")
        };
        output.remember(other_job).unwrap();
        let gathered = read_note(output.path()).unwrap().unwrap();
        assert_eq!(gathered.sources.len(), 3);
        let jobs: Vec<&str> = gathered.jobs.values().map(String::as_str).collect();
        assert_eq!(jobs, ["ocr", "ocr", "page_ocr"], "each volume has its own");
        let elsewhere = Note {
            layout: LayoutName::BdrcV1,
            ..note("W1-I3")
        };
        let refused = output.remember(elsewhere).unwrap_err();
        assert!(refused.to_string().contains("another --out"), "{refused}");
    }

    #[test]
    fn a_folder_that_was_made_for_nothing_goes_again() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("a/b");
        drop(OutputFolder::open(&deep).unwrap());
        assert!(!folder.path().join("a").exists());

        let used = OutputFolder::open(&deep).unwrap();
        used.remember(note("W1-I1")).unwrap();
        drop(used);
        assert!(deep.join(NOTE).exists());

        let found = folder.path().join("found");
        std::fs::create_dir(&found).unwrap();
        drop(OutputFolder::open(&found).unwrap());
        assert!(found.exists(), "it was there before");
    }
}
