//! Reasons for which a document or a page gives nothing.

/// Reason why a document or a page cannot be used. The same bytes give the same error again, but for [`PdfError::TimedOut`],
/// [`PdfError::Hangs`], [`PdfError::Busy`] and [`PdfError::NoThread`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PdfError {
    #[error("the PDF has no pages")]
    Empty,
    #[error("the PDF is encrypted and needs a password")]
    Password,
    #[error("damaged PDF: {reason}")]
    Damaged { reason: String },
    #[error("the PDF is too large: {what} is {value}, the limit is {limit}")]
    TooLarge {
        what: &'static str,
        value: u64,
        limit: u64,
    },
    #[error("page {} does not exist, the PDF has {pages}", index + 1)]
    NoSuchPage { index: u32, pages: u32 },
    #[error("the PDF was given up after {seconds} s")]
    TimedOut { seconds: u64 },
    /// So many given-up threads still work on this document that no other is started for it.
    #[error("{threads} threads hang in the PDF")]
    Hangs { threads: usize },
    /// So many given-up threads still work on documents, whichever these are, that no other is started.
    #[error("{threads} threads hang in PDFs that were given up")]
    Busy { threads: usize },
    /// The system gives no thread, whatever the document is.
    #[error("no thread can be started for a PDF: {reason}")]
    NoThread { reason: String },
}

impl PdfError {
    pub(crate) fn damaged(reason: impl ToString) -> Self {
        Self::Damaged {
            reason: reason.to_string(),
        }
    }
}
