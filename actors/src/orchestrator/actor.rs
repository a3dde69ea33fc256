use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};
use ractor_cluster::RactorMessage;
use tokio::sync::watch;
use tracing::{error, info, warn};

use super::delivery::{Delivery, deliver};
use super::executor::Executor;
use super::mirror::Mirror;
use super::reconcile::{Pass, PassError, PassLimits, reconcile};
use super::verdict::change_for;
use crate::domain::{Fence, JobId, JobStatus, WorkerId};
use crate::policy::placement::lost_lease;
use crate::stage::{Assignment, StageVerdict};
use crate::state::{Change, Expected, Heartbeat, Outcome, StateError, StateStore};

/// Leases lost in a row after which a volume is set aside, unless the configuration says otherwise.
pub const MAX_INTERRUPTIONS: i32 = 5;
/// Before work is offered again to a pool that should have had room: keeps two that disagree from running hot.
const BUSY_PAUSE: Duration = Duration::from_millis(50);

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

/// What became of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recording {
    Recorded,
    /// The lease was over; the report changed nothing and never will.
    Fenced,
}

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

    /// A pool offers its slots; it takes the place of one with the same worker id.
    pub(crate) fn register(&self, pool: Arc<dyn Executor>) {
        self.send(OrchestratorMsg::Register(pool));
    }

    /// Nothing more is assigned to the pool; what it runs keeps its leases.
    pub fn suspend(&self, worker: WorkerId) {
        self.send(OrchestratorMsg::Suspend(worker));
    }

    /// The pool is gone for good; its leases end.
    pub(crate) fn deregister(&self, worker: WorkerId) {
        self.send(OrchestratorMsg::Deregister(worker));
    }

    /// Returns when the verdict is in the store, or known to be stale.
    pub(crate) async fn report(&self, report: Report) -> Result<Recording, Unrecorded> {
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
    Register(Arc<dyn Executor>),
    Suspend(WorkerId),
    Deregister(WorkerId),
    Delivered(WorkerId, Delivery),
    Report(Box<Report>, RpcReplyPort<Recording>),
    Heartbeat(Vec<Fence>, RpcReplyPort<Vec<Fence>>),
    Recorded,
    PassEnded(Result<Pass, PassError>),
    Drain,
}

struct OrchestratorState {
    config: OrchestratorConfig,
    mirror: Mirror,
    pools: Vec<Member>,
    /// A pass is under way.
    passing: bool,
    /// Something happened since the pass under way began.
    woken: bool,
    draining: bool,
    changes: watch::Sender<u64>,
}

