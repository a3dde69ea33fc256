//! Launcher of processes on this machine. They outlive the process that started them, so a record in a folder says which they
//! are: whoever leads next looks after them, and none runs unnoticed. A number of the kernel is not enough to know a process by, as
//! it is given out again; the record holds the start of each as well, and a process that is not in it is never signalled.

mod ledger;
mod process;
#[cfg(test)]
pub(super) mod tests;

use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use nix::sys::signal::Signal;

use self::ledger::{Launched, MARK, ProcessLedger, Starting};
pub use self::process::{Process, start_process};
use super::{Launcher, LauncherError, Workers, within};
use crate::detached;
use crate::telemetry::{WorkerEnded, WorkerStarted, WorkerStopping};
use parkhang_core::domain::Hardware;

/// Source of the command that starts a worker with this hardware and this name.
pub type WorkerCommand = dyn Fn(Hardware, &str) -> Command + Send + Sync;

/// Settings of the launcher.
#[derive(Clone)]
pub struct LocalOptions {
    /// Folder of the record, and of the files with the output of the workers.
    pub folder: PathBuf,
    /// Limit on workers of each hardware.
    pub limit: u32,
    /// Time after which a worker that was told to end, and has not, is killed.
    pub timeout: Duration,
    /// Source of the commands that start workers.
    pub command: Arc<WorkerCommand>,
}

/// Launcher of processes on this machine. Several launchers of one folder, in any number of processes, act as one.
#[derive(Debug, Clone)]
pub struct LocalLauncher {
    options: LocalOptions,
}

impl LocalLauncher {
    /// A launcher with these settings.
    pub fn new(options: LocalOptions) -> Self {
        Self { options }
    }

    /// Runs `work` on the record, from which the workers that have ended are taken out first.
    async fn on_record<T: Send + 'static>(
        &self,
        work: impl FnOnce(&LocalOptions, &mut ProcessLedger) -> Result<T, LauncherError> + Send + 'static,
    ) -> Result<T, LauncherError> {
        let options = self.options.clone();
        let path = options.folder.clone();
        let worked = tokio::task::spawn_blocking(move || {
            let mut ledger = ProcessLedger::open(&options.folder)?;
            let settled = ledger.settle_start();
            let ended = ledger.take_ended();
            if settled || !ended.is_empty() {
                ledger.save()?;
            }
            // Told once the record is saved: until then the next one to open it finds the same ends.
            for Launched {
                name, stopping_since, ..
            } in &ended
            {
                WorkerEnded {
                    name,
                    was_signalled: stopping_since.is_some(),
                }
                .emit();
            }
            work(&options, &mut ledger)
        });
        worked.await.map_err(|error| LauncherError::Record {
            path,
            source: io::Error::other(error),
        })?
    }
}

#[async_trait]
impl Launcher for LocalLauncher {
    fn hardware(&self) -> BTreeSet<Hardware> {
        BTreeSet::from(Hardware::ALL)
    }

    async fn workers(&self, hardware: Hardware) -> Result<Workers, LauncherError> {
        self.on_record(move |options, ledger| {
            let (running, stopping): (Vec<&Launched>, Vec<&Launched>) = ledger
                .of(hardware)
                .partition(|launched| launched.stopping_since.is_none());
            let number = |of: &[&Launched]| u32::try_from(of.len()).unwrap_or(u32::MAX);
            Ok(Workers {
                desired: ledger.entries.desired.get(&hardware).copied().unwrap_or(0),
                running: number(&running),
                // A process runs as soon as it has been started.
                starting: 0,
                stopping: number(&stopping),
                limit: Some(options.limit),
                names: Some(running.iter().map(|launched| launched.name.clone()).collect()),
            })
        })
        .await
    }

    async fn set_desired(
        &self,
        hardware: Hardware,
        count: u32,
        idle: &BTreeSet<String>,
    ) -> Result<(), LauncherError> {
        let idle = idle.clone();
        self.on_record(move |options, ledger| {
            within(Some(options.limit), hardware, count)?;
            // Saved before anything is started: should this process die in between, the next one to look after the workers does
            // the rest.
            ledger.entries.desired.insert(hardware, count);
            ledger.save()?;
            adjust(options, ledger, hardware, &idle)
        })
        .await
    }

    async fn tend(&self, hardware: Hardware) -> Result<(), LauncherError> {
        self.on_record(move |options, ledger| {
            kill_overdue(options, ledger, hardware, Utc::now())?;
            adjust(options, ledger, hardware, &BTreeSet::new())
        })
        .await
    }
}

