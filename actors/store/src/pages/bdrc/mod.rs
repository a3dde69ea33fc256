//! Source of volumes in BDRC's archive: a folder of scans per image group, under a prefix that spreads the works, with
//! a gzipped list of its images beside them.

mod benchmark;
mod intro;
mod manifest;
mod named;
mod place;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use md5::{Digest, Md5};

use super::{MAX_SCAN, PageRef, PageSource, PageSourceError, Scan};
use crate::storage::{ArtifactKey, ArtifactStore, StorageError, VersionedObject};
use parkhang_core::domain::{ErrorCategory, VolumeId};
use place::{collection_folder, image_folder};

pub use benchmark::WithBenchmark;
use benchmark::{BENCHMARK, benchmark_volume};
pub use intro::{IntroPagesError, read_intro_pages};
pub use manifest::{ImageList, Junk, JunkEntry, ManifestError, unpacked};
pub use named::{VolumeNameError, volume_of_source};
pub use place::volume_of_folder;

/// Key of the list of the images of a volume.
const MANIFEST: &str = "dimensions.json";

/// Limit on the bytes of a list.
const MAX_LIST: u64 = 64 << 20;

/// Version of a volume: the hash that S3 keeps of its manifest. A manifest that was uploaded in parts has the number of
/// parts behind a hyphen, which is not part of the version.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VolumeVersion(String);

impl VolumeVersion {
    pub fn from_etag(etag: &str) -> Self {
        let bare = etag.trim_matches('"');
        let hash = bare.split_once('-').map_or(bare, |(hash, _)| hash);
        Self(hash.to_owned())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// First six characters, by which BDRC names output folders.
    pub fn short(&self) -> &str {
        self.0.get(..6).unwrap_or(&self.0)
    }
}

/// List of a volume's images in the archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeManifest {
    /// ETag of the list, from the store.
    pub etag: String,
    pub list: ImageList,
}

impl VolumeManifest {
    /// Manifest from a list's bytes, with the ETag that a store gives to an object written in one request.
    ///
    /// # Errors
    ///
    /// [`ManifestError`] if the bytes are no list.
    pub fn of_bytes(bytes: &[u8]) -> Result<Self, ManifestError> {
        Ok(Self {
            etag: hex::encode(Md5::digest(bytes)),
            list: ImageList::read(bytes)?,
        })
    }

    /// Version of the volume.
    pub fn version(&self) -> VolumeVersion {
        VolumeVersion::from_etag(&self.etag)
    }

    /// The images as pages, in the order of the list.
    pub fn into_pages(self) -> Vec<PageRef> {
        let version = self.version();
        let images = self.list.images.into_iter();
        images
            .map(|image| PageRef {
                name: image.name,
                size: image.size.unwrap_or(0),
                version: Some(version.as_str().to_owned()),
            })
            .collect()
    }
}

/// Source of the archive in a store: its bucket, or a copy of it.
#[derive(Debug, Clone)]
pub struct BdrcArchive {
    store: Arc<dyn ArtifactStore>,
    intro_pages: BTreeMap<VolumeId, usize>,
}

impl BdrcArchive {
    pub fn new(store: Arc<dyn ArtifactStore>) -> Self {
        Self {
            store,
            intro_pages: BTreeMap::new(),
        }
    }

    /// Leaves out that many pages at the start of the volumes named: the title and credit sheets that BDRC put before
    /// the scans. The catalogue knows how many there are (`volumePagesTbrcIntro`), the archive does not. Volumes that
    /// are not named keep all pages.
    pub fn without_intro_pages(mut self, intro_pages: BTreeMap<VolumeId, usize>) -> Self {
        self.intro_pages = intro_pages;
        self
    }

    /// Folder of a volume's images in the archive.
    pub fn folder(volume: &VolumeId) -> String {
        image_folder(volume)
    }

    /// Reads the list of a volume's images with all of them, including those before the book.
    ///
    /// # Errors
    ///
    /// [`PageSourceError`] if there is no list, or if it cannot be read.
    pub async fn manifest(&self, volume: &VolumeId) -> Result<VolumeManifest, PageSourceError> {
        let key = manifest_key(volume)?;
        let found = self.store.get_versioned(&key, MAX_LIST).await;
        read(volume, found.map_err(|error| unreachable(volume, &error))?)
    }

