//! Search for work: in the shards that the process holds, and then in those that it can get. Work that is found is handed out
//! before its leases have grown old, and an object that cannot be read costs its shard and no other.

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
use crate::source::reach::Reach;
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

/// A search under way: the room that is left, and the claims found for it.
pub(super) struct Search<'a> {
    offers: Vec<Offer>,
    pub claims: Vec<Claim>,
    clock: &'a dyn Clock,
    began: DateTime<Utc>,
    lease: TimeDelta,
    /// Leases of others that have run out may be ended.
    may_end: bool,
}

impl<'a> Search<'a> {
    pub(super) async fn begin(
        offers: &[Offer],
        clock: &'a dyn Clock,
        lease: TimeDelta,
        reach: &Reach,
    ) -> Result<Self, SourceError> {
        let began = clock.now().await?;
        Ok(Self {
            offers: offers.to_vec(),
            claims: Vec::new(),
            clock,
            began,
            lease,
            may_end: reach.may_end(began, lease),
        })
    }

    /// Stages that have room.
    fn stages(&self) -> BTreeSet<&StageName> {
        self.offers
            .iter()
            .filter(|offer| offer.free > 0)
            .map(|offer| &offer.pool.stage)
            .collect()
    }

    /// Stages that have room for the job.
    fn stages_for(&self, job: &Job) -> BTreeSet<&StageName> {
        self.offers
            .iter()
            .filter(|offer| offer.free > 0 && offer.pool.suits(job))
            .map(|offer| &offer.pool.stage)
            .collect()
    }

    /// Returns whether the search has taken long enough: an eighth of a lease, or, once something was found, a sixtieth, as pools
    /// wait for it. A shard has seven eighths of its lease when work in it is leased, so that claims still have the three quarters
    /// that a source promises when the search ends.
    async fn is_late(&self) -> Result<bool, SourceError> {
        let share = if self.claims.is_empty() { 8 } else { 60 };
        Ok(self.clock.now().await? - self.began >= self.lease / share)
    }

    async fn is_over(&self) -> Result<bool, SourceError> {
        Ok(self.stages().is_empty() || self.is_late().await?)
    }
}

impl Shards {
    /// Searches the held shards and then the jobs. The held ones first: work there costs no shard's lease, and a shard without
    /// work is released so that others can take it.
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

    /// Leases work in a shard, as far as there is room. A shard in which nothing of this process runs afterwards is released.
    async fn work_in(&self, shard: &Arc<HeldShard>, search: &mut Search<'_>) -> Result<(), SourceError> {
        let now = search.clock.now().await?;
        // Three quarters are left of it when a search ends that takes an eighth of a lease.
        let enough = self.options.lease * 7 / 8;
        let Some(until) = shard.renew(now, self.options.lease, enough).await? else {
            self.lose(shard);
            return Ok(());
        };
        for task in shard.tasks().into_iter().filter(|_| search.may_end) {
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
            self.release_shard(shard).await?;
        }
        Ok(())
    }

    /// Leases one task and adds its claim.
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
                // The deadline is the shard's, which may have been renewed before the claim began.
                lasts: until - search.began,
                alone,
            });
        }
        Ok(())
    }

    /// Releases a shard; one in which nothing is left to do is finished first.
    pub(super) async fn release_shard(&self, shard: &Arc<HeldShard>) -> Result<(), SourceError> {
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
            debug!(job = %shard.job.key, shard = shard.id.shard, %error, "cannot remove the old leases of a finished shard");
        }
        Ok(())
    }

    /// Takes shards of a job that others have released, lost or never had, until the room is used up or the time is over.
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
                    // The next search goes on from here, or shards at the end of a long job would never be reached.
                    self.found().starts.insert(index, id.shard);
                    return Ok(());
                }
                if inviting.contains(id) {
                    let term = terms.get(&id.shard).map_or(1, |term| term + 1);
                    self.take(open, *id, term, search)
                        .await
                        .or_else(|error| self.pass_over(error))?;
                }
            }
        }
        self.found().starts.remove(&index);
        Ok(())
    }

    /// The shard to begin with: the one where the last search was cut short, or one that depends on the name of this process, so
    /// that processes seldom want the same shard.
    fn start(&self, index: usize, shards: u32) -> u32 {
        let mut hasher = DefaultHasher::new();
        self.options.worker.hash(&mut hasher);
        let own = u32::try_from(hasher.finish() % u64::from(shards.max(1))).unwrap_or(0);
        self.found().starts.get(&index).copied().unwrap_or(own)
    }

    /// Takes a shard whose last term is over, and works in it.
    async fn take(
        &self,
        open: &OpenJob,
        id: ShardId,
        term: u32,
        search: &mut Search<'_>,
    ) -> Result<(), SourceError> {
        // Read before it is taken: a shard that cannot be read is left alone.
        let volumes = open.0.volumes(self.store.as_ref(), id.shard).await?;
        let until = search.clock.now().await? + self.options.lease;
        let holder = (self.options.worker.as_str(), until);
        let Some(held) = HeldShard::take(&self.store, open, (id, volumes), term, holder).await? else {
            return Ok(());
        };
        let held = Arc::new(held);
        self.held().insert(id, held.clone());
        for error in &held.unreadable {
            self.report_unreadable(error);
        }
        // Leases of the former holder, which has lost the shard and with it the right to go on.
        for task in held.tasks().into_iter().filter(|task| task.lease.is_some()) {
            let event = lost_lease(&task, Loss::Node, self.options.max_interruptions);
            let change = HeldShard::change(&task, event);
            held.commit(&change, search.clock.now().await?).await?;
        }
        self.work_in(&held, search).await
    }

    /// The shards of these that are worth taking for the stages that have room.
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
            let is_claimable = match lease {
                Ok(Some(ShardLease::Held { .. })) if !search.may_end => false,
                Ok(Some(lease)) => lease.is_claimable(&stages, now),
                // Nobody has ever held the shard, so all its volumes wait for the first stage.
                Ok(None) => stages.contains(job.pipeline.first()),
                Err(error) => self.pass_over(error.into()).map(|()| false)?,
            };
            if is_claimable {
                inviting.insert(*id);
            }
        }
        Ok(inviting)
    }

    /// Reads a lease, or returns it from memory where it cannot have changed since: a search looks at every shard that is not
    /// finished, and most are held by others.
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
