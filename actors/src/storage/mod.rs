//! Where artifacts live: immutable byte objects under validated keys. The room knows nothing of what the bytes mean, nor
//! how a key is made up (`artifact::layout` does). Every implementation passes the suite in `conformance`.

mod batch;
mod cache;
#[cfg(test)]
pub(crate) mod conformance;
mod delayed;
mod error;
mod key;
mod local;
mod memory;
pub(crate) mod s3;
mod staging;

use std::fmt::Debug;
use std::ops::Range;

use async_trait::async_trait;
use bytes::Bytes;
use md5::{Digest, Md5};

pub use batch::get_many;
pub use cache::{CacheStats, CachedStore};
pub use delayed::{DelayedStore, StoreDelay};
pub use error::{InvalidKey, StorageError};
pub use key::ArtifactKey;
pub use local::LocalStore;
pub use memory::MemoryStore;
pub use s3::{MAX_BACKOFF, S3Options, S3Store};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectMeta {
    /// Length in bytes.
    pub size: u64,
}

/// An object and the name of this state of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionedObject {
    pub bytes: Bytes,
    /// Another one for other bytes. The MD5 of the bytes in hex, or what an S3 server gives as ETag; for an object that
    /// was written in one request these are the same.
    pub version: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PutOutcome {
    Created,
    /// The key was taken; what it held is untouched.
    Exists,
}

/// A store of artifacts. A reader sees an object whole or not at all, and the last writer of a key wins.
///
/// Callers never use a key that is also a folder of another key: `a` and `a/b` do not coexist. Stores that can tell
/// refuse it with [`StorageError::PrefixConflict`].
#[async_trait]
pub trait ArtifactStore: Send + Sync + Debug {
    async fn get(&self, key: &ArtifactKey) -> Result<Bytes, StorageError>;

    async fn get_versioned(&self, key: &ArtifactKey) -> Result<VersionedObject, StorageError> {
        let bytes = self.get(key).await?;
        let version = hex::encode(Md5::digest(&bytes));
        Ok(VersionedObject { bytes, version })
    }

    /// The object unless its version still is `version`.
    async fn get_if_changed(
        &self,
        key: &ArtifactKey,
        version: &str,
    ) -> Result<Option<VersionedObject>, StorageError> {
        let object = self.get_versioned(key).await?;
        Ok((object.version != version).then_some(object))
    }

    /// The bytes of `range`, cut at the end of the object. A range that starts past the end is refused.
    async fn get_range(&self, key: &ArtifactKey, range: Range<u64>) -> Result<Bytes, StorageError>;

    /// `None` when there is no such object.
    async fn head(&self, key: &ArtifactKey) -> Result<Option<ObjectMeta>, StorageError>;

    /// Writes an object, replacing what was there. It survives a power cut once this returns.
    async fn put(&self, key: &ArtifactKey, bytes: Bytes) -> Result<(), StorageError>;

    /// As [`put`](Self::put), but a power cut may lose the object, or leave it empty, until a [`sync`](Self::sync) of
    /// a folder above it returns. For the many small images that are worth something only beside the Parquet file that
    /// names them: one sync before that file costs a fraction of a flush per image.
    async fn put_unsynced(&self, key: &ArtifactKey, bytes: Bytes) -> Result<(), StorageError> {
        self.put(key, bytes).await
    }

    /// Makes every finished `put_unsynced` of this store under the folder `prefix` survive a power cut.
    async fn sync(&self, prefix: &ArtifactKey) -> Result<(), StorageError> {
        let _ = prefix;
        Ok(())
    }

    /// Writes an object unless the key is taken; of racing writers exactly one creates it. Durable as `put`.
    async fn put_if_absent(&self, key: &ArtifactKey, bytes: Bytes) -> Result<PutOutcome, StorageError>;

    /// Removes an object; removing what is not there succeeds.
    async fn delete(&self, key: &ArtifactKey) -> Result<(), StorageError>;

    /// Every object below the folder `prefix` at any depth, sorted by key; an object named `prefix` itself is not one.
    async fn list(&self, prefix: &ArtifactKey) -> Result<Vec<(ArtifactKey, ObjectMeta)>, StorageError>;

    /// Names of the folders right below the folder `prefix` that hold an object at any depth, sorted.
    async fn folders(&self, prefix: &ArtifactKey) -> Result<Vec<String>, StorageError> {
        let below = prefix.as_str().len() + 1;
        let listed = self.list(prefix).await?;
        let relative = listed.iter().filter_map(|(key, _)| key.as_str().get(below..));
        let mut names: Vec<String> = relative
            .filter_map(|name| Some(name.split_once('/')?.0.to_owned()))
            .collect();
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }
}

/// Cuts `range` at `size`, for implementations that hold the whole object.
fn clamp_range(key: &ArtifactKey, range: &Range<u64>, size: u64) -> Result<Range<u64>, StorageError> {
    let end = range.end.min(size);
    if range.start > end {
        return Err(StorageError::InvalidRange {
            key: key.clone(),
            start: range.start,
            end: range.end,
            size,
        });
    }
    Ok(range.start..end)
}
