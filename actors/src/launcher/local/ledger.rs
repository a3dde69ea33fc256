use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

use super::process::Process;
use crate::launcher::LauncherError;
use parkhang_core::domain::Hardware;

/// A process that was launched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Launched {
    pub(super) name: String,
    pub(super) hardware: Hardware,
    pub(super) process: Process,
    /// Time at which it was told to end, if it was.
    pub(super) stopping_since: Option<DateTime<Utc>>,
}

/// A process that is about to be launched, or was, by somebody who did not live to write down which it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Starting {
    pub(super) name: String,
    pub(super) hardware: Hardware,
    /// Value of the variable [`MARK`] that the process is started with, and no other.
    pub(super) mark: String,
}

/// Variable of a worker's environment by which it is found where the record does not say which process it is.
pub(super) const MARK: &str = "LAUNCHED_AS";

/// Content of the record.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Entries {
    pub(super) desired: BTreeMap<Hardware, u32>,
    /// Processes in the order in which they were started.
    pub(super) launched: Vec<Launched>,
    /// The one that is being started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) starting: Option<Starting>,
}

/// Record of the workers of this machine, locked against other processes that launch any until it is dropped.
#[derive(Debug)]
pub(super) struct ProcessLedger {
    pub(super) entries: Entries,
    path: PathBuf,
    _lock: File,
}

impl ProcessLedger {
    /// Opens the record, once no other process has it open.
    pub(super) fn open(folder: &Path) -> Result<Self, LauncherError> {
        let path = folder.join("workers.json");
        let failed = |source: io::Error| LauncherError::Record {
            path: path.clone(),
            source,
        };
        std::fs::create_dir_all(folder).map_err(failed)?;
        // A file of its own: the record itself is replaced with each save, and a lock would stay on the old one.
        let lock = File::create(folder.join("workers.lock")).map_err(failed)?;
        lock.lock().map_err(failed)?;
        let entries = match std::fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| LauncherError::Corrupt {
                path: path.clone(),
                message: error.to_string(),
            })?,
            Err(error) if error.kind() == ErrorKind::NotFound => Entries::default(),
            Err(error) => return Err(failed(error)),
        };
        Ok(Self {
            entries,
            path,
            _lock: lock,
        })
    }

    /// Writes the record whole or not at all.
    pub(super) fn save(&self) -> Result<(), LauncherError> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        let write = || -> io::Result<()> {
            let mut file = NamedTempFile::new_in(folder)?;
            file.write_all(&serde_json::to_vec_pretty(&self.entries)?)?;
            // Flushed before it gets its name, or a power cut could leave an empty record, which cannot be
            // read.
            file.as_file().sync_all()?;
            file.persist(&self.path)?;
            Ok(())
        };
        write().map_err(|source| LauncherError::Record {
            path: self.path.clone(),
            source,
        })
    }

    /// Takes the worker that was being started when the last process that had the record open died, and enters it among the launched if it
    /// has come to run; returns whether there was one.
    pub(super) fn settle_start(&mut self) -> bool {
        let Some(starting) = self.entries.starting.take() else {
            return false;
        };
        // It cannot be between its fork and the program whose environment is sought: until then it holds the lock of the record too.
        if let Some(process) = Process::with_variable(MARK, &starting.mark) {
            self.entries.launched.push(Launched {
                name: starting.name,
                hardware: starting.hardware,
                process,
                stopping_since: None,
            });
        }
        true
    }

    /// Takes out the workers that have ended.
    pub(super) fn take_ended(&mut self) -> Vec<Launched> {
        self.entries
            .launched
            .extract_if(.., |launched| !launched.process.is_alive())
            .collect()
    }

    pub(super) fn of(&self, hardware: Hardware) -> impl Iterator<Item = &Launched> {
        self.entries
            .launched
            .iter()
            .filter(move |launched| launched.hardware == hardware)
    }

    /// A name that no worker has.
    pub(super) fn free_name(&self, hardware: Hardware) -> String {
        let taken: BTreeSet<&str> = self.of(hardware).map(|launched| launched.name.as_str()).collect();
        (1_u64..)
            .map(|number| format!("launched-{}-{number}", hardware.as_str()))
            .find(|name| !taken.contains(name.as_str()))
            .unwrap_or_default()
    }
}
