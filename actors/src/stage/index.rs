//! The stage `index`: the index of a volume's text, from which the index of its job is put together where it is searched. It takes a
//! volume as a whole, as a search does.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use parkhang_search::index_volume;
use serde_json::{Map, json};

use super::table::{StageDefinition, StageModels};
use super::whole::{TEXTS, WholeError, run_whole};
use super::{StageContext, StageInfo, StageLogic};
use crate::runner::CpuPool;
use crate::search::volume_text;
use parkhang_core::domain::{Hardware, StageName, StageReport, StageVerdict, VolumeId};
use parkhang_core::failpoint::Failpoint;
use parkhang_core::policy::forecast::MadeWith;
use parkhang_store::artifact::VolumeLayout;
use parkhang_store::storage::ArtifactStore;

pub(super) const STAGE: StageDefinition = StageDefinition {
    name: "index",
    hardware: Hardware::Cpu,
    models: StageModels::None,
    settings: |_| Map::new(),
    reads: TEXTS,
    writes: &[],
    build: |services| {
        Ok(Arc::new(Indexer {
            store: services.artifacts.clone(),
            cpu: services.cpu.clone(),
            stages: services.stages.names(),
        }))
    },
};

/// The stage that indexes a volume.
#[derive(Debug)]
pub(crate) struct Indexer {
    store: Arc<dyn ArtifactStore>,
    cpu: CpuPool,
    /// Stages whose failed pages have numbers.
    stages: Vec<StageName>,
}

impl StageInfo for Indexer {
    fn name(&self) -> StageName {
        STAGE.name()
    }

    fn hardware(&self) -> Hardware {
        STAGE.hardware
    }
}

#[async_trait]
impl StageLogic for Indexer {
    fn info(&self) -> &dyn StageInfo {
        self
    }

    async fn run(&self, context: StageContext) -> StageVerdict {
        let layout = VolumeLayout::of(&context.assignment);
        run_whole(&context, async {
            let volume = &context.assignment.volume;
            let Indexed { pages, lines, bytes } = self.index(&layout, volume).await?;
            Failpoint::IndexWritten.hit_in(volume, &context.assignment.fence.stage);
            Ok(StageReport {
                metrics: json!({
                    "indexed_pages": pages,
                    "lines": lines,
                    "index_bytes": bytes,
                    "made_with": MadeWith::default(),
                }),
                fingerprint: None,
                results: None,
            })
        })
        .await
    }
}

/// Size of a volume's index.
struct Indexed {
    pages: usize,
    lines: usize,
    bytes: usize,
}

impl Indexer {
    async fn index(&self, layout: &VolumeLayout, volume: &VolumeId) -> Result<Indexed, WholeError> {
        let text = volume_text(self.store.as_ref(), layout, volume, &self.stages).await?;
        let text = text.ok_or(WholeError::NoText)?;
        let (pages, lines) = (
            text.pages.len(),
            text.pages.iter().map(|page| page.lines.len()).sum(),
        );
        let packed = self.cpu.run(move |_| index_volume(&text)).await??;
        let bytes = packed.len();
        self.store
            .put(&layout.search_index(), Bytes::from(packed))
            .await?;
        Ok(Indexed { pages, lines, bytes })
    }
}
