//! Text layer over the PDF that a volume was read from. The file is appended to, page after page, and its own bytes stay as they are.

use std::fs::File;
use std::io::BufWriter;
use std::sync::Arc;

use anyhow::Result;
use bytes::Bytes;
use parkhang_models::page::decode::DecodeLimits;
use parkhang_searchable::{OwnText, SearchableError, Spacing, TextLayer, Word};
use parkhang_store::artifact::{
    ArtifactRow, Digest, LineDetectionRow, PageBoxes, PageTextRow, Provenance, TableReader, VolumeLayout,
    WordSource, failed_pages,
};
use parkhang_store::pages::{PageRef, PdfPage, Scan, pdf_page_index};
use parkhang_store::storage::{ArtifactKey, ArtifactStore};
use tracing::warn;

use super::super::document::{PageDocument, VolumeDocument};
use super::super::results::StoredVolume;
use super::super::words::VolumeWords;
use super::pictures;

/// Reason for which a volume that is a PDF cannot be exported as one.
#[derive(Debug, thiserror::Error)]
pub enum OriginalError {
    #[error(
        "{file} cannot be reached any more, and the searchable PDF is made of it ({reason}): put it back"
    )]
    Gone { file: String, reason: String },
    #[error("{file} is not the file that was read: its bytes are others; read it again")]
    Changed { file: String },
    #[error(
        "{file} is encrypted, and no text can be added without its key: decrypt it (`qpdf --decrypt IN.pdf OUT.pdf`) and read that file"
    )]
    Encrypted { file: String },
    #[error("{file}: {error}; other formats do not need the file")]
    Unfit { file: String, error: SearchableError },
}

/// Layer that is being written, with the name of its file.
struct Layer {
    file: String,
    layer: TextLayer<BufWriter<File>>,
}

/// Words of a page that was read.
#[derive(Debug)]
struct PageWords {
    /// Index of the page in its file.
    index: u32,
    words: Vec<(String, [f32; 4], u32)>,
    spacing: Spacing,
    own: OwnText,
}

/// Finds the PDF that a volume is; `None` if it is a volume of images.
///
/// # Errors
///
/// [`OriginalError::Gone`].
pub(super) async fn find(
    stored: &StoredVolume,
    document: &VolumeDocument,
) -> Result<Option<PdfPage>, OriginalError> {
    // The name of an image file has an ending.
    let is_pdf = |page: &PageDocument| pdf_page_index(&page.source_name).is_some();
    let Some(first) = document
        .pages
        .first()
        .filter(|_| document.pages.iter().all(is_pdf))
    else {
        return Ok(None);
    };
    let gone = |reason: String| OriginalError::Gone {
        file: match &stored.place {
            Some(place) => place.display().to_string(),
            None => format!("the PDF of {}", stored.volume),
        },
        reason,
    };
    let Some(scans) = &stored.scans else {
        return Err(gone("no source of pages has it".to_owned()));
    };
    let page = PageRef::named(first.source_name.as_str());
    match scans.read(&stored.volume, &page).await {
        Ok(Scan::Pdf(page)) => Ok(Some(page)),
        Ok(Scan::Image(_)) => Ok(None),
        Err(error) => Err(gone(error.to_string())),
    }
}

/// Writes the file of `original` and an update with the text of the pages that were read. Pages whose own text was taken have it already.
///
/// # Errors
///
/// [`OriginalError`]; or if the artifact store cannot be reached, or the file cannot be written.
pub(super) async fn write_layer(
    store: &dyn ArtifactStore,
    stored: &StoredVolume,
    document: &VolumeDocument,
    original: PdfPage,
    file: File,
) -> Result<()> {
    let words = VolumeWords::load(store, &stored.layout).await?;
    let read = match words {
        Some(_) => provenance::<PageTextRow>(store, &stored.layout.page_text()).await?,
        None => provenance::<LineDetectionRow>(store, &stored.layout.line_detection()).await?,
    };
    require_unchanged(store, &stored.layout, read, &original).await?;
    let PdfPage {
        file: name,
        document: open,
        ..
    } = original;
    // The document and the layer share the bytes.
    let bytes = Arc::new(open.bytes().clone());
    let opened = tokio::task::spawn_blocking(move || Layer::over(name, bytes, file));
    let mut layer = opened.await??;
    if let Some(words) = words {
        for page in words.pages().filter(|page| page.source() == WordSource::Ocr) {
            let Some(index) = pdf_page_index(&page.page.source_name) else {
                continue;
            };
            let words = words_of_row(&page, index);
            layer = tokio::task::spawn_blocking(move || layer.with(&words)).await??;
        }
    } else {
        for page in document.pages.iter().filter(|page| !page.lines.is_empty()) {
            let Some(index) = pdf_page_index(&page.source_name) else {
                continue;
            };
            let scan = Scan::Pdf(PdfPage {
                file: layer.file.clone(),
                document: open.clone(),
                index,
                version: String::new(),
            });
            let page = page.clone();
            layer = tokio::task::spawn_blocking(move || layer.with(&words_on_scan(&page, index, &scan)))
                .await??;
        }
    }
    tokio::task::spawn_blocking(move || layer.finish()).await?
}

