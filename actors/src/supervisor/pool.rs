//! A stage pool: owns a fixed number of slots, gives each assignment an actor of its own, renews its leases, and reports every
//! verdict until the control plane has recorded it. A pool never queues: with no free slot it answers [`AssignReply::Busy`].

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef, RpcReplyPort, SupervisionEvent};
use ractor_cluster::RactorMessage;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{Span, warn};

use super::control_plane::ControlPlane;
use super::health::HealthPolicy;
use super::lease_gauge::{LeaseGauge, Share};
use super::node::NodeMsg;
use super::progress_watch::ProgressWatch;
use super::stage_worker::{StageWorker, WorkerArguments, WorkerMsg};
use crate::detached;
use crate::orchestrator::{Executor, Unreachable};
use crate::stage::{Account, StageContext, StageLogic};
use crate::telemetry::{Followed, ProgressBoard, StageEnded, StageStarted, slots_in_use, stage_span};
use parkhang_core::domain::{
    AssignReply, Assignment, Fence, LeaseReport, PoolInfo, RenewalReply, StageVerdict, WorkerId,
};
use parkhang_core::failpoint::Failpoint;

mod describe;
mod leases;
mod returned;
mod stall;

use self::leases::send_report;

pub(super) use self::describe::{PoolStatus, WorkerFate};
pub(super) use self::stall::Judgement;

/// Delay before a report that was not recorded is sent again.
const REPORT_RETRY: Duration = Duration::from_millis(500);
/// Reason that ractor gives for the end of an actor that was killed.
const KILLED: &str = "killed";

/// Parts and settings of a pool.
#[derive(Debug, Clone)]
pub(super) struct PoolArguments {
    pub worker: WorkerId,
    pub logic: Arc<dyn StageLogic>,
    pub slots: usize,
    pub progress: Arc<ProgressBoard>,
    pub control_plane: Arc<dyn ControlPlane>,
    /// Time between two renewals of the leases.
    pub heartbeat: Duration,
    pub health: HealthPolicy,
    pub lease_gauge: LeaseGauge,
    pub supervisor: ActorRef<NodeMsg>,
}

/// Cheap handle on a pool of one stage.
#[derive(Debug, Clone)]
pub struct PoolHandle {
    /// Identity, stage, slots and models of the pool.
    pub info: Arc<PoolInfo>,
    pub(super) in_use: Arc<AtomicUsize>,
    pub(super) actor: ActorRef<PoolMsg>,
}

