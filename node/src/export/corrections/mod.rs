//! Corrections of pages as readers and exports see them: put in the place of the lines of a reading.
//!
//! Corrections belong to the pages of a volume and not to a job, so every reading of a page sees them, also one that is made later or with other
//! models. Which of its lines they replace is told by the ids of the lines where it is the reading that was corrected, and else by where
//! the lines are on the scan ([`place()`]). The stages know nothing of corrections, and their tables stay as they were written.

mod apply;
mod blocks;
mod place;

pub use apply::{CorrectedPage, CorrectedVolume, PageState, Unplaced, line_id};
pub(super) use blocks::{blocks_of_lines, correct_blocks};
