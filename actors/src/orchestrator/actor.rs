use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef, RpcReplyPort};
use ractor_cluster::RactorMessage;
use tokio::sync::watch;
use tracing::{info, warn};

use super::mirror::Mirror;
use super::reconcile::{Pass, PassError, PassLimits, reconcile};
use crate::domain::{Fence, JobId, JobStatus, StageName, StageRun, StageRunStatus};
use crate::policy::placement::lost_lease;
use crate::policy::retry;
use crate::policy::transition::Event;
use crate::stage::StageVerdict;
use crate::state::{Change, Expected, Heartbeat, Outcome, StateError, StateStore};
use crate::supervisor::PoolHandle;

/// Leases lost in a row after which a volume is set aside, unless the configuration says otherwise.
pub const MAX_INTERRUPTIONS: i32 = 5;

/// How the orchestrator behaves.
#[derive(Debug, Clone)]
pub struct OrchestratorConfig {
    pub store: Arc<dyn StateStore>,
    /// A lease that is not renewed for this long is lost.
    pub lease: Duration,
    /// The full pass that catches whatever no message announced.
    pub full_pass: Duration,
    /// Leases lost in a row after which a volume is set aside.
    pub max_interruptions: i32,
}

impl OrchestratorConfig {
    pub fn new(store: Arc<dyn StateStore>) -> Self {
        Self {
            store,
            lease: Duration::from_secs(60),
            full_pass: Duration::from_secs(30),
            max_interruptions: MAX_INTERRUPTIONS,
        }
    }
}

/// What a pool says about a lease it held.
#[derive(Debug, Clone)]
pub struct Report {
    pub fence: Fence,
    /// `None` when the worker died without a word.
    pub verdict: Option<StageVerdict>,
}

/// The report has not been written; the sender keeps it and tries again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the orchestrator did not record the report")]
pub struct Unrecorded;

/// How waiting for a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobEnd {
    Settled(JobStatus),
    /// The orchestrator is gone.
    Abandoned,
}

/// Cheap handle on the orchestrator.
#[derive(Debug, Clone)]
pub struct OrchestratorHandle {
    actor: ActorRef<OrchestratorMsg>,
    settled: watch::Receiver<u64>,
    store: Arc<dyn StateStore>,
}

impl OrchestratorHandle {
    pub async fn start(config: OrchestratorConfig) -> Result<Self, ractor::SpawnErr> {
        let (sender, settled) = watch::channel(0);
        let store = config.store.clone();
        let (actor, _) = Actor::spawn(None, Orchestrator, (config, sender)).await?;
        Ok(Self {
            actor,
            settled,
            store,
        })
    }

    /// Something may have become runnable.
    pub fn wake(&self) {
        self.send(OrchestratorMsg::Wake);
    }

    pub(crate) fn register(&self, pool: PoolHandle) {
        self.send(OrchestratorMsg::Register(pool));
    }

    pub(crate) fn deregister(&self, pool: ActorId) {
        self.send(OrchestratorMsg::Deregister(pool));
    }

    /// Returns when the verdict is in the store, or known to be stale.
    pub(crate) async fn report(&self, report: Report) -> Result<(), Unrecorded> {
        let (sender, receiver) = ractor::concurrency::oneshot();
        self.actor
            .cast(OrchestratorMsg::Report(Box::new(report), sender.into()))
            .map_err(|_| Unrecorded)?;
        receiver.await.map_err(|_| Unrecorded)
    }

    /// Renews leases; returns those that are lost. A store that is away loses none.
    pub(crate) async fn heartbeat(&self, fences: Vec<Fence>) -> Vec<Fence> {
        let (sender, receiver) = ractor::concurrency::oneshot();
        match self.actor.cast(OrchestratorMsg::Heartbeat(fences, sender.into())) {
            Ok(()) => receiver.await.unwrap_or_default(),
            Err(_) => Vec::new(),
        }
    }

