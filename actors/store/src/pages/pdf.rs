//! PDFs that are open. A document is opened once for a run of a stage and shared by its pages; the last few stay open, within a bound of
//! memory.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use parkhang_pdf::{Document, Limits, PdfError};

use super::{PageRef, PageSourceError, PdfPage, Scan};
use crate::artifact::Digest;
use parkhang_core::domain::{ErrorCategory, VolumeId};

/// Bytes of documents that stay open; the last one does in any case.
const KEPT_BYTES: u64 = 256 << 20;
/// Documents that stay open.
const KEPT: usize = 16;
/// Name of a page before its number, which counts from 1.
const PAGE: &str = "page_";

/// Length of the longest document that is opened, in bytes. None that is longer is read.
pub(super) fn max_bytes() -> u64 {
    Limits::default().max_bytes
}

/// Error for a document that is too long.
pub(super) fn too_long(volume: &VolumeId, name: &str, length: u64) -> PageSourceError {
    PageSourceError::Pdf {
        volume: volume.clone(),
        file: name.to_owned(),
        error: PdfError::TooLarge {
            what: "its length",
            value: length,
            limit: max_bytes(),
        },
    }
}

/// Index, from 0, of the page of a PDF with this name; `None` for the name of an image file, which has an ending.
pub fn pdf_page_index(name: &str) -> Option<u32> {
    let number: u32 = name.strip_prefix(PAGE)?.parse().ok()?;
    number.checked_sub(1)
}

/// Document that is open, with the version of its bytes.
#[derive(Debug, Clone)]
pub(super) struct OpenPdf {
    name: String,
    version: String,
    document: Document,
    bytes: u64,
}

impl OpenPdf {
    /// Lists the pages of a volume that is the document or a part of it. Those of a part are listed whether they are there or not:
    /// who asked for them is to hear of each.
    pub(super) fn pages(&self, volume: &VolumeId) -> Vec<PageRef> {
        let count = self.document.page_count();
        let page = |number| PageRef {
            name: format!("{PAGE}{number}"),
            size: self.bytes / u64::from(count.max(1)),
            version: Some(self.version.clone()),
        };
        match volume.pages() {
            Some(part) => part.pages().map(page).collect(),
            None => (1..=count).map(page).collect(),
        }
    }

    /// Returns a page by its name.
    pub(super) fn page(&self, name: &str) -> Option<Scan> {
        let index = pdf_page_index(name).filter(|index| *index < self.document.page_count())?;
        Some(Scan::Pdf(PdfPage {
            file: self.name.clone(),
            document: self.document.clone(),
            index,
            version: self.version.clone(),
        }))
    }
}

/// Documents that stay open, the one used last first.
#[derive(Debug, Clone, Default)]
pub(super) struct OpenPdfs {
    kept: Arc<Mutex<VecDeque<OpenPdf>>>,
}

impl OpenPdfs {
    /// Returns a document that is open already, in this version of it or, if none is named, in the last one.
    pub(super) fn find(&self, name: &str, version: Option<&str>) -> Option<OpenPdf> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let place = kept
            .iter()
            .position(|open| open.name == name && version.is_none_or(|version| open.version == version))?;
        let open = kept.remove(place)?;
        kept.push_front(open.clone());
        Some(open)
    }

    /// Opens a document, and keeps it open.
    pub(super) async fn open(
        &self,
        volume: &VolumeId,
        name: &str,
        bytes: Bytes,
    ) -> Result<OpenPdf, PageSourceError> {
        let length = bytes.len() as u64;
        let opened = tokio::task::spawn_blocking(move || {
            let version = Digest::of(&bytes).to_hex();
            Document::open(bytes, None, &Limits::default()).map(|document| (version, document))
        });
        let opened = opened.await.map_err(|error| PageSourceError::Unreadable {
            volume: volume.clone(),
            page: name.to_owned(),
            message: error.to_string(),
            category: ErrorCategory::Runtime,
        })?;
        let (version, document) = opened.map_err(|error| PageSourceError::Pdf {
            volume: volume.clone(),
            file: name.to_owned(),
            error,
        })?;
        let open = OpenPdf {
            name: name.to_owned(),
            version,
            document,
            bytes: length,
        };
        self.keep(open.clone());
        Ok(open)
    }

    fn keep(&self, open: OpenPdf) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|other| other.name != open.name);
        kept.push_front(open);
        let mut sum = 0;
        let most = kept
            .iter()
            .take_while(|open| {
                sum += open.bytes;
                sum <= KEPT_BYTES
            })
            .count();
        kept.truncate(most.clamp(1, KEPT));
    }
}

#[cfg(test)]
pub(super) mod testing {
    /// A PDF of the least that a reader needs, with so many empty pages.
    pub(in crate::pages) fn pdf(pages: usize) -> Vec<u8> {
        let kids: Vec<String> = (0..pages).map(|page| format!("{} 0 R", page + 3)).collect();
        let mut file = format!(
            "%PDF-1.4\n1 0 obj\n<</Type/Catalog/Pages 2 0 R>>\nendobj\n2 0 obj\n<</Type/Pages/Count {pages}/Kids[{}]>>\nendobj\n",
            kids.join(" ")
        );
        for page in 0..pages {
            file += &format!(
                "{} 0 obj\n<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 100]>>\nendobj\n",
                page + 3
            );
        }
        file += "trailer\n<</Root 1 0 R>>\n%%EOF\n";
        file.into_bytes()
    }
}
