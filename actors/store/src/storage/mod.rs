//! Storage of artifacts: immutable byte objects under validated keys.
//!
//! The room knows neither the meaning of the bytes nor the rules by which a key is made up (`artifact::layout` does). The trait
//! is small on purpose: what a folder of files and a bucket of any S3 server can both promise. There is no rename and no
//! append, objects appear whole, and the only coordination between writers is to create an object unless it is there, as a
//! bucket has no other. Flushing in groups (`put_unsynced`, `sync`) is part of the trait because a page yields many small
//! images, and a flush for each would cost more than its recognition. For the same reason a store is not one of the common
//! crates for object storage, whose local half cannot say that.
//!
//! Caching, delays and metrics are stores around a store. Every implementation passes the suite in `conformance`, the one on S3
//! against several servers and with faults.

mod batch;
mod cache;
#[cfg(any(test, feature = "testing"))]
pub mod conformance;
mod delayed;
mod error;
#[cfg(test)]
mod implementations;
mod key;
mod local;
mod memory;
pub mod s3;
mod staging;

use std::fmt::Debug;
use std::fs::File;
use std::io::{self, Read};
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
pub use memory::MemoryArtifacts;
pub use s3::{MAX_BACKOFF, S3Options, S3Store};

/// Limit on the bytes of an object that is read whole, where its reader sets no other: more would not fit into memory with others.
pub const MAX_OBJECT: u64 = 4 << 30;

/// Facts about an object without its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectMeta {
    /// Length in bytes.
    pub size: u64,
}

/// Object with its version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionedObject {
    pub bytes: Bytes,
    /// Version, another one for other bytes: the MD5 of the bytes in hex, or the ETag of an S3 server; for an object that was
    /// written in one request these are the same.
    pub version: String,
}

/// Outcome of [`ArtifactStore::put_if_absent`] and [`ArtifactStore::replace`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PutOutcome {
    /// The object was created.
    Created,
    /// The key was taken by another object than it was to be; that one is untouched.
    Exists,
}

/// Store of artifacts. A reader sees an object whole or not at all, and the last writer of a key wins.
///
/// Callers never use a key that is also a folder of another key: `a` and `a/b` do not coexist. Stores that can tell
/// refuse it with [`StorageError::PrefixConflict`].
///
/// # Errors
///
/// Every method may fail with [`StorageError::Io`] or [`StorageError::Remote`]; the methods name the errors that come on top.
#[async_trait]
pub trait ArtifactStore: Send + Sync + Debug {
    /// Reads an object that is not longer than [`MAX_OBJECT`].
    ///
    /// # Errors
    ///
    /// Those of [`get_within`](Self::get_within).
    async fn get(&self, key: &ArtifactKey) -> Result<Bytes, StorageError> {
        self.get_within(key, MAX_OBJECT).await
    }

    /// Reads an object that is not longer than `limit`; a longer one does not get into memory.
    ///
    /// # Errors
    ///
    /// [`StorageError::NotFound`], [`StorageError::TooLarge`], and those of every method.
    async fn get_within(&self, key: &ArtifactKey, limit: u64) -> Result<Bytes, StorageError>;

    /// Reads an object with its version.
    ///
    /// # Errors
    ///
    /// Those of [`get_within`](Self::get_within).
    async fn get_versioned(&self, key: &ArtifactKey, limit: u64) -> Result<VersionedObject, StorageError> {
        let bytes = self.get_within(key, limit).await?;
        let version = version_of(&bytes);
        Ok(VersionedObject { bytes, version })
    }

    /// Reads an object unless its version still is `version`.
    ///
    /// # Errors
    ///
    /// Those of [`get_within`](Self::get_within).
    async fn get_if_changed(
        &self,
        key: &ArtifactKey,
        version: &str,
        limit: u64,
    ) -> Result<Option<VersionedObject>, StorageError> {
        let object = self.get_versioned(key, limit).await?;
        Ok((object.version != version).then_some(object))
    }

