//! PDF of pictures: the scans of a volume, page after page.

use std::fs::File;
use std::io::BufWriter;

use anyhow::Result;
use futures::{StreamExt, TryStreamExt, stream};
use parkhang_models::page::decode::{DecodeLimits, decode_page};
use parkhang_searchable::{BookInfo, PagePicture, PictureBook, SearchableError, Spacing, Word};
use parkhang_store::pages::Scan;
use parkhang_store::storage::ArtifactStore;

use super::super::document::{PageDocument, VolumeDocument};
use super::super::results::StoredVolume;
use super::super::scan;

type Book = PictureBook<BufWriter<File>>;

/// Writes the PDF of a volume. A scan that cannot be reached or decoded is no error: its page is empty but for its text.
///
/// # Errors
///
/// If the artifact store cannot be reached, or the file cannot be written.
pub(super) async fn write_book(
    store: &dyn ArtifactStore,
    stored: &StoredVolume,
    document: &VolumeDocument,
    file: File,
) -> Result<()> {
    let title = stored.volume.to_string();
    let info = BookInfo {
        title: &title,
        producer: concat!("Parkhang ", env!("CARGO_PKG_VERSION")),
        language: language(document),
    };
    let book = PictureBook::new(BufWriter::new(file), &info)?;
    let scans = stream::iter(&document.pages)
        .map(|page| async move { anyhow::Ok((page, scan::stored_scan(store, stored, page).await?)) })
        .buffered(scan::READS);
    let book = scans
        .try_fold(book, |book, (page, scan)| {
            let page = page.clone();
            // What a PDF cannot hold as it is must be decoded, which must not hold a thread of the runtime.
            let added = tokio::task::spawn_blocking(move || with_page(book, &page, scan.as_ref()));
            async move { anyhow::Ok(added.await??) }
        })
        .await?;
    tokio::task::spawn_blocking(move || book.finish()).await??;
    Ok(())
}

/// Tag of the language of all pages with text, if it is one.
fn language(document: &VolumeDocument) -> Option<&'static str> {
    let mut languages = document
        .pages
        .iter()
        .filter(|page| !page.lines.is_empty())
        .map(PageDocument::language);
    let first = languages.next()?;
    languages.all(|language| language == first).then(|| first.tag())
}

fn with_page(mut book: Book, page: &PageDocument, scan: Option<&Scan>) -> Result<Book, SearchableError> {
    let note = page.unread();
    let file = scan.and_then(|scan| scan.picture().ok());
    let picture = file.as_deref().and_then(picture);
    let size = picture
        .as_ref()
        .map_or((page.width, page.height), PagePicture::size);
    let words = words(page, size);
    let spacing = Spacing::Written;
    match picture {
        Some(picture) => book.add_page(&picture, &words, spacing, note.as_deref())?,
        None => book.add_page_without_picture(size, &words, spacing, note.as_deref())?,
    }
    Ok(book)
}

/// Takes a scan as it is, or what the decoder of the stages, which knows more kinds of damage, makes of it.
fn picture(scan: &[u8]) -> Option<PagePicture<'_>> {
    PagePicture::from_file(scan).ok().or_else(|| {
        let gray = decode_page(scan, &DecodeLimits::default()).ok()?.gray;
        PagePicture::from_gray(gray.width(), gray.height(), gray.as_raw()).ok()
    })
}

/// Words of a page with their boxes in pixels of a picture of this size. It has another size than the scan
/// where it is the straightened page.
pub(super) fn words(page: &PageDocument, (width, height): (u32, u32)) -> Vec<Word<'_>> {
    let scale = |side: u32, of: u32| {
        if of == 0 {
            1.0
        } else {
            f64::from(side) / f64::from(of)
        }
    };
    let (across, down) = (scale(width, page.width), scale(height, page.height));
    #[expect(
        clippy::cast_possible_truncation,
        reason = "sides of pictures are far below the limits of f32"
    )]
    let place = |pixels: i32, scale: f64| (f64::from(pixels) * scale) as f32;
    let mut words = Vec::new();
    for (number, line) in (0..).zip(&page.lines) {
        for word in line.words() {
            let bounds = page.bounds(word.polygon);
            let bbox = [
                place(bounds.x, across),
                place(bounds.y, down),
                place(bounds.x + bounds.width, across),
                place(bounds.y + bounds.height, down),
            ];
            words.push(Word {
                text: word.text,
                bbox,
                line: number,
            });
        }
    }
    words
}
