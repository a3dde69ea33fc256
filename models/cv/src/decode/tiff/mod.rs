//! TIFF: strips and tiles of the first page. The `tiff` crate reads the directory; decompression and sample layout are
//! here, because that crate has neither CCITT Group 3, nor palettes, nor the reversed fill order, all of which old scans
//! use.
//!
//! The directory is turned into a [`Layout`](layout::Layout) first, with all its contradictions settled or refused, and
//! chunks are decompressed after that one by one into grey: a page in colour is never in memory as such. Work and memory
//! are bounded by the layout before the first chunk is read ([`work`]), because a directory of a hundred bytes can ask for any
//! amount of both.

mod ccitt;
mod compression;
mod layout;
mod samples;
mod work;

use image::GrayImage;

use super::{DecodeError, DecodeLimits, DecodeWarning, PageFormat, Raw, RawHeader, gray};
use layout::{Compression, Layout};

/// Largest number of warnings about one page: each strip or tile may have some, and there may be millions.
const MAX_WARNINGS: usize = 16;

pub(super) fn decode(
    bytes: &[u8],
    limits: &DecodeLimits,
    cancelled: &dyn Fn() -> bool,
) -> Result<Raw, DecodeError> {
    let layout = Layout::read(bytes)?;
    limits.check(layout.width, layout.height, layout.bytes_per_pixel())?;
    // A strip or tile is decompressed whole, whatever part of it lies inside the page.
    limits.check(layout.chunk_width, layout.chunk_height, layout.bytes_per_pixel())?;
    work::check(&layout, bytes.len())?;

    let (width, height) = (layout.width as usize, layout.height as usize);
    let row_bytes = layout.row_bytes();
    let mut gray = GrayImage::new(layout.width, layout.height);
    let pixels: &mut [u8] = &mut gray;
    let mut warnings = Vec::new();
    let converter = samples::ToGray::new(&layout);
    for (index, rows) in layout.chunks() {
        if cancelled() {
            return Err(DecodeError::Cancelled);
        }
        let planes = (0..layout.planes())
            .map(|plane| compression::chunk(bytes, &layout, index, plane, limits, &mut warnings))
            .collect::<Result<Vec<_>, _>>()?;
        let (left, top) = layout.chunk_origin(index);
        // Tiles at the right and bottom edge hold more than the page; what lies beside it is left out.
        let used = (width - left).min(layout.chunk_width as usize);
        let mut line = Vec::with_capacity(planes.len());
        for y in 0..rows.min(height - top) {
            line.clear();
            line.extend(
                planes
                    .iter()
                    .map(|plane| &plane[y * row_bytes..(y + 1) * row_bytes]),
            );
            let at = (top + y) * width + left;
            converter.row(&line, &mut pixels[at..at + used]);
        }
        warnings.truncate(MAX_WARNINGS);
    }

    // A lossy codec makes a nearly black page of zeros and ones by itself, which is no page of one bit.
    if layout.is_gray8() && layout.compression != Compression::Jpeg && gray::scale_zero_one(&mut gray) {
        warnings.push(DecodeWarning::ZeroOneScaled);
    }
    if layout.more_pages {
        warnings.push(DecodeWarning::MorePages);
    }
    Ok(Raw {
        gray,
        orientation: layout.orientation,
        warnings,
    })
}

pub(super) fn probe(bytes: &[u8]) -> Result<RawHeader, DecodeError> {
    let layout = Layout::read(bytes)?;
    Ok(RawHeader {
        width: layout.width,
        height: layout.height,
        orientation: layout.orientation,
    })
}

fn malformed(reason: impl ToString) -> DecodeError {
    DecodeError::malformed(PageFormat::Tiff, reason)
}

fn unsupported(feature: impl ToString) -> DecodeError {
    DecodeError::unsupported(PageFormat::Tiff, feature)
}

const TRUNCATED: DecodeError = DecodeError::Truncated {
    format: PageFormat::Tiff,
};
