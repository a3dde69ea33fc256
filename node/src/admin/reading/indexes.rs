//! Indexes of jobs on the disk of this machine, brought up to date behind the searches that use them.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use parkhang_actors::search::{WantedVolume, update_index};
use parkhang_core::domain::{Job, JobKey, Position, Task, TaskStatus};
use parkhang_search::{IndexFolder, SearchError, Snapshot};
use parkhang_state::StateStore;
use tokio::sync::{Semaphore, watch};
use tracing::warn;

use super::Library;
use crate::admin::{Admin, Refusal};
use crate::config::Loaded;
use crate::search::QueryModels;

/// Jobs whose indexes are brought up to date at the same time.
const AT_ONCE: usize = 2;
/// Folder of the indexes, below the state of the node.
const FOLDER: &str = "search";

/// The indexes of all jobs.
#[derive(Debug)]
pub struct Indexes {
    loaded: Arc<Loaded>,
    jobs: Mutex<HashMap<JobKey, Arc<JobIndex>>>,
    turns: Arc<Semaphore>,
    models: QueryModels,
}

/// Index of a job.
#[derive(Debug)]
struct JobIndex {
    folder: IndexFolder,
    view: watch::Sender<View>,
    /// Held while the folder is read and shown, so that nobody shows an older state of it after a newer one.
    publishing: Mutex<()>,
}

/// Index of a job as it can be searched now.
#[derive(Debug, Clone, Default)]
pub struct View {
    pub snapshot: Option<Snapshot>,
    /// Volumes in the index.
    pub indexed: usize,
    /// Volumes of the job that have been read.
    pub read: usize,
    /// Reason for which the last update went wrong.
    pub trouble: Option<String>,
    is_updating: bool,
    /// Time at which the last update that has ended began.
    begun: Option<Instant>,
}

/// Demands on how new an index is.
#[derive(Debug, Clone, Copy)]
pub struct Freshness {
    /// Age of what the index may lack.
    pub age: Duration,
    /// Time to wait for an index that is older.
    pub patience: Duration,
}

impl Indexes {
    pub fn new(loaded: Arc<Loaded>) -> Self {
        Self {
            loaded,
            jobs: Mutex::default(),
            turns: Arc::new(Semaphore::new(AT_ONCE)),
            models: QueryModels::default(),
        }
    }

    /// Models that embed queries.
    pub const fn models(&self) -> &QueryModels {
        &self.models
    }

    /// Returns the index of a job, up to date as far as it is so in time; an update goes on behind the answer.
    ///
    /// # Errors
    ///
    /// When there is no folder for the state of this node.
    pub async fn of_job(&self, admin: &Admin, job: &Job, wanted: Freshness) -> Result<View, Refusal> {
        let index = self.index(&job.key)?;
        let mut view = index.view.subscribe();
        let now = Instant::now();
        let since = now.checked_sub(wanted.age).unwrap_or(now);
        let is_new = |view: &View| view.begun.is_some_and(|begun| begun >= since);
        let up_to_date = async {
            // An update that has begun before may have missed what is wanted, and is waited for before the next one.
            while !is_new(&view.borrow()) {
                let is_due = index.view.send_if_modified(|view| {
                    !is_new(view) && !std::mem::replace(&mut view.is_updating, true)
                });
                if is_due {
                    tokio::spawn(update(
                        index.clone(),
                        admin.clone(),
                        job.clone(),
                        self.turns.clone(),
                    ));
                }
                if view.wait_for(|view| !view.is_updating).await.is_err() {
                    return;
                }
            }
        };
        // Whoever has no patience left searches what there is.
        let _ = tokio::time::timeout(wanted.patience, up_to_date).await;
        Ok(index.view.borrow().clone())
    }