impl PoolHandle {
    /// Number of slots that hold a lease.
    pub fn in_use(&self) -> usize {
        self.in_use.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl Executor for PoolHandle {
    fn info(&self) -> &PoolInfo {
        &self.info
    }

    async fn assign(&self, assignment: Assignment) -> Result<AssignReply, Unreachable> {
        let (sender, receiver) = ractor::concurrency::oneshot();
        match self
            .actor
            .cast(PoolMsg::Assign(Box::new(assignment), sender.into()))
        {
            // A pool that has ended takes nothing, like one without room; its supervisor takes it out of
            // assignment.
            Ok(()) => Ok(receiver.await.unwrap_or(AssignReply::Busy)),
            Err(_) => Ok(AssignReply::Busy),
        }
    }

    fn cancel(&self, fences: Vec<Fence>) {
        let reply = RenewalReply {
            cancelled: fences,
            ..RenewalReply::default()
        };
        // A pool that is gone has nothing left to cancel.
        let _ = self.actor.cast(PoolMsg::Renewed(reply));
    }

    fn drain(&self) {
        // A pool that is gone has nothing left to drain.
        let _ = self.actor.cast(PoolMsg::Drain);
    }
}

/// Messages of a pool.
#[derive(RactorMessage)]
pub(super) enum PoolMsg {
    Assign(Box<Assignment>, RpcReplyPort<AssignReply>),
    Finished(Fence, StageVerdict),
    /// The end of a lease is recorded.
    Recorded(Fence),
    /// The lease was lost before its end was reported.
    Fenced(Fence),
    /// The end of a lease could not be recorded now.
    Unrecorded(Box<LeaseReport>),
    Send(Box<LeaseReport>),
    Beat,
    /// Leases have been renewed, and some found to be lost or cancelled.
    Renewed(RenewalReply),
    /// No more work is to be taken, and the stages are to stop at their next checkpoint.
    Drain,
    /// The same; answered when the drain has come so far.
    DrainUntil(Drained, RpcReplyPort<()>),
    Describe(RpcReplyPort<PoolStatus>),
    /// Another pool takes its place, at an operator's order; its stages are cut off.
    HandBack,
    /// Another pool takes its place; its stages stop at their next checkpoint.
    Retire,
    /// The cause of its stall was found.
    Judged(Judgement),
    /// The worker of this name is to be ended; answered with whether there was one at work.
    EndWorker(String, WorkerFate, RpcReplyPort<bool>),
}

/// Progress of a drain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Drained {
    /// No stage runs any more; reports of their ends may still be under way.
    Checkpointed,
    /// No lease is left.
    Released,
}

/// A lease that the pool holds: from its acceptance until its end is recorded.
struct Slot {
    worker: ActorRef<WorkerMsg>,
    context: StageContext,
    followed: Followed,
    span: Span,
    started: Instant,
    since: DateTime<Utc>,
    phase: Phase,
}

/// Progress of a lease on its way to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase {
    /// The stage runs.
    Running,
    /// The stage stood still and was ended; whether it is to blame is not known yet. Holds the evidence.
    Accused(String),
    /// The stage has ended, and its report is under way.
    Reporting,
}

pub(super) struct PoolState {
    arguments: PoolArguments,
    slots: HashMap<Fence, Slot>,
    in_use: Arc<AtomicUsize>,
    share: Share,
    watch: ProgressWatch,
    draining: bool,
    /// Another pool has taken its place: it ends when its leases are released.
    replaced: bool,
    /// It works, and its supervisor was told so.
    proven: bool,
    /// Callers that wait for a drain to have come so far.
    waiting: Vec<(Drained, RpcReplyPort<()>)>,
}

pub(super) struct StagePool;

impl StagePool {
    pub(super) async fn spawn(arguments: PoolArguments) -> Result<PoolHandle, ractor::SpawnErr> {
        let logic = arguments.logic.clone();
        let supervisor = arguments.supervisor.get_cell();
        let (worker, slots) = (arguments.worker.clone(), arguments.slots);
        let in_use = Arc::new(AtomicUsize::new(0));
        let (actor, _) = Actor::spawn_linked(None, Self, (arguments, in_use.clone()), supervisor).await?;
        let info = Arc::new(PoolInfo {
            worker,
            stage: logic.info().name(),
            slots,
            models: logic
                .info()
                .models()
                .into_iter()
                .map(|model| model.name)
                .collect(),
        });
        Ok(PoolHandle { info, in_use, actor })
    }
}

impl Actor for StagePool {
    type Msg = PoolMsg;
    type State = PoolState;
    type Arguments = (PoolArguments, Arc<AtomicUsize>);

