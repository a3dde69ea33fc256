//! Spans that work runs in, with the fields that every log line about it carries. They have the level of errors, so that no
//! filter takes the fields away from the lines that it lets through.

use tracing::Span;
use tracing::field::Empty;

use parkhang_core::domain::{Assignment, Fence, WorkerId};

macro_rules! work_span {
    ($name:literal, $assignment:expr, $($who:tt)+) => {{
        let Fence {
            task,
            stage,
            attempt,
            generation,
        } = &$assignment.fence;
        let (job, volume) = (&$assignment.job, &$assignment.volume);
        tracing::error_span!($name, %job, %task, %volume, %stage, %attempt, %generation, $($who)+)
    }};
}

/// Span in which the orchestrator offers a lease to a pool.
pub(crate) fn assign_span(assignment: &Assignment, worker: &WorkerId) -> Span {
    work_span!("assign", assignment, %worker)
}

/// Span in which a pool runs a stage, and reports on it.
pub(crate) fn stage_span(assignment: &Assignment, worker: &WorkerId) -> Span {
    let node = worker.node();
    work_span!("stage", assignment, node)
}

/// Span in which the orchestrator handles a report. Job and volume are recorded once they are known.
pub(crate) fn report_span(fence: &Fence) -> Span {
    let Fence {
        task,
        stage,
        attempt,
        generation,
    } = fence;
    tracing::error_span!("report", job = Empty, %task, volume = Empty, %stage, %attempt, %generation)
}
