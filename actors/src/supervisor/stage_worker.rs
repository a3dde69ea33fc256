use std::sync::Arc;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use ractor_cluster::RactorMessage;
use tracing::{Instrument, Span};

use super::pool::PoolMsg;
use crate::stage::{StageContext, StageLogic};
use parkhang_core::domain::Fence;
use parkhang_core::failpoint::Failpoint;

/// Message of a worker.
#[derive(RactorMessage)]
pub(super) enum WorkerMsg {
    /// The stage is to begin.
    Run,
}

/// Worker that runs one stage once. It is an actor so that a panic is an event and a kill takes effect at the next await.
pub(super) struct StageWorker;

pub(super) struct WorkerArguments {
    pub logic: Arc<dyn StageLogic>,
    pub context: StageContext,
    pub fence: Fence,
    pub span: Span,
    pub pool: ActorRef<PoolMsg>,
}

impl Actor for StageWorker {
    type Msg = WorkerMsg;
    type State = Option<WorkerArguments>;
    type Arguments = WorkerArguments;

    async fn pre_start(
        &self,
        myself: ActorRef<WorkerMsg>,
        arguments: WorkerArguments,
    ) -> Result<Self::State, ActorProcessingErr> {
        // Not run here: the pool would wait for `pre_start`, and could not kill the worker meanwhile.
        myself.cast(WorkerMsg::Run)?;
        Ok(Some(arguments))
    }

    async fn handle(
        &self,
        myself: ActorRef<WorkerMsg>,
        WorkerMsg::Run: WorkerMsg,
        state: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        if let Some(WorkerArguments {
            logic,
            context,
            fence,
            span,
            pool,
        }) = state.take()
        {
            let volume = context.assignment.volume.clone();
            Failpoint::StageStarted.hit_in(&volume, &fence.stage);
            let verdict = logic.run(context).instrument(span).await;
            Failpoint::StageEnded.hit_in(&volume, &fence.stage);
            pool.cast(PoolMsg::Finished(fence, verdict))?;
        }
        myself.stop(None);
        Ok(())
    }
}
