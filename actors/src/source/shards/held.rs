//! A shard that this process holds: the state of its volumes, read once, and the changes made to it since.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use chrono::{DateTime, TimeDelta, Utc};
use futures::{StreamExt, TryStreamExt, stream};
use tokio::sync::Mutex as AsyncMutex;
use tracing::debug;

use super::ShardError;
use super::done::{ShardDone, volume_marker};
use super::lease::ShardLease;
use super::manifest::{JobManifest, json};
use super::place::{ShardId, task_id};
use super::record::{TaskRecord, VolumeLog};
use super::work::OpenJob;
use parkhang_core::domain::{Fence, Job, StageName, Task, TaskId, VolumeId};
use parkhang_core::policy::transition::{Event, is_finished, runnable_stage};
use parkhang_state::{Change, Expected, Outcome, apply};
use parkhang_store::artifact::{Digest, ShardLayout};
use parkhang_store::storage::{ArtifactKey, ArtifactStore, PutOutcome, StorageError, get_many};

/// Objects read or removed at once.
const REQUESTS: usize = 16;
/// Time until a shard with a volume whose state cannot be read is looked at again.
const REPAIR_TIME: TimeDelta = TimeDelta::minutes(10);

/// A shard under the lease of this process.
#[derive(Debug)]
pub(super) struct HeldShard {
    pub id: ShardId,
    pub job: Arc<Job>,
    store: Arc<dyn ArtifactStore>,
    layout: ShardLayout,
    term: u32,
    worker: String,
    /// The deadline as last written; the lock is held while it is, so that it only moves forward.
    until: AsyncMutex<DateTime<Utc>>,
    logs: Mutex<Vec<VolumeLog>>,
    /// Errors of the volumes that are not among the logs; they are left alone.
    pub unreadable: Vec<ShardError>,
    volumes_sha256: Digest,
    /// Finished volumes whose markers are written.
    marked: Mutex<BTreeSet<TaskId>>,
}

impl HeldShard {
    /// Takes the shard of these volumes for a term; `None` if another was first.
    pub(super) async fn take(
        store: &Arc<dyn ArtifactStore>,
        (manifest, job): &OpenJob,
        (id, volumes): (ShardId, Vec<VolumeId>),
        term: u32,
        (worker, until): (&str, DateTime<Utc>),
    ) -> Result<Option<Self>, ShardError> {
        let layout = ShardLayout::new(&job.key);
        let lease = ShardLease::Held {
            worker: worker.to_owned(),
            until,
        };
        let outcome = store
            .put_if_absent(&layout.lease(id.shard, term), json(&lease)?)
            .await?;
        if outcome == PutOutcome::Exists {
            return Ok(None);
        }
        // Read after the lease is won: before, its former holder might still have written.
        let Logs { logs, unreadable } = read_logs(store.as_ref(), manifest, job, id, volumes).await?;
        Ok(Some(Self {
            id,
            job: Arc::clone(job),
            store: Arc::clone(store),
            layout,
            term,
            worker: worker.to_owned(),
            until: AsyncMutex::new(until),
            logs: Mutex::new(logs),
            unreadable,
            volumes_sha256: manifest.volumes_sha256,
            marked: Mutex::default(),
        }))
    }

    fn logs(&self) -> MutexGuard<'_, Vec<VolumeLog>> {
        self.logs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn tasks(&self) -> Vec<Task> {
        self.logs().iter().map(|log| log.task.clone()).collect()
    }

    pub(super) fn log(&self, task: TaskId) -> Option<VolumeLog> {
        self.logs().iter().find(|log| log.task.id == task).cloned()
    }

    /// Moves the deadline of the shard to `length` from now, if less than `enough` is left, and returns the deadline; `None` when
    /// the shard belongs to another process, or is finished.
    pub(super) async fn renew(
        &self,
        now: DateTime<Utc>,
        length: TimeDelta,
        enough: TimeDelta,
    ) -> Result<Option<DateTime<Utc>>, ShardError> {
        let mut until = self.until.lock().await;
        if *until - now >= enough {
            return Ok(Some(*until));
        }
        let lease = ShardLease::Held {
            worker: self.worker.clone(),
            until: now + length,
        };
        self.store
            .put(&self.layout.lease(self.id.shard, self.term), json(&lease)?)
            .await?;
        *until = now + length;
        // Looked up after the write, as another process may take the shard until then. One that read the old deadline may take it
        // even afterwards; then the numbered records fence off whichever of the two acts on an old state.
        let next = self.layout.lease(self.id.shard, self.term + 1);
        let done = self.layout.done(self.id.shard);
        // The next term of a finished shard may be gone: its terms are removed.
        let is_over = self.store.head(&next).await?.is_some() || self.store.head(&done).await?.is_some();
        Ok((!is_over).then_some(*until))
    }