    /// Reads the bytes of `range`, cut at the end of the object.
    ///
    /// # Errors
    ///
    /// [`StorageError::NotFound`], [`StorageError::InvalidRange`] if the range starts past the end, and those of every method.
    async fn get_range(&self, key: &ArtifactKey, range: Range<u64>) -> Result<Bytes, StorageError>;

    /// Returns facts about an object; `None` if there is none.
    ///
    /// # Errors
    ///
    /// Those of every method.
    async fn head(&self, key: &ArtifactKey) -> Result<Option<ObjectMeta>, StorageError>;

    /// Writes an object in the place of the one before it. It survives a power cut once this returns.
    ///
    /// # Errors
    ///
    /// [`StorageError::PrefixConflict`], and those of every method.
    async fn put(&self, key: &ArtifactKey, bytes: Bytes) -> Result<(), StorageError>;

    /// Writes an object like [`put`](Self::put), but a power cut may lose it, or leave it empty, until a [`sync`](Self::sync)
    /// of a folder above it returns. Meant for the many small images that are worth something only beside the Parquet file that
    /// names them: one sync before that file costs a fraction of a flush per image.
    ///
    /// # Errors
    ///
    /// Those of [`put`](Self::put).
    async fn put_unsynced(&self, key: &ArtifactKey, bytes: Bytes) -> Result<(), StorageError> {
        self.put(key, bytes).await
    }

    /// Makes every finished `put_unsynced` of this store under the folder `prefix` survive a power cut.
    ///
    /// # Errors
    ///
    /// Those of every method.
    async fn sync(&self, prefix: &ArtifactKey) -> Result<(), StorageError> {
        let _ = prefix;
        Ok(())
    }

    /// Writes an object unless the key is taken; of racing writers exactly one creates it. Durable like `put`.
    ///
    /// # Errors
    ///
    /// Those of [`put`](Self::put).
    async fn put_if_absent(&self, key: &ArtifactKey, bytes: Bytes) -> Result<PutOutcome, StorageError>;

    /// Writes an object in the place of the version that its writer has seen, or of none, unless the key holds another one by now. Durable
    /// like `put`. A server that knows no such conditions overwrites.
    ///
    /// # Errors
    ///
    /// Those of [`put`](Self::put).
    async fn replace(
        &self,
        key: &ArtifactKey,
        bytes: Bytes,
        seen: Option<&str>,
    ) -> Result<PutOutcome, StorageError>;

    /// Removes an object; the removal of one that is not there succeeds.
    ///
    /// # Errors
    ///
    /// Those of every method.
    async fn delete(&self, key: &ArtifactKey) -> Result<(), StorageError>;

    /// Lists every object below the folder `prefix` at any depth, sorted by key; an object named `prefix` itself is not one.
    ///
    /// # Errors
    ///
    /// Those of every method.
    async fn list(&self, prefix: &ArtifactKey) -> Result<Vec<(ArtifactKey, ObjectMeta)>, StorageError>;

    /// Lists the names of the folders right below the folder `prefix` that hold an object at any depth, sorted.
    ///
    /// # Errors
    ///
    /// Those of every method.
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

/// Reads a file of this length that is not longer than `limit`; the inner error is the length of one that is, or as much of it as was
/// seen.
pub(crate) fn read_within(file: File, length: u64, limit: u64) -> io::Result<Result<Vec<u8>, u64>> {
    if length > limit {
        return Ok(Err(length));
    }
    let mut bytes = Vec::with_capacity(length as usize);
    // One that others write may grow meanwhile.
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    let read = bytes.len() as u64;
    Ok(if read > limit { Err(read) } else { Ok(bytes) })
}

/// Version of an object that was written in one request.
fn version_of(bytes: &[u8]) -> String {
    hex::encode(Md5::digest(bytes))
}

/// Checks that an object of this size may be read.
fn check_size(key: &ArtifactKey, size: u64, limit: u64) -> Result<(), StorageError> {
    if size > limit {
        let key = key.clone();
        return Err(StorageError::TooLarge { key, size, limit });
    }
    Ok(())
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