    /// Reads the [`manifest`](Self::manifest), unless its ETag still is `known`.
    ///
    /// # Errors
    ///
    /// Those of [`manifest`](Self::manifest).
    pub async fn manifest_if_changed(
        &self,
        volume: &VolumeId,
        known: &str,
    ) -> Result<Option<VolumeManifest>, PageSourceError> {
        let key = manifest_key(volume)?;
        let found = self.store.get_if_changed(&key, known, MAX_LIST).await;
        let found = found.map_err(|error| unreachable(volume, &error))?;
        found.map(|found| read(volume, found)).transpose()
    }

    /// Lists the volumes of a collection that have a folder, sorted, with a list or without.
    ///
    /// # Errors
    ///
    /// [`StorageError`] if the store cannot be read.
    pub async fn volumes_of(&self, w_id: &str) -> Result<Vec<VolumeId>, StorageError> {
        let Ok(folder) = ArtifactKey::new(collection_folder(w_id)) else {
            return Ok(Vec::new());
        };
        let folders = self.store.folders(&folder).await?;
        let volumes = folders.iter().filter_map(|name| volume_of_folder(name));
        Ok(volumes.filter(|volume| volume.w_id() == w_id).collect())
    }
}

fn manifest_key(volume: &VolumeId) -> Result<ArtifactKey, PageSourceError> {
    let key = ArtifactKey::new(format!("{}/{MANIFEST}", image_folder(volume)));
    key.map_err(|error| unreadable(volume, error.to_string(), ErrorCategory::Input))
}

fn read(volume: &VolumeId, found: VersionedObject) -> Result<VolumeManifest, PageSourceError> {
    let list = ImageList::read(&found.bytes);
    Ok(VolumeManifest {
        list: list.map_err(|error| unreadable(volume, error.to_string(), ErrorCategory::Input))?,
        etag: found.version,
    })
}

fn unreachable(volume: &VolumeId, error: &StorageError) -> PageSourceError {
    match error {
        StorageError::NotFound { .. } => PageSourceError::NoSuchVolume(volume.clone()),
        error => unreadable(volume, error.to_string(), error.category()),
    }
}

fn unreadable(volume: &VolumeId, message: String, category: ErrorCategory) -> PageSourceError {
    PageSourceError::Unreadable {
        volume: volume.clone(),
        page: MANIFEST.to_owned(),
        message,
        category,
    }
}

#[async_trait]
impl PageSource for BdrcArchive {
    async fn pages(&self, volume: &VolumeId) -> Result<Vec<PageRef>, PageSourceError> {
        let mut pages = self.manifest(volume).await?.into_pages();
        let intro = self.intro_pages.get(volume).copied().unwrap_or(0);
        // The number is the catalogue's, which may count more pages than the list has.
        pages.drain(..intro.min(pages.len()));
        Ok(pages)
    }

    async fn read(&self, volume: &VolumeId, page: &PageRef) -> Result<Scan, PageSourceError> {
        let unreadable = |message: String, category| PageSourceError::Unreadable {
            volume: volume.clone(),
            page: page.name.clone(),
            message,
            category,
        };
        if page.name.contains('/') {
            return Err(PageSourceError::NoSuchPage {
                volume: volume.clone(),
                page: page.name.clone(),
            });
        }
        let key = ArtifactKey::new(format!("{}/{}", image_folder(volume), page.name))
            .map_err(|error| unreadable(error.to_string(), ErrorCategory::Input))?;
        let bytes = self
            .store
            .get_within(&key, MAX_SCAN)
            .await
            .map_err(|error| match error {
                StorageError::NotFound { .. } => PageSourceError::NoSuchPage {
                    volume: volume.clone(),
                    page: page.name.clone(),
                },
                StorageError::TooLarge { size, .. } => page.too_large(volume, size),
                error => unreadable(error.to_string(), error.category()),
            });
        bytes.map(Scan::Image)
    }
}
