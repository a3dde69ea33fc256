//! Errors of writing a searchable PDF.

use std::io;

use thiserror::Error;

/// Failure to write a searchable PDF.
#[derive(Debug, Error)]
pub enum SearchableError {
    /// The layer of an encrypted file would have to be encrypted with its key.
    #[error("the PDF is encrypted, and a text layer can only be added to one that is not")]
    Encrypted,
    #[error("the PDF cannot be read: it has no catalog with pages")]
    Unreadable,
    #[error("the PDF has no page {page}: it has {pages}")]
    NoSuchPage { page: usize, pages: usize },
    #[error("page {page} has a text layer already in this update")]
    RepeatedPage { page: usize },
    #[error(
        "page {page} of the PDF is not an object of its own, or not a well-formed one, and cannot be replaced"
    )]
    DamagedPage { page: usize },
    /// Offsets and object numbers have a largest value.
    #[error("the PDF is too large to be written")]
    TooLarge,
    #[error("writing the PDF: {0}")]
    Write(#[from] io::Error),
}

/// Reason for which a picture cannot be put into a PDF.
#[derive(Debug, Error)]
pub enum PictureError {
    #[error("the picture cannot be decoded: {0}")]
    Decode(String),
    #[error(
        "the picture has {width} by {height} pixels, but {expected} bytes of pixels do not follow from that"
    )]
    Size {
        width: u32,
        height: u32,
        expected: usize,
    },
}
