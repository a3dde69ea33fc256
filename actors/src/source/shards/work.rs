use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use tokio::sync::Mutex as AsyncMutex;
use tracing::{info, warn};

use super::held::HeldShard;
use super::lease::ShardLease;
use super::manifest::JobManifest;
use super::{ShardError, ShardId, shard_of};
use crate::artifact::ShardLayout;
use crate::domain::{Fence, Job, JobId, JobKey, StageName};
use crate::orchestrator::{Known, Recording, Report, assignment_of, change_of};
use crate::policy::claim::{Offer, choose, run_out};
use crate::policy::placement::lost_lease;
use crate::policy::transition::Event;
use crate::source::{Claim, SourceError, WorkSource};
use crate::state::{Outcome, Standing};
use crate::storage::ArtifactStore;

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
    store: Arc<dyn ArtifactStore>,
    options: ShardOptions,
    /// What has been found of the jobs.
    jobs: Mutex<HashMap<usize, OpenJob>>,
    held: Mutex<BTreeMap<ShardId, Arc<HeldShard>>>,
    /// Leases of others as they were last seen.
    seen: Mutex<HashMap<(ShardId, u32), ShardLease>>,
    /// Looking for work happens once at a time.
    turn: AsyncMutex<()>,
}

type OpenJob = (Arc<JobManifest>, Arc<Job>);

/// Room that is left, and what has been found for it.
struct Search {
    offers: Vec<Offer>,
    claims: Vec<Claim>,
    now: DateTime<Utc>,
}

impl Search {
    /// Stages that have room.
    fn stages(&self) -> BTreeSet<&StageName> {
        let roomy = self.offers.iter().filter(|offer| offer.free > 0);
        roomy.map(|offer| &offer.stage).collect()
    }
}

impl Shards {
    pub fn new(store: Arc<dyn ArtifactStore>, options: ShardOptions) -> Self {
        Self {
            store,
            options,
            jobs: Mutex::default(),
            held: Mutex::default(),
            seen: Mutex::default(),
            turn: AsyncMutex::new(()),
        }
    }

