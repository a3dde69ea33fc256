//! Vectors of queries, made on this machine by the models that embedded the chunks.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use parkhang_documents::language;
use parkhang_embeddings::{ComputeDevice, DeviceSpec, EmbeddingModels, dense, load, sparse};
use parkhang_search::{QueryVectors, Snapshot};
use tokio::sync::OnceCell;

use crate::networks::embeddings_folder;

/// Language that the model of meaning does not know: its texts are found by their terms.
const UNKNOWN_TO_MODEL: &str = "bo";

/// Models that embed queries, loaded when the first one is to be embedded.
#[derive(Debug, Default)]
pub struct QueryModels(OnceCell<Arc<EmbeddingModels>>);

impl QueryModels {
    /// Returns the vectors of a text; `None` where no index has chunks to compare them with.
    ///
    /// # Errors
    ///
    /// If the models are not installed, or do not work.
    pub async fn vectors(
        &self,
        text: String,
        indexes: &[Snapshot],
        folder: Option<&Path>,
    ) -> Result<Option<QueryVectors>> {
        if !indexes.iter().any(Snapshot::has_chunks) {
            return Ok(None);
        }
        let folder = folder.map(Path::to_owned);
        let models = self.0.get_or_try_init(async || {
            let loaded = tokio::task::spawn_blocking(move || {
                let folder = embeddings_folder(folder.as_deref())?;
                let device = ComputeDevice::open(&DeviceSpec::cpu(NonZeroUsize::MIN))?;
                Ok::<_, anyhow::Error>(load(&folder, &device)?)
            });
            Ok::<_, anyhow::Error>(Arc::new(loaded.await??))
        });
        let models = models.await?.clone();
        let made = tokio::task::spawn_blocking(move || {
            let known = language(&text) != Some(UNKNOWN_TO_MODEL);
            let meaning = if known {
                dense(&[&text], &models)?.pop()
            } else {
                None
            };
            let terms = sparse(&[&text], &models)?.pop().context("a text without terms")?;
            Ok::<_, anyhow::Error>(QueryVectors {
                // As provenance names what embedded the chunks.
                model: format!("sha256:{}", models.sha256),
                dense: meaning.unwrap_or_default(),
                terms,
            })
        });
        Ok(Some(made.await??))
    }
}