/// A pool that has joined.
struct Member {
    pool: Arc<dyn Executor>,
    /// Whether it may be given work.
    accepting: bool,
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
                info!(worker = %pool.worker(), stage = %pool.stage(), slots = pool.slots(), "pool joined");
                if state.draining {
                    pool.drain();
                }
                state.remove(pool.worker());
                state.pools.push(Member {
                    pool,
                    accepting: true,
                });
                state.wake(&myself);
            }
            OrchestratorMsg::Suspend(worker) => drop(state.suspend(&worker)),
            OrchestratorMsg::Deregister(worker) => {
                if state.remove(&worker) {
                    warn!(%worker, "pool left; ending its leases");
                    state.end_leases(worker, &myself);
                }
            }
            OrchestratorMsg::Delivered(worker, delivery) => state.delivered(&worker, delivery, &myself),
            OrchestratorMsg::Report(report, reply) => state.record(*report, reply, &myself),
            OrchestratorMsg::Heartbeat(fences, reply) => state.renew(fences, reply),
            OrchestratorMsg::Recorded => {
                state.announce();
                state.wake(&myself);
            }
            OrchestratorMsg::PassEnded(result) => state.pass_ended(result, &myself),
            OrchestratorMsg::Drain => {
                state.draining = true;
                for member in &state.pools {
                    member.pool.drain();
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
        let (store, mirror) = (self.config.store.clone(), self.mirror.clone());
        let accepting = self.pools.iter().filter(|member| member.accepting);
        let pools: Vec<Arc<dyn Executor>> = accepting.map(|member| member.pool.clone()).collect();
        let myself = myself.clone();
        tokio::spawn(async move {
            let assign = |pool: &Arc<dyn Executor>, assignment| {
                tokio::spawn(assign(mirror.clone(), myself.clone(), pool.clone(), assignment));
            };
            let result = reconcile(&store, &mirror, &pools, &assign, limits, Utc::now()).await;
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

    fn delivered(&mut self, worker: &WorkerId, delivery: Delivery, myself: &ActorRef<OrchestratorMsg>) {
        match delivery {
            Delivery::Taken => return,
            Delivery::Returned => {
                myself.send_after(BUSY_PAUSE, || OrchestratorMsg::Wake);
            }
            Delivery::PoolDrains => {
                self.suspend(worker);
                self.wake(myself);
            }
            Delivery::PoolSilent => {
                if let Some(pool) = self.suspend(worker) {
                    pool.probe();
                }
                self.wake(myself);
            }
            // The pass finds when the task is due again.
            Delivery::Refused => self.wake(myself),
            Delivery::Deposed => {
                error!(%worker, "another orchestrator leads; this one stops");
                myself.stop(Some("deposed".to_owned()));
            }
        }
        self.announce();
    }

    /// The pool, if it is known.
    fn suspend(&mut self, worker: &WorkerId) -> Option<Arc<dyn Executor>> {
        let mut members = self.pools.iter_mut();
        let member = members.find(|member| member.pool.worker() == worker)?;
        member.accepting = false;
        Some(member.pool.clone())
    }

    /// Whether the pool was known.
    fn remove(&mut self, worker: &WorkerId) -> bool {
        let before = self.pools.len();
        self.pools.retain(|member| member.pool.worker() != worker);
        self.pools.len() < before
    }

    fn record(&self, report: Report, reply: RpcReplyPort<Recording>, myself: &ActorRef<OrchestratorMsg>) {
        let (store, mirror, myself) = (self.config.store.clone(), self.mirror.clone(), myself.clone());
        let max_interruptions = self.config.max_interruptions;
        tokio::spawn(async move {
            let recording = match change_for(&store, report, max_interruptions, Utc::now()).await {
                Ok(change) => match mirror.commit(change).await {
                    Ok(Outcome::Applied(_)) => Recording::Recorded,
                    Ok(Outcome::Fenced(_)) => {
                        info!("a stale report changed nothing");
                        Recording::Fenced
                    }
                    Ok(Outcome::Illegal(reason)) => {
                        warn!(reason, "a report asked for an illegal transition");
                        Recording::Fenced
                    }
                    Err(_) => return,
                },
                Err(error) => {
                    warn!(%error, "cannot read the task of a report");
                    return;
                }
            };
            // The pool or the orchestrator may have stopped; what is written stands.
            let _ = reply.send(recording);
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

    fn end_leases(&self, worker: WorkerId, myself: &ActorRef<OrchestratorMsg>) {
        let (store, mirror, myself) = (self.config.store.clone(), self.mirror.clone(), myself.clone());
        let max_interruptions = self.config.max_interruptions;
        tokio::spawn(async move {
            let open = match store.open_tasks().await {
                Ok(open) => open,
                // The leases run out by themselves.
                Err(error) => return warn!(%error, "cannot end the leases of a dead pool"),
            };
            let held = open
                .iter()
                .filter(|(task, _)| task.lease.as_ref().is_some_and(|lease| lease.worker == worker));
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

/// Hands a lease to its pool; the orchestrator hears how that went.
async fn assign(
    mirror: Mirror,
    orchestrator: ActorRef<OrchestratorMsg>,
    pool: Arc<dyn Executor>,
    assignment: Assignment,
) {
    // Without a mirror the orchestrator is stopping, and the lease runs out.
    if let Ok(delivery) = deliver(&mirror, pool.as_ref(), assignment, Utc::now()).await {
        let worker = pool.worker().clone();
        let _ = orchestrator.cast(OrchestratorMsg::Delivered(worker, delivery));
    }
}

fn until(due: DateTime<Utc>, now: DateTime<Utc>) -> Option<Duration> {
    (due - now).to_std().ok()
}