    /// Hands out nothing more and asks the pools to stop at their next checkpoint.
    pub fn drain(&self) {
        self.send(OrchestratorMsg::Drain);
    }

    /// Waits until no lease is in force.
    pub async fn idle(&self, job: JobId) -> Result<(), StateError> {
        let mut changes = self.settled.clone();
        loop {
            changes.borrow_and_update();
            if self
                .store
                .tasks(job)
                .await?
                .iter()
                .all(|task| task.fence().is_none())
            {
                return Ok(());
            }
            if changes.changed().await.is_err() {
                return Ok(());
            }
        }
    }

    /// Waits until the job is completed, failed or cancelled.
    pub async fn job_end(&self, job: JobId) -> Result<JobEnd, StateError> {
        let mut changes = self.settled.clone();
        loop {
            changes.borrow_and_update();
            let status = self.store.job_by_id(job).await?.map(|job| job.status);
            match status {
                Some(status @ (JobStatus::Completed | JobStatus::Failed | JobStatus::Cancelled)) => {
                    return Ok(JobEnd::Settled(status));
                }
                Some(_) => {}
                None => return Err(StateError::NoSuchJob(job.to_string())),
            }
            if changes.changed().await.is_err() {
                return Ok(JobEnd::Abandoned);
            }
        }
    }

    pub async fn stop(self) {
        // Already stopped is as good.
        let _ = self.actor.stop_and_wait(None, None).await;
    }

    /// A cast fails only when the orchestrator has stopped; its leases then run out.
    fn send(&self, message: OrchestratorMsg) {
        let _ = self.actor.cast(message);
    }
}

#[derive(RactorMessage)]
enum OrchestratorMsg {
    Wake,
    FullPass,
    Register(PoolHandle),
    Deregister(ActorId),
    Report(Box<Report>, RpcReplyPort<()>),
    Heartbeat(Vec<Fence>, RpcReplyPort<Vec<Fence>>),
    Recorded,
    PassEnded(Result<Pass, PassError>),
    Drain,
}

struct OrchestratorState {
    config: OrchestratorConfig,
    mirror: Mirror,
    pools: Vec<PoolHandle>,
    /// A pass is under way.
    passing: bool,
    /// Something happened since the pass under way began.
    woken: bool,
    draining: bool,
    changes: watch::Sender<u64>,
}

struct Orchestrator;

impl Actor for Orchestrator {
    type Msg = OrchestratorMsg;
    type State = OrchestratorState;
    type Arguments = (OrchestratorConfig, watch::Sender<u64>);

