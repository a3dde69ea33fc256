//! What every line about work tells, as fields of the span that the work runs in.

use tracing::Span;
use tracing::field::Empty;

use crate::domain::{Fence, WorkerId};
use crate::stage::Assignment;

/// Entered once where a stage run begins, here or in the orchestrator that hands it out.
pub(crate) fn assignment_span(assignment: &Assignment, worker: &WorkerId) -> Span {
    let Fence {
        task,
        stage,
        attempt,
        generation,
    } = &assignment.fence;
    let (job, volume, node) = (&assignment.job, &assignment.volume, worker.node());
    tracing::info_span!("stage", %job, %task, %volume, %stage, %attempt, %generation, node)
}

/// Entered where the orchestrator handles what a pool says of a lease. Job and volume are recorded once they are known.
pub(crate) fn fence_span(fence: &Fence) -> Span {
    let Fence {
        task,
        stage,
        attempt,
        generation,
    } = fence;
    tracing::info_span!("report", job = Empty, %task, volume = Empty, %stage, %attempt, %generation, node = Empty)
}
