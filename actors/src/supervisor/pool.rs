//! A stage pool: owns a fixed number of slots, gives each assignment an actor of its own, renews the leases of what runs,
//! and reports every verdict until the orchestrator has recorded it. A pool never queues: with no free slot it answers
//! [`AssignReply::Busy`].

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef, RpcReplyPort, SupervisionEvent};
use ractor_cluster::RactorMessage;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::domain::{Fence, StageName, WorkerId};
use crate::orchestrator::{OrchestratorHandle, Report};
use crate::stage::{Assignment, StageContext, StageLogic, StageVerdict};
use crate::telemetry::ProgressBoard;

const HEARTBEAT: Duration = Duration::from_secs(5);
const REPORT_RETRY: Duration = Duration::from_millis(500);

/// What a pool says to an assignment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AssignReply {
    Accepted,
    /// No free slot, or draining.
    Busy,
}

/// How to make a pool.
#[derive(Debug, Clone)]
pub(super) struct PoolArguments {
    pub worker: WorkerId,
    pub logic: Arc<dyn StageLogic>,
    pub slots: usize,
    pub progress: Arc<ProgressBoard>,
    pub orchestrator: OrchestratorHandle,
    pub force: bool,
}

/// Cheap handle on a pool of one stage.
#[derive(Debug, Clone)]
pub struct PoolHandle {
    pub worker: WorkerId,
    pub stage: StageName,
    pub slots: usize,
    pub(super) actor: ActorRef<PoolMsg>,
}

impl PoolHandle {
    /// Offers a leased assignment to the pool. A pool that is gone is busy for good.
    pub async fn assign(&self, assignment: Assignment) -> AssignReply {
        let (sender, receiver) = ractor::concurrency::oneshot();
        match self
            .actor
            .cast(PoolMsg::Assign(Box::new(assignment), sender.into()))
        {
            Ok(()) => receiver.await.unwrap_or(AssignReply::Busy),
            Err(_) => AssignReply::Busy,
        }
    }

    /// Asks every running stage to stop at its next checkpoint; nothing new is accepted.
    pub fn drain(&self) {
        // A pool that is gone has nothing left to drain.
        let _ = self.actor.cast(PoolMsg::Drain);
    }
}

#[derive(RactorMessage)]
pub(super) enum PoolMsg {
    Assign(Box<Assignment>, RpcReplyPort<AssignReply>),
    Finished(Fence, StageVerdict),
    Recorded(Fence),
    Unheard(Box<Report>),
    Send(Box<Report>),
    Beat,
    Lost(Vec<Fence>),
    Drain,
}

struct Slot {
    worker: ActorRef<WorkerMsg>,
    drain: CancellationToken,
}

pub(super) struct PoolState {
    arguments: PoolArguments,
    slots: HashMap<Fence, Slot>,
    draining: bool,
}

pub(super) struct StagePool;

impl StagePool {
    pub(super) async fn spawn(
        arguments: PoolArguments,
        supervisor: ractor::ActorCell,
    ) -> Result<PoolHandle, ractor::SpawnErr> {
        let (worker, stage, slots) = (arguments.worker.clone(), arguments.logic.name(), arguments.slots);
        let (actor, _) = Actor::spawn_linked(None, Self, arguments, supervisor).await?;
        Ok(PoolHandle {
            worker,
            stage,
            slots,
            actor,
        })
    }
}

impl Actor for StagePool {
    type Msg = PoolMsg;
    type State = PoolState;
    type Arguments = PoolArguments;

