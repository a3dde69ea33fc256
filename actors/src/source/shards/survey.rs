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

/// How far a job is, by what lies in the store. Of a finished shard its marker is read, of others each volume's latest record.
#[derive(Debug)]
pub struct ShardSurvey {
    pub manifest: JobManifest,
    /// Running, paused or cancelled, as was ordered.
    pub ordered: JobStatus,
    /// In their order.
    pub shards: Vec<ShardState>,
    /// Why some shards, or volumes of them, are in no state here.
    pub unreadable: Vec<ShardError>,
}

#[derive(Debug)]
pub enum ShardState {
    Finished(ShardDone),
    /// Its volumes as they are, as far as they can be read.
    Open(Vec<Task>),
}

impl ShardSurvey {
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

    pub fn is_finished(&self) -> bool {
        self.shards
            .iter()
            .all(|shard| matches!(shard, ShardState::Finished(_)))
    }

    /// Volumes that went through all their stages.
    pub fn done(&self) -> usize {
        self.by_state().get(&TaskState::Done).copied().unwrap_or(0)
    }

    /// Volumes in each state.
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
                .filter(|task| task.status == TaskStatus::Failed);
            let failed = failed.map(|task| (&task.volume, &task.last_error));
            done.into_iter().flat_map(|done| &done.failed).chain(failed)
        })
    }
}