    fn held(&self) -> MutexGuard<'_, BTreeMap<ShardId, Arc<HeldShard>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn holder(&self, fence: &Fence) -> Option<Arc<HeldShard>> {
        self.held().get(&shard_of(fence.task)?).cloned()
    }

    async fn job(&self, index: usize, key: &JobKey) -> Result<Option<OpenJob>, ShardError> {
        let known = |jobs: &Mutex<HashMap<usize, OpenJob>>| {
            let jobs = jobs.lock().unwrap_or_else(PoisonError::into_inner);
            jobs.get(&index).cloned()
        };
        if let Some(job) = known(&self.jobs) {
            return Ok(Some(job));
        }
        let manifest = match JobManifest::read(self.store.as_ref(), key).await {
            Ok(manifest) => Arc::new(manifest),
            Err(ShardError::NoSuchJob(_)) => return Ok(None),
            Err(error) => return Err(error),
        };
        let id = JobId(i64::try_from(index).unwrap_or(i64::MAX).saturating_add(1));
        let job = Arc::new(manifest.to_job(id));
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        jobs.insert(index, (manifest.clone(), job.clone()));
        Ok(Some((manifest, job)))
    }

    async fn search(&self, search: &mut Search) -> Result<(), ShardError> {
        let held: Vec<Arc<HeldShard>> = self.held().values().cloned().collect();
        for shard in held {
            self.work_in(&shard, search).await?;
        }
        for (index, key) in self.options.jobs.iter().enumerate() {
            if search.stages().is_empty() {
                break;
            }
            if let Some((manifest, job)) = self.job(index, key).await? {
                self.look_for_shards(index, &manifest, &job, search).await?;
            }
        }
        Ok(())
    }

    /// Takes from a shard what there is room for. A shard in which nothing of this process runs then is let go.
    async fn work_in(&self, shard: &Arc<HeldShard>, search: &mut Search) -> Result<(), ShardError> {
        let now = search.now;
        let Some(until) = shard.renew(now, self.options.lease).await? else {
            warn!(job = %shard.job.key, shard = shard.id.shard, "another process has the shard");
            self.held().remove(&shard.id);
            return Ok(());
        };
        for task in shard.tasks() {
            if let Some(event) = run_out(&task, now, self.options.max_interruptions) {
                shard.commit(&HeldShard::change(&task, event), now).await?;
            }
        }
        let tasks = shard.tasks();
        let choices = choose(
            now,
            tasks.iter().map(|task| (task, &*shard.job)),
            &search.offers,
            &[],
        );
        for choice in choices {
            let Some(task) = tasks.iter().find(|task| task.id == choice.task) else {
                continue;
            };
            let event = Event::Leased {
                stage: choice.stage,
                worker: choice.worker.clone(),
                until,
            };
            let Outcome::Applied(leased) = shard.commit(&HeldShard::change(task, event), now).await? else {
                continue;
            };
            if let Some(assignment) = assignment_of(leased, &shard.job) {
                let offer = search
                    .offers
                    .iter_mut()
                    .find(|offer| offer.worker == choice.worker);
                if let Some(offer) = offer {
                    offer.free = offer.free.saturating_sub(1);
                }
                search.claims.push(Claim {
                    worker: choice.worker,
                    assignment,
                });
            }
        }
        if !shard.is_busy() {
            self.let_go(shard, now).await?;
        }
        Ok(())
    }

    async fn let_go(&self, shard: &Arc<HeldShard>, now: DateTime<Utc>) -> Result<(), ShardError> {
        if shard.is_finished() {
            let done = shard.finish(now).await?;
            info!(job = %shard.job.key, shard = shard.id.shard, done = done.done, failed = done.failed.len(),
                "shard finished");
        }
        shard.release(now).await?;
        self.held().remove(&shard.id);
        Ok(())
    }

    async fn look_for_shards(
        &self,
        index: usize,
        manifest: &JobManifest,
        job: &Arc<Job>,
        search: &mut Search,
    ) -> Result<(), ShardError> {
        let layout = ShardLayout::new(&job.key);
        let done = self.store.list(&layout.done_folder()).await?;
        let done: BTreeSet<u32> = done
            .iter()
            .filter_map(|(key, _)| layout.shard_of_done(key))
            .collect();
        let mut terms: BTreeMap<u32, u32> = BTreeMap::new();
        for (key, _) in self.store.list(&layout.lease_folder()).await? {
            if let Some((shard, term)) = layout.term_of_lease(&key) {
                let latest = terms.entry(shard).or_insert(term);
                *latest = term.max(*latest);
            }
        }
        // Processes begin at different shards, so that they seldom want the same one.
        let mut hasher = DefaultHasher::new();
        self.options.worker.hash(&mut hasher);
        let start = u32::try_from(hasher.finish() % u64::from(manifest.shards.max(1))).unwrap_or(0);
        for shard in (start..manifest.shards).chain(0..start) {
            if search.stages().is_empty() {
                break;
            }
            let id = ShardId { job: index, shard };
            let term = terms.get(&shard).copied();
            if done.contains(&shard)
                || self.held().contains_key(&id)
                || !self.is_inviting(id, &layout, job, term, search).await?
            {
                continue;
            }
            let term = term.map_or(1, |term| term + 1);
            let until = search.now + self.options.lease;
            let holder = (self.options.worker.as_str(), until);
            let Some(held) = HeldShard::take(&self.store, manifest, job, id, term, holder).await? else {
                continue;
            };
            let held = Arc::new(held);
            self.held().insert(id, held.clone());
            // Whoever ran these held the shard before, and holds it no more.
            for task in held.tasks().into_iter().filter(|task| task.lease.is_some()) {
                let event = lost_lease(&task, self.options.max_interruptions);
                held.commit(&HeldShard::change(&task, event), search.now).await?;
            }
            self.work_in(&held, search).await?;
        }
        Ok(())
    }

    /// Whether there may be something in the shard for the stages that have room.
    async fn is_inviting(
        &self,
        id: ShardId,
        layout: &ShardLayout,
        job: &Job,
        term: Option<u32>,
        search: &Search,
    ) -> Result<bool, ShardError> {
        let stages = search.stages();
        let Some(term) = term else {
            return Ok(stages.contains(job.pipeline.first()));
        };
        let known = {
            let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.get(&(id, term)).cloned()
        };
        let lease = match known {
            Some(lease) if !lease.may_have_changed(search.now) => lease,
            _ => self.read_lease(id, layout, term).await?,
        };
        Ok(lease.invites(&stages, search.now))
    }

    async fn read_lease(
        &self,
        id: ShardId,
        layout: &ShardLayout,
        term: u32,
    ) -> Result<ShardLease, ShardError> {
        let key = layout.lease(id.shard, term);
        let bytes = self.store.get(&key).await?;
        let lease: ShardLease =
            serde_json::from_slice(&bytes).map_err(|error| ShardError::damaged(&key, error))?;
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.retain(|(other, other_term), _| *other != id || *other_term >= term);
        seen.insert((id, term), lease.clone());
        Ok(lease)
    }
}

