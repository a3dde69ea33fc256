//! Indexes of jobs on the disk of this machine, brought up to date behind the searches that use them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use parkhang_actors::search::{WantedVolume, update_index};
use parkhang_core::domain::{Job, Position, Task, TaskStatus};
use parkhang_search::{IndexFolder, SearchError, Snapshot, Version};
use parkhang_state::StateStore;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tracing::warn;

use super::Library;
use crate::admin::{Admin, Refusal};
use crate::config::Loaded;
use crate::export::document::PageDocument;
use crate::search::QueryModels;

/// Jobs whose indexes are brought up to date at the same time.
const AT_ONCE: usize = 2;
/// Folder of the indexes, below the state of the node.
const FOLDER: &str = "search";
/// Time after which the index of a job that is no more is deleted.
const FORGOTTEN: Duration = Duration::from_secs(7 * 24 * 3600);
/// Name of the stage that makes the indexes of volumes.
const INDEX: &str = "index";
/// Searches that run at the same time. Each takes a core as long as it runs, whoever still waits for it.
const SEARCHES: usize = 4;

/// The indexes of all jobs.
#[derive(Debug)]
pub struct Indexes {
    loaded: Arc<Loaded>,
    /// By the names of their folders.
    jobs: Mutex<HashMap<String, Arc<JobIndex>>>,
    turns: Arc<Semaphore>,
    models: QueryModels,
    searches: Arc<Semaphore>,
}

/// Index of a job.
#[derive(Debug)]
struct JobIndex {
    folder: IndexFolder,
    view: watch::Sender<View>,
    /// Versions that are to be in the index.
    wanted: Mutex<BTreeMap<String, Version>>,
    /// Held while the folder is read and shown, so that nobody shows an older state of it after a newer one.
    publishing: Mutex<()>,
}

/// Index of a job as it can be searched now.
#[derive(Debug, Clone, Default)]
pub struct View {
    pub snapshot: Option<Snapshot>,
    /// Volumes in the index.
    pub indexed: usize,
    /// Volumes that have been read and are not in the index as they are now.
    pub behind: usize,
    /// Reason for which the last update went wrong.
    pub trouble: Option<String>,
    /// True while it is brought up to date; until then more may be behind.
    pub is_updating: bool,
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
            searches: Arc::new(Semaphore::new(SEARCHES)),
        }
    }

    /// Waits for the turn of a search, which lasts until what is returned is dropped.
    pub async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        // Nobody closes the semaphore.
        self.searches.clone().acquire_owned().await.ok()
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
        let index = self.index(job)?;
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

    /// Deletes the indexes of jobs that are no more, if nobody has used them for a while: another database may have the same folder.
    ///
    /// # Errors
    ///
    /// When there is no folder for the state of this node.
    pub fn forget(&self, jobs: &[Job]) -> Result<(), Refusal> {
        let names: BTreeSet<String> = jobs.iter().map(name_of).collect();
        let folder = self.folder()?;
        // Behind the search, as it waits for the disk.
        tokio::task::spawn_blocking(move || {
            let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
            for entry in entries {
                let is_known = names.contains(&*entry.file_name().to_string_lossy());
                let modified = entry.metadata().and_then(|metadata| metadata.modified());
                let is_used = modified.is_ok_and(|at| at.elapsed().is_ok_and(|age| age < FORGOTTEN));
                if is_known || is_used {
                    continue;
                }
                if let Err(error) = IndexFolder::new(entry.path()).delete() {
                    warn!(folder = %entry.path().display(), %error, "the index of a deleted job stays");
                }
            }
        });
        Ok(())
    }

    fn folder(&self) -> Result<PathBuf, Refusal> {
        Ok(self.loaded.state_dir()?.join(FOLDER))
    }

    fn index(&self, job: &Job) -> Result<Arc<JobIndex>, Refusal> {
        let name = name_of(job);
        let folder = self.folder()?.join(&name);
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        let index = jobs.entry(name).or_insert_with(|| {
            Arc::new(JobIndex {
                folder: IndexFolder::new(folder),
                view: watch::Sender::default(),
                wanted: Mutex::default(),
                publishing: Mutex::default(),
            })
        });
        Ok(index.clone())
    }
}

/// Name of the folder of a job's index. The time tells jobs of one name apart, of which there may be several one after the other, or in two
/// databases.
fn name_of(job: &Job) -> String {
    format!("{}@{}", job.key, job.created_at.timestamp_millis())
}

/// Version of what was read of a task's volume, of which people have made so many edits.
fn version(task: &Task, edits: u64) -> String {
    let done = task.done_at.map_or(0, |done| done.timestamp_millis());
    match edits {
        0 => format!("{}-{done}", task.generation),
        edits => format!("{}-{done}-{edits}", task.generation),
    }
}

