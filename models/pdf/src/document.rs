use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use hayro_syntax::page::Page;
use hayro_syntax::{DecryptionError, LoadPdfError, Pdf};
use image::RgbImage;

use crate::frame::Frame;
use crate::geometry::PageSize;
use crate::guard::{Hung, Watch, guarded};
use crate::limits::within;
use crate::page_text::PageText;
use crate::pixels::PagePixels;
use crate::weight::{Checked, check_file, check_page};
use crate::{Limits, PdfError, content, pixels, text, verdict};

/// Document that was opened. Clones share it, also between threads.
#[derive(Clone)]
pub struct Document {
    inner: Arc<Inner>,
}

struct Inner {
    bytes: Bytes,
    pdf: Pdf,
    pages: u32,
    limits: Limits,
    /// Objects that a page may use without being looked at again.
    checked: Checked,
    hung: Hung,
}

impl fmt::Debug for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Document")
            .field("pages", &self.inner.pages)
            .finish_non_exhaustive()
    }
}

impl Document {
    /// Opens a document. One that is encrypted with an empty password opens without one; cross-references that are wrong are made
    /// anew.
    ///
    /// # Errors
    ///
    /// [`PdfError::TooLarge`], [`PdfError::Damaged`], [`PdfError::Password`] if there is another password, [`PdfError::Empty`] if there are
    /// no pages, [`PdfError::TimedOut`].
    pub fn open(bytes: Bytes, password: Option<&str>, limits: &Limits) -> Result<Self, PdfError> {
        within("its length", bytes.len() as u64, limits.max_bytes)?;
        let password = password.unwrap_or_default().to_owned();
        let own = limits.clone();
        let hung = Hung::default();
        guarded(limits.open_time, &hung.clone(), move |watch| {
            check_file(&bytes, &own, watch)?;
            let pdf = load(bytes.clone(), &password)?;
            let pages = pdf.pages().len() as u64;
            within("the number of its pages", pages, u64::from(own.max_pages))?;
            if pages == 0 {
                return Err(PdfError::Empty);
            }
            let inner = Inner {
                pages: u32::try_from(pages).unwrap_or(u32::MAX),
                bytes,
                pdf,
                limits: own,
                checked: Checked::default(),
                hung,
            };
            Ok(Self {
                inner: Arc::new(inner),
            })
        })
    }

    /// The file as it was given.
    pub fn bytes(&self) -> &Bytes {
        &self.inner.bytes
    }

    pub fn page_count(&self) -> u32 {
        self.inner.pages
    }

    /// Returns the size of a page; pages are counted from 0.
    ///
    /// # Errors
    ///
    /// [`PdfError::NoSuchPage`], [`PdfError::TooLarge`], [`PdfError::TimedOut`].
    pub fn size(&self, index: u32) -> Result<PageSize, PdfError> {
        self.ask(index, |page, _, _| Ok(Frame::of(page)?.size))
    }

    /// Returns the words of a page's text layer, visible or not, and whether they can be trusted.
    ///
    /// # Errors
    ///
    /// Those of [`size`](Self::size), and [`PdfError::Damaged`].
    pub fn text(&self, index: u32) -> Result<PageText, PdfError> {
        self.ask(index, |page, limits, watch| {
            let content = content::survey(page, limits, watch)?;
            let layer = text::layer(&content);
            let verdict = verdict::judge(page, &content, &layer);
            Ok(PageText::of(layer, &content, verdict))
        })
    }

    /// Returns the pixels of a page: its picture as it is, if the page is one upright picture, else a rendering at this resolution
    /// or, if that had too many pixels, a lower one.
    ///
    /// # Errors
    ///
    /// Those of [`size`](Self::size), and [`PdfError::Damaged`].
    pub fn pixels(&self, index: u32, dpi: f32) -> Result<PagePixels, PdfError> {
        self.ask(index, move |page, limits, watch| {
            let content = content::survey(page, limits, watch)?;
            pixels::of(page, &content, dpi, limits)
        })
    }

    /// Returns the width and height in pixels of the largest [`picture`](Self::picture) of a page, which is the page at
    /// [`DEFAULT_DPI`](crate::DEFAULT_DPI) unless that had too many pixels.
    ///
    /// # Errors
    ///
    /// Those of [`size`](Self::size).
    pub fn picture_size(&self, index: u32) -> Result<(u32, u32), PdfError> {
        self.ask(index, |page, limits, _| {
            Ok(pixels::usual_size(Frame::of(page)?.size, limits))
        })
    }

    /// Returns a page in colour for people, with at most so many pixels a side.
    ///
    /// # Errors
    ///
    /// Those of [`size`](Self::size), and [`PdfError::Damaged`].
    pub fn picture(&self, index: u32, max_side: u16) -> Result<RgbImage, PdfError> {
        self.ask(index, move |page, limits, watch| {
            let content = content::survey(page, limits, watch)?;
            pixels::picture(page, &content, max_side, limits)
        })
    }

    fn ask<T: Send + 'static>(
        &self,
        index: u32,
        question: impl FnOnce(&Page<'_>, &Limits, &Watch) -> Result<T, PdfError> + Send + 'static,
    ) -> Result<T, PdfError> {
        let pages = self.inner.pages;
        if index >= pages {
            return Err(PdfError::NoSuchPage { index, pages });
        }
        let document = self.clone();
        guarded(self.inner.limits.page_time, &self.inner.hung, move |watch| {
            let pages = document.inner.pdf.pages();
            let missing = PdfError::NoSuchPage {
                index,
                pages: document.inner.pages,
            };
            let page = pages.get(index as usize).ok_or(missing)?;
            check_page(page, &document.inner.limits, &document.inner.checked)?;
            question(page, &document.inner.limits, watch)
        })
    }
}

fn load(bytes: Bytes, password: &str) -> Result<Pdf, PdfError> {
    if !bytes.iter().any(|byte| !byte.is_ascii_whitespace()) {
        return Err(PdfError::damaged("the file is empty"));
    }
    // A tree without pages is taken for a broken one by the library, which then finds none.
    let no_pages = has_empty_tree(&bytes);
    Pdf::new_with_password(Arc::new(bytes), password).map_err(|error| match error {
        LoadPdfError::Decryption(DecryptionError::PasswordProtected) => PdfError::Password,
        LoadPdfError::Decryption(error) => {
            PdfError::damaged(format!("its encryption cannot be read: {error:?}"))
        }
        LoadPdfError::Invalid if no_pages => PdfError::Empty,
        LoadPdfError::Invalid => PdfError::damaged("it has no readable pages"),
    })
}

/// Returns whether a file says that it has no pages, in clear text.
fn has_empty_tree(bytes: &[u8]) -> bool {
    let squeezed: Vec<u8> = bytes
        .iter()
        .take(1 << 20)
        .filter(|byte| !byte.is_ascii_whitespace())
        .copied()
        .collect();
    let holds = |wanted: &[u8]| squeezed.windows(wanted.len()).any(|window| window == wanted);
    holds(b"/Type/Pages") && holds(b"/Kids[]") && !holds(b"/Type/Page/") && !holds(b"/Type/Page>")
}
