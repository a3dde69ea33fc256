use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt, stream};

use super::ShardError;
use super::control::ordered;
use super::done::ShardDone;
use super::held::{Logs, read_logs};
use super::manifest::JobManifest;
use super::place::ShardId;
use parkhang_core::domain::{JobId, JobKey, JobStatus, StageError, Task, TaskStatus, VolumeId};
use parkhang_core::policy::task_state::TaskState;
use parkhang_store::artifact::ShardLayout;
use parkhang_store::storage::ArtifactStore;

/// Shards read at once.
const READS: usize = 8;

/// Progress of a job, read from the store: the marker of each finished shard, and each volume's latest record of the others.
#[derive(Debug)]
pub struct ShardSurvey {
    /// The manifest of the job.
    pub manifest: JobManifest,
    /// Status of the job by its orders: running, paused or cancelled.
    pub ordered: JobStatus,
    /// States of the shards, in their order.
    pub shards: Vec<ShardState>,
    /// Errors of the shards and volumes whose state cannot be read.
    pub unreadable: Vec<ShardError>,
}

/// State of a shard.
#[derive(Debug)]
pub enum ShardState {
    /// Nothing in it will be tried any more.
    Finished(ShardDone),
    /// There is work left, or may be. Holds the volumes that can be read.
    Open(Vec<Task>),
}

impl ShardSurvey {
    /// Reads the progress of a job.
    ///
    /// # Errors
    ///
    /// [`ShardError::NoSuchJob`], and when the store cannot be read; single objects that cannot be read are listed in the survey.
    pub async fn of(store: &dyn ArtifactStore, job: &JobKey) -> Result<Self, ShardError> {
        let manifest = JobManifest::read(store, job).await?;
        let layout = ShardLayout::new(job);
        let done = store.list(&layout.done_folder()).await?;
        let done: BTreeSet<u32> = done
            .iter()
            .filter_map(|(key, _)| layout.shard_of_done(key))
            .collect();
        let described = manifest.to_job(JobId(1));
        let read = |shard: u32| {
            let (layout, manifest, described) = (&layout, &manifest, &described);
            // One object in place of one for each volume.
            let is_done = done.contains(&shard);
            async move {
                if is_done {
                    let key = layout.done(shard);
                    let bytes = store.get(&key).await?;
                    let done =
                        serde_json::from_slice(&bytes).map_err(|error| ShardError::damaged(&key, error))?;
                    return Ok((ShardState::Finished(done), Vec::new()));
                }
                let volumes = manifest.volumes(store, shard).await?;
                let id = ShardId { job: 0, shard };
                let Logs { logs, unreadable } = read_logs(store, manifest, described, id, volumes).await?;
                let tasks = logs.into_iter().map(|log| log.task).collect();
                Ok::<_, ShardError>((ShardState::Open(tasks), unreadable))
            }
        };
        let (mut shards, mut unreadable) = (Vec::new(), Vec::new());
        let mut states = stream::iter((0..manifest.shards).map(read)).buffered(READS);
        while let Some(state) = states.next().await {
            match state {
                Ok((state, errors)) => {
                    shards.push(state);
                    unreadable.extend(errors);
                }
                Err(error) if error.unreadable().is_some() => {
                    // It keeps its place, as the shards are listed in their order.
                    shards.push(ShardState::Open(Vec::new()));
                    unreadable.push(error);
                }
                Err(error) => return Err(error),
            }
        }
        drop(states);
        Ok(Self {
            ordered: ordered(store, job).await?,
            manifest,
            shards,
            unreadable,
        })
    }

    /// Returns whether all shards are finished.
    pub fn is_finished(&self) -> bool {
        self.shards
            .iter()
            .all(|shard| matches!(shard, ShardState::Finished(_)))
    }

    /// Number of volumes that went through all their stages.
    pub fn done(&self) -> usize {
        self.by_state().get(&TaskState::Done).copied().unwrap_or(0)
    }

    /// Number of volumes in each state.
    pub fn by_state(&self) -> BTreeMap<TaskState, usize> {
        let mut counts: BTreeMap<TaskState, usize> = BTreeMap::new();
        let mut add = |state: TaskState, volumes: usize| {
            if volumes > 0 {
                *counts.entry(state).or_default() += volumes;
            }
        };
        let job = self.manifest.to_job(JobId(1));
        for shard in &self.shards {
            match shard {
                ShardState::Finished(done) => {
                    add(TaskState::Done, done.done);
                    for error in done.failed.values() {
                        add(TaskState::of_failure(error.as_ref()), 1);
                    }
                }
                ShardState::Open(tasks) => {
                    for task in tasks {
                        add(TaskState::of(task, &job), 1);
                    }
                }
            }
        }
        counts
    }

    /// Volumes whose last try failed, with the reason.
    pub fn failed(&self) -> impl Iterator<Item = (&VolumeId, &Option<StageError>)> {
        self.shards.iter().flat_map(|shard| {
            let (done, open) = match shard {
                ShardState::Finished(done) => (Some(done), None),
                ShardState::Open(tasks) => (None, Some(tasks)),
            };
            let failed = open
                .into_iter()
                .flatten()
                .filter(|task| task.status == TaskStatus::Failed)
                .map(|task| (&task.volume, &task.last_error));
            done.into_iter().flat_map(|done| &done.failed).chain(failed)
        })
    }
}