/// Returns the lines of the pages of a volume that people have edited, by the names of their images.
async fn corrected_lines(
    admin: &Admin,
    job: &Job,
    task: &Task,
) -> anyhow::Result<HashMap<String, Vec<String>>> {
    let volume = admin.library.corrected(&admin.store, job, task).await?;
    let pages = volume.document.pages.iter();
    let edited = pages.filter(|page| volume.pages.contains_key(&page.image_name));
    let texts = |page: &PageDocument| page.lines.iter().map(|line| line.text.clone()).collect();
    Ok(edited
        .map(|page| (page.image_name.clone(), texts(page)))
        .collect())
}

/// Ends an update however it ends.
struct Ending(Arc<JobIndex>, Instant);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.view.send_modify(|view| {
            view.is_updating = false;
            view.begun = Some(self.1);
        });
    }
}

async fn update(index: Arc<JobIndex>, admin: Admin, job: Job, turns: Arc<Semaphore>) {
    let begun = Instant::now();
    let _ending = Ending(index.clone(), begun);
    // Nobody closes the semaphore.
    let _turn = turns.acquire_owned().await;
    index.clone().publish_later().await;
    let trouble = index.bring_up_to_date(&admin, &job).await.err();
    if let Some(trouble) = &trouble {
        warn!(job = %job.key, error = format!("{trouble:#}"), "the index is not up to date");
    }
    index.clone().publish_later().await;
    index.view.send_modify(|view| {
        if let Some(trouble) = trouble {
            view.trouble = Some(format!("{trouble:#}"));
        }
    });
}

impl JobIndex {
    async fn bring_up_to_date(self: &Arc<Self>, admin: &Admin, job: &Job) -> anyhow::Result<()> {
        let store = admin.library.store().await.map_err(anyhow::Error::from)?;
        let tasks = admin.store.tasks(job.id).await?;
        let known: BTreeSet<String> = tasks.iter().map(|task| task.volume.to_string()).collect();
        let is_indexed = job.pipeline.stages().iter().any(|stage| stage.as_str() == INDEX);
        // A volume that is read again stays in the index as it was until it has been read.
        let read = tasks
            .iter()
            .filter(|task| task.position == Position::Done && task.status == TaskStatus::Done);
        let edited = admin.store.edited_volumes().await?;
        let snapshot = self.view.borrow().snapshot.clone();
        let present = snapshot
            .map(|snapshot| snapshot.volumes().clone())
            .unwrap_or_default();
        let mut wanted: Vec<WantedVolume> = Vec::new();
        for task in read {
            let edits = edited.get(&task.volume).copied().unwrap_or_default();
            let version = version(task, edits);
            let is_new = present.get(&task.volume.to_string()) != Some(&version);
            let corrected = match edits > 0 && is_new {
                true => corrected_lines(admin, job, task).await?,
                false => HashMap::new(),
            };
            wanted.push(WantedVolume {
                volume: task.volume.clone(),
                version,
                layout: Library::layout(job, &task.volume),
                is_indexed,
                corrected,
            });
        }
        let versions = wanted
            .iter()
            .map(|wanted| (wanted.volume.to_string(), wanted.version.clone()));
        *self.wanted.lock().unwrap_or_else(PoisonError::into_inner) = versions.collect();
        // Searches that give up waiting now can say how many volumes are behind.
        self.clone().publish_later().await;
        let stages = admin.stages.names();
        let updated = update_index(&**store, &stages, &self.folder, wanted, &known, || {
            drop(self.clone().publish_later())
        })
        .await;
        match updated {
            // Another process of this machine is at it.
            Err(SearchError::Locked(_)) => Ok(()),
            Err(error) => Err(error).context("the index"),
            Ok(update) => match update.trouble() {
                Some(trouble) => Err(anyhow::Error::msg(trouble)),
                None => Ok(()),
            },
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
        let last = self.view.borrow().snapshot.clone();
        let opened = self.folder.snapshot_after(last.as_ref());
        let wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.view.send_modify(|view| match opened {
            Ok(snapshot) => {
                let volumes = snapshot.volumes();
                let refused = snapshot.refused();
                let is_missing = |(volume, version): &(&String, &Version)| {
                    let is_refused = refused
                        .get(*volume)
                        .is_some_and(|refused| refused.version == **version);
                    volumes.get(*volume) != Some(*version) && !is_refused
                };
                view.behind = wanted.iter().filter(is_missing).count();
                view.indexed = volumes.len();
                view.snapshot = Some(snapshot);
                view.trouble = None;
            }
            // Whoever writes the index begins anew what is damaged.
            Err(error) => view.trouble = Some(error.to_string()),
        });
    }
}
