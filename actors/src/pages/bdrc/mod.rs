//! Volumes as they lie in BDRC's archive: a folder of scans per image group, under a prefix that spreads the works, with
//! a gzipped list of its images beside them.

mod intro;
mod manifest;
mod place;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use super::{PageRef, PageSource, SourceError};
use crate::domain::{ErrorCategory, VolumeId};
use crate::storage::{ArtifactKey, ArtifactStore, StorageError};
use manifest::read_manifest;
use place::image_folder;

pub use intro::{IntroPagesError, read_intro_pages};
pub use manifest::ManifestError;

/// The list of the images of a volume.
const MANIFEST: &str = "dimensions.json";

/// A state of a volume: the hash that S3 keeps of its manifest. A manifest that was uploaded in parts has the number of
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

    /// The first six characters, by which BDRC names output folders.
    pub fn short(&self) -> &str {
        self.0.get(..6).unwrap_or(&self.0)
    }
}

/// What the archive says of a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeManifest {
    pub version: VolumeVersion,
    /// In the order of the list, each name once.
    pub pages: Vec<PageRef>,
}

/// The archive in a store: its bucket, or a copy of it.
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

    /// The list of a volume's images with all pages, those before the book included.
    pub async fn manifest(&self, volume: &VolumeId) -> Result<VolumeManifest, SourceError> {
        let unreadable = |message: String, category| SourceError::Unreadable {
            volume: volume.clone(),
            page: MANIFEST.to_owned(),
            message,
            category,
        };
        let key = ArtifactKey::new(format!("{}/{MANIFEST}", image_folder(volume)))
            .map_err(|error| unreadable(error.to_string(), ErrorCategory::Input))?;
        let found = match self.store.get_versioned(&key).await {
            Ok(found) => found,
            Err(StorageError::NotFound { .. }) => return Err(SourceError::NoSuchVolume(volume.clone())),
            Err(error) => return Err(unreadable(error.to_string(), error.category())),
        };
        let mut pages = read_manifest(&found.bytes)
            .map_err(|error| unreadable(error.to_string(), ErrorCategory::Input))?;
        let version = VolumeVersion::from_etag(&found.version);
        for page in &mut pages {
            page.version = Some(version.as_str().to_owned());
        }
        Ok(VolumeManifest { version, pages })
    }
}

#[async_trait]
impl PageSource for BdrcArchive {
    async fn pages(&self, volume: &VolumeId) -> Result<Vec<PageRef>, SourceError> {
        let mut pages = self.manifest(volume).await?.pages;
        let intro = self.intro_pages.get(volume).copied().unwrap_or(0);
        pages.drain(..intro.min(pages.len()));
        Ok(pages)
    }

    async fn read(&self, volume: &VolumeId, page: &PageRef) -> Result<Bytes, SourceError> {
        let unreadable = |message: String, category| SourceError::Unreadable {
            volume: volume.clone(),
            page: page.name.clone(),
            message,
            category,
        };
        if page.name.contains('/') {
            return Err(SourceError::NoSuchPage {
                volume: volume.clone(),
                page: page.name.clone(),
            });
        }
        let key = ArtifactKey::new(format!("{}/{}", image_folder(volume), page.name))
            .map_err(|error| unreadable(error.to_string(), ErrorCategory::Input))?;
        self.store.get(&key).await.map_err(|error| match error {
            StorageError::NotFound { .. } => SourceError::NoSuchPage {
                volume: volume.clone(),
                page: page.name.clone(),
            },
            error => unreadable(error.to_string(), error.category()),
        })
    }
}