    /// Gives a task's lease the deadline of the shard, which is the one that other processes go by; `false` when the lease is
    /// over. No object is written for it.
    pub(super) fn extend(&self, fence: &Fence, until: DateTime<Utc>) -> bool {
        let mut logs = self.logs();
        let held = logs
            .iter_mut()
            .find(|log| log.task.fence().as_ref() == Some(fence));
        match held.and_then(|log| log.task.lease.as_mut()) {
            Some(lease) => {
                lease.until = lease.until.max(until);
                true
            }
            None => false,
        }
    }

    /// Makes a change if the state is as expected, and returns its outcome.
    pub(super) async fn commit(&self, change: &Change, now: DateTime<Utc>) -> Result<Outcome, ShardError> {
        loop {
            let Some(log) = self.log(change.expected.task()) else {
                return Ok(Outcome::Fenced(None));
            };
            let (outcome, _) = apply(&log.task, &self.job, change, now);
            let Outcome::Applied(after) = &outcome else {
                return Ok(outcome);
            };
            let record = log.record(change, after, now);
            let bytes = json(&record)?;
            let key = self.layout.record(self.id.shard, &after.volume, log.step + 1);
            let created = match self.store.put_if_absent(&key, bytes.clone()).await? {
                PutOutcome::Created => true,
                // Written by this process itself, which then lost the answer and tried again.
                PutOutcome::Exists => self.store.get(&key).await? == bytes,
            };
            if created {
                self.advance(log.ending(log.step + 1, record.clone()));
                if is_finished(after, self.job.config.retry_scope)
                    && let Err(error) = self.mark(after.id, &record).await
                {
                    debug!(volume = %after.volume, %error, "cannot write the marker of a volume now; it is written when the shard is finished");
                }
                return Ok(outcome);
            }
            // Another process had the shard meanwhile, or a former holder woke up. The change is tried on the state that it left,
            // where its fence decides whether it still holds.
            let latest = self.reread(&log).await?;
            self.advance(latest);
        }
    }

    async fn mark(&self, task: TaskId, record: &TaskRecord) -> Result<(), ShardError> {
        if let Some((key, marker)) = volume_marker(&self.job, self.volumes_sha256, record)? {
            self.store.put(&key, marker).await?;
        }
        self.marked().insert(task);
        Ok(())
    }

    fn marked(&self) -> MutexGuard<'_, BTreeSet<TaskId>> {
        self.marked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the markers of volumes that are missing, or that this process does not know of, and that of the shard. The shard's
    /// comes last, as nobody looks into a shard that has one.
    pub(super) async fn finish(&self, now: DateTime<Utc>) -> Result<ShardDone, ShardError> {
        let tasks = self.tasks();
        for task in &tasks {
            let marked = self.marked().contains(&task.id);
            // The log keeps no results, so a marker that is missing is made from the record.
            if let Some(log) = self.log(task.id).filter(|log| !marked && log.step > 0) {
                let key = self.layout.record(self.id.shard, &task.volume, log.step);
                let record = read_record(&key, &self.store.get(&key).await?)?;
                self.mark(task.id, &record).await?;
            }
        }
        let done = ShardDone::of(&tasks, &self.worker, now);
        self.store
            .put_if_absent(&self.layout.done(self.id.shard), json(&done)?)
            .await?;
        Ok(done)
    }

    fn advance(&self, to: VolumeLog) {
        let mut logs = self.logs();
        let log = logs.iter_mut().find(|log| log.task.id == to.task.id);
        if let Some(log) = log.filter(|log| log.step < to.step) {
            *log = to;
        }
    }

    /// Reads the log as another process has continued it.
    async fn reread(&self, log: &VolumeLog) -> Result<VolumeLog, ShardError> {
        let mut step = log.step + 1;
        let key = |step| self.layout.record(self.id.shard, &log.task.volume, step);
        // The numbers have no gaps, as each record is made by a writer that knew the one before.
        while self.store.head(&key(step + 1)).await?.is_some() {
            step += 1;
        }
        let bytes = self.store.get(&key(step)).await?;
        Ok(log.ending(step, read_record(&key(step), &bytes)?))
    }

    /// Returns whether a volume is leased, so that this process may still be at work on it.
    pub(super) fn is_busy(&self) -> bool {
        self.logs().iter().any(|log| log.task.lease.is_some())
    }

