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
use crate::source::reach::Reach;
use crate::source::{Claim, Clock, SourceError, WorkSource};
use crate::telemetry::{ObjectUnreadable, TaskReported};
use parkhang_core::domain::{Fence, Job, JobId, JobKey, JobStatus, LeaseReport, LeaseStatus, ReportReply};
use parkhang_core::policy::claim::Offer;
use parkhang_state::{Outcome, ReportContext, change_of};
use parkhang_store::storage::{ArtifactKey, ArtifactStore};

/// Settings of a process that works on jobs with manifests.
#[derive(Debug, Clone)]
pub struct ShardOptions {
    /// Name of the process, unique per start.
    pub worker: String,
    /// The jobs to work on, in order of preference. One that does not exist yet is waited for.
    pub jobs: Vec<JobKey>,
    /// Time after which a lease that is not renewed is lost.
    pub lease: TimeDelta,
    /// Leases lost in a row after which a volume is set aside.
    pub max_interruptions: i32,
}

/// Source of work from the shards of jobs.
#[derive(Debug)]
pub struct Shards {
    pub(super) store: Arc<dyn ArtifactStore>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) options: ShardOptions,
    found: Mutex<Found>,
    held: Mutex<BTreeMap<ShardId, Arc<HeldShard>>>,
    /// Held by the search under way: two at once would offer the same room.
    turn: AsyncMutex<()>,
    reach: Reach,
}

/// Objects that this process has read, as far as it remembers them.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// The jobs that exist.
    jobs: HashMap<usize, OpenJob>,
    /// Latest orders to each job, with the time at which they were read.
    orders: HashMap<usize, (DateTime<Utc>, JobStatus)>,
    /// Leases of shards by shard and term, as last read.
    pub leases: HashMap<(ShardId, u32), ShardLease>,
    /// The shard of each job at which its next search begins.
    pub starts: HashMap<usize, u32>,
    /// Objects that could not be read.
    unreadable: HashSet<ArtifactKey>,
}

pub(super) type OpenJob = (Arc<JobManifest>, Arc<Job>);

impl Shards {
    /// A source on the store. The clock has to be the same for all processes that work on the jobs, within a small part of a
    /// lease.
    pub fn new(store: Arc<dyn ArtifactStore>, clock: Arc<dyn Clock>, options: ShardOptions) -> Self {
        Self {
            store,
            clock,
            options,
            found: Mutex::default(),
            held: Mutex::default(),
            turn: AsyncMutex::new(()),
            reach: Reach::default(),
        }
    }

    /// The memory of this process. Every change of it is a single step, so a panic of another thread leaves it whole.
    pub(super) fn found(&self) -> MutexGuard<'_, Found> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn held(&self) -> MutexGuard<'_, BTreeMap<ShardId, Arc<HeldShard>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn holder(&self, fence: &Fence) -> Option<Arc<HeldShard>> {
        self.held().get(&shard_of(fence.task)?).cloned()
    }

