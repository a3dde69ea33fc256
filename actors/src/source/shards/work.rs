use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use tokio::sync::Mutex as AsyncMutex;
use tracing::{debug, warn};

use super::ShardError;
use super::control::ordered;
use super::held::HeldShard;
use super::lease::ShardLease;
use super::manifest::JobManifest;
use super::place::{ShardId, shard_of};
use super::search::Search;
use crate::source::{Claim, Clock, SourceError, WorkSource};
use crate::telemetry::{ObjectUnreadable, TaskReported};
use parkhang_core::domain::{Fence, Job, JobId, JobKey, JobStatus, LeaseReport, LeaseStatus, ReportReply};
use parkhang_core::policy::claim::Offer;
use parkhang_state::{Outcome, ReportContext, change_of};
use parkhang_store::storage::{ArtifactKey, ArtifactStore};

/// How a process works on jobs with manifests.
#[derive(Debug, Clone)]
pub struct ShardOptions {
    /// Unique per process start.
    pub worker: String,
    /// The jobs to work on, the first of them first. One that does not exist yet is waited for.
    pub jobs: Vec<JobKey>,
    /// A lease that is not renewed for so long is lost.
    pub lease: TimeDelta,
    /// Leases lost in a row after which a volume is set aside.
    pub max_interruptions: i32,
}

/// Work from the shards of jobs.
#[derive(Debug)]
pub struct Shards {
    pub(super) store: Arc<dyn ArtifactStore>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) options: ShardOptions,
    found: Mutex<Found>,
    held: Mutex<BTreeMap<ShardId, Arc<HeldShard>>>,
    /// Looking for work happens once at a time.
    turn: AsyncMutex<()>,
}

/// What this process remembers of what it has read.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// The jobs that exist.
    jobs: HashMap<usize, OpenJob>,
    /// What was last ordered of each, and when that was looked up.
    orders: HashMap<usize, (DateTime<Utc>, JobStatus)>,
    /// Leases of others as they were last seen.
    pub leases: HashMap<(ShardId, u32), ShardLease>,
    /// Where the next search in a job begins.
    pub starts: HashMap<usize, u32>,
    /// Objects that could not be read.
    unreadable: HashSet<ArtifactKey>,
}

pub(super) type OpenJob = (Arc<JobManifest>, Arc<Job>);

impl Shards {
    pub fn new(store: Arc<dyn ArtifactStore>, clock: Arc<dyn Clock>, options: ShardOptions) -> Self {
        Self {
            store,
            clock,
            options,
            found: Mutex::default(),
            held: Mutex::default(),
            turn: AsyncMutex::new(()),
        }
    }

    /// Every change is whole before anything can fail.
    pub(super) fn found(&self) -> MutexGuard<'_, Found> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn held(&self) -> MutexGuard<'_, BTreeMap<ShardId, Arc<HeldShard>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn holder(&self, fence: &Fence) -> Option<Arc<HeldShard>> {
        self.held().get(&shard_of(fence.task)?).cloned()
    }

    /// Another process has the shard. What this one may have taken anew meanwhile stays.
    pub(super) fn lose(&self, shard: &Arc<HeldShard>) {
        warn!(job = %shard.job.key, shard = shard.id.shard, "the shard is in other hands, or finished");
        self.held()
            .extract_if(.., |_, held| Arc::ptr_eq(held, shard))
            .for_each(drop);
    }

    pub(super) async fn job(&self, index: usize, key: &JobKey) -> Result<Option<OpenJob>, ShardError> {
        let context = self.found().jobs.get(&index).cloned();
        if context.is_some() {
            return Ok(context);
        }
        let manifest = match JobManifest::read(self.store.as_ref(), key).await {
            Ok(manifest) => Arc::new(manifest),
            Err(ShardError::NoSuchJob(_)) => return Ok(None),
            Err(error) => return Err(error),
        };
        let id = JobId(i64::try_from(index).unwrap_or(i64::MAX).saturating_add(1));
        let job = Arc::new(manifest.to_job(id));
        let open = (manifest, job);
        self.found().jobs.insert(index, open.clone());
        Ok(Some(open))
    }

