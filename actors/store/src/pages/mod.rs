//! Pages: the sources that scans of volumes come from. A source lists the pages of a volume in reading order and hands out
//! each as a [`Scan`]: the bytes of an image file, or a page of a PDF, which is a volume by itself.
//!
//! Sources differ in what they know. A folder or a bucket knows the names and sizes of files; the order and the choice of pages
//! then come from names alone. BDRC's archive has a list for each volume, which is the truth about its images and, by its ETag,
//! their version. A version stands for the bytes of a page in the first fingerprint: with one, nothing is downloaded to find
//! out that nothing changed. Without one the bytes are read for their hash. Sources hold no volumes and cache nothing: a page
//! is read when the stage asks for it, and `read_ahead` bounds the number of pages on their way. Copies of remote objects are
//! the business of the storage below.

mod bdrc;
mod bucket;
mod folder;
mod library;
mod names;
mod pdf;
mod read_ahead;
mod scan;
mod survey;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use crate::artifact::Digest;
use parkhang_core::domain::{DocumentKey, ErrorCategory, VolumeId};
use parkhang_pdf::PdfError;

pub use bdrc::{
    BdrcArchive, ImageList, IntroPagesError, Junk, JunkEntry, ManifestError, VolumeManifest, VolumeNameError,
    VolumeVersion, WithBenchmark, read_intro_pages, unpacked, volume_of_folder, volume_of_source,
};
pub use bucket::BucketFolders;
pub use folder::{DiscoverError, FolderSource, FoundVolume, VolumeKind, discover_volumes, folders_left_out};
pub use library::LibraryFolder;
pub use pdf::pdf_page_index;
pub use read_ahead::read_ahead;
pub use scan::{DisplayedPage, PdfPage, Scan, ScanError, ScanPixels};
pub use survey::survey;

/// Limit on the bytes of a scan that is an image file. The memory of a node holds several.
pub const MAX_SCAN: u64 = 512 << 20;

/// Page of a volume, by the name that its source gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageRef {
    /// File name within the volume.
    pub name: String,
    /// Length in bytes; 0 if the source does not know it.
    pub size: u64,
    /// Version, another one whenever the page may have changed; `None` if only its bytes can show that.
    pub version: Option<String>,
}

impl PageRef {
    /// Page of which the name alone is known, which is enough to read it.
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            size: 0,
            version: None,
        }
    }

    fn too_large(&self, volume: &VolumeId, size: u64) -> PageSourceError {
        PageSourceError::TooLarge {
            volume: volume.clone(),
            page: self.name.clone(),
            size,
        }
    }

    /// Digest that stands for the bytes of the page; `None` if only they can tell.
    pub fn digest(&self) -> Option<Digest> {
        let version = self.version.as_ref()?;
        Some(Digest::of_parts([version, &self.name]))
    }
}

/// Version of a volume, where all its pages have the same one.
pub fn common_version<'a>(pages: impl IntoIterator<Item = &'a PageRef>) -> Option<&'a str> {
    let mut versions = pages.into_iter().map(|page| page.version.as_deref());
    let first = versions.next().flatten()?;
    versions.all(|version| version == Some(first)).then_some(first)
}

/// Reason for which a page could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PageSourceError {
    #[error("volume {0} is not in this source")]
    NoSuchVolume(VolumeId),
    #[error("the document {place} of volume {volume} is not in this source")]
    NoSuchDocument { volume: VolumeId, place: DocumentKey },
    #[error(
        "volume {volume} is made of {place}, and this source has no documents by their keys: scans in a bucket have"
    )]
    NoPlaces { volume: VolumeId, place: DocumentKey },
    #[error("page {page} of volume {volume} does not exist")]
    NoSuchPage { volume: VolumeId, page: String },
    #[error("page {page} of volume {volume} has {size} bytes, and the limit is {MAX_SCAN}")]
    TooLarge {
        volume: VolumeId,
        page: String,
        /// Length in bytes, or as much of it as was seen.
        size: u64,
    },
    /// A PDF that cannot be opened.
    #[error("{file} of volume {volume}: {error}")]
    Pdf {
        volume: VolumeId,
        file: String,
        error: PdfError,
    },
    #[error("reading {page} of volume {volume}: {message}")]
    Unreadable {
        volume: VolumeId,
        page: String,
        message: String,
        category: ErrorCategory,
    },
}

impl PageSourceError {
    /// Category by which a stage decides about another try.
    pub fn category(&self) -> ErrorCategory {
        match self {
            Self::NoSuchVolume(_) | Self::NoPlaces { .. } => ErrorCategory::Config,
            Self::NoSuchDocument { .. } | Self::NoSuchPage { .. } | Self::TooLarge { .. } => {
                ErrorCategory::Input
            }
            Self::Pdf { error, .. } => scan::category(error),
            Self::Unreadable { category, .. } => *category,
        }
    }
}

/// Source of the scans of a volume: its document's, where its pages come from one at a `place`.
///
/// # Errors
///
/// [`PageSourceError::NoPlaces`] if the source has no such places.
pub fn source_of(
    source: &Arc<dyn PageSource>,
    volume: &VolumeId,
    place: Option<&DocumentKey>,
) -> Result<Arc<dyn PageSource>, PageSourceError> {
    let Some(place) = place else {
        return Ok(source.clone());
    };
    let none = || PageSourceError::NoPlaces {
        volume: volume.clone(),
        place: place.clone(),
    };
    source.document(place).ok_or_else(none)
}

/// Source of the pages of volumes.
#[async_trait]
pub trait PageSource: Send + Sync + fmt::Debug {
    /// Lists the pages of a volume in reading order, junk left out. An empty volume is no error.
    ///
    /// # Errors
    ///
    /// [`PageSourceError`] if the volume is not there or cannot be listed.
    async fn pages(&self, volume: &VolumeId) -> Result<Vec<PageRef>, PageSourceError>;

    /// Tells whether a volume is a PDF; `false` where the source has images only. Reads no page.
    ///
    /// # Errors
    ///
    /// [`PageSourceError`] if the volume is not there or cannot be looked up.
    async fn is_pdf(&self, volume: &VolumeId) -> Result<bool, PageSourceError> {
        let _ = volume;
        Ok(false)
    }

    /// Reads a page by its name.
    ///
    /// # Errors
    ///
    /// [`PageSourceError`] if the page is not there or cannot be read.
    async fn read(&self, volume: &VolumeId, page: &PageRef) -> Result<Scan, PageSourceError>;

    /// Source of the volumes that are pages of a PDF at this place, whatever their names; `None` if the source has no such places.
    fn document(&self, place: &DocumentKey) -> Option<Arc<dyn PageSource>> {
        let _ = place;
        None
    }
}