    async fn pre_start(
        &self,
        myself: ActorRef<PoolMsg>,
        (arguments, in_use): Self::Arguments,
    ) -> Result<PoolState, ActorProcessingErr> {
        detached::send_later(&myself, arguments.heartbeat, PoolMsg::Beat);
        slots_in_use(&arguments.logic.info().name(), 0, arguments.slots);
        Ok(PoolState {
            share: arguments.lease_gauge.share(),
            arguments,
            slots: HashMap::new(),
            in_use,
            watch: ProgressWatch::default(),
            draining: false,
            replaced: false,
            proven: false,
            waiting: Vec::new(),
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<PoolMsg>,
        message: PoolMsg,
        state: &mut PoolState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            PoolMsg::Assign(assignment, reply) => {
                let answer = state.accept(*assignment, &myself).await?;
                // The orchestrator may have stopped listening. The stage runs all the same, and its heartbeat tells whether it should.
                let _ = reply.send(answer);
            }
            PoolMsg::Finished(fence, verdict) => {
                state.prove_by(&fence, &verdict, &myself);
                state.finished(fence, verdict, &myself);
            }
            PoolMsg::Recorded(fence) => drop(state.answered(&fence)),
            PoolMsg::Fenced(fence) => {
                if let Some(slot) = state.answered(&fence) {
                    state.abandon(slot);
                }
            }
            PoolMsg::Unrecorded(report) => {
                detached::send_later(&myself, REPORT_RETRY, PoolMsg::Send(report));
            }
            PoolMsg::Send(report) => send_report(&myself, &state.arguments.control_plane, *report),
            PoolMsg::Beat => {
                // A page that was read since the last beat is reported before a stall is: it tells that the pool works.
                state.beat(&myself);
                state.prove(&myself);
                state.replace_if_stalled(&myself)?;
                detached::send_later(&myself, state.arguments.heartbeat, PoolMsg::Beat);
            }
            PoolMsg::Renewed(renewal) => state.apply_renewal(renewal, &myself),
            PoolMsg::Drain => state.drain(&myself),
            PoolMsg::DrainUntil(drained, reply) => {
                state.drain(&myself);
                state.waiting.push((drained, reply));
            }
            PoolMsg::Describe(reply) => {
                // The caller may have timed out.
                let _ = reply.send(state.status());
            }
            PoolMsg::HandBack => state.release(&myself),
            PoolMsg::Retire => {
                state.replaced = true;
                state.drain(&myself);
            }
            PoolMsg::Judged(judgement) => state.judged(&judgement, &myself),
            PoolMsg::EndWorker(name, fate, reply) => {
                let ended = state.end_worker(&name, fate, &myself);
                // The caller may have timed out.
                let _ = reply.send(ended);
            }
        }
        // After every message, as most of them can end a lease.
        state.report_slots();
        state.report_drained();
        if state.slots.is_empty() && state.replaced {
            myself.stop(None);
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<PoolMsg>,
        event: SupervisionEvent,
        state: &mut PoolState,
    ) -> Result<(), ActorProcessingErr> {
        let (worker, reason) = match event {
            SupervisionEvent::ActorFailed(worker, error) => (worker, error.to_string()),
            // A worker that ends by itself has sent the verdict of its stage, in a message that may still be waiting.
            SupervisionEvent::ActorTerminated(worker, _, Some(reason)) if reason == KILLED => {
                (worker, reason)
            }
            _ => return Ok(()),
        };
        if let Some((fence, slot)) = state.lease_of(worker.get_id())
            && slot.phase == Phase::Running
        {
            slot.span
                .in_scope(|| warn!(reason, "stage actor died; ending its lease"));
            state.end(&fence, None, &myself);
        }
        Ok(())
    }
}

impl Slot {
    /// Name of the actor of this lease on its node.
    fn name(&self, fence: &Fence) -> String {
        let Assignment { job, volume, .. } = &self.context.assignment;
        format!("{}/{job}/{volume}", fence.stage)
    }

    fn ended(&mut self, fence: &Fence, verdict: Option<&StageVerdict>) {
        self.phase = Phase::Reporting;
        let ended = StageEnded {
            stage: &fence.stage,
            verdict,
            took: self.started.elapsed(),
        };
        self.span.in_scope(|| ended.emit());
    }
}

impl PoolState {
    fn report_slots(&mut self) {
        let in_use = self.slots.len();
        self.share.set(in_use);
        if self.in_use.swap(in_use, Ordering::Relaxed) != in_use {
            slots_in_use(&self.arguments.logic.info().name(), in_use, self.arguments.slots);
        }
    }

    /// Answers those who wait for a drain that has come far enough.
    fn report_drained(&mut self) {
        let handed_back = self.slots.is_empty();
        let checkpointed = self.slots.values().all(|slot| slot.phase != Phase::Running);
        let has_come = |drained: Drained| match drained {
            Drained::Checkpointed => checkpointed,
            Drained::Released => handed_back,
        };
        for (_, reply) in self.waiting.extract_if(.., |(drained, _)| has_come(*drained)) {
            // The caller may have timed out.
            let _ = reply.send(());
        }
    }

    fn drain(&mut self, myself: &ActorRef<PoolMsg>) {
        self.draining = true;
        for slot in self.slots.values() {
            slot.context.drain.cancel();
        }
        // Where a node drains, no page is read any more that could show who was to blame.
        self.release_accused(myself);
    }

    /// Reports the end of a lease, unless that is under way; `None` if its worker died without a verdict.
    fn end(&mut self, fence: &Fence, verdict: Option<StageVerdict>, myself: &ActorRef<PoolMsg>) {
        let slot = self.slots.get_mut(fence);
        let Some(slot) = slot.filter(|slot| slot.phase != Phase::Reporting) else {
            return;
        };
        slot.ended(fence, verdict.as_ref());
        let report = LeaseReport {
            fence: fence.clone(),
            verdict,
        };
        send_report(myself, &self.arguments.control_plane, report);
    }

    /// Starts a worker for the assignment, if there is a free slot.
    async fn accept(
        &mut self,
        assignment: Assignment,
        myself: &ActorRef<PoolMsg>,
    ) -> Result<AssignReply, ActorProcessingErr> {
        let fence = assignment.fence.clone();
        // An offer may be repeated whose answer was lost.
        if self.slots.contains_key(&fence) {
            return Ok(AssignReply::Accepted);
        }
        if self.draining {
            return Ok(AssignReply::Draining);
        }
        // A stage that has ended uses nothing any more, so its slot is free while its report waits to be recorded.
        let is_taken = |slot: &&Slot| slot.phase != Phase::Reporting;
        let running = self.slots.values().filter(is_taken).count();
        // The message may have waited on a link that was down, or in a process that was stopped, while the task went elsewhere.
        let ran_out = assignment.lease_until <= Utc::now();
        if ran_out || running >= self.arguments.slots {
            return Ok(AssignReply::Busy);
        }
        let span = stage_span(&assignment, &self.arguments.worker);
        span.in_scope(|| StageStarted { stage: &fence.stage }.emit());
        let followed = self.arguments.progress.follow(&assignment);
        let context = StageContext {
            assignment,
            drain: CancellationToken::new(),
            progress: followed.progress().clone(),
            account: Account::new(self.arguments.control_plane.clone(), fence.clone()),
            writes: TaskTracker::new(),
        };
        let arguments = WorkerArguments {
            logic: self.arguments.logic.clone(),
            context: context.clone(),
            fence: fence.clone(),
            span: span.clone(),
            pool: myself.clone(),
        };
        let (worker, _) = Actor::spawn_linked(None, StageWorker, arguments, myself.get_cell()).await?;
        let slot = Slot {
            worker,
            context,
            followed,
            span,
            started: Instant::now(),
            since: Utc::now(),
            phase: Phase::Running,
        };
        Failpoint::AssignAccepted.hit_in(&slot.context.assignment.volume, &fence.stage);
        self.slots.insert(fence, slot);
        Ok(AssignReply::Accepted)
    }

    fn lease_of(&mut self, worker: ActorId) -> Option<(Fence, &mut Slot)> {
        self.slots
            .iter_mut()
            .find(|(_, slot)| slot.worker.get_id() == worker)
            .map(|(fence, slot)| (fence.clone(), slot))
    }
}
