//! Errors of a page without pixels, and warnings of a page that has them.

use super::PageFormat;

/// Reason why a file gives no pixels. Retrying the same bytes gives the same error, but for [`DecodeError::Cancelled`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    #[error("the file is empty")]
    Empty,
    /// A text of HTML or XML: servers answer with an error page where an image should be.
    #[error("the content is an HTML or XML document, not an image")]
    Markup,
    #[error("the content is no image format that is known here")]
    UnknownFormat,
    #[error("{name} files are not supported")]
    UnsupportedFormat { name: &'static str },
    #[error("{format} with {feature} is not supported")]
    UnsupportedFeature { format: PageFormat, feature: String },
    #[error("the image has no pixels: {width} x {height}")]
    ZeroDimension { width: u32, height: u32 },
    #[error("the image of {width} x {height} exceeds the limit of {max_pixels} pixels")]
    TooManyPixels {
        width: u32,
        height: u32,
        max_pixels: u64,
    },
    #[error("decoding needs {bytes} bytes, the limit is {max_bytes}")]
    TooManyBytes { bytes: u64, max_bytes: u64 },
    #[error("the {format} data ends too early")]
    Truncated { format: PageFormat },
    #[error("damaged {format}: {reason}")]
    Malformed { format: PageFormat, reason: String },
    /// Work without end, which a few bytes may name: the same data for every strip, or tiles far larger than the page.
    #[error("the {format} asks for far more work than its page and its {bytes} bytes can need: {reason}")]
    TooMuchWork {
        format: PageFormat,
        bytes: usize,
        reason: String,
    },
    /// Cancellation by the caller, which says nothing of the file.
    #[error("nobody waits for the page any more")]
    Cancelled,
}

impl DecodeError {
    pub(super) fn malformed(format: PageFormat, reason: impl ToString) -> Self {
        Self::Malformed {
            format,
            reason: reason.to_string(),
        }
    }

    pub(super) fn unsupported(format: PageFormat, feature: impl ToString) -> Self {
        Self::UnsupportedFeature {
            format,
            feature: feature.to_string(),
        }
    }
}

/// Fault of a file whose pixels are returned all the same.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeWarning {
    #[error("the file holds more than one page; the first is used")]
    MorePages,
    /// Damage, by which part of the picture may be wrong.
    #[error("the image data is damaged: {reason}")]
    Damaged { reason: String },
    #[error("the JPEG has no end marker")]
    MissingEndMarker,
    /// A CCITT stream closed itself before its last row; such rows count as blank.
    #[error("the last {rows} rows are not stored")]
    MissingRows { rows: u32 },
    /// An 8-bit file of zeros and ones is a 1-bit page that was written without scaling.
    #[error("grey values 0 and 1 were scaled to 0 and 255")]
    ZeroOneScaled,
}
