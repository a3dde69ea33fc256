//! Run of a stage that takes its volume as a whole.

use parkhang_core::domain::{PageOutcome, StageError, StageReport, StageVerdict};
use parkhang_store::artifact::{ArtifactRow, LineDetectionRow, OcrResultRow, PageTextRow, WordRow};

use super::StageContext;
use crate::telemetry::StageState;

/// Tables that have the text of a volume, of whichever pipeline.
pub(super) const TEXTS: &[&[&str]] = &[
    &[LineDetectionRow::TABLE, OcrResultRow::TABLE],
    &[PageTextRow::TABLE, WordRow::TABLE],
];

/// Does the work of a stage over the volume, and reports its progress and its verdict.
pub(super) async fn run_whole(
    context: &StageContext,
    work: impl Future<Output = Result<StageReport, StageError>>,
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
            StageVerdict::Failed(error),
            PageOutcome::Failed,
            StageState::Failed,
        ),
    };
    context.progress.page_finished(outcome);
    context.progress.ended(state);
    verdict
}
