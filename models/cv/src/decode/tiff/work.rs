//! Limits of the work that a directory asks for. Its entries are numbers that the file need not bear out: tiles of any size on
//! a page of one pixel, and the same bytes for each of a million strips. What a page takes to decode is bounded by its area and
//! by the length of its file before any of it is decompressed.

use super::DecodeError;
use super::layout::Layout;
use crate::decode::PageFormat;

/// Pixels that the tiles of a small page may hold beside it: one tile of 4096 x 4096.
const PADDING: u64 = 1 << 24;
/// Number of times that the bytes of a file may be read. Some writers store equal strips once.
const READINGS: u64 = 4;
/// Bytes that may be read beyond that: small files with many equal tiles are small work.
const SPARE_BYTES: u64 = 64 << 20;

/// # Errors
/// [`DecodeError::TooMuchWork`] where the strips or tiles together hold more than twice the pixels of the page (and 16
/// megapixels), or more bytes than four times the file (and 64 MiB).
pub(super) fn check(layout: &Layout, file: usize) -> Result<(), DecodeError> {
    let refusal = |reason: String| DecodeError::TooMuchWork {
        format: PageFormat::Tiff,
        bytes: file,
        reason,
    };
    let area = u64::from(layout.width) * u64::from(layout.height);
    let stored = layout.stored_pixels();
    if stored > area.saturating_mul(2).saturating_add(PADDING) {
        return Err(refusal(format!(
            "a page of {area} pixels in strips or tiles of {stored}"
        )));
    }
    let read = layout.stored_bytes();
    let allowed = (file as u64).saturating_mul(READINGS).saturating_add(SPARE_BYTES);
    if read > allowed {
        return Err(refusal(format!("its strips or tiles have {read} bytes together")));
    }
    Ok(())
}