async fn provenance<R: ArtifactRow>(store: &dyn ArtifactStore, table: &ArtifactKey) -> Result<Provenance> {
    let reader = TableReader::<R>::open(table, store.get(table).await?)?;
    Ok(reader.provenance().clone())
}

/// Compares the bytes of a file with those that the first table of its volume was made of.
async fn require_unchanged(
    store: &dyn ArtifactStore,
    layout: &VolumeLayout,
    read: Provenance,
    now: &PdfPage,
) -> Result<()> {
    // Pages that failed were planned too.
    let failed = failed_pages(store, layout, &[read.stage]).await?;
    let failed = failed.into_iter().map(|(_, row)| row.image_name);
    let mut pages: Vec<String> = read.pages.into_keys().chain(failed).collect();
    pages.sort_by_key(|name| pdf_page_index(name));
    let pages = pages.into_iter().filter_map(|name| {
        let version = Some(now.version.clone());
        PageRef {
            name,
            size: 0,
            version,
        }
        .digest()
    });
    if Digest::of_parts(pages) != read.input_hash {
        let file = now.file.clone();
        return Err(OriginalError::Changed { file }.into());
    }
    Ok(())
}

/// Words of a page in points.
fn words_of_row(page: &PageBoxes<'_>, index: u32) -> PageWords {
    let words = page.words.iter().map(|word| {
        let bbox = [word.bbox_x0, word.bbox_y0, word.bbox_x1, word.bbox_y1];
        (word.text.clone(), bbox, u32::try_from(word.line).unwrap_or(0))
    });
    PageWords {
        index,
        words: words.collect(),
        spacing: Spacing::Inferred,
        // It was judged, and the words stand in its place.
        own: OwnText::Blanked,
    }
}

/// Words of a page whose lines were found on its pixels, in points. A page whose pixels are another number now has none, as nothing tells
/// where they would be.
fn words_on_scan(page: &PageDocument, index: u32, scan: &Scan) -> PageWords {
    let mut found = PageWords {
        index,
        words: Vec::new(),
        spacing: Spacing::Written,
        // Nothing is known of it.
        own: OwnText::Kept,
    };
    let Ok(pixels) = scan.pixels(&DecodeLimits::default(), &|| false) else {
        return found;
    };
    let size = pixels.page.gray.dimensions();
    let Some(map) = pixels.map.filter(|_| size == (page.width, page.height)) else {
        return found;
    };
    for Word { text, bbox, line } in pictures::words(page, size) {
        let [x0, y0, x1, y1] = bbox;
        let (left, top) = map.to_points(x0, y0);
        let (right, bottom) = map.to_points(x1, y1);
        found
            .words
            .push((text.to_owned(), [left, top, right, bottom], line));
    }
    found
}

impl Layer {
    fn over(file: String, original: Arc<Bytes>, out: File) -> Result<Self, OriginalError> {
        match TextLayer::over(original, BufWriter::new(out)) {
            Ok(layer) => Ok(Self { file, layer }),
            Err(SearchableError::Encrypted) => Err(OriginalError::Encrypted { file }),
            Err(error) => Err(OriginalError::Unfit { file, error }),
        }
    }

    /// Adds the words of a page. A page that cannot be replaced stays as it is.
    fn with(mut self, page: &PageWords) -> Result<Self> {
        let number = page.index + 1;
        let words: Vec<Word<'_>> = page
            .words
            .iter()
            .map(|(text, bbox, line)| Word {
                text,
                bbox: *bbox,
                line: *line,
            })
            .collect();
        match self
            .layer
            .add_page(page.index as usize, &words, page.spacing, page.own)
        {
            Ok(()) => {}
            Err(error @ SearchableError::DamagedPage { .. }) => {
                warn!(file = self.file, page = number, %error, "a page has no text layer");
            }
            Err(error) => return Err(error.into()),
        }
        Ok(self)
    }

    fn finish(self) -> Result<()> {
        self.layer.finish()?;
        Ok(())
    }
}