    /// What was ordered of a job, as of a twelfth of a lease ago at most where the store answers.
    pub(super) async fn ordered(&self, index: usize, now: DateTime<Utc>) -> Result<JobStatus, ShardError> {
        let Some(key) = self.options.jobs.get(index) else {
            return Ok(JobStatus::Running);
        };
        let context = self.found().orders.get(&index).copied();
        match context {
            Some((at, status)) if now - at < self.options.lease / 12 => return Ok(status),
            _ => {}
        }
        match (ordered(self.store.as_ref(), key).await, context) {
            (Ok(status), _) => {
                self.found().orders.insert(index, (now, status));
                Ok(status)
            }
            (Err(error), Some((_, status))) => {
                debug!(job = %key, %error, "orders cannot be read now");
                Ok(status)
            }
            (Err(error), None) => Err(error),
        }
    }

    /// Says whether the error is that of one object, and tells of it then.
    pub(super) fn tell_unreadable(&self, error: &ShardError) -> bool {
        let Some(key) = error.unreadable() else {
            return false;
        };
        let known = !self.found().unreadable.insert(key.clone());
        ObjectUnreadable { error, known }.emit();
        true
    }

    /// Where one object cannot be read, work goes on beside it. Anything else stays an error.
    pub(super) fn pass_over(&self, error: SourceError) -> Result<(), SourceError> {
        match &error {
            SourceError::Shards(unreadable) if self.tell_unreadable(unreadable) => Ok(()),
            _ => Err(error),
        }
    }
}

#[async_trait]
impl WorkSource for Shards {
    async fn claim(&self, offers: &[Offer]) -> Result<Vec<Claim>, SourceError> {
        let _turn = self.turn.lock().await;
        let mut search = Search::begin(offers, &*self.clock, self.options.lease).await?;
        match self.search(&mut search).await {
            Err(error) if search.claims.is_empty() => Err(error),
            Err(error) => {
                warn!(%error, "the search for work was cut short");
                Ok(search.claims)
            }
            Ok(()) => Ok(search.claims),
        }
    }

    async fn renew(&self, fences: &[Fence]) -> Result<Vec<LeaseStatus>, SourceError> {
        let now = self.clock.now().await?;
        let lease = self.options.lease;
        let mut renewed: BTreeMap<ShardId, Option<DateTime<Utc>>> = BTreeMap::new();
        let mut cancelled: BTreeSet<ShardId> = BTreeSet::new();
        let mut statuses = Vec::with_capacity(fences.len());
        for fence in fences {
            let Some(shard) = self.holder(fence) else {
                statuses.push(LeaseStatus::Lost);
                continue;
            };
            let until = match renewed.get(&shard.id) {
                Some(until) => *until,
                None => {
                    let until = shard.renew(now, lease, lease * 3 / 4).await?;
                    // Where the store does not say, work goes on.
                    if matches!(self.ordered(shard.id.job, now).await, Ok(JobStatus::Cancelled)) {
                        cancelled.insert(shard.id);
                    }
                    until
                }
            };
            renewed.insert(shard.id, until);
            if until.is_none() {
                self.lose(&shard);
            }
            statuses.push(match until.is_some_and(|until| shard.extend(fence, until)) {
                true if cancelled.contains(&shard.id) => LeaseStatus::Cancelled,
                true => LeaseStatus::Held,
                false => LeaseStatus::Lost,
            });
        }
        Ok(statuses)
    }

    async fn settle(&self, report: LeaseReport) -> Result<ReportReply, SourceError> {
        let now = self.clock.now().await?;
        let fence = report.fence.clone();
        let found = self
            .holder(&fence)
            .and_then(|shard| Some((shard.log(fence.task)?, shard)));
        let Some((log, shard)) = found else {
            return Ok(ReportReply::Fenced);
        };
        let context = ReportContext {
            processing_ms: log.processing_ms(now),
            task: Some(log.task),
            retry_backoff_s: Some(shard.job.config.retry_backoff_s),
            max_interruptions: self.options.max_interruptions,
            jitter: rand::random_range(-1.0..=1.0),
        };
        match shard.commit(&change_of(report, context, now), now).await? {
            Outcome::Applied(task) => {
                TaskReported(&task).emit();
                Ok(ReportReply::Recorded)
            }
            Outcome::Fenced(_) => Ok(ReportReply::Fenced),
            Outcome::Illegal(reason) => {
                warn!(task = %fence.task, reason, "a report asked for an illegal transition");
                Ok(ReportReply::Fenced)
            }
        }
    }

    async fn leave(&self) -> Result<(), SourceError> {
        let _turn = self.turn.lock().await;
        let held: Vec<Arc<HeldShard>> = self.held().values().cloned().collect();
        let mut end = Ok(());
        for shard in held.iter().filter(|shard| !shard.is_busy()) {
            let left = self.let_go(shard).await.or_else(|error| self.pass_over(error));
            end = end.and(left);
        }
        end
    }
}
