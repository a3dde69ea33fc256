//! A search for work: in the shards that the process has, and then in those that it can get. What is found is handed out before
//! its leases have grown old, and an object that cannot be read costs its shard, not its neighbours.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use futures::future::join_all;
use tracing::{debug, info};

use super::ShardError;
use super::held::HeldShard;
use super::lease::ShardLease;
use super::place::ShardId;
use super::work::{OpenJob, Shards};
use crate::source::{Claim, Clock, SourceError};
use parkhang_core::domain::{Assignment, Job, JobStatus, StageName};
use parkhang_core::policy::claim::{Offer, choose, give, run_out};
use parkhang_core::policy::placement::Placement;
use parkhang_core::policy::poison::{Loss, is_suspect, lost_lease};
use parkhang_core::policy::transition::Event;
use parkhang_state::Outcome;
use parkhang_store::artifact::ShardLayout;

/// Leases read at once.
const READS: usize = 16;

/// Room that is left, and what has been found for it.
pub(super) struct Search<'a> {
    offers: Vec<Offer>,
    pub claims: Vec<Claim>,
    clock: &'a dyn Clock,
    began: DateTime<Utc>,
    lease: TimeDelta,
}

impl<'a> Search<'a> {
    pub(super) async fn begin(
        offers: &[Offer],
        clock: &'a dyn Clock,
        lease: TimeDelta,
    ) -> Result<Self, SourceError> {
        Ok(Self {
            offers: offers.to_vec(),
            claims: Vec::new(),
            clock,
            began: clock.now().await?,
            lease,
        })
    }

    /// Stages that have room.
    fn stages(&self) -> BTreeSet<&StageName> {
        let roomy = self.offers.iter().filter(|offer| offer.free > 0);
        roomy.map(|offer| &offer.pool.stage).collect()
    }

    /// Stages that have room for the job.
    fn stages_for(&self, job: &Job) -> BTreeSet<&StageName> {
        let roomy = self.offers.iter().filter(|offer| offer.free > 0);
        let suited = roomy.filter(|offer| offer.pool.suits(job));
        suited.map(|offer| &offer.pool.stage).collect()
    }

    /// Whether it has taken an eighth of a lease, or a sixtieth and something was found.
    async fn is_late(&self) -> Result<bool, SourceError> {
        let share = if self.claims.is_empty() { 8 } else { 60 };
        Ok(self.clock.now().await? - self.began >= self.lease / share)
    }

    async fn is_over(&self) -> Result<bool, SourceError> {
        Ok(self.stages().is_empty() || self.is_late().await?)
    }
}

impl Shards {
    pub(super) async fn search(&self, search: &mut Search<'_>) -> Result<(), SourceError> {
        let held: Vec<Arc<HeldShard>> = self.held().values().cloned().collect();
        for shard in held {
            if search.is_late().await? {
                return Ok(());
            }
            self.work_in(&shard, search)
                .await
                .or_else(|error| self.pass_over(error))?;
        }
        for index in 0..self.options.jobs.len() {
            if search.is_over().await? {
                break;
            }
            self.look_into(index, search)
                .await
                .or_else(|error| self.pass_over(error))?;
        }
        Ok(())
    }

    async fn look_into(&self, index: usize, search: &mut Search<'_>) -> Result<(), SourceError> {
        let Some(key) = self.options.jobs.get(index) else {
            return Ok(());
        };
        let Some(open) = self.job(index, key).await? else {
            return Ok(());
        };
        if search.stages_for(&open.1).is_empty() {
            return Ok(());
        }
        match self.ordered(index, search.clock.now().await?).await? {
            JobStatus::Running => self.look_for_shards(index, &open, search).await,
            _ => Ok(()),
        }
    }