    async fn pre_start(
        &self,
        myself: ActorRef<PoolMsg>,
        arguments: PoolArguments,
    ) -> Result<PoolState, ActorProcessingErr> {
        myself.send_after(HEARTBEAT, || PoolMsg::Beat);
        Ok(PoolState {
            arguments,
            slots: HashMap::new(),
            draining: false,
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
                // The orchestrator may have stopped listening; then the lease runs out and the task comes back.
                let _ = reply.send(answer);
            }
            PoolMsg::Finished(fence, verdict) => {
                if state.slots.contains_key(&fence) {
                    send_report(
                        &myself,
                        &state.arguments.orchestrator,
                        Report {
                            fence,
                            verdict: Some(verdict),
                        },
                    );
                }
            }
            PoolMsg::Recorded(fence) => {
                state.slots.remove(&fence);
            }
            PoolMsg::Unheard(report) => {
                myself.send_after(REPORT_RETRY, move || PoolMsg::Send(report));
            }
            PoolMsg::Send(report) => send_report(&myself, &state.arguments.orchestrator, *report),
            PoolMsg::Beat => {
                state.beat(&myself);
                myself.send_after(HEARTBEAT, || PoolMsg::Beat);
            }
            PoolMsg::Lost(fences) => {
                for fence in fences {
                    if let Some(slot) = state.slots.remove(&fence) {
                        warn!(task = %fence.task, stage = %fence.stage, "lease lost; stopping its worker");
                        slot.worker.kill();
                    }
                }
            }
            PoolMsg::Drain => {
                state.draining = true;
                for slot in state.slots.values() {
                    slot.drain.cancel();
                }
            }
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<PoolMsg>,
        event: SupervisionEvent,
        state: &mut PoolState,
    ) -> Result<(), ActorProcessingErr> {
        if let SupervisionEvent::ActorFailed(worker, error) = event
            && let Some(fence) = state.fence_of(worker.get_id())
        {
            warn!(task = %fence.task, stage = %fence.stage, %error, "stage actor died; ending its lease");
            let report = Report { fence, verdict: None };
            send_report(&myself, &state.arguments.orchestrator, report);
        }
        Ok(())
    }
}

impl PoolState {
    async fn accept(
        &mut self,
        assignment: Assignment,
        myself: &ActorRef<PoolMsg>,
    ) -> Result<AssignReply, ActorProcessingErr> {
        let Some(fence) = assignment.task.fence() else {
            return Ok(AssignReply::Busy);
        };
        if self.slots.contains_key(&fence) {
            return Ok(AssignReply::Accepted);
        }
        if self.draining || self.slots.len() >= self.arguments.slots {
            return Ok(AssignReply::Busy);
        }
        info!(task = %fence.task, stage = %fence.stage, attempt = %fence.attempt, volume = %assignment.task.volume, "stage starts");
        let drain = CancellationToken::new();
        let context = StageContext {
            assignment,
            drain: drain.clone(),
            progress: self.arguments.progress.clone(),
            force: self.arguments.force,
        };
        let arguments = (
            self.arguments.logic.clone(),
            context,
            fence.clone(),
            myself.clone(),
        );
        let (worker, _) = Actor::spawn_linked(None, StageWorker, arguments, myself.get_cell()).await?;
        self.slots.insert(fence, Slot { worker, drain });
        Ok(AssignReply::Accepted)
    }

    fn fence_of(&self, worker: ActorId) -> Option<Fence> {
        self.slots
            .iter()
            .find(|(_, slot)| slot.worker.get_id() == worker)
            .map(|(fence, _)| fence.clone())
    }

    fn beat(&self, myself: &ActorRef<PoolMsg>) {
        let fences: Vec<Fence> = self.slots.keys().cloned().collect();
        if fences.is_empty() {
            return;
        }
        let (orchestrator, myself) = (self.arguments.orchestrator.clone(), myself.clone());
        tokio::spawn(async move {
            let lost = orchestrator.heartbeat(fences).await;
            if !lost.is_empty() {
                // A pool that stopped meanwhile has no worker left to stop.
                let _ = myself.cast(PoolMsg::Lost(lost));
            }
        });
    }
}

fn send_report(pool: &ActorRef<PoolMsg>, orchestrator: &OrchestratorHandle, report: Report) {
    let (pool, orchestrator) = (pool.clone(), orchestrator.clone());
    tokio::spawn(async move {
        let answer = match orchestrator.report(report.clone()).await {
            Ok(()) => PoolMsg::Recorded(report.fence),
            Err(_) => PoolMsg::Unheard(Box::new(report)),
        };
        // A pool that stopped meanwhile needs no answer: its lease runs out.
        let _ = pool.cast(answer);
    });
}

#[derive(RactorMessage)]
enum WorkerMsg {
    Run,
}

/// Runs one stage once. It is an actor so that a panic is an event and a kill takes effect at the next await.
struct StageWorker;

type WorkerArguments = (Arc<dyn StageLogic>, StageContext, Fence, ActorRef<PoolMsg>);

impl Actor for StageWorker {
    type Msg = WorkerMsg;
    type State = Option<WorkerArguments>;
    type Arguments = WorkerArguments;

    async fn pre_start(
        &self,
        myself: ActorRef<WorkerMsg>,
        arguments: WorkerArguments,
    ) -> Result<Self::State, ActorProcessingErr> {
        myself.cast(WorkerMsg::Run)?;
        Ok(Some(arguments))
    }

    async fn handle(
        &self,
        myself: ActorRef<WorkerMsg>,
        WorkerMsg::Run: WorkerMsg,
        state: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        if let Some((logic, context, fence, pool)) = state.take() {
            let verdict = logic.run(context).await;
            pool.cast(PoolMsg::Finished(fence, verdict))?;
        }
        myself.stop(None);
        Ok(())
    }
}
