use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::time::Instant;

use super::{ArtifactKey, ArtifactStore, ObjectMeta, PutOutcome, StorageError, VersionedObject};

/// Delay of a store for a time, a fault that is made on purpose. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct StoreDelay(Arc<Mutex<Option<Slow>>>);

#[derive(Debug, Clone, Copy)]
struct Slow {
    delay: Duration,
    until: Instant,
}

impl StoreDelay {
    /// Begins a delay: for `time` from now on, every request waits for `delay` first.
    pub fn begin(&self, delay: Duration, time: Duration) {
        let until = Instant::now() + time;
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Slow { delay, until });
    }

    async fn pass(&self) {
        let slow = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Slow { delay, until }) = slow
            && until > Instant::now()
        {
            tokio::time::sleep(delay).await;
        }
    }
}

/// Store that can be slowed down.
#[derive(Debug, Clone)]
pub struct DelayedStore {
    store: Arc<dyn ArtifactStore>,
    delay: StoreDelay,
}

impl DelayedStore {
    pub fn new(store: Arc<dyn ArtifactStore>, delay: StoreDelay) -> Self {
        Self { store, delay }
    }
}

#[async_trait]
impl ArtifactStore for DelayedStore {
    async fn get_within(&self, key: &ArtifactKey, limit: u64) -> Result<Bytes, StorageError> {
        self.delay.pass().await;
        self.store.get_within(key, limit).await
    }

    async fn get_versioned(&self, key: &ArtifactKey, limit: u64) -> Result<VersionedObject, StorageError> {
        self.delay.pass().await;
        self.store.get_versioned(key, limit).await
    }

    async fn get_if_changed(
        &self,
        key: &ArtifactKey,
        version: &str,
        limit: u64,
    ) -> Result<Option<VersionedObject>, StorageError> {
        self.delay.pass().await;
        self.store.get_if_changed(key, version, limit).await
    }

    async fn get_range(&self, key: &ArtifactKey, range: Range<u64>) -> Result<Bytes, StorageError> {
        self.delay.pass().await;
        self.store.get_range(key, range).await
    }

    async fn head(&self, key: &ArtifactKey) -> Result<Option<ObjectMeta>, StorageError> {
        self.delay.pass().await;
        self.store.head(key).await
    }

    async fn put(&self, key: &ArtifactKey, bytes: Bytes) -> Result<(), StorageError> {
        self.delay.pass().await;
        self.store.put(key, bytes).await
    }

    async fn put_unsynced(&self, key: &ArtifactKey, bytes: Bytes) -> Result<(), StorageError> {
        self.delay.pass().await;
        self.store.put_unsynced(key, bytes).await
    }

    async fn sync(&self, prefix: &ArtifactKey) -> Result<(), StorageError> {
        self.delay.pass().await;
        self.store.sync(prefix).await
    }

    async fn put_if_absent(&self, key: &ArtifactKey, bytes: Bytes) -> Result<PutOutcome, StorageError> {
        self.delay.pass().await;
        self.store.put_if_absent(key, bytes).await
    }

    async fn replace(
        &self,
        key: &ArtifactKey,
        bytes: Bytes,
        seen: Option<&str>,
    ) -> Result<PutOutcome, StorageError> {
        self.delay.pass().await;
        self.store.replace(key, bytes, seen).await
    }

    async fn delete(&self, key: &ArtifactKey) -> Result<(), StorageError> {
        self.delay.pass().await;
        self.store.delete(key).await
    }

    async fn list(&self, prefix: &ArtifactKey) -> Result<Vec<(ArtifactKey, ObjectMeta)>, StorageError> {
        self.delay.pass().await;
        self.store.list(prefix).await
    }

    async fn folders(&self, prefix: &ArtifactKey) -> Result<Vec<String>, StorageError> {
        self.delay.pass().await;
        self.store.folders(prefix).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::MemoryArtifacts;

    #[tokio::test(start_paused = true)]
    async fn requests_wait_while_the_fault_lasts() {
        let delay = StoreDelay::default();
        let store = DelayedStore::new(Arc::new(MemoryArtifacts::new()), delay.clone());
        let key: ArtifactKey = "a".parse().unwrap();
        let began = Instant::now();
        store.head(&key).await.unwrap();
        assert_eq!(began.elapsed(), Duration::ZERO);
        delay.begin(Duration::from_millis(500), Duration::from_secs(1));
        for _ in 0..5 {
            store.head(&key).await.unwrap();
        }
        assert_eq!(
            began.elapsed(),
            Duration::from_secs(1),
            "the third request comes after its end"
        );
    }
}
