//! Store in a bucket of S3 or of a server that speaks its protocol. Other clients of AWS find their account here.
//!
//! Retries are our own and not those of the SDK: these stop where the body of an answer begins, and do not tell which try
//! succeeded, which a writer must know. An answer may be lost after the server did what it was asked, so an object carries the
//! id of its write: a creator that finds the key taken at a later try looks whether the object is its own. Servers differ in
//! the hard places, such as conditional writes and the codes of errors, so each is tested, and a server that would overwrite is
//! found out by a probe object before the first conditional write.
//!
//! A bucket cannot tell a key from a folder, so this store never answers
//! [`PrefixConflict`](super::StorageError::PrefixConflict).

mod account;
mod client;
mod failure;
mod options;
mod parts;
mod read;
mod retry;
#[cfg(test)]
pub(super) mod tests;
mod write;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_s3::Client;
use aws_sdk_s3::types::ChecksumAlgorithm;
use bytes::Bytes;
use tokio::sync::OnceCell;

use super::{ArtifactKey, ArtifactStore, ObjectMeta, PutOutcome, StorageError, VersionedObject, clamp_range};
use failure::{Failure, Meaning};
use read::Part;
use retry::{Refusal, Retry};
use write::{Condition, Writer};

pub use account::{AccountError, account, keys};
pub use failure::chain;
pub use options::S3Options;
pub use retry::MAX_BACKOFF;

/// Store in a bucket, or in a folder of one. Clones share the connections.
#[derive(Clone)]
pub struct S3Store {
    bucket: Arc<Bucket>,
}

impl S3Store {
    /// Opens the store with the region and credentials that are found; sends nothing to the bucket.
    ///
    /// # Errors
    ///
    /// [`StorageError::OpenBucket`] if there are none.
    pub async fn open(options: S3Options) -> Result<Self, StorageError> {
        let connection = client::connect(&options, None).await?;
        Ok(Self::new(options, connection))
    }

    /// Opens the store like [`open`](Self::open), for a server whose keys are not where the AWS tools look for them, such as
    /// one of a test.
    ///
    /// # Errors
    ///
    /// Those of [`open`](Self::open).
    pub async fn open_with_keys(
        options: S3Options,
        access_key: &str,
        secret_key: &str,
    ) -> Result<Self, StorageError> {
        let keys = keys(access_key, secret_key);
        let connection = client::connect(&options, Some(keys)).await?;
        Ok(Self::new(options, connection))
    }

    fn new(options: S3Options, connection: client::Connection) -> Self {
        Self {
            bucket: Arc::new(Bucket {
                client: connection.client,
                part_checksum: connection.part_checksum,
                retry: Retry {
                    attempts: options.attempts,
                    backoff: options.backoff,
                },
                creates_once: OnceCell::new(),
                options,
            }),
        }
    }

    pub fn options(&self) -> &S3Options {
        &self.bucket.options
    }
}

impl fmt::Debug for S3Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("S3Store").field(self.options()).finish()
    }
}

/// Bucket with everything that the requests of one store have in common.
struct Bucket {
    options: S3Options,
    client: Client,
    /// Checksum of the parts of an upload; `None` for servers that take none.
    part_checksum: Option<ChecksumAlgorithm>,
    retry: Retry,
    /// Set once the server has shown that it honours `If-None-Match`.
    creates_once: OnceCell<()>,
}

impl Bucket {
    fn name(&self) -> &str {
        &self.options.bucket
    }

    /// Full name of the object `relative` in the bucket.
    fn object(&self, relative: &str) -> String {
        match &self.options.prefix {
            Some(prefix) => format!("{prefix}/{relative}"),
            None => relative.to_owned(),
        }
    }

    /// Bounds the time until an answer begins.
    async fn answered<T, E>(&self, request: impl Future<Output = Result<T, E>>) -> Result<T, Failure>
    where
        Failure: From<E>,
    {
        bounded(self.options.answer_timeout, request)
            .await?
            .map_err(Failure::from)
    }
}

async fn bounded<T>(limit: Duration, work: impl Future<Output = T>) -> Result<T, Failure> {
    let late = |_| Failure::network("TimedOut", format!("no progress within {limit:?}"));
    tokio::time::timeout(limit, work).await.map_err(late)
}

#[async_trait]
impl ArtifactStore for S3Store {
    async fn get_within(&self, key: &ArtifactKey, limit: u64) -> Result<Bytes, StorageError> {
        self.get_versioned(key, limit).await.map(|object| object.bytes)
    }