    /// Takes from a shard what there is room for. A shard in which nothing of this process runs then is let go.
    async fn work_in(&self, shard: &Arc<HeldShard>, search: &mut Search<'_>) -> Result<(), SourceError> {
        let now = search.clock.now().await?;
        // So much that three quarters are left when the search ends.
        let enough = self.options.lease * 7 / 8;
        let Some(until) = shard.renew(now, self.options.lease, enough).await? else {
            self.lose(shard);
            return Ok(());
        };
        for task in shard.tasks() {
            if let Some(event) = run_out(&task, now, self.options.max_interruptions) {
                shard.commit(&HeldShard::change(&task, event), now).await?;
            }
        }
        if self.ordered(shard.id.job, now).await? == JobStatus::Running {
            let tasks = shard.tasks();
            let choices = choose(
                now,
                tasks.iter().map(|task| (task, &*shard.job)),
                &search.offers,
                &[],
            );
            for choice in choices {
                if search.is_late().await? {
                    break;
                }
                self.lease(shard, choice, until, search).await?;
            }
        }
        if !shard.is_busy() {
            self.let_go(shard).await?;
        }
        Ok(())
    }

    async fn lease(
        &self,
        shard: &HeldShard,
        choice: Placement,
        until: DateTime<Utc>,
        search: &mut Search<'_>,
    ) -> Result<(), SourceError> {
        let Some(log) = shard.log(choice.task) else {
            return Ok(());
        };
        let event = Event::Leased {
            stage: choice.stage,
            worker: choice.worker.clone(),
            until,
        };
        let change = HeldShard::change(&log.task, event);
        let Outcome::Applied(leased) = shard.commit(&change, search.clock.now().await?).await? else {
            return Ok(());
        };
        give(&mut search.offers, &choice.worker, &log.task);
        let alone = is_suspect(&log.task);
        if let Some(assignment) = Assignment::of(leased, &shard.job) {
            search.claims.push(Claim {
                worker: choice.worker,
                assignment,
                lasts: until - search.began,
                alone,
            });
        }
        Ok(())
    }

    pub(super) async fn let_go(&self, shard: &Arc<HeldShard>) -> Result<(), SourceError> {
        let now = self.clock.now().await?;
        let is_finished = shard.is_finished();
        if is_finished {
            let done = shard.finish(now).await?;
            info!(job = %shard.job.key, shard = shard.id.shard, done = done.done, failed = done.failed.len(),
                "shard finished");
        }
        shard.release(now).await?;
        self.held().remove(&shard.id);
        if is_finished && let Err(error) = shard.forget_terms().await {
            debug!(job = %shard.job.key, shard = shard.id.shard, %error, "leases of a finished shard are left behind");
        }
        Ok(())
    }

    async fn look_for_shards(
        &self,
        index: usize,
        open: &OpenJob,
        search: &mut Search<'_>,
    ) -> Result<(), SourceError> {
        let (manifest, job) = open;
        let layout = ShardLayout::new(&job.key);
        let done = self
            .store
            .list(&layout.done_folder())
            .await
            .map_err(ShardError::from)?;
        let done: BTreeSet<u32> = done
            .iter()
            .filter_map(|(key, _)| layout.shard_of_done(key))
            .collect();
        let leases = self
            .store
            .list(&layout.lease_folder())
            .await
            .map_err(ShardError::from)?;
        let mut terms: BTreeMap<u32, u32> = BTreeMap::new();
        for (key, _) in leases {
            if let Some((shard, term)) = layout.term_of_lease(&key) {
                let latest = terms.entry(shard).or_insert(term);
                *latest = term.max(*latest);
            }
        }
        let start = self.start(index, manifest.shards);
        let candidates: Vec<ShardId> = (start..manifest.shards)
            .chain(0..start)
            .filter(|shard| !done.contains(shard))
            .map(|shard| ShardId { job: index, shard })
            .filter(|id| !self.held().contains_key(id))
            .collect();
        for some in candidates.chunks(READS) {
            let inviting = self.inviting(job, &layout, some, &terms, search).await?;
            for id in some {
                if search.is_over().await? {
                    // What was not looked at is looked at first the next time.
                    self.found().starts.insert(index, id.shard);
                    return Ok(());
                }
                if inviting.contains(id) {
                    let term = terms.get(&id.shard).map_or(1, |term| term + 1);
                    let taken = self.take(open, *id, term, search).await;
                    taken.or_else(|error| self.pass_over(error))?;
                }
            }
        }
        self.found().starts.remove(&index);
        Ok(())
    }

