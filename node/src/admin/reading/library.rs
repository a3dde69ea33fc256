//! Access of the commands to artifacts and scans, with a small cache of documents.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use parkhang_core::domain::{Job, VolumeId};
use parkhang_store::artifact::ArtifactLayout;
use parkhang_store::pages::PageSource;
use parkhang_store::storage::ArtifactStore;
use tokio::sync::OnceCell;
use tracing::warn;

use crate::admin::Refusal;
use crate::config::Loaded;
use crate::export::document::VolumeDocument;
use crate::export::{StoredVolume, load_volume};
use crate::storage::{artifacts, page_source};

/// Number of volumes kept in memory: a reader who turns pages asks for the same one again and again.
const KEPT: usize = 8;

/// Artifact store and scans of a cluster, opened when they are first needed.
#[derive(Debug)]
pub struct Library {
    loaded: Arc<Loaded>,
    store: OnceCell<Arc<dyn ArtifactStore>>,
    scans: OnceCell<Option<Arc<dyn PageSource>>>,
    kept: Mutex<VecDeque<Kept>>,
}

/// Document in the cache, with the version of the results that it was made from.
#[derive(Debug)]
struct Kept {
    key: String,
    version: String,
    document: Arc<VolumeDocument>,
}

impl Library {
    pub fn new(loaded: Arc<Loaded>) -> Self {
        Self {
            loaded,
            store: OnceCell::new(),
            scans: OnceCell::new(),
            kept: Mutex::default(),
        }
    }

    pub async fn store(&self) -> Result<&Arc<dyn ArtifactStore>, Refusal> {
        Ok(self.store.get_or_try_init(|| artifacts(&self.loaded)).await?)
    }

    /// Returns the places of a volume's artifacts and scans.
    pub async fn stored(&self, job: &Job, volume: &VolumeId) -> StoredVolume {
        // A source that cannot be opened counts as none, because texts are readable without scans.
        let scans = self.scans.get_or_init(|| async {
            page_source(&self.loaded.config.pages)
                .await
                .inspect_err(|error| warn!(error = format!("{error:#}"), "the scans cannot be reached"))
                .ok()
        });
        StoredVolume {
            volume: volume.clone(),
            layout: ArtifactLayout::new(job.config.layout, &job.key).volume(volume),
            scans: scans.await.clone(),
        }
    }

    /// Returns the text of a volume.
    ///
    /// # Errors
    ///
    /// [`Refusal::NotFound`] if the volume has not been read yet.
    pub async fn document(&self, job: &Job, volume: &VolumeId) -> Result<Arc<VolumeDocument>, Refusal> {
        let store = self.store().await?;
        let stored = self.stored(job, volume).await;
        let key = stored.layout.ocr_results();
        let head = store.head(&key).await.map_err(anyhow::Error::from)?;
        let no_text = || Refusal::NotFound(format!("{volume} of job {} has no text yet", job.key));
        let version = format!("{:?}", head.ok_or_else(no_text)?);
        let key = key.to_string();
        if let Some(document) = self.find(&key, &version) {
            return Ok(document);
        }
        let document = load_volume(&**store, &stored).await?.ok_or_else(no_text)?;
        let document = Arc::new(document);
        self.keep(Kept {
            key,
            version,
            document: document.clone(),
        });
        Ok(document)
    }

    fn find(&self, key: &str, version: &str) -> Option<Arc<VolumeDocument>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let place = kept.iter().position(|kept| kept.key == key)?;
        let found = kept.remove(place)?;
        // A rerun has replaced the results since; the outdated document was taken out above.
        if found.version != version {
            return None;
        }
        let document = found.document.clone();
        kept.push_front(found);
        Some(document)
    }

    fn keep(&self, document: Kept) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        // Two readers may have loaded the same volume at the same time; one document is enough.
        kept.retain(|kept| kept.key != document.key);
        kept.push_front(document);
        kept.truncate(KEPT);
    }
}