    /// Gives up a shard that another process has; one that this process has taken anew meanwhile stays.
    pub(super) fn lose(&self, shard: &Arc<HeldShard>) {
        warn!(job = %shard.job.key, shard = shard.id.shard, "lost a shard: another process has it, or it is finished");
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

    /// Status of a job by its orders, not older than a twelfth of a lease if the store answers.
    pub(super) async fn ordered(&self, index: usize, now: DateTime<Utc>) -> Result<JobStatus, ShardError> {
        let Some(key) = self.options.jobs.get(index) else {
            return Ok(JobStatus::Running);
        };
        let known = self.found().orders.get(&index).copied();
        if let Some((at, status)) = known
            && now - at < self.options.lease / 12
        {
            return Ok(status);
        }
        match (ordered(self.store.as_ref(), key).await, known) {
            (Ok(status), _) => {
                self.found().orders.insert(index, (now, status));
                Ok(status)
            }
            // A store that is away for a moment must not stop work that nobody has ordered to stop.
            (Err(error), Some((_, status))) => {
                debug!(job = %key, %error, "cannot read the orders to a job now");
                Ok(status)
            }
            (Err(error), None) => Err(error),
        }
    }

    /// Reports the error if it lies in one object; returns whether it does.
    pub(super) fn report_unreadable(&self, error: &ShardError) -> bool {
        let Some(key) = error.unreadable() else {
            return false;
        };
        let known = !self.found().unreadable.insert(key.clone());
        ObjectUnreadable { error, known }.emit();
        true
    }

    /// Drops an error that lies in one object, after reporting it, so that work goes on beside the object. Any other stays.
    pub(super) fn pass_over(&self, error: SourceError) -> Result<(), SourceError> {
        match &error {
            SourceError::Shards(unreadable) if self.report_unreadable(unreadable) => Ok(()),
            _ => Err(error),
        }
    }

    /// Renews leases, by those of their shards.
    async fn renew_held(&self, fences: &[Fence]) -> Result<Vec<LeaseStatus>, SourceError> {
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
            // Once for each shard, however many of its volumes are leased here.
            let until = match renewed.get(&shard.id) {
                Some(until) => *until,
                None => {
                    let until = shard.renew(now, lease, lease * 3 / 4).await?;
                    // If the orders cannot be read, work goes on.
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
            let is_held = until.is_some_and(|until| shard.extend(fence, until));
            statuses.push(if !is_held {
                LeaseStatus::Lost
            } else if cancelled.contains(&shard.id) {
                LeaseStatus::Cancelled
            } else {
                LeaseStatus::Held
            });
        }
        Ok(statuses)
    }
}

#[async_trait]
impl WorkSource for Shards {
    async fn claim(&self, offers: &[Offer]) -> Result<Vec<Claim>, SourceError> {
        let _turn = self.turn.lock().await;
        let search = Search::begin(offers, &*self.clock, self.options.lease, &self.reach).await;
        let mut search = self.reach.heard(search)?;
        match self.reach.heard(self.search(&mut search).await) {
            Err(error) if search.claims.is_empty() => Err(error),
            // The claims are leased already, and would be idle until their deadlines.
            Err(error) => {
                warn!(%error, "the search for work was cut short");
                Ok(search.claims)
            }
            Ok(()) => Ok(search.claims),
        }
    }

    async fn renew(&self, fences: &[Fence]) -> Result<Vec<LeaseStatus>, SourceError> {
        self.reach.heard(self.renew_held(fences).await)
    }

    async fn complete(&self, report: LeaseReport) -> Result<ReportReply, SourceError> {
        let now = self.clock.now().await?;
        let fence = report.fence.clone();
        let found = self
            .holder(&fence)
            .and_then(|shard| Some((shard.log(fence.task)?, shard)));
        let Some((log, shard)) = found else {
            return Ok(ReportReply::Fenced);
        };
        let context = ReportContext {
            now: Some(now),
            processing_ms: log.processing_ms(now),
            task: Some(log.task),
            retry_backoff_s: Some(shard.job.config.retry_backoff_s),
            max_interruptions: self.options.max_interruptions,
            jitter: rand::random_range(-1.0..=1.0),
        };
        match shard.commit(&change_of(report, context), now).await? {
            Outcome::Applied(task) => {
                TaskReported(&task).emit();
                Ok(ReportReply::Recorded)
            }
            Outcome::Fenced(_) => Ok(ReportReply::Fenced),
            Outcome::Illegal(reason) | Outcome::Refused(reason) => {
                warn!(task = %fence.task, reason, "a report asked for an illegal transition");
                Ok(ReportReply::Fenced)
            }
        }
    }

    async fn leave(&self) -> Result<(), SourceError> {
        let _turn = self.turn.lock().await;
        let held: Vec<Arc<HeldShard>> = self.held().values().cloned().collect();
        let mut end = Ok(());
        // A shard in which a stage may still run stays leased until its deadline.
        for shard in held.iter().filter(|shard| !shard.is_busy()) {
            let left = self
                .release_shard(shard)
                .await
                .or_else(|error| self.pass_over(error));
            end = end.and(left);
        }
        end
    }
}
