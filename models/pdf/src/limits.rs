use std::time::Duration;

use crate::PdfError;

/// Limits of a document, by which untrusted bytes cost a bounded time and memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Length of the longest file, in bytes.
    pub max_bytes: u64,
    pub max_pages: u32,
    /// Pixels of a rendering; above it the resolution falls.
    pub max_rendered_pixels: u64,
    /// Pixels of the pictures of a page together, each as often as it is drawn; a page with more is refused.
    pub max_picture_pixels: u64,
    /// Bytes of a picture, decoded.
    pub max_picture_bytes: u64,
    /// Bytes of any other stream, decoded: of the content of a page, a font, a stream of objects.
    pub max_stream_bytes: u64,
    /// Streams of which the content of a page is made.
    pub max_contents: u64,
    /// Glyphs, pictures and paths on a page, high and large ones as several, and what tiles, masks and dashes add to them; a page with more is
    /// refused.
    pub max_objects: usize,
    /// Time for opening a document.
    pub open_time: Duration,
    /// Time for each question about a page.
    pub page_time: Duration,
}

impl Default for Limits {
    /// 256 MiB, 100,000 pages, renderings of 40 and pictures of 80 megapixels, pictures of 256 and other streams of 64 MiB, a million objects;
    /// 20 seconds.
    fn default() -> Self {
        Self {
            max_bytes: 256 << 20,
            max_pages: 100_000,
            max_rendered_pixels: 40_000_000,
            max_picture_pixels: 80_000_000,
            max_picture_bytes: 256 << 20,
            max_stream_bytes: 64 << 20,
            max_contents: 100_000,
            max_objects: 1_000_000,
            open_time: Duration::from_secs(20),
            page_time: Duration::from_secs(20),
        }
    }
}

/// Returns an error if `value` is over the limit.
pub(crate) fn within(what: &'static str, value: u64, limit: u64) -> Result<(), PdfError> {
    if value > limit {
        return Err(PdfError::TooLarge { what, value, limit });
    }
    Ok(())
}
