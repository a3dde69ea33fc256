//! From configuration to stores: where artifacts are kept and where scans come from. Roles, `node ocr`, exports and
//! whoever makes a job ask here, so that all of them see the same.

mod scans;
mod volume_list;

use std::sync::Arc;

use anyhow::{Context, Result};
use parkhang_store::artifact::Digest;
use parkhang_store::storage::{ArtifactKey, ArtifactStore, CachedStore, LocalStore, S3Options, S3Store};

use crate::config::{Loaded, S3, StorageKind};

pub use scans::{all_volumes, archive, missing, page_source, refusal, volumes};
pub use volume_list::{VolumeArgs, read_list};

/// The store of the cluster's artifacts, without copies: for a process that hardly reads any.
pub async fn uncached_artifacts(loaded: &Loaded) -> Result<Arc<dyn ArtifactStore>> {
    let storage = &loaded.config.storage;
    match storage.kind {
        StorageKind::Local => {
            let folder = match &storage.folder {
                Some(folder) => folder.clone(),
                None => loaded.state_dir()?.join("artifacts"),
            };
            Ok(Arc::new(LocalStore::open(&folder).await?))
        }
        StorageKind::S3 => Ok(Arc::new(bucket(&storage.s3).await.context("storage.s3")?)),
    }
}

/// The store of the cluster's artifacts. What is read from a bucket leaves copies on the local disk.
pub async fn artifacts(loaded: &Loaded) -> Result<Arc<dyn ArtifactStore>> {
    let storage = &loaded.config.storage;
    match storage.kind {
        StorageKind::Local => uncached_artifacts(loaded).await,
        StorageKind::S3 => {
            let store = bucket(&storage.s3).await.context("storage.s3")?;
            let size = storage.cache.size.as_u64();
            if size == 0 {
                return Ok(Arc::new(store));
            }
            let folder = match &storage.cache.folder {
                Some(folder) => folder.clone(),
                None => loaded.state_dir()?.join("cache"),
            };
            let folder = folder.join(place(&storage.s3));
            Ok(Arc::new(CachedStore::open(store, folder, size).await?))
        }
    }
}

/// The bucket of a section, without copies.
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
    options.path_style |= section.path_style;
    Ok(S3Store::open(options).await?)
}

/// A file name for what belongs to one bucket.
fn place(section: &S3) -> String {
    let parts = [&section.endpoint, &section.bucket, &section.prefix];
    let digest = Digest::of_parts(parts.map(|part| part.as_deref().unwrap_or_default()));
    digest.to_hex()[..16].to_owned()
}
