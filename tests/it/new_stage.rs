//! `syllables`: counts the syllables of a volume. It reads what `ocr` wrote and writes no artifact of its own.

use std::sync::Arc;

use async_trait::async_trait;
use parkhang_actors::stage::{StageContext, StageInfo, StageLogic};
use parkhang_core::domain::{Hardware, StageError, StageName, StageReport, StageVerdict};
use parkhang_store::artifact::{OcrResultRow, VolumeLayout, read_table};
use parkhang_store::storage::ArtifactStore;
use serde_json::json;

#[derive(Debug)]
pub(crate) struct Syllables {
    pub(crate) name: StageName,
    pub(crate) store: Arc<dyn ArtifactStore>,
}

impl StageInfo for Syllables {
    fn name(&self) -> StageName {
        self.name.clone()
    }

    fn hardware(&self) -> Hardware {
        Hardware::Cpu
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
            Err(error) => StageVerdict::Failed(StageError::new(self.name.as_str(), error.category(), error)),
        }
    }
}
