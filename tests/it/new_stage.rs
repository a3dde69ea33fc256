//! `syllables`: counts the syllables of a volume. It reads what `ocr` wrote and writes no artifact of its own.

use std::sync::Arc;

use async_trait::async_trait;
use parkhang_actors::stage::{StageContext, StageDefinition, StageInfo, StageLogic, StageModels};
use parkhang_core::domain::{Hardware, StageError, StageName, StageReport, StageVerdict};
use parkhang_store::artifact::{ArtifactRow, OcrResultRow, VolumeLayout, read_table};
use parkhang_store::storage::ArtifactStore;
use serde_json::{Map, json};

pub(crate) const STAGE: StageDefinition = StageDefinition {
    name: "syllables",
    hardware: Hardware::Cpu,
    models: StageModels::None,
    settings: |_| Map::new(),
    reads: &[&[OcrResultRow::TABLE]],
    writes: &[],
    build: |services| {
        let store = services.artifacts.clone();
        Ok(Arc::new(Syllables { store }))
    },
};

#[derive(Debug)]
pub(crate) struct Syllables {
    pub(crate) store: Arc<dyn ArtifactStore>,
}

impl StageInfo for Syllables {
    fn name(&self) -> StageName {
        STAGE.name()
    }

    fn hardware(&self) -> Hardware {
        STAGE.hardware
    }
}

#[async_trait]
impl StageLogic for Syllables {
    fn info(&self) -> &dyn StageInfo {
        self
    }

    async fn run(&self, context: StageContext) -> StageVerdict {
        let layout = VolumeLayout::of(&context.assignment);
        match read_table::<OcrResultRow>(self.store.as_ref(), &layout.ocr_results()).await {
            Ok(lines) => {
                let syllables: usize = lines.rows.iter().map(|line| line.segments.len()).sum();
                StageVerdict::Succeeded(StageReport {
                    metrics: json!({ "syllables": syllables }),
                    ..StageReport::default()
                })
            }
            Err(error) => StageVerdict::Failed(StageError::new(STAGE.name, error.category(), error)),
        }
    }
}
