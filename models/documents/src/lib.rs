//! Documents made of pages. A page comes as words with boxes and as the regions that the layout networks see; it becomes
//! [blocks](Block) in reading order, each with a role, and tables with cells.
//!
//! Text is put together by rules on the words alone (`lines`, `paragraphs`), which hold for any print, and regions decide only what
//! rules cannot see: tables, figures, and which of the small blocks are captions or headings (`roles`). A region that the words
//! contradict is not followed.
//!
//! A [document](parts) is made of the blocks of its pages: paragraphs are joined over the ends of columns and pages, and headers and
//! footers left out. It is written in several forms, and cut into [chunks] that are embedded and searched.
//!
//! Everything here is a pure function of its arguments; it knows neither networks nor files, and is below both in the order of crates: what
//! the networks see is of types that are here (`layout`). Coordinates are in points of the page as it lies, x to the right and y down.

mod block;
mod captions;
mod cells;
mod chunk;
mod doctags;
mod document;
mod geometry;
mod headings;
mod html;
mod layout;
mod lines;
mod markdown;
mod markers;
mod page;
mod paragraphs;
mod roles;
mod tei;
mod tibetan;
mod word;

pub use block::{Block, Cell, Role, Table, TableError};
pub use chunk::{Chunk, ChunkKind, ChunkLimits, ChunkLimitsError, Tokens, chunks, language};
pub use doctags::{DocTagsError, blocks_of_doctags, doctags};
pub use document::{DocumentPage, Part, Place, parts};
pub use geometry::{area, intersection};
pub use html::html;
pub use layout::{LayoutClass, PageLayout, PlacedTable, Region, TableCell, TableStructure};
pub use markdown::markdown;
pub use page::{Page, blocks, turn_of};
pub use tei::tei;
pub use tibetan::{ScanLine, tibetan_blocks};
pub use word::PageWord;
