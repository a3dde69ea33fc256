//! The output folder of `node ocr`: one process at a time, and a note of where the scans came from.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use parkhang_core::domain::{LayoutName, VolumeId};
use serde::{Deserialize, Serialize};

use crate::config::{Pages, S3};

const LOCK: &str = ".parkhang.lock";
const NOTE: &str = "parkhang.json";

/// What the folder remembers between runs, for exports and scores.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Note {
    pub version: u32,
    pub job: String,
    /// How the artifacts are laid out,
    #[serde(default)]
    pub layout: LayoutName,
    /// and the bucket that they are in, unless they are in the folder itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bucket: Option<S3>,
    /// Folder of the scans of each volume, or its address in a bucket.
    pub sources: BTreeMap<VolumeId, PathBuf>,
    /// The bucket or library that scans were read from, if any were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pages: Option<Pages>,
}

/// An output folder that this process owns until it is dropped.
#[derive(Debug)]
pub struct OutputFolder {
    path: PathBuf,
    /// What was made for it, the folder itself first.
    made: Vec<PathBuf>,
    _lock: File,
}

impl OutputFolder {
    /// Makes the folder where it does not exist and takes its lock.
    pub fn open(path: &Path) -> Result<Self> {
        let made = path
            .ancestors()
            .take_while(|folder| !folder.as_os_str().is_empty() && !folder.exists())
            .map(Path::to_owned)
            .collect();
        std::fs::create_dir_all(path)
            .with_context(|| format!("cannot make the output folder {}", path.display()))?;
        let path = path
            .canonicalize()
            .with_context(|| format!("cannot read {}", path.display()))?;
        let lock =
            File::create(path.join(LOCK)).with_context(|| format!("cannot write to {}", path.display()))?;
        if let Err(error) = lock.try_lock() {
            match error {
                std::fs::TryLockError::WouldBlock => {
                    bail!(
                        "another process is reading into {}: wait for it, or choose another --out",
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

    /// Writes the note of a run, keeping the volumes of earlier ones.
    pub fn remember(&self, run: Note) -> Result<Note> {
        let mut note = run;
        if let Some(earlier) = read_note(&self.path)? {
            ensure!(
                (&earlier.bucket, earlier.layout) == (&note.bucket, note.layout),
                "{} is of runs with another output bucket or layout: choose another --out",
                self.path.display()
            );
            let mut sources = earlier.sources;
            sources.append(&mut note.sources);
            note.sources = sources;
            note.pages = note.pages.or(earlier.pages);
        }
        let path = self.path.join(NOTE);
        let text = serde_json::to_string_pretty(&note).context("the note is plain data")?;
        let draft = self.path.join(format!(".{NOTE}.new"));
        std::fs::write(&draft, text + "\n").with_context(|| format!("cannot write {}", draft.display()))?;
        std::fs::rename(&draft, &path).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(note)
    }
}

impl Drop for OutputFolder {
    /// A run that came to nothing leaves no folder behind.
    fn drop(&mut self) {
        let Some(folder) = self.made.first() else {
            return;
        };
        let only_the_lock = std::fs::read_dir(folder)
            .is_ok_and(|entries| entries.flatten().all(|entry| entry.file_name() == LOCK));
        if only_the_lock && std::fs::remove_file(folder.join(LOCK)).is_ok() {
            // The first that is not empty ends it.
            let _ = self.made.iter().try_for_each(std::fs::remove_dir);
        }
    }
}

/// The note of an output folder, if `node ocr` has written there.
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
        assert_eq!(read_note(output.path()).unwrap().unwrap().sources.len(), 2);
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
