//! Pages of PDFs: as pixels, as words with boxes, and with a verdict whether their text can be trusted. Bytes come in and values go
//! out; this crate reads no files and runs nothing that a document holds.
//!
//! Documents are untrusted. `guard` is the one place where the PDF library is called: on a thread of its own, with panics caught
//! and a deadline. Sizes are checked before anything of that size is made.

mod content;
mod document;
mod error;
mod frame;
mod geometry;
mod guard;
mod limits;
mod page_text;
mod pixels;
mod resolution;
mod text;
mod verdict;
mod weight;

pub use document::Document;
pub use error::PdfError;
pub use geometry::{PageSize, PixelMap, Rect};
pub use limits::Limits;
pub use page_text::PageText;
pub use pixels::{PagePixels, PixelOrigin};
pub use resolution::DEFAULT_DPI;
pub use text::{Script, Scripts, Word, script_of};
pub use verdict::{Reason, UnknownVerdict, Verdict, VerdictKind};
