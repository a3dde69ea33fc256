use std::time::Duration;

/// Limits of a document, by which untrusted bytes cost a bounded time and memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Length of the longest file, in bytes.
    pub max_bytes: u64,
    pub max_pages: u32,
    /// Pixels of a rendering; above it the resolution falls.
    pub max_rendered_pixels: u64,
    /// Pixels of a picture within a page; a page with a larger one is refused.
    pub max_picture_pixels: u64,
    /// Glyphs, pictures and paths on a page; a page with more is refused.
    pub max_objects: usize,
    /// Time for opening a document.
    pub open_time: Duration,
    /// Time for each question about a page.
    pub page_time: Duration,
}

impl Default for Limits {
    /// 256 MiB, 100,000 pages, renderings of 40 and pictures of 120 megapixels, a million objects; 20 seconds.
    fn default() -> Self {
        Self {
            max_bytes: 256 << 20,
            max_pages: 100_000,
            max_rendered_pixels: 40_000_000,
            max_picture_pixels: 120_000_000,
            max_objects: 1_000_000,
            open_time: Duration::from_secs(20),
            page_time: Duration::from_secs(20),
        }
    }
}
