//! Scans: pages as their source has them, whatever their files are.

use bytes::Bytes;
use image::{DynamicImage, GrayImage};
use parkhang_cv::decode::{DecodeError, DecodeLimits, DecodedPage, PageFormat, decode_page_unless};
use parkhang_pdf::{DEFAULT_DPI, Document, PageText, PdfError, PixelMap};

use parkhang_core::domain::ErrorCategory;

/// Points to the inch.
const POINTS: f32 = 72.0;

/// Page of a volume as its source has it.
#[derive(Debug, Clone)]
pub enum Scan {
    /// The bytes of an image file.
    Image(Bytes),
    /// A page of a PDF.
    Pdf(PdfPage),
}

/// Page of an open PDF, which its pages share.
#[derive(Debug, Clone)]
pub struct PdfPage {
    pub document: Document,
    /// Number from 0.
    pub index: u32,
}

/// Pixels of a scan.
#[derive(Debug)]
pub struct ScanPixels {
    pub page: DecodedPage,
    /// Place of the pixels on the displayed page of a PDF; `None` for an image file.
    pub map: Option<PixelMap>,
}

/// Reason for which a scan has no pixels or no text.
#[derive(Debug, thiserror::Error)]
pub enum ScanError {
    #[error(transparent)]
    Image(#[from] DecodeError),
    #[error(transparent)]
    Pdf(#[from] PdfError),
}

impl ScanError {
    /// Category by which a stage decides about another try.
    pub fn category(&self) -> ErrorCategory {
        match self {
            Self::Pdf(PdfError::TimedOut { .. }) => ErrorCategory::Timeout,
            Self::Image(_) | Self::Pdf(_) => ErrorCategory::Input,
        }
    }
}

impl Scan {
    /// Decodes an image file, or takes or renders a page of a PDF. Blocks.
    ///
    /// # Errors
    ///
    /// [`ScanError`] for what has no pixels, and where `cancelled` says so.
    pub fn pixels(
        &self,
        limits: &DecodeLimits,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<ScanPixels, ScanError> {
        match self {
            Self::Image(bytes) => Ok(ScanPixels {
                page: decode_page_unless(bytes, limits, cancelled)?,
                map: None,
            }),
            Self::Pdf(PdfPage { document, index }) => {
                let pixels = document.pixels(*index, DEFAULT_DPI)?;
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
        }
    }

    /// The whole page as it is displayed: the pixels of an image file, or a page of a PDF at its usual resolution, with what lies beside
    /// its pictures. Blocks.
    ///
    /// # Errors
    ///
    /// [`ScanError`] for a page that cannot be shown.
    pub fn displayed(&self) -> Result<GrayImage, ScanError> {
        match self {
            Self::Image(_) => Ok(self.pixels(&DecodeLimits::default(), &|| false)?.page.gray),
            Self::Pdf(PdfPage { document, index }) => {
                let size = document.size(*index)?;
                let side = size.width.max(size.height) * DEFAULT_DPI / POINTS;
                let side = side.round().clamp(1.0, f32::from(u16::MAX)) as u16;
                Ok(DynamicImage::ImageRgb8(document.picture(*index, side)?).into_luma8())
            }
        }
    }

    /// Text that the file of the page holds, and what it is worth; `None` for an image file. Blocks.
    ///
    /// # Errors
    ///
    /// [`ScanError`] for a page that cannot be read.
    pub fn text(&self) -> Result<Option<PageText>, ScanError> {
        match self {
            Self::Image(_) => Ok(None),
            Self::Pdf(PdfPage { document, index }) => Ok(Some(document.text(*index)?)),
        }
    }
}
