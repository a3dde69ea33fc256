//! Buckets and files that PDFs and manifests are read from.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use async_trait::async_trait;
use bytes::Bytes;
use parkhang_actors::intake::DocumentPlace;
use parkhang_core::domain::{DocumentKey, VolumeId};
use parkhang_store::pages::{
    BucketFolders, FolderSource, FoundVolume, PageRef, PageSource, PageSourceError, Scan, VolumeKind,
};
use parkhang_store::storage::{ArtifactKey, ArtifactStore};
use tokio::sync::Mutex;

use super::filing::Place;
use crate::config::S3;
use crate::storage;

/// Largest manifest, in bytes: a million filings and more.
const MAX_MANIFEST: u64 = 256 << 20;

/// Buckets by their names, each opened once. Endpoint, region and account are those of `pages.s3`.
#[derive(Debug)]
pub struct Buckets {
    section: S3,
    opened: Mutex<BTreeMap<String, Bucket>>,
}

#[derive(Debug, Clone)]
struct Bucket {
    store: Arc<dyn ArtifactStore>,
    /// One source for all PDFs, which bounds how much of them stays in memory.
    pdfs: BucketFolders,
}

impl Buckets {
    pub fn new(section: S3) -> Self {
        Self {
            section,
            opened: Mutex::default(),
        }
    }

    /// Opens a bucket, or returns the one that is open. Nothing is asked of it.
    async fn open(&self, name: &str) -> Result<Bucket> {
        let mut opened = self.opened.lock().await;
        if let Some(bucket) = opened.get(name) {
            return Ok(bucket.clone());
        }
        let section = S3 {
            bucket: Some(name.to_owned()),
            // Keys of filings are those of the whole bucket, as other programs know them.
            prefix: None,
            ..self.section.clone()
        };
        let store: Arc<dyn ArtifactStore> = Arc::new(storage::bucket(&section).await?);
        let pdfs = BucketFolders::new(store.clone());
        let bucket = Bucket { store, pdfs };
        opened.insert(name.to_owned(), bucket.clone());
        Ok(bucket)
    }

    /// Reads a manifest.
    ///
    /// # Errors
    ///
    /// If it is not there, or too large.
    pub async fn manifest(&self, bucket: &str, key: &str) -> Result<Bytes> {
        let named = || format!("manifest s3://{bucket}/{key}");
        let key = ArtifactKey::new(key).with_context(named)?;
        let Bucket { store, .. } = self.open(bucket).await.with_context(named)?;
        store.get_within(&key, MAX_MANIFEST).await.with_context(named)
    }

    /// Source of the pages of a PDF under the name `volume`, and of parts of it.
    ///
    /// # Errors
    ///
    /// If the bucket cannot be opened.
    pub async fn source(&self, place: &Place, volume: &VolumeId) -> Result<Arc<dyn PageSource>> {
        let DocumentPlace { bucket, key } = match place {
            Place::File(path) => return Ok(Arc::new(FolderSource::new([found(path, volume)]))),
            Place::Object(object) => object,
        };
        let Bucket { pdfs, .. } = self.open(bucket).await?;
        let document = DocumentKey::new(key.as_str())?;
        pdfs.document(&document).context("a bucket has no documents")
    }
}

/// PDF of this machine as a volume.
pub fn found(path: &Path, volume: &VolumeId) -> FoundVolume {
    FoundVolume {
        volume: volume.clone(),
        place: path.to_owned(),
        kind: VolumeKind::Pdf,
    }
}

/// Source of documents, each of which has one of its own.
#[derive(Debug, Default)]
pub struct Documents(pub BTreeMap<VolumeId, Arc<dyn PageSource>>);

impl Documents {
    fn of(&self, volume: &VolumeId) -> Result<&dyn PageSource, PageSourceError> {
        let source = self.0.get(&volume.document());
        source
            .map(AsRef::as_ref)
            .ok_or_else(|| PageSourceError::NoSuchVolume(volume.clone()))
    }
}

#[async_trait]
impl PageSource for Documents {
    async fn pages(&self, volume: &VolumeId) -> Result<Vec<PageRef>, PageSourceError> {
        self.of(volume)?.pages(volume).await
    }

    async fn read(&self, volume: &VolumeId, page: &PageRef) -> Result<Scan, PageSourceError> {
        self.of(volume)?.read(volume, page).await
    }
}