    /// Deletes the indexes of jobs that are no more.
    ///
    /// # Errors
    ///
    /// When there is no folder for the state of this node.
    pub fn retain(&self, jobs: &[Job]) -> Result<(), Refusal> {
        let keys: BTreeSet<&str> = jobs.iter().map(|job| job.key.as_str()).collect();
        let folder = self.folder()?;
        let Ok(entries) = std::fs::read_dir(&folder) else {
            // Nothing was searched yet.
            return Ok(());
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            if !keys.contains(&*name.to_string_lossy()) {
                if let Err(error) = std::fs::remove_dir_all(entry.path()) {
                    warn!(folder = %entry.path().display(), %error, "the index of a deleted job stays");
                }
            }
        }
        self.jobs
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|key, _| keys.contains(key.as_str()));
        Ok(())
    }

    fn folder(&self) -> Result<PathBuf, Refusal> {
        Ok(self.loaded.state_dir()?.join(FOLDER))
    }

    fn index(&self, job: &JobKey) -> Result<Arc<JobIndex>, Refusal> {
        let folder = self.folder()?.join(job.as_str());
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        let index = jobs.entry(job.clone()).or_insert_with(|| {
            Arc::new(JobIndex {
                folder: IndexFolder::new(folder),
                view: watch::Sender::default(),
                publishing: Mutex::default(),
            })
        });
        Ok(index.clone())
    }
}

/// Version of what was read of a task's volume. The time tells jobs of one name apart, of which there may be several one after the other, or in
/// two databases.
fn version(task: &Task) -> String {
    let done = task.done_at.map_or(0, |done| done.timestamp_millis());
    format!("{}-{done}", task.generation)
}

async fn update(index: Arc<JobIndex>, admin: Admin, job: Job, turns: Arc<Semaphore>) {
    // Nobody closes the semaphore.
    let _turn = turns.acquire_owned().await;
    let begun = Instant::now();
    index.clone().publish_later().await;
    let trouble = index.bring_up_to_date(&admin, &job).await.err();
    if let Some(trouble) = &trouble {
        warn!(job = %job.key, error = format!("{trouble:#}"), "the index is not up to date");
    }
    index.clone().publish_later().await;
    index.view.send_modify(|view| {
        view.trouble = trouble.map(|trouble| format!("{trouble:#}"));
        view.is_updating = false;
        view.begun = Some(begun);
    });
}

impl JobIndex {
    async fn bring_up_to_date(self: &Arc<Self>, admin: &Admin, job: &Job) -> anyhow::Result<()> {
        let store = admin.library.store().await.map_err(anyhow::Error::from)?;
        let tasks = admin.store.tasks(job.id).await?;
        let known: BTreeSet<String> = tasks.iter().map(|task| task.volume.to_string()).collect();
        // A volume that is read again stays in the index as it was until it has been read.
        let read = tasks
            .iter()
            .filter(|task| task.position == Position::Done && task.status == TaskStatus::Done);
        let wanted: Vec<WantedVolume> = read
            .map(|task| WantedVolume {
                volume: task.volume.clone(),
                version: version(task),
                layout: Library::layout(job, &task.volume),
            })
            .collect();
        self.view.send_modify(|view| view.read = wanted.len());
        let stages = admin.stages.names();
        let updated = update_index(&**store, &stages, &self.folder, wanted, &known, || {
            drop(self.clone().publish_later())
        })
        .await;
        match updated {
            // Another process of this machine is at it.
            Err(SearchError::Locked(_)) => Ok(()),
            Err(error) => Err(error).context("the index"),
            Ok(update) if update.failed > 0 => {
                anyhow::bail!(
                    "{} volumes could not be indexed; the log names them",
                    update.failed
                )
            }
            Ok(_) => Ok(()),
        }
    }

    /// Publishes on a thread that may wait for the disk. It does so, too, if nobody waits for that.
    fn publish_later(self: Arc<Self>) -> impl Future<Output = ()> {
        let published = tokio::task::spawn_blocking(move || self.publish());
        async {
            let _ = published.await;
        }
    }

    /// Shows those who search what is in the folder now.
    fn publish(&self) {
        let _turn = self.publishing.lock().unwrap_or_else(PoisonError::into_inner);
        let opened = self
            .folder
            .volumes()
            .and_then(|volumes| Ok((volumes.len(), self.folder.snapshot()?)));
        self.view.send_modify(|view| match opened {
            Ok((indexed, snapshot)) => {
                view.indexed = indexed;
                view.snapshot = Some(snapshot);
            }
            // The writer begins a damaged folder anew.
            Err(error) => view.trouble = Some(error.to_string()),
        });
    }
}
