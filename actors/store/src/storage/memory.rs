use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;

use super::{
    ArtifactKey, ArtifactStore, ObjectMeta, PutOutcome, StorageError, check_size, clamp_range, version_of,
};

/// Store in memory for tests, as strict as [`LocalStore`](super::LocalStore).
#[derive(Debug, Default)]
pub struct MemoryArtifacts {
    objects: Mutex<BTreeMap<ArtifactKey, Bytes>>,
}

impl MemoryArtifacts {
    /// Empty store.
    pub fn new() -> Self {
        Self::default()
    }

    fn objects(&self) -> MutexGuard<'_, BTreeMap<ArtifactKey, Bytes>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn find(objects: &BTreeMap<ArtifactKey, Bytes>, key: &ArtifactKey) -> Result<Bytes, StorageError> {
    let missing = || StorageError::NotFound { key: key.clone() };
    objects.get(key).cloned().ok_or_else(missing)
}

fn check_prefixes(objects: &BTreeMap<ArtifactKey, Bytes>, key: &ArtifactKey) -> Result<(), StorageError> {
    let below_an_object =
        std::iter::successors(key.parent(), ArtifactKey::parent).any(|folder| objects.contains_key(&folder));
    if below_an_object || objects.keys().any(|other| other.is_under(key)) {
        return Err(StorageError::PrefixConflict { key: key.clone() });
    }
    Ok(())
}

#[async_trait]
impl ArtifactStore for MemoryArtifacts {
    async fn get_within(&self, key: &ArtifactKey, limit: u64) -> Result<Bytes, StorageError> {
        let bytes = find(&self.objects(), key)?;
        check_size(key, bytes.len() as u64, limit)?;
        Ok(bytes)
    }

    async fn get_range(&self, key: &ArtifactKey, range: Range<u64>) -> Result<Bytes, StorageError> {
        let bytes = find(&self.objects(), key)?;
        let range = clamp_range(key, &range, bytes.len() as u64)?;
        Ok(bytes.slice(range.start as usize..range.end as usize))
    }

    async fn head(&self, key: &ArtifactKey) -> Result<Option<ObjectMeta>, StorageError> {
        let meta = |bytes: &Bytes| ObjectMeta {
            size: bytes.len() as u64,
        };
        Ok(self.objects().get(key).map(meta))
    }

    async fn put(&self, key: &ArtifactKey, bytes: Bytes) -> Result<(), StorageError> {
        let mut objects = self.objects();
        check_prefixes(&objects, key)?;
        objects.insert(key.clone(), bytes);
        Ok(())
    }

    async fn put_if_absent(&self, key: &ArtifactKey, bytes: Bytes) -> Result<PutOutcome, StorageError> {
        let mut objects = self.objects();
        check_prefixes(&objects, key)?;
        if objects.contains_key(key) {
            return Ok(PutOutcome::Exists);
        }
        objects.insert(key.clone(), bytes);
        Ok(PutOutcome::Created)
    }

    async fn replace(
        &self,
        key: &ArtifactKey,
        bytes: Bytes,
        seen: Option<&str>,
    ) -> Result<PutOutcome, StorageError> {
        let mut objects = self.objects();
        check_prefixes(&objects, key)?;
        if objects.get(key).map(|there| version_of(there)).as_deref() != seen {
            return Ok(PutOutcome::Exists);
        }
        objects.insert(key.clone(), bytes);
        Ok(PutOutcome::Created)
    }

    async fn delete(&self, key: &ArtifactKey) -> Result<(), StorageError> {
        self.objects().remove(key);
        Ok(())
    }

    async fn list(&self, prefix: &ArtifactKey) -> Result<Vec<(ArtifactKey, ObjectMeta)>, StorageError> {
        let objects = self.objects();
        let below = objects.iter().filter(|(key, _)| key.is_under(prefix));
        let meta = |bytes: &Bytes| ObjectMeta {
            size: bytes.len() as u64,
        };
        Ok(below.map(|(key, bytes)| (key.clone(), meta(bytes))).collect())
    }
}
