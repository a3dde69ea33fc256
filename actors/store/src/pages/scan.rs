//! A page of a volume as its source has it, and its pixels, whatever it was.

use std::io::Cursor;

use bytes::Bytes;
use image::codecs::jpeg::JpegEncoder;
use image::{DynamicImage, GrayImage};
use parkhang_cv::decode::{DecodeError, DecodeLimits, DecodedPage, PageFormat, decode_page_unless};
use parkhang_pdf::{DEFAULT_DPI, Document, PageText, PdfError, PixelMap};

use crate::artifact::Digest;
use parkhang_core::domain::ErrorCategory;

/// Longest side of a PDF page as a picture for people, in pixels.
const PICTURE_SIDE: u16 = 2400;
const PICTURE_QUALITY: u8 = 80;

/// Page of a volume: the bytes of an image file, or a page of a PDF that is open.
#[derive(Debug, Clone)]
pub enum Scan {
    Image(Bytes),
    Pdf(PdfPage),
}

/// Page of a PDF that is open and shared with its other pages.
#[derive(Debug, Clone)]
pub struct PdfPage {
    /// Name of the file, or its place on the disk.
    pub file: String,
    pub document: Document,
    /// Number from 0.
    pub index: u32,
    /// Version of the document.
    pub version: String,
}

/// Pixels of a scan.
#[derive(Debug, Clone)]
pub struct ScanPixels {
    pub page: DecodedPage,
    /// Place of the pixels on the displayed page of a PDF; `None` for an image file.
    pub map: Option<PixelMap>,
}

/// Picture of a whole page for people.
#[derive(Debug, Clone)]
pub struct DisplayedPage {
    pub picture: GrayImage,
    /// Width and height of the page in full size, in pixels; those of the picture may be smaller.
    pub size: (u32, u32),
}

/// Reason for which a scan gives nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScanError {
    #[error(transparent)]
    Image(#[from] DecodeError),
    #[error(transparent)]
    Pdf(#[from] PdfError),
    #[error("page {page} cannot be made a picture: {message}")]
    Picture { page: u32, message: String },
}

impl ScanError {
    /// Category by which a stage decides about another try.
    pub fn category(&self) -> ErrorCategory {
        match self {
            Self::Image(_) => ErrorCategory::Input,
            Self::Pdf(error) => category(error),
            Self::Picture { .. } => ErrorCategory::Runtime,
        }
    }
}

pub(super) fn category(error: &PdfError) -> ErrorCategory {
    match error {
        PdfError::TimedOut { .. } | PdfError::Hangs { .. } => ErrorCategory::Timeout,
        // Whatever document comes next, it is not to blame.
        PdfError::Busy { .. } | PdfError::NoThread { .. } => ErrorCategory::Node,
        _ => ErrorCategory::Input,
    }
}

impl Scan {
    /// Bytes of the image file; `None` for a page of a PDF.
    pub fn image(&self) -> Option<&Bytes> {
        match self {
            Self::Image(bytes) => Some(bytes),
            Self::Pdf(_) => None,
        }
    }

    /// Digest of what the pixels are made of.
    pub fn digest(&self) -> Digest {
        match self {
            Self::Image(bytes) => Digest::of(bytes),
            Self::Pdf(page) => Digest::of_parts([page.version.as_bytes(), &page.index.to_le_bytes()]),
        }
    }

    /// Decodes an image file; takes or renders a page of a PDF. Blocks.
    ///
    /// # Errors
    ///
    /// [`ScanError`] if there are no pixels, or nobody waits for them any more.
    pub fn pixels(
        &self,
        limits: &DecodeLimits,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<ScanPixels, ScanError> {
        let page = match self {
            Self::Image(bytes) => {
                let page = decode_page_unless(bytes, limits, cancelled)?;
                return Ok(ScanPixels { page, map: None });
            }
            Self::Pdf(page) => page,
        };
        let pixels = page.document.pixels(page.index, DEFAULT_DPI)?;
        Ok(ScanPixels {
            page: DecodedPage {
                gray: pixels.gray,
                bilevel: pixels.bilevel,
                format: PageFormat::Pnm,
                warnings: Vec::new(),
            },
            map: Some(pixels.map),
        })
    }

    /// The whole page as it is displayed: the pixels of an image file, or a page of a PDF with what lies beside its pictures, drawn in the
    /// size that `reduced` gives for its full one. Blocks.
    ///
    /// # Errors
    ///
    /// [`ScanError`] for a page that cannot be shown.
    pub fn displayed(
        &self,
        reduced: impl FnOnce((u32, u32)) -> (u32, u32),
    ) -> Result<DisplayedPage, ScanError> {
        let page = match self {
            Self::Image(_) => {
                let picture = self.pixels(&DecodeLimits::default(), &|| false)?.page.gray;
                let size = picture.dimensions();
                return Ok(DisplayedPage { picture, size });
            }
            Self::Pdf(page) => page,
        };
        let size = page.document.picture_size(page.index)?;
        let (width, height) = reduced(size);
        let side = u16::try_from(width.max(height)).unwrap_or(u16::MAX);
        let picture = page.document.picture(page.index, side)?;
        Ok(DisplayedPage {
            picture: DynamicImage::ImageRgb8(picture).into_luma8(),
            size,
        })
    }

    /// Words of a PDF page's text layer, with the verdict about them; `None` for an image file. Blocks.
    ///
    /// # Errors
    ///
    /// [`ScanError`] if the page cannot be read.
    pub fn text(&self) -> Result<Option<PageText>, ScanError> {
        match self {
            Self::Image(_) => Ok(None),
            Self::Pdf(page) => Ok(Some(page.document.text(page.index)?)),
        }
    }

    /// File that other programs show: the image file itself, or a PDF page as a JPEG. Blocks.
    ///
    /// # Errors
    ///
    /// [`ScanError`] if the page cannot be drawn.
    pub fn picture(&self) -> Result<Bytes, ScanError> {
        let page = match self {
            Self::Image(bytes) => return Ok(bytes.clone()),
            Self::Pdf(page) => page,
        };
        let drawn = page.document.picture(page.index, PICTURE_SIDE)?;
        let mut jpeg = Cursor::new(Vec::new());
        drawn
            .write_with_encoder(JpegEncoder::new_with_quality(&mut jpeg, PICTURE_QUALITY))
            .map_err(|error| ScanError::Picture {
                page: page.index + 1,
                message: error.to_string(),
            })?;
        Ok(jpeg.into_inner().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_other_documents_have_left_behind_is_a_fault_of_the_node() {
        let reason = "Resource temporarily unavailable".to_owned();
        for error in [PdfError::Busy { threads: 16 }, PdfError::NoThread { reason }] {
            assert_eq!(category(&error), ErrorCategory::Node, "{error}");
        }
        assert_eq!(category(&PdfError::Hangs { threads: 4 }), ErrorCategory::Timeout);
    }
}
