//! Searchable PDF: pages with an invisible text layer, so that viewers select, find and copy what a scan shows.
//!
//! [`TextLayer`] appends an incremental update to a PDF, whose bytes stay as they are; [`PictureBook`] makes a PDF of pictures. Both write
//! page after page to a stream. Words come with boxes and lines; the crate knows neither pipelines nor networks.
//!
//! The layer is drawn before the content of a page: invisible text may lie anywhere in the painting order, and there it meets the graphics
//! state as the page begins with it, whatever the content does with `q` and `Q`. The text that a page has itself stays in its content; where it
//! is wrong, the fonts of that page are exchanged for copies by which no program reads letters in it ([`OwnText::Blanked`]).

mod blank;
mod boxes;
mod codes;
mod content;
mod error;
mod font;
mod glyphless;
mod layer;
mod layout;
mod level;
mod object_file;
mod original;
mod picture;
mod picture_book;
mod repair;
mod syntax;

pub use boxes::{OwnText, PageSize, Spacing, Word};
pub use error::{PictureError, SearchableError};
pub use layer::TextLayer;
pub use picture::PagePicture;
pub use picture_book::{BookInfo, PictureBook};