#[async_trait]
impl WorkSource for Shards {
    async fn claim(&self, offers: &[Offer], now: DateTime<Utc>) -> Result<Vec<Claim>, SourceError> {
        let _turn = self.turn.lock().await;
        let mut search = Search {
            offers: offers.to_vec(),
            claims: Vec::new(),
            now,
        };
        match self.search(&mut search).await {
            Err(error) if search.claims.is_empty() => Err(error.into()),
            Err(error) => {
                warn!(%error, "the search for work was cut short");
                Ok(search.claims)
            }
            Ok(()) => Ok(search.claims),
        }
    }

    async fn renew(&self, fences: &[Fence], now: DateTime<Utc>) -> Result<Vec<Standing>, SourceError> {
        let mut renewed: BTreeMap<ShardId, Option<DateTime<Utc>>> = BTreeMap::new();
        let mut standings = Vec::with_capacity(fences.len());
        for fence in fences {
            let Some(shard) = self.holder(fence) else {
                standings.push(Standing::Lost);
                continue;
            };
            let until = match renewed.get(&shard.id) {
                Some(until) => *until,
                None => shard.renew(now, self.options.lease).await?,
            };
            renewed.insert(shard.id, until);
            if until.is_none() {
                // Unless it was let go and taken anew meanwhile.
                self.held()
                    .extract_if(.., |_, held| Arc::ptr_eq(held, &shard))
                    .for_each(drop);
            }
            standings.push(match until.is_some_and(|until| shard.extend(fence, until)) {
                true => Standing::Held,
                false => Standing::Lost,
            });
        }
        Ok(standings)
    }

    async fn settle(&self, report: Report, now: DateTime<Utc>) -> Result<Recording, SourceError> {
        let fence = report.fence.clone();
        let found = self
            .holder(&fence)
            .and_then(|shard| Some((shard.log(fence.task)?, shard)));
        let Some((log, shard)) = found else {
            return Ok(Recording::Fenced);
        };
        let known = Known {
            processing_ms: log.processing_ms(now),
            task: Some(log.task),
            retry_backoff_s: Some(shard.job.config.retry_backoff_s),
            max_interruptions: self.options.max_interruptions,
            jitter: rand::random_range(-1.0..=1.0),
        };
        match shard.commit(&change_of(report, known, now), now).await? {
            Outcome::Applied(_) => Ok(Recording::Recorded),
            Outcome::Fenced(_) => Ok(Recording::Fenced),
            Outcome::Illegal(reason) => {
                warn!(task = %fence.task, reason, "a report asked for an illegal transition");
                Ok(Recording::Fenced)
            }
        }
    }

    async fn leave(&self, now: DateTime<Utc>) -> Result<(), SourceError> {
        let _turn = self.turn.lock().await;
        let held: Vec<Arc<HeldShard>> = self.held().values().cloned().collect();
        for shard in held.iter().filter(|shard| !shard.is_busy()) {
            self.let_go(shard, now).await?;
        }
        Ok(())
    }
}