    async fn get_versioned(&self, key: &ArtifactKey, limit: u64) -> Result<VersionedObject, StorageError> {
        let refused = |refusal: Refusal| refusal.into_error("read", key);
        self.bucket.read(key, Part::Whole, limit).await.map_err(refused)
    }

    async fn get_if_changed(
        &self,
        key: &ArtifactKey,
        version: &str,
        limit: u64,
    ) -> Result<Option<VersionedObject>, StorageError> {
        match self.bucket.read(key, Part::WholeUnless(version), limit).await {
            Ok(object) => Ok(Some(object)),
            Err(refusal) if refusal.failure.meaning == Meaning::Unchanged => Ok(None),
            Err(refusal) => Err(refusal.into_error("read", key)),
        }
    }

    async fn get_range(&self, key: &ArtifactKey, range: Range<u64>) -> Result<Bytes, StorageError> {
        if range.start < range.end {
            // A server that does not know ranges sends the whole object.
            match self
                .bucket
                .read(key, Part::Range(&range), range.end - range.start)
                .await
            {
                Ok(object) => return Ok(object.bytes),
                Err(refusal) if refusal.failure.meaning == Meaning::PastEnd => {}
                Err(refusal) => return Err(refusal.into_error("read", key)),
            }
        }
        // The protocol cannot ask for no bytes, and does not say how long an object is that ends before the range.
        let meta = self.head(key).await?;
        let meta = meta.ok_or_else(|| StorageError::NotFound { key: key.clone() })?;
        clamp_range(key, &range, meta.size).map(|_| Bytes::new())
    }

    async fn head(&self, key: &ArtifactKey) -> Result<Option<ObjectMeta>, StorageError> {
        let refused = |refusal: Refusal| refusal.into_error("inspect", key);
        self.bucket.head(key).await.map_err(refused)
    }

    async fn put(&self, key: &ArtifactKey, bytes: Bytes) -> Result<(), StorageError> {
        let refused = |refusal: Refusal| refusal.into_error("write", key);
        let writer = Writer::new(&self.bucket, key, Condition::Always);
        writer.write(bytes).await.map(|_| ()).map_err(refused)
    }

    async fn put_if_absent(&self, key: &ArtifactKey, bytes: Bytes) -> Result<PutOutcome, StorageError> {
        let refused = |refusal: Refusal| refusal.into_error("create", key);
        self.bucket.check_creates_once().await.map_err(refused)?;
        let writer = Writer::new(&self.bucket, key, Condition::Absent);
        writer.write(bytes).await.map_err(refused)
    }

    async fn replace(
        &self,
        key: &ArtifactKey,
        bytes: Bytes,
        seen: Option<&str>,
    ) -> Result<PutOutcome, StorageError> {
        let is_unknown = |refusal: &Refusal| refusal.failure.meaning == Meaning::NotImplemented;
        let refused = |refusal: Refusal| refusal.into_error("replace", key);
        let condition = match seen {
            Some(version) => Condition::Holds(version),
            None => match self.bucket.check_creates_once().await {
                Ok(()) => Condition::Absent,
                Err(refusal) if is_unknown(&refusal) => Condition::Always,
                Err(refusal) => return Err(refused(refusal)),
            },
        };
        let written = Writer::new(&self.bucket, key, condition)
            .write(bytes.clone())
            .await;
        match written {
            Err(refusal) if is_unknown(&refusal) => {
                tracing::debug!(%key, ?refusal, "the server knows no conditions; overwriting");
                let writer = Writer::new(&self.bucket, key, Condition::Always);
                writer.write(bytes).await.map_err(refused)
            }
            written => written.map_err(refused),
        }
    }

    async fn delete(&self, key: &ArtifactKey) -> Result<(), StorageError> {
        let refused = |refusal: Refusal| refusal.into_error("delete", key);
        self.bucket.delete(key).await.map_err(refused)
    }

    async fn list(&self, prefix: &ArtifactKey) -> Result<Vec<(ArtifactKey, ObjectMeta)>, StorageError> {
        let refused = |refusal: Refusal| refusal.into_error("list", prefix);
        self.bucket.list(prefix).await.map_err(refused)
    }

    async fn folders(&self, prefix: &ArtifactKey) -> Result<Vec<String>, StorageError> {
        let refused = |refusal: Refusal| refusal.into_error("list", prefix);
        self.bucket.folders(prefix).await.map_err(refused)
    }
}
