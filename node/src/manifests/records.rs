//! Files of records, read one record at a time.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use parkhang_actors::runner::ManifestRecord;

use super::RecordArgs;

/// Name of the folder of records, within that of a run or of a node.
const FOLDER: &str = "manifests";

/// End of the names of files of records.
const ENDING: &str = ".manifest.jsonl";

/// Bytes of a record at most: the message of an error is all of it that may be long.
const LONGEST: u64 = 1 << 20;

/// File of the records of a stage of a volume.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RecordFile {
    pub job: String,
    pub volume: String,
    path: PathBuf,
}

/// The files that the arguments name, in the order of jobs, volumes and stages.
///
/// # Errors
///
/// If there are no records at all, or a folder cannot be listed.
pub fn files(arguments: &RecordArgs) -> Result<Vec<RecordFile>> {
    let root = arguments.folder.join(FOLDER);
    let wanted = arguments.stage.as_ref().map(|stage| format!(".{stage}{ENDING}"));
    let ending = wanted.as_deref().unwrap_or(ENDING);
    let mut files = Vec::new();
    for (job, folder) in entries(&root)? {
        if arguments
            .job
            .as_ref()
            .is_some_and(|wanted| wanted.as_str() != job)
        {
            continue;
        }
        for (volume, folder) in entries(&folder)? {
            for (name, path) in entries(&folder)? {
                if name.ends_with(ending) {
                    let (job, volume) = (job.clone(), volume.clone());
                    files.push(RecordFile { job, volume, path });
                }
            }
        }
    }
    if files.is_empty() {
        bail!("there are no such records in {}", root.display());
    }
    files.sort();
    Ok(files)
}

/// What lies in a folder, by name.
fn entries(folder: &Path) -> Result<Vec<(String, PathBuf)>> {
    let unreadable = || format!("cannot list {}", folder.display());
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(unreadable)? {
        let path = entry.with_context(unreadable)?.path();
        if let Some(name) = path.file_name().and_then(OsStr::to_str) {
            found.push((name.to_owned(), path));
        }
    }
    Ok(found)
}

impl RecordFile {
    /// Passes every record to `each`, in the order in which they were written.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or a line of it is no record; the error of `each`.
    pub fn read(&self, mut each: impl FnMut(ManifestRecord) -> Result<()>) -> Result<()> {
        let unreadable = || format!("cannot read {}", self.path.display());
        let mut reader = BufReader::new(File::open(&self.path).with_context(unreadable)?);
        for number in 1.. {
            // Bytes, as what is being written may end within a letter.
            let mut line = Vec::new();
            let length = reader
                .by_ref()
                .take(LONGEST)
                .read_until(b'\n', &mut line)
                .with_context(unreadable)?;
            let place = || format!("line {number} of {}", self.path.display());
            if !line.ends_with(b"\n") {
                // What comes last may be being written.
                if length as u64 == LONGEST {
                    bail!("{} has more than {LONGEST} bytes", place());
                }
                break;
            }
            each(serde_json::from_slice(&line).with_context(place)?)?;
        }
        Ok(())
    }
}
