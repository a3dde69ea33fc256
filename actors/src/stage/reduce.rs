//! `reduce`: from the Parquet files of a volume to its results in the database. It writes no artifact.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::json;

use super::{StageContext, StageLogic, StageReport, StageVerdict};
use crate::artifact::{
    ArtifactError, ArtifactLayout, ErrorRow, LineDetectionRow, OcrResultRow, VolumeLayout, read_table,
};
use crate::domain::{Hardware, StageError, StageName, VolumeResults};
use crate::storage::ArtifactStore;
use crate::telemetry::{PageOutcome, StageState};

/// Sums a volume up.
#[derive(Debug)]
pub(crate) struct Reduce {
    pub store: Arc<dyn ArtifactStore>,
}

#[async_trait]
impl StageLogic for Reduce {
    fn name(&self) -> StageName {
        super::names::reduce()
    }

    fn hardware(&self) -> Hardware {
        Hardware::Cpu
    }

    async fn run(&self, context: StageContext) -> StageVerdict {
        let (volume, stage) = (&context.assignment.volume, self.name());
        context.progress.stage_started(volume, &stage, 1);
        let layout = ArtifactLayout::bdrc_v2(&context.assignment.job).volume(volume);
        let verdict = match self.reduce(&layout).await {
            Ok(results) => StageVerdict::Succeeded(StageReport {
                metrics: json!({ "lines": results.total_lines, "characters": results.total_characters }),
                fingerprint: None,
                results: Some(results),
            }),
            Err(error) => StageVerdict::Failed(StageError::new(stage.as_str(), error.category(), &error)),
        };
        let (outcome, state) = match verdict {
            StageVerdict::Succeeded(_) => (PageOutcome::Succeeded, StageState::Done),
            _ => (PageOutcome::Failed, StageState::Failed),
        };
        context.progress.page_finished(volume, &stage, outcome);
        context.progress.stage_ended(volume, &stage, state);
        verdict
    }
}

impl Reduce {
    async fn reduce(&self, layout: &VolumeLayout) -> Result<VolumeResults, ArtifactError> {
        let store = self.store.as_ref();
        let pages = read_table::<LineDetectionRow>(store, &layout.line_detection())
            .await?
            .rows;
        let lines = read_table::<OcrResultRow>(store, &layout.ocr_results())
            .await?
            .rows;
        let mut errors = 0;
        for stage in [
            super::names::line_detection(),
            super::names::line_extraction(),
            super::names::ocr(),
        ] {
            errors += read_table::<ErrorRow>(store, &layout.errors(&stage))
                .await?
                .rows
                .len();
        }
        Ok(results(&pages, &lines, errors))
    }
}

/// The duration is filled in by the orchestrator, which knows when each stage ran.
fn results(pages: &[LineDetectionRow], lines: &[OcrResultRow], errors: usize) -> VolumeResults {
    let count = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
    let mut confidences: Vec<f32> = lines.iter().map(|line| line.confidence).collect();
    confidences.sort_by(f32::total_cmp);
    let mean = (!confidences.is_empty()).then(|| {
        confidences
            .iter()
            .map(|confidence| f64::from(*confidence))
            .sum::<f64>()
            / confidences.len() as f64
    });
    VolumeResults {
        total_images: count(pages.len()),
        total_lines: count(lines.len()),
        total_characters: count(lines.iter().map(|line| line.text.chars().count()).sum()),
        processing_duration_ms: 0.0,
        dewarping_applied_count: count(pages.iter().filter(|page| page.dewarping_applied).count()),
        nb_errors: count(errors),
        confidence_mean: mean.map(|mean| mean as f32),
        confidence_p10: quantile(&confidences, 0.10),
        confidence_p50: quantile(&confidences, 0.50),
        confidence_p90: quantile(&confidences, 0.90),
    }
}

/// Nearest rank: the smallest value that at least this share of the values does not exceed.
fn quantile(sorted: &[f32], share: f64) -> Option<f32> {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_nearest_ranks() {
        let values: Vec<f32> = (1..=10).map(|n| n as f32 / 10.0).collect();
        assert_eq!(quantile(&values, 0.10), Some(0.1));
        assert_eq!(quantile(&values, 0.50), Some(0.5));
        assert_eq!(quantile(&values, 0.90), Some(0.9));
        assert_eq!(quantile(&[], 0.5), None);
    }

    #[test]
    fn a_volume_without_lines_has_no_confidence() {
        let results = results(&[], &[], 3);
        assert_eq!((results.nb_errors, results.confidence_mean), (3, None));
    }
}
