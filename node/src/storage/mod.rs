//! Construction of stores from the configuration: the artifact store, the source of scans, and the volumes of a job.
//!
//! Roles, `node ocr`, exports, commands and the HTTP interface all open their stores here, so that a key of the configuration means the same
//! place for all of them: a volume that a command accepts is one that a worker can read. The room must not know which part of the
//! program asks, nor anything about jobs beyond the names of their volumes.

mod scans;
mod volume_list;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};
use parkhang_store::artifact::Digest;
use parkhang_store::storage::{ArtifactKey, ArtifactStore, CachedStore, LocalStore, S3Options, S3Store};

use crate::config::{Loaded, S3, StorageKind};

pub use scans::{all_volumes, archive, missing, page_source, refusal, volumes};
pub use volume_list::{VolumeArgs, read_list};

/// Folder of the artifacts where they are kept in one.
///
/// # Errors
///
/// If none is configured and there is no folder of the state.
pub fn artifact_folder(loaded: &Loaded) -> Result<PathBuf> {
    match &loaded.config.storage.folder {
        Some(folder) => Ok(folder.clone()),
        None => Ok(loaded.state_dir()?.join("artifacts")),
    }
}

/// Returns the place of the artifacts, for programs that read them by themselves: a folder, or the URL of a bucket.
///
/// # Errors
///
/// If no folder is configured and the user has no home directory.
pub fn place_of_artifacts(loaded: &Loaded) -> Result<String> {
    let storage = &loaded.config.storage;
    match (storage.kind, &storage.s3.bucket) {
        (StorageKind::S3, Some(bucket)) => {
            let prefix = storage.s3.prefix.iter().map(|prefix| format!("/{prefix}"));
            Ok(format!("s3://{bucket}{}", prefix.collect::<String>()))
        }
        _ => Ok(artifact_folder(loaded)?.display().to_string()),
    }
}

/// Opens the artifact store of the cluster without a cache, for a process that hardly reads any.
///
/// # Errors
///
/// If the folder or bucket cannot be opened.
pub async fn uncached_artifacts(loaded: &Loaded) -> Result<Arc<dyn ArtifactStore>> {
    let storage = &loaded.config.storage;
    match storage.kind {
        StorageKind::Local => Ok(Arc::new(LocalStore::open(&artifact_folder(loaded)?).await?)),
        StorageKind::S3 => Ok(Arc::new(bucket(&storage.s3).await.context("storage.s3")?)),
    }
}

/// Opens the artifact store of the cluster. Reads from a bucket are cached on the local disk.
///
/// # Errors
///
/// If the folder, the bucket or the cache cannot be opened.
pub async fn artifacts(loaded: &Loaded) -> Result<Arc<dyn ArtifactStore>> {
    let storage = &loaded.config.storage;
    match storage.kind {
        StorageKind::Local => uncached_artifacts(loaded).await,
        StorageKind::S3 => {
            let store = bucket(&storage.s3).await.context("storage.s3")?;
            let size = storage.cache.size.as_u64();
            // Zero switches the cache off.
            if size == 0 {
                return Ok(Arc::new(store));
            }
            let folder = match &storage.cache.folder {
                Some(folder) => folder.clone(),
                None => loaded.state_dir()?.join("cache"),
            };
            // The cache is below a name of its own for each bucket, as keys are the same in all of them.
            let folder = folder.join(place(&storage.s3));
            Ok(Arc::new(CachedStore::open(store, folder, size).await?))
        }
    }
}

/// Opens the bucket of a section, without a cache.
///
/// # Errors
///
/// If no bucket is named, or its options are not valid.
pub async fn bucket(section: &S3) -> Result<S3Store> {
    let name = section.bucket.clone().context("no bucket is named")?;
    let mut options = S3Options::new(name);
    if let Some(prefix) = &section.prefix {
        options = options.with_prefix(ArtifactKey::new(prefix.clone()).context("prefix")?);
    }
    if let Some(endpoint) = &section.endpoint {
        options = options.with_endpoint(endpoint.clone());
    }
    options.region = section.region.clone();
    // Never switched off here: `S3Options` knows endpoints that need it.
    options.path_style |= section.path_style;
    Ok(S3Store::open(options).await?)
}

/// Returns a folder name that is unique to a bucket, so that caches of two buckets cannot mix.
fn place(section: &S3) -> String {
    let parts = [&section.endpoint, &section.bucket, &section.prefix];
    let digest = Digest::of_parts(parts.map(|part| part.as_deref().unwrap_or_default()));
    digest.to_hex()[..16].to_owned()
}
