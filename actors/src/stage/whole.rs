//! Run of a stage that takes its volume as a whole.

use parkhang_core::domain::{ErrorCategory, PageOutcome, StageError, StageReport, StageVerdict};
use parkhang_search::SearchError;
use parkhang_store::artifact::{
    ArtifactError, ArtifactRow, LineDetectionRow, OcrResultRow, PageTextRow, WordRow,
};
use parkhang_store::storage::StorageError;

use super::StageContext;
use crate::runner::PoolError;
use crate::telemetry::StageState;

/// Tables that have the text of a volume, of whichever pipeline.
pub(super) const TEXTS: &[&[&str]] = &[
    &[LineDetectionRow::TABLE, OcrResultRow::TABLE],
    &[PageTextRow::TABLE, WordRow::TABLE],
];

/// Reason for which the work over a volume was not done.
#[derive(Debug, thiserror::Error)]
pub(super) enum WholeError {
    #[error(transparent)]
    Artifact(#[from] ArtifactError),
    #[error(transparent)]
    Storage(#[from] StorageError),
    #[error(transparent)]
    Pool(#[from] PoolError),
    #[error(transparent)]
    Search(#[from] SearchError),
    #[error("the volume has no text")]
    NoText,
}

impl WholeError {
    fn category(&self) -> ErrorCategory {
        match self {
            Self::Artifact(error) => error.category(),
            Self::Storage(error) => error.category(),
            Self::Pool(error) => error.category(),
            Self::Search(_) => ErrorCategory::Runtime,
            Self::NoText => ErrorCategory::Input,
        }
    }
}

/// Does the work of a stage over the volume, and reports its progress and its verdict.
pub(super) async fn run_whole(
    context: &StageContext,
    work: impl Future<Output = Result<StageReport, WholeError>>,
) -> StageVerdict {
    // A stage without pages counts as one, so that the board shows it and a hang is noticed.
    context.progress.started(1);
    let (verdict, outcome, state) = match work.await {
        Ok(report) => (
            StageVerdict::Succeeded(report),
            PageOutcome::Succeeded,
            StageState::Done,
        ),
        Err(error) => (
            StageVerdict::Failed(StageError::new(
                context.assignment.fence.stage.as_str(),
                error.category(),
                &error,
            )),
            PageOutcome::Failed,
            StageState::Failed,
        ),
    };
    context.progress.page_finished(outcome);
    context.progress.ended(state);
    verdict
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_are_missing_are_a_fault_of_the_node_and_a_panic_is_one_of_the_volume() {
        let category = |error: PoolError| WholeError::from(error).category();
        let pool = "cpu".to_owned();
        assert_eq!(category(PoolError::Closed { pool }), ErrorCategory::Node);
        assert_eq!(
            category(PoolError::Panicked(String::new())),
            ErrorCategory::Runtime
        );
    }
}
