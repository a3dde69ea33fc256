//! The stage `reduce`: sums up the Parquet files of a volume as its results in the database. It writes no artifact.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Map, json};

use super::table::{StageDefinition, StageModels};
use super::{StageContext, StageInfo, StageLogic};
use crate::telemetry::StageState;
use parkhang_core::domain::{
    Hardware, PageOutcome, StageError, StageName, StageReport, StageVerdict, VolumeResults,
};
use parkhang_core::policy::forecast::MadeWith;
use parkhang_core::policy::percentile::percentile;
use parkhang_store::artifact::{
    ArtifactError, ArtifactRow, LineDetectionRow, OcrResultRow, VolumeLayout, failed_pages, read_table,
};
use parkhang_store::storage::ArtifactStore;

pub(super) const STAGE: StageDefinition = StageDefinition {
    name: "reduce",
    hardware: Hardware::Cpu,
    models: StageModels::None,
    settings: |_| Map::new(),
    reads: &[LineDetectionRow::TABLE, OcrResultRow::TABLE],
    writes: &[],
    build: |services| {
        Ok(Arc::new(Reduce {
            store: services.artifacts.clone(),
            stages: services.stages.names(),
        }))
    },
};

/// The stage that sums a volume up.
#[derive(Debug)]
pub(crate) struct Reduce {
    pub store: Arc<dyn ArtifactStore>,
    /// Stages whose failed pages are counted, where a volume went through them.
    pub stages: Vec<StageName>,
}

impl StageInfo for Reduce {
    fn name(&self) -> StageName {
        STAGE.name()
    }

    fn hardware(&self) -> Hardware {
        STAGE.hardware
    }
}

#[async_trait]
impl StageLogic for Reduce {
    fn info(&self) -> &dyn StageInfo {
        self
    }

    async fn run(&self, context: StageContext) -> StageVerdict {
        let stage = self.name();
        // A stage without pages counts as one, so that the board shows it and a hang is noticed.
        context.progress.started(1);
        let layout = VolumeLayout::of(&context.assignment);
        let verdict = match self.reduce(&layout).await {
            Ok(results) => StageVerdict::Succeeded(StageReport {
                metrics: json!({
                    "lines": results.total_lines,
                    "characters": results.total_characters,
                    "made_with": MadeWith::default(),
                }),
                fingerprint: None,
                results: Some(results),
            }),
            Err(error) => StageVerdict::Failed(StageError::new(stage.as_str(), error.category(), &error)),
        };
        let (outcome, state) = match verdict {
            StageVerdict::Succeeded(_) => (PageOutcome::Succeeded, StageState::Done),
            _ => (PageOutcome::Failed, StageState::Failed),
        };
        context.progress.page_finished(outcome);
        context.progress.ended(state);
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
        let errors = failed_pages(store, layout, &self.stages).await?;
        Ok(results(&pages, &lines, errors.len()))
    }
}

/// Sums up the volume. The duration stays 0: the orchestrator fills it in, which knows when each stage ran.
fn results(pages: &[LineDetectionRow], lines: &[OcrResultRow], errors: usize) -> VolumeResults {
    let count = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
    let confidences: Vec<f64> = lines.iter().map(|line| f64::from(line.confidence)).collect();
    let of_lines = |value: f64| (!confidences.is_empty()).then_some(value as f32);
    VolumeResults {
        total_images: count(pages.len()),
        total_lines: count(lines.len()),
        total_characters: count(lines.iter().map(|line| line.text.chars().count()).sum()),
        processing_duration_ms: 0.0,
        dewarping_applied_count: count(pages.iter().filter(|page| page.dewarping_applied).count()),
        nb_errors: count(errors),
        confidence_mean: of_lines(confidences.iter().sum::<f64>() / confidences.len() as f64),
        confidence_p10: of_lines(percentile(&confidences, 10.0)),
        confidence_p50: of_lines(percentile(&confidences, 50.0)),
        confidence_p90: of_lines(percentile(&confidences, 90.0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_without_lines_has_no_confidence() {
        let results = results(&[], &[], 3);
        assert_eq!((results.nb_errors, results.confidence_mean), (3, None));
    }
}
