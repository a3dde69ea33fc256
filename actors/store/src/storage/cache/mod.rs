//! Store whose reads and writes leave copies on the local disk.
//!
//! A remote object is read several times on its way through the stages, by one process and the next, so copies outlive
//! processes and are shared between them. A copy carries the version of its object and a hash of its bytes: a read asks the
//! store whether the version still holds, and a copy damaged by a crash or a full disk is read again instead of being trusted.
//! The cache never decides about existence or content. If the disk fails, reads and writes go on without it.

mod disk;
mod entry;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;

use super::{
    ArtifactKey, ArtifactStore, MAX_OBJECT, ObjectMeta, PutOutcome, StorageError, VersionedObject,
    check_size, clamp_range, version_of,
};
use disk::DiskCache;

/// Store of `S`'s objects, each fetched once while its copy lasts, and not at all if it was written here.
///
/// A copy is used only after the store has said that the object is still the same, which costs a request without a body;
/// so a rewritten object is never read as it was. The copies of all stores that were opened on one folder, in any number
/// of processes, share its capacity: what was not read for longest goes first. A disk that fails or is full makes reads
/// slow, not wrong: a copy that is not whole is fetched again.
#[derive(Debug)]
pub struct CachedStore<S> {
    store: S,
    disk: Arc<DiskCache>,
    counts: Counts,
}

/// Counts of reads, shared by the readers of a store.
#[derive(Debug, Default)]
struct Counts {
    hits: AtomicU64,
    misses: AtomicU64,
}

/// Reads of whole objects since a store was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheStats {
    pub hits: u64,
    pub misses: u64,
}

impl<S: ArtifactStore> CachedStore<S> {
    /// Keeps copies of `store`'s objects in `folder`, at most `capacity` bytes of them. One folder is for one store: the
    /// same keys of another are other objects.
    ///
    /// # Errors
    ///
    /// [`StorageError::Open`] if the folder cannot be created.
    pub async fn open(store: S, folder: impl Into<PathBuf>, capacity: u64) -> Result<Self, StorageError> {
        let root = folder.into();
        let opened = tokio::task::spawn_blocking({
            let root = root.clone();
            move || DiskCache::open(root, capacity)
        });
        let disk = opened
            .await
            .unwrap_or_else(|stopped| Err(std::io::Error::other(stopped)));
        Ok(Self {
            store,
            disk: Arc::new(disk.map_err(|source| StorageError::Open { root, source })?),
            counts: Counts::default(),
        })
    }

    pub fn stats(&self) -> CacheStats {
        CacheStats {
            hits: self.counts.hits.load(Ordering::Relaxed),
            misses: self.counts.misses.load(Ordering::Relaxed),
        }
    }

    /// Runs `work` where it may block. The cache is an aid: work that was cut off gives the default.
    async fn on_disk<T: Default + Send + 'static>(
        &self,
        key: &ArtifactKey,
        work: impl FnOnce(&DiskCache, &ArtifactKey) -> T + Send + 'static,
    ) -> T {
        let (disk, key) = (Arc::clone(&self.disk), key.clone());
        tokio::task::spawn_blocking(move || work(&disk, &key))
            .await
            .unwrap_or_default()
    }

    /// The copy of an object that the store says is still good.
    async fn fresh(&self, key: &ArtifactKey, limit: u64) -> Result<VersionedObject, StorageError> {
        let fetched = match self.on_disk(key, DiskCache::read).await {
            Some(copy) => match self.store.get_if_changed(key, &copy.version, limit).await? {
                None => {
                    check_size(key, copy.bytes.len() as u64, limit)?;
                    self.counts.hits.fetch_add(1, Ordering::Relaxed);
                    return Ok(copy);
                }
                Some(changed) => changed,
            },
            None => self.store.get_versioned(key, limit).await?,
        };
        self.counts.misses.fetch_add(1, Ordering::Relaxed);
        let copy = fetched.clone();
        self.on_disk(key, move |disk, key| disk.fill(key, &copy)).await;
        Ok(fetched)
    }

    /// Keeps what was written: the next stage of the volume may well run here. Its version is taken to be its hash; where
    /// the store has another, the first read fetches the object once more.
    async fn keep(&self, key: &ArtifactKey, bytes: Bytes) {
        let fill = move |disk: &DiskCache, key: &ArtifactKey| {
            let version = version_of(&bytes);
            disk.fill(key, &VersionedObject { bytes, version });
        };
        self.on_disk(key, fill).await;
    }
}

#[async_trait]
impl<S: ArtifactStore> ArtifactStore for CachedStore<S> {
    async fn get_within(&self, key: &ArtifactKey, limit: u64) -> Result<Bytes, StorageError> {
        self.fresh(key, limit).await.map(|object| object.bytes)
    }

    async fn get_versioned(&self, key: &ArtifactKey, limit: u64) -> Result<VersionedObject, StorageError> {
        self.fresh(key, limit).await
    }

    async fn get_if_changed(
        &self,
        key: &ArtifactKey,
        version: &str,
        limit: u64,
    ) -> Result<Option<VersionedObject>, StorageError> {
        self.store.get_if_changed(key, version, limit).await
    }

    /// Reads a part from the copy if there is a good one; a part that is read from the store is not kept.
    async fn get_range(&self, key: &ArtifactKey, range: Range<u64>) -> Result<Bytes, StorageError> {
        // Without a copy only the part is fetched, as the whole object may be many times as large.
        if !self.on_disk(key, |disk, key| disk.holds(key)).await {
            return self.store.get_range(key, range).await;
        }
        let bytes = self.fresh(key, MAX_OBJECT).await?.bytes;
        let range = clamp_range(key, &range, bytes.len() as u64)?;
        Ok(bytes.slice(range.start as usize..range.end as usize))
    }

    async fn head(&self, key: &ArtifactKey) -> Result<Option<ObjectMeta>, StorageError> {
        self.store.head(key).await
    }

    async fn put(&self, key: &ArtifactKey, bytes: Bytes) -> Result<(), StorageError> {
        self.store.put(key, bytes.clone()).await?;
        self.keep(key, bytes).await;
        Ok(())
    }

    async fn put_unsynced(&self, key: &ArtifactKey, bytes: Bytes) -> Result<(), StorageError> {
        self.store.put_unsynced(key, bytes.clone()).await?;
        self.keep(key, bytes).await;
        Ok(())
    }

    async fn sync(&self, prefix: &ArtifactKey) -> Result<(), StorageError> {
        self.store.sync(prefix).await
    }

    async fn put_if_absent(&self, key: &ArtifactKey, bytes: Bytes) -> Result<PutOutcome, StorageError> {
        let outcome = self.store.put_if_absent(key, bytes.clone()).await?;
        if outcome == PutOutcome::Created {
            self.keep(key, bytes).await;
        }
        Ok(outcome)
    }

    async fn replace(
        &self,
        key: &ArtifactKey,
        bytes: Bytes,
        seen: Option<&str>,
    ) -> Result<PutOutcome, StorageError> {
        let outcome = self.store.replace(key, bytes.clone(), seen).await?;
        if outcome == PutOutcome::Created {
            self.keep(key, bytes).await;
        }
        Ok(outcome)
    }

    async fn delete(&self, key: &ArtifactKey) -> Result<(), StorageError> {
        self.store.delete(key).await
    }

    async fn list(&self, prefix: &ArtifactKey) -> Result<Vec<(ArtifactKey, ObjectMeta)>, StorageError> {
        self.store.list(prefix).await
    }

    async fn folders(&self, prefix: &ArtifactKey) -> Result<Vec<String>, StorageError> {
        self.store.folders(prefix).await
    }
}
