//! Bytes of a page scan to pixels. The content decides what a file is, never its name. One convention leaves this room:
//! 8-bit grey, ink dark, orientation applied. It knows nothing of files, volumes or what the pixels are for.
//!
//! Grey is what OpenCV's grey decoding gives, which the upstream models were trained behind: 0.299/0.587/0.114 in
//! OpenCV's integer rounding, and for a colour JPEG the luma it stores. Four deviations, each where upstream loses a
//! page or contradicts itself:
//!
//! - 16-bit samples are scaled to 8 bits with rounding; upstream clips them at 255, which leaves a nearly white page.
//! - Orientation (EXIF, TIFF tag 274) is always applied; upstream applies it only to JPEGs that need no shrinking, so
//!   two of its stages may see different images of one file.
//! - Transparency is composited on white; upstream drops the alpha channel and shows whatever colour lies below it.
//! - Floating-point TIFF is an error; upstream reads a black page.
//!
//! A colour profile is ignored, as upstream does.

mod error;
mod format;
mod gray;
mod jpeg;
mod raster;
mod tiff;

use image::metadata::Orientation;
use image::{DynamicImage, GrayImage, imageops};

pub use error::{DecodeError, DecodeWarning};
pub use format::PageFormat;

use crate::turn::Turn;

/// Limits of a page, checked before anything of its size is allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecodeLimits {
    /// Width times height, in pixels.
    pub max_pixels: u64,
    /// Size of the largest buffer set that a decoder may need at once, in bytes: a 16-bit RGBA page needs eight bytes a
    /// pixel before it becomes grey, a progressive JPEG keeps all its coefficients.
    pub max_bytes: u64,
}

impl Default for DecodeLimits {
    /// 200 megapixels and 1 GiB: a 10,000 x 10,000 scan and a scroll 40,000 pixels wide pass.
    fn default() -> Self {
        Self {
            max_pixels: 200_000_000,
            max_bytes: 1 << 30,
        }
    }
}

impl DecodeLimits {
    /// Checks a page of `width` x `height` whose decoding holds `bytes_per_pixel` at its peak.
    fn check(&self, width: u32, height: u32, bytes_per_pixel: u64) -> Result<(), DecodeError> {
        if width == 0 || height == 0 {
            return Err(DecodeError::ZeroDimension { width, height });
        }
        let pixels = u64::from(width) * u64::from(height);
        if pixels > self.max_pixels {
            return Err(DecodeError::TooManyPixels {
                width,
                height,
                max_pixels: self.max_pixels,
            });
        }
        let bytes = pixels.saturating_mul(bytes_per_pixel);
        if bytes > self.max_bytes {
            return Err(DecodeError::TooManyBytes {
                bytes,
                max_bytes: self.max_bytes,
            });
        }
        Ok(())
    }
}

/// A page as pixels.
#[derive(Debug, Clone)]
pub struct DecodedPage {
    /// 8-bit grey, 0 is ink and 255 is paper; upright after the orientation that the file states.
    pub gray: GrayImage,
    /// `true` where every pixel is 0 or 255: 1-bit scans, grey files that hold nothing else, and blank white pages.
    pub bilevel: bool,
    /// Format of the content, whatever the file is called.
    pub format: PageFormat,
    /// Faults of the file that left its pixels readable.
    pub warnings: Vec<DecodeWarning>,
}

impl DecodedPage {
    /// The page with a turn of its content undone.
    #[must_use]
    pub fn upright(&self, turn: Turn) -> Self {
        self.with_pixels(turn.undone(&self.gray).unwrap_or_else(|| self.gray.clone()))
    }

    /// The page with dark for light and light for dark.
    #[must_use]
    pub fn negative(&self) -> Self {
        let mut gray = self.gray.clone();
        imageops::invert(&mut gray);
        self.with_pixels(gray)
    }

    /// A page made of this one, whose warnings need not be told twice.
    fn with_pixels(&self, gray: GrayImage) -> Self {
        Self {
            gray,
            bilevel: self.bilevel,
            format: self.format,
            warnings: Vec::new(),
        }
    }
}

/// Format and size of a page as its header states them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageHeader {
    pub format: PageFormat,
    /// Width in pixels after orientation.
    pub width: u32,
    /// Height in pixels after orientation.
    pub height: u32,
}

/// Result of a format's decoder, before orientation.
struct Raw {
    gray: GrayImage,
    orientation: Orientation,
    warnings: Vec<DecodeWarning>,
}

/// Header of a format, before orientation.
struct RawHeader {
    width: u32,
    height: u32,
    orientation: Orientation,
}

/// Decodes the first page of `bytes`.
///
/// # Errors
/// Every input that has no pixels to give is a [`DecodeError`]; no input panics. Sizes are checked against `limits` before
/// any buffer of that size exists, and the work is bounded by the area of the page and the number of bytes.
pub fn decode_page(bytes: &[u8], limits: &DecodeLimits) -> Result<DecodedPage, DecodeError> {
    decode_page_unless(bytes, limits, &|| false)
}

/// Decodes the first page of `bytes` like [`decode_page`], and ends soon once `cancelled` returns `true`.
///
/// # Errors
/// Those of [`decode_page`], and [`DecodeError::Cancelled`].
pub fn decode_page_unless(
    bytes: &[u8],
    limits: &DecodeLimits,
    cancelled: &dyn Fn() -> bool,
) -> Result<DecodedPage, DecodeError> {
    let format = PageFormat::of(bytes)?;
    let raw = match format {
        PageFormat::Jpeg => jpeg::decode(bytes, limits),
        PageFormat::Tiff => tiff::decode(bytes, limits, cancelled),
        PageFormat::Png | PageFormat::WebP | PageFormat::Bmp | PageFormat::Pnm => {
            raster::decode(bytes, format, limits)
        }
    }?;
    let gray = oriented(raw.gray, raw.orientation);
    let bilevel = gray::is_bilevel(&gray);
    Ok(DecodedPage {
        gray,
        bilevel,
        format,
        warnings: raw.warnings,
    })
}

/// Reads format and size from the header alone.
///
/// # Errors
/// Those of [`decode_page`], but for faults in the pixel data, and without limits.
pub fn probe_page(bytes: &[u8]) -> Result<PageHeader, DecodeError> {
    let format = PageFormat::of(bytes)?;
    let RawHeader {
        width,
        height,
        orientation,
    } = match format {
        PageFormat::Jpeg => jpeg::probe(bytes),
        PageFormat::Tiff => tiff::probe(bytes),
        PageFormat::Png | PageFormat::WebP | PageFormat::Bmp | PageFormat::Pnm => {
            raster::probe(bytes, format)
        }
    }?;
    if width == 0 || height == 0 {
        return Err(DecodeError::ZeroDimension { width, height });
    }
    let (width, height) = if swaps_axes(orientation) {
        (height, width)
    } else {
        (width, height)
    };
    Ok(PageHeader {
        format,
        width,
        height,
    })
}

fn swaps_axes(orientation: Orientation) -> bool {
    use Orientation::{Rotate90, Rotate90FlipH, Rotate270, Rotate270FlipH};
    matches!(orientation, Rotate90 | Rotate270 | Rotate90FlipH | Rotate270FlipH)
}

fn oriented(gray: GrayImage, orientation: Orientation) -> GrayImage {
    if orientation == Orientation::NoTransforms {
        return gray;
    }
    let mut image = DynamicImage::ImageLuma8(gray);
    image.apply_orientation(orientation);
    image.into_luma8()
}