    async fn pre_start(
        &self,
        myself: ActorRef<OrchestratorMsg>,
        (config, changes): Self::Arguments,
    ) -> Result<OrchestratorState, ActorProcessingErr> {
        let mirror = Mirror::spawn(config.store.clone()).await?;
        myself.cast(OrchestratorMsg::FullPass)?;
        Ok(OrchestratorState {
            config,
            mirror,
            pools: Vec::new(),
            passing: false,
            woken: false,
            draining: false,
            changes,
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<OrchestratorMsg>,
        message: OrchestratorMsg,
        state: &mut OrchestratorState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            OrchestratorMsg::Wake => state.wake(&myself),
            OrchestratorMsg::FullPass => {
                state.wake(&myself);
                myself.send_after(state.config.full_pass, || OrchestratorMsg::FullPass);
            }
            OrchestratorMsg::Register(pool) => {
                info!(worker = %pool.worker, stage = %pool.stage, slots = pool.slots, "pool joined");
                if state.draining {
                    pool.drain();
                }
                state.pools.push(pool);
                state.wake(&myself);
            }
            OrchestratorMsg::Deregister(actor) => {
                if let Some(index) = state.pools.iter().position(|pool| pool.actor_id() == actor) {
                    let pool = state.pools.swap_remove(index);
                    warn!(worker = %pool.worker, "pool left; ending its leases");
                    state.end_leases(pool, &myself);
                }
            }
            OrchestratorMsg::Report(report, reply) => state.record(*report, reply, &myself),
            OrchestratorMsg::Heartbeat(fences, reply) => state.renew(fences, reply),
            OrchestratorMsg::Recorded => {
                state.announce();
                state.wake(&myself);
            }
            OrchestratorMsg::PassEnded(result) => state.pass_ended(result, &myself),
            OrchestratorMsg::Drain => {
                state.draining = true;
                for pool in &state.pools {
                    pool.drain();
                }
            }
        }
        Ok(())
    }

    async fn post_stop(
        &self,
        _: ActorRef<OrchestratorMsg>,
        state: &mut OrchestratorState,
    ) -> Result<(), ActorProcessingErr> {
        state.mirror.stop();
        Ok(())
    }
}

impl OrchestratorState {
    fn wake(&mut self, myself: &ActorRef<OrchestratorMsg>) {
        if self.passing {
            self.woken = true;
            return;
        }
        if self.draining {
            return;
        }
        self.passing = true;
        self.woken = false;
        let limits = PassLimits {
            lease: chrono::Duration::from_std(self.config.lease).unwrap_or(chrono::Duration::seconds(60)),
            max_interruptions: self.config.max_interruptions,
        };
        let (store, mirror, pools) = (self.config.store.clone(), self.mirror.clone(), self.pools.clone());
        let myself = myself.clone();
        tokio::spawn(async move {
            let result = reconcile(&store, &mirror, &pools, limits, Utc::now()).await;
            // Fails only when the orchestrator has stopped.
            let _ = myself.cast(OrchestratorMsg::PassEnded(result));
        });
    }

    fn pass_ended(&mut self, result: Result<Pass, PassError>, myself: &ActorRef<OrchestratorMsg>) {
        self.passing = false;
        match result {
            Ok(pass) => {
                if pass.progressed || !pass.settled.is_empty() {
                    self.announce();
                }
                if let Some(delay) = pass.next_due.and_then(|due| until(due, Utc::now())) {
                    myself.send_after(delay, || OrchestratorMsg::Wake);
                }
            }
            Err(error) => {
                warn!(%error, "pass cut short");
                myself.send_after(Duration::from_secs(1), || OrchestratorMsg::Wake);
            }
        }
        if self.woken {
            self.wake(myself);
        }
    }

    fn record(&self, report: Report, reply: RpcReplyPort<()>, myself: &ActorRef<OrchestratorMsg>) {
        let (store, mirror, myself) = (self.config.store.clone(), self.mirror.clone(), myself.clone());
        let max_interruptions = self.config.max_interruptions;
        tokio::spawn(async move {
            match change_for(&store, report, max_interruptions, Utc::now()).await {
                Ok(change) => match mirror.commit(change).await {
                    Ok(Outcome::Applied(_)) => {}
                    Ok(Outcome::Fenced(_)) => info!("a stale report changed nothing"),
                    Ok(Outcome::Illegal(reason)) => warn!(reason, "a report asked for an illegal transition"),
                    Err(_) => return,
                },
                Err(error) => {
                    warn!(%error, "cannot read the task of a report");
                    return;
                }
            }
            // The pool or the orchestrator may have stopped; what is written stands.
            let _ = reply.send(());
            let _ = myself.cast(OrchestratorMsg::Recorded);
        });
    }

    fn renew(&self, fences: Vec<Fence>, reply: RpcReplyPort<Vec<Fence>>) {
        let (store, lease) = (self.config.store.clone(), self.config.lease);
        tokio::spawn(async move {
            let until = Utc::now() + lease;
            let beats: Vec<Heartbeat> = fences
                .into_iter()
                .map(|fence| Heartbeat { fence, until })
                .collect();
            let held = match store.renew_leases(&beats).await {
                Ok(held) => held,
                Err(error) => {
                    warn!(%error, "cannot renew leases now");
                    vec![true; beats.len()]
                }
            };
            let lost = beats
                .into_iter()
                .zip(held)
                .filter(|(_, held)| !held)
                .map(|(beat, _)| beat.fence)
                .collect();
            // A pool that stopped meanwhile needs no answer.
            let _ = reply.send(lost);
        });
    }

