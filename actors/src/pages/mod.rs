//! Where the scans of a volume come from. A source lists pages in reading order and hands out bytes; what the bytes mean
//! is for `models::page` to say.

mod bdrc;
mod bucket;
mod folder;
mod library;
mod names;
mod read_ahead;
mod survey;

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;

use crate::domain::{ErrorCategory, VolumeId};

pub use bdrc::{
    BENCHMARK, BdrcArchive, ImageList, IntroPagesError, Junk, JunkEntry, ManifestError, VolumeManifest,
    VolumeVersion, WithBenchmark, benchmark_volume, read_intro_pages, unpacked, volume_of_folder,
};
pub use bucket::BucketFolders;
pub use folder::{DiscoverError, FolderSource, VolumeFolder, discover_volumes, folders_left_out};
pub use library::LibraryFolder;
pub use read_ahead::read_ahead;
pub use survey::survey;

/// One page of a volume, as the source names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageRef {
    /// File name within the volume.
    pub name: String,
    /// Length in bytes; 0 where the source does not say.
    pub size: u64,
    /// Another one whenever the page may have changed; `None` where only its bytes tell.
    pub version: Option<String>,
}

/// Why a page could not be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    #[error("volume {0} is not in this source")]
    NoSuchVolume(VolumeId),
    #[error("page {page} of volume {volume} does not exist")]
    NoSuchPage { volume: VolumeId, page: String },
    #[error("reading {page} of volume {volume}: {message}")]
    Unreadable {
        volume: VolumeId,
        page: String,
        message: String,
        category: ErrorCategory,
    },
}

impl SourceError {
    pub fn category(&self) -> ErrorCategory {
        match self {
            Self::NoSuchVolume(_) => ErrorCategory::Config,
            Self::NoSuchPage { .. } => ErrorCategory::Input,
            Self::Unreadable { category, .. } => *category,
        }
    }
}

/// Lists and reads the pages of volumes.
#[async_trait]
pub trait PageSource: Send + Sync + fmt::Debug {
    /// The pages of a volume in reading order, junk left out. An empty volume is no error.
    async fn pages(&self, volume: &VolumeId) -> Result<Vec<PageRef>, SourceError>;

    async fn read(&self, volume: &VolumeId, page: &PageRef) -> Result<Bytes, SourceError>;
}
