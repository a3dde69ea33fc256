//! Documents made of pages. A page comes as words with boxes and as the regions that the layout networks see; it becomes
//! [blocks](Block) in reading order, each with a role, and tables with cells.
//!
//! The words are the truth about where text is, the networks about what a part of the page is for. So text is put together by rules on
//! the words alone (`lines`, `paragraphs`), which hold for any print, and regions decide only what rules cannot see: tables, figures,
//! and which of the small blocks are captions or headings (`roles`). A region that the words contradict is not followed.
//!
//! Everything here is a pure function of its arguments; it knows neither networks nor files, and is below both in the order of crates: what
//! the networks see is of types that are here (`layout`). Coordinates are in points of the page as it
//! lies, x to the right and y down.

mod block;
mod cells;
mod geometry;
mod layout;
mod lines;
mod markers;
mod page;
mod paragraphs;
mod roles;

pub use block::{Block, Cell, Role, Table};
pub use layout::{PageLayout, PlacedTable, Region, RegionKind, TableCell, TableStructure};
pub use page::{Page, PageWord, blocks, turn_of};
