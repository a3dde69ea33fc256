//! The stage `index`: the index of a volume's text, from which the index of its job is put together where it is searched. It takes a
//! volume as a whole, as a search does.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use parkhang_search::{SearchError, index_volume};
use serde_json::{Map, json};

use super::table::{StageDefinition, StageModels};
use super::whole::{TEXTS, run_whole};
use super::{StageContext, StageInfo, StageLogic};
use crate::runner::{CpuPool, PoolError};
use crate::search::volume_text;
use parkhang_core::domain::{
    ErrorCategory, Hardware, StageError, StageName, StageReport, StageVerdict, VolumeId,
};
use parkhang_core::failpoint::Failpoint;
use parkhang_core::policy::forecast::MadeWith;
use parkhang_store::artifact::{ArtifactError, VolumeLayout};
use parkhang_store::storage::{ArtifactStore, StorageError};

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

/// Reason for which a volume was not indexed.
#[derive(Debug, thiserror::Error)]
enum IndexError {
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

impl IndexError {
    fn category(&self) -> ErrorCategory {
        match self {
            Self::Artifact(error) => error.category(),
            Self::Storage(error) => error.category(),
            Self::Pool(_) | Self::Search(_) => ErrorCategory::Runtime,
            Self::NoText => ErrorCategory::Input,
        }
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
            let indexed = self.index(&layout, volume).await;
            let Indexed { pages, lines, bytes } =
                indexed.map_err(|error| StageError::new(self.name().as_str(), error.category(), &error))?;
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
    async fn index(&self, layout: &VolumeLayout, volume: &VolumeId) -> Result<Indexed, IndexError> {
        let text = volume_text(self.store.as_ref(), layout, volume, &self.stages).await?;
        let text = text.ok_or(IndexError::NoText)?;
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
