//! DocTags, the form in which document models write pages (Livathinos et al. 2025): a tag for each block, with its place on a grid of 500
//! by 500, and tables as tokens of rows (OTSL, Lysak et al. 2023). `docling-core` reads it, and models such as granite-docling answer
//! with it: `read` is the inverse of `write`.

mod read;
mod table;
mod token;
mod write;

pub use read::{DocTagsError, blocks_of_doctags};
pub use write::doctags;

/// Places along each side of a page.
const GRID: f32 = 500.0;