    /// Returns whether nothing in the shard will be tried any more.
    pub(super) fn is_finished(&self) -> bool {
        let scope = self.job.config.retry_scope;
        self.unreadable.is_empty() && self.logs().iter().all(|log| is_finished(&log.task, scope))
    }

    /// Releases the shard, with a note of the stages that its volumes wait for, so that only processes that run one of them take
    /// it.
    pub(super) async fn release(&self, now: DateTime<Utc>) -> Result<(), ShardError> {
        let mut waiting: BTreeMap<StageName, DateTime<Utc>> = BTreeMap::new();
        if !self.unreadable.is_empty() {
            // The stages that its volumes wait for are not known until somebody has mended the objects.
            for stage in self.job.pipeline.stages() {
                waiting.insert(stage.clone(), now + REPAIR_TIME);
            }
        }
        for task in self.tasks() {
            if let Some(stage) = runnable_stage(&task, &self.job.pipeline, self.job.config.retry_scope) {
                let due = task.not_before.unwrap_or(now).max(now);
                let earliest = waiting.entry(stage.clone()).or_insert(due);
                *earliest = due.min(*earliest);
            }
        }
        let free = ShardLease::Free {
            worker: self.worker.clone(),
            waiting,
        };
        // Where the next term has begun, the shard was lost before.
        self.store
            .put_if_absent(&self.layout.lease(self.id.shard, self.term + 1), json(&free)?)
            .await?;
        Ok(())
    }

    /// Removes the leases of the terms before this one, which have been superseded. To be called once the shard is finished:
    /// a former holder that wakes up finds its marker, and knows that there is nothing left to hold.
    pub(super) async fn forget_terms(&self) -> Result<(), ShardError> {
        let terms = (1..self.term).map(|term| self.layout.lease(self.id.shard, term));
        stream::iter(terms.map(Ok::<_, StorageError>))
            .try_for_each_concurrent(REQUESTS, async |key| self.store.delete(&key).await)
            .await?;
        Ok(())
    }

    /// A change to `task`, which expects to find it as it is.
    pub(super) fn change(task: &Task, event: Event) -> Change {
        Change::new(Expected::of(task), event)
    }
}

/// Logs of the volumes of a shard, as far as they can be read.
#[derive(Debug)]
pub(super) struct Logs {
    pub logs: Vec<VolumeLog>,
    /// Errors of the other volumes.
    pub unreadable: Vec<ShardError>,
}

/// Reads the latest record of each volume of a shard. One listing finds them all; a volume without records is untouched, and
/// costs no read.
pub(super) async fn read_logs(
    store: &dyn ArtifactStore,
    manifest: &JobManifest,
    job: &Job,
    id: ShardId,
    volumes: Vec<VolumeId>,
) -> Result<Logs, ShardError> {
    let layout = ShardLayout::new(&job.key);
    let mut steps = BTreeMap::new();
    for (key, _) in store.list(&layout.records_folder(id.shard)).await? {
        if let Some((volume, step)) = layout.step_of_record(id.shard, &key) {
            let latest = steps.entry(volume).or_insert(step);
            *latest = step.max(*latest);
        }
    }
    let (mut logs, mut begun) = (Vec::with_capacity(volumes.len()), Vec::new());
    for (line, volume) in (0u32..).zip(volumes) {
        let step = steps.get(&volume).copied();
        let fresh = VolumeLog::new(task_id(id, line), job.id, volume, manifest.params.max_attempts);
        match step {
            Some(step) => begun.push((fresh, step)),
            None => logs.push(fresh),
        }
    }
    let keys: Vec<_> = begun
        .iter()
        .map(|(log, step)| layout.record(id.shard, &log.task.volume, *step))
        .collect();
    let read: Vec<_> = get_many(store, keys, REQUESTS).collect().await;
    let mut unreadable = Vec::new();
    for ((log, step), (key, bytes)) in begun.into_iter().zip(read) {
        let record = bytes
            .map_err(ShardError::from)
            .and_then(|bytes| read_record(&key, &bytes));
        match record {
            Ok(record) => logs.push(log.ending(step, record)),
            Err(error) if error.unreadable().is_some() => unreadable.push(error),
            Err(error) => return Err(error),
        }
    }
    logs.sort_by_key(|log| log.task.id);
    Ok(Logs { logs, unreadable })
}

pub(super) fn read_record(key: &ArtifactKey, bytes: &Bytes) -> Result<TaskRecord, ShardError> {
    serde_json::from_slice(bytes).map_err(|error| ShardError::damaged(key, error))
}