    /// The shard to begin with: where the last search was cut short, or a place of this process's own, so that processes seldom
    /// want the same shard.
    fn start(&self, index: usize, shards: u32) -> u32 {
        let mut hasher = DefaultHasher::new();
        self.options.worker.hash(&mut hasher);
        let own = u32::try_from(hasher.finish() % u64::from(shards.max(1))).unwrap_or(0);
        self.found().starts.get(&index).copied().unwrap_or(own)
    }

    /// Takes a shard of which the term before is over, and works in it.
    async fn take(
        &self,
        open: &OpenJob,
        id: ShardId,
        term: u32,
        search: &mut Search<'_>,
    ) -> Result<(), SourceError> {
        // Read first: a shard that cannot be read is left alone.
        let volumes = open.0.volumes(self.store.as_ref(), id.shard).await?;
        let until = search.clock.now().await? + self.options.lease;
        let holder = (self.options.worker.as_str(), until);
        let Some(held) = HeldShard::take(&self.store, open, (id, volumes), term, holder).await? else {
            return Ok(());
        };
        let held = Arc::new(held);
        self.held().insert(id, held.clone());
        for error in &held.unreadable {
            self.tell_unreadable(error);
        }
        // Whoever ran these held the shard before, and holds it no more.
        for task in held.tasks().into_iter().filter(|task| task.lease.is_some()) {
            let event = lost_lease(&task, Loss::Node, self.options.max_interruptions);
            let change = HeldShard::change(&task, event);
            held.commit(&change, search.clock.now().await?).await?;
        }
        self.work_in(&held, search).await
    }

    /// The shards of these in which there may be something for the stages that have room.
    async fn inviting(
        &self,
        job: &Job,
        layout: &ShardLayout,
        shards: &[ShardId],
        terms: &BTreeMap<u32, u32>,
        search: &Search<'_>,
    ) -> Result<BTreeSet<ShardId>, SourceError> {
        let now = search.clock.now().await?;
        let leases = shards.iter().map(|id| async {
            match terms.get(&id.shard) {
                Some(term) => self.lease_of(*id, layout, *term, now).await.map(Some),
                None => Ok(None),
            }
        });
        let leases = join_all(leases).await;
        let stages = search.stages_for(job);
        let mut inviting = BTreeSet::new();
        for (id, lease) in shards.iter().zip(leases) {
            let invites = match lease {
                Ok(Some(lease)) => lease.invites(&stages, now),
                Ok(None) => stages.contains(job.pipeline.first()),
                Err(error) => self.pass_over(error.into()).map(|()| false)?,
            };
            if invites {
                inviting.insert(*id);
            }
        }
        Ok(inviting)
    }

    /// A lease as it is, or as it was seen when it could no longer change.
    async fn lease_of(
        &self,
        id: ShardId,
        layout: &ShardLayout,
        term: u32,
        now: DateTime<Utc>,
    ) -> Result<ShardLease, ShardError> {
        let known = self.found().leases.get(&(id, term)).cloned();
        if let Some(lease) = known.filter(|lease| !lease.may_have_changed(now)) {
            return Ok(lease);
        }
        let key = layout.lease(id.shard, term);
        let bytes = self.store.get(&key).await?;
        let lease: ShardLease =
            serde_json::from_slice(&bytes).map_err(|error| ShardError::damaged(&key, error))?;
        let mut found = self.found();
        found
            .leases
            .retain(|(other, other_term), _| *other != id || *other_term >= term);
        found.leases.insert((id, term), lease.clone());
        Ok(lease)
    }
}
