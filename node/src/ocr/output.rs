//! The output folder of `node ocr`: one process at a time, and a note of where the scans came from.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use parkhang_actors::domain::VolumeId;
use serde::{Deserialize, Serialize};

const LOCK: &str = ".parkhang.lock";
const NOTE: &str = "parkhang.json";

/// What the folder remembers between runs, for exports and scores.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Note {
    pub version: u32,
    pub job: String,
    /// Folder of the scans of each volume.
    pub sources: BTreeMap<VolumeId, PathBuf>,
}

/// An output folder that this process owns until it is dropped.
#[derive(Debug)]
pub struct OutputFolder {
    path: PathBuf,
    _lock: File,
}

impl OutputFolder {
    /// Makes the folder where it does not exist and takes its lock.
    pub fn open(path: &Path) -> Result<Self> {
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
        Ok(Self { path, _lock: lock })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds volumes to the note, keeping those of earlier runs.
    pub fn remember(
        &self,
        job: &str,
        sources: impl IntoIterator<Item = (VolumeId, PathBuf)>,
    ) -> Result<Note> {
        let mut note = read_note(&self.path)?.unwrap_or_default();
        note.version = 1;
        note.job = job.to_owned();
        note.sources.extend(sources);
        let path = self.path.join(NOTE);
        let text = serde_json::to_string_pretty(&note).context("the note is plain data")?;
        let draft = self.path.join(format!(".{NOTE}.new"));
        std::fs::write(&draft, text + "\n").with_context(|| format!("cannot write {}", draft.display()))?;
        std::fs::rename(&draft, &path).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(note)
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
        output
            .remember("ocr", [("W1-I1".parse().unwrap(), PathBuf::from("/a"))])
            .unwrap();
        output
            .remember("ocr", [("W1-I2".parse().unwrap(), PathBuf::from("/b"))])
            .unwrap();
        assert_eq!(read_note(output.path()).unwrap().unwrap().sources.len(), 2);
    }
}
