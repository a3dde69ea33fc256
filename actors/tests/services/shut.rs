//! Store that is shut for a number of reads.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use parkhang_core::domain::ErrorCategory;
use parkhang_store::storage::{
    ArtifactKey, ArtifactStore, MemoryArtifacts, ObjectMeta, PutOutcome, StorageError,
};

#[derive(Debug)]
pub(crate) struct Shut {
    objects: Arc<MemoryArtifacts>,
    /// Reads that are still refused.
    left: AtomicUsize,
}

impl Shut {
    pub(crate) fn for_reads(objects: &Arc<MemoryArtifacts>, reads: usize) -> Self {
        Self {
            objects: objects.clone(),
            left: AtomicUsize::new(reads),
        }
    }

    pub(crate) fn reads_left(&self) -> usize {
        self.left.load(Ordering::SeqCst)
    }

    fn pass(&self, key: &ArtifactKey) -> Result<(), StorageError> {
        let one_less = |left: usize| left.checked_sub(1);
        match self
            .left
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less)
        {
            Ok(_) => Err(StorageError::Remote {
                action: "read",
                key: key.clone(),
                attempts: 1,
                category: ErrorCategory::Network,
                code: "AccessDenied".to_owned(),
                message: "the credentials have expired".to_owned(),
            }),
            Err(_) => Ok(()),
        }
    }
}

#[async_trait]
impl ArtifactStore for Shut {
    async fn get_within(&self, key: &ArtifactKey, limit: u64) -> Result<Bytes, StorageError> {
        self.pass(key)?;
        self.objects.get_within(key, limit).await
    }

    async fn get_range(&self, key: &ArtifactKey, range: Range<u64>) -> Result<Bytes, StorageError> {
        self.pass(key)?;
        self.objects.get_range(key, range).await
    }

    async fn head(&self, key: &ArtifactKey) -> Result<Option<ObjectMeta>, StorageError> {
        self.pass(key)?;
        self.objects.head(key).await
    }

    async fn put(&self, key: &ArtifactKey, bytes: Bytes) -> Result<(), StorageError> {
        self.objects.put(key, bytes).await
    }

    async fn put_if_absent(&self, key: &ArtifactKey, bytes: Bytes) -> Result<PutOutcome, StorageError> {
        self.objects.put_if_absent(key, bytes).await
    }

    async fn replace(
        &self,
        key: &ArtifactKey,
        bytes: Bytes,
        seen: Option<&str>,
    ) -> Result<PutOutcome, StorageError> {
        self.objects.replace(key, bytes, seen).await
    }

    async fn delete(&self, key: &ArtifactKey) -> Result<(), StorageError> {
        self.objects.delete(key).await
    }

    async fn list(&self, prefix: &ArtifactKey) -> Result<Vec<(ArtifactKey, ObjectMeta)>, StorageError> {
        self.objects.list(prefix).await
    }
}