    fn end_leases(&self, pool: PoolHandle, myself: &ActorRef<OrchestratorMsg>) {
        let (store, mirror, myself) = (self.config.store.clone(), self.mirror.clone(), myself.clone());
        let max_interruptions = self.config.max_interruptions;
        tokio::spawn(async move {
            let open = match store.open_tasks().await {
                Ok(open) => open,
                // The leases run out by themselves.
                Err(error) => return warn!(%error, "cannot end the leases of a dead pool"),
            };
            let held = open.iter().filter(|(task, _)| {
                task.lease
                    .as_ref()
                    .is_some_and(|lease| lease.worker == pool.worker)
            });
            let changes = held
                .map(|(task, _)| Change::new(Expected::of(task), lost_lease(task, max_interruptions)))
                .collect();
            // Both fail only when the orchestrator has stopped.
            let _ = mirror.commit_all(changes).await;
            let _ = myself.cast(OrchestratorMsg::Recorded);
        });
    }

    fn announce(&self) {
        self.changes.send_modify(|version| *version += 1);
    }
}

/// The change that a verdict means. A failure that will be retried carries the time before which it must not be.
async fn change_for(
    store: &Arc<dyn StateStore>,
    report: Report,
    max_interruptions: i32,
    now: DateTime<Utc>,
) -> Result<Change, StateError> {
    let Report { fence, verdict } = report;
    Ok(match verdict {
        Some(StageVerdict::Succeeded(success)) => {
            let mut results = success.results;
            if let Some(results) = &mut results {
                let runs = store.stage_runs(fence.task).await?;
                results.processing_duration_ms = processing_ms(&runs, &fence, now);
            }
            Change {
                expected: Expected::Lease(fence),
                event: Event::Succeeded,
                metrics: Some(success.metrics),
                fingerprint: success.fingerprint,
                results,
            }
        }
        None => {
            let task = store.task(fence.task).await?;
            let held = task.filter(|task| task.fence().as_ref() == Some(&fence));
            // A lease that is over is fenced off by the store, whatever the event.
            let event = held.map_or(Event::Interrupted, |task| lost_lease(&task, max_interruptions));
            Change::new(Expected::Lease(fence), event)
        }
        Some(StageVerdict::Interrupted) => Change::new(Expected::Lease(fence), Event::Released),
        Some(StageVerdict::Failed(error)) => {
            let base = match store.task(fence.task).await? {
                Some(task) => store
                    .job_by_id(task.job_id)
                    .await?
                    .map(|job| job.config.retry_backoff_s),
                None => None,
            };
            let attempt = u32::try_from(fence.attempt.0).unwrap_or(1);
            let delay = retry::backoff(base.unwrap_or(1.0), attempt, rand::random_range(-1.0..=1.0));
            let not_before = chrono::Duration::from_std(delay).ok().map(|delay| now + delay);
            Change::new(Expected::Lease(fence), Event::Failed { error, not_before })
        }
    })
}

/// Time that the stages of a task took: the last completed run of each, and the run of `current` up to `now`.
fn processing_ms(runs: &[StageRun], current: &Fence, now: DateTime<Utc>) -> f32 {
    let mut by_stage: HashMap<&StageName, chrono::Duration> = HashMap::new();
    for run in runs {
        let ended = match run.status {
            StageRunStatus::Done => run.ended_at,
            StageRunStatus::Running if run.fence == *current => Some(now),
            _ => None,
        };
        if let Some(ended) = ended {
            by_stage.insert(&run.fence.stage, ended - run.started_at);
        }
    }
    by_stage
        .values()
        .map(|took| took.num_microseconds().unwrap_or(i64::MAX) as f32 / 1000.0)
        .sum()
}

fn until(due: DateTime<Utc>, now: DateTime<Utc>) -> Option<Duration> {
    (due - now).to_std().ok()
}