/// Starts or stops workers until their number is the desired one. The record is written before a start and after each change, so that none
/// is forgotten.
fn adjust(
    options: &LocalOptions,
    ledger: &mut ProcessLedger,
    hardware: Hardware,
    idle: &BTreeSet<String>,
) -> Result<(), LauncherError> {
    let desired = ledger.entries.desired.get(&hardware).copied().unwrap_or(0) as usize;
    let stays = |launched: &&Launched| launched.stopping_since.is_none();
    let running = ledger.of(hardware).filter(stays).count();
    for _ in running..desired {
        let name = ledger.free_name(hardware);
        let now = Utc::now();
        let starting = Starting {
            name: name.clone(),
            hardware,
            // Another one for each start, so that nothing left by an earlier worker of the name is taken for this one.
            mark: format!("{name}@{}.{}", now.timestamp(), now.timestamp_subsec_nanos()),
        };
        let mark = starting.mark.clone();
        // Saved before there is a process: should this one die before it has noted which it is, the next one finds it by its mark.
        ledger.entries.starting = Some(starting);
        ledger.save()?;
        let started = start(options, hardware, &name, &mark);
        ledger.entries.starting = None;
        let process = started.map_err(|source| LauncherError::Start {
            hardware,
            name: name.clone(),
            source,
        })?;
        WorkerStarted {
            name: &name,
            hardware,
            process: process.number,
        }
        .emit();
        ledger.entries.launched.push(Launched {
            name,
            hardware,
            process,
            stopping_since: None,
        });
        ledger.save()?;
    }
    for name in to_stop(ledger, hardware, running.saturating_sub(desired), idle) {
        let Some(launched) = ledger
            .entries
            .launched
            .iter_mut()
            .find(|launched| launched.name == name)
        else {
            continue;
        };
        launched
            .process
            // Told first and noted after: should this process die in between, the worker is told again, which
            // does no harm. Noted first, it might be killed without having been asked.
            .signal(Signal::SIGTERM)
            .map_err(|source| LauncherError::Stop {
                name: name.clone(),
                source,
            })?;
        launched.stopping_since = Some(Utc::now());
        WorkerStopping { name: &name }.emit();
        ledger.save()?;
    }
    Ok(())
}

/// Names of the workers to stop: idle ones before others, those started last before earlier ones.
fn to_stop(ledger: &ProcessLedger, hardware: Hardware, count: usize, idle: &BTreeSet<String>) -> Vec<String> {
    let mut names: Vec<&String> = ledger
        .of(hardware)
        .filter(|launched| launched.stopping_since.is_none())
        .map(|launched| &launched.name)
        .collect();
    names.reverse();
    // A stable sort, which keeps the order by start within each half.
    names.sort_by_key(|name| !idle.contains(*name));
    names.into_iter().take(count).cloned().collect()
}

/// Kills the workers that were told to end longer ago than they may take for it.
fn kill_overdue(
    options: &LocalOptions,
    ledger: &ProcessLedger,
    hardware: Hardware,
    now: DateTime<Utc>,
) -> Result<(), LauncherError> {
    let timeout = TimeDelta::from_std(options.timeout).unwrap_or(TimeDelta::MAX);
    let is_overdue =
        |launched: &&Launched| launched.stopping_since.is_some_and(|since| now - since > timeout);
    for Launched { name, process, .. } in ledger.of(hardware).filter(is_overdue) {
        process
            .signal(Signal::SIGKILL)
            .map_err(|source| LauncherError::Stop {
                name: name.clone(),
                source,
            })?;
    }
    Ok(())
}

/// Starts a worker, which this process need not outlive.
fn start(options: &LocalOptions, hardware: Hardware, name: &str, mark: &str) -> io::Result<Process> {
    let output = output(&options.folder, name)?;
    let mut command = (options.command)(hardware, name);
    command.env(MARK, mark);
    // A file and not a pipe, which nobody would read once this process has gone.
    command.stdout(output.try_clone()?).stderr(output);
    let (process, mut child) = start_process(command)?;
    // Takes the end of a process that this one outlives; nobody waits for the others.
    detached::spawn(async move { drop(child.wait().await) });
    Ok(process)
}

/// Makes a new file for the output of a worker; that of the last worker of its name is kept beside it.
fn output(folder: &Path, name: &str) -> io::Result<File> {
    let path = folder.join(format!("{name}.log"));
    match std::fs::rename(&path, folder.join(format!("{name}.old.log"))) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    File::create_new(path)
}

/// Leaves out the command, a closure that has no form to show.
impl fmt::Debug for LocalOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalOptions")
            .field("folder", &self.folder)
            .field("limit", &self.limit)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}
