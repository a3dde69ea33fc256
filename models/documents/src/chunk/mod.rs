//! Chunks of documents: texts of bounded length that are embedded and searched one by one.
//!
//! A chunk consists of whole paragraphs under one heading where their lengths allow it. A longer one is cut at the ends of sentences, a
//! sentence at words (`cut`), and a table by rows (`table`). Lengths are in tokens of whatever will read the chunks.

mod cut;
mod language;
mod pack;
mod pieces;
mod table;
#[cfg(test)]
mod tests;

use std::ops::Range;

use crate::document::{Part, Place};

pub use language::language;

/// Tokenizer: the bytes of a text that each of its tokens stands for, in order.
pub type Tokens<'t> = dyn Fn(&str) -> Vec<Range<usize>> + 't;

/// Origin of a chunk's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChunkKind {
    /// Running text.
    Text,
    /// Rows of a table, with what stands before and below it.
    Table,
}

impl ChunkKind {
    pub const ALL: [Self; 2] = [Self::Text, Self::Table];

    /// Name in tables and files.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Table => "table",
        }
    }
}

/// Lengths of chunks, in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkLimits {
    max: usize,
    min: usize,
    overlap: usize,
}

/// Reason for which lengths cannot be those of chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ChunkLimitsError {
    #[error("chunks of at most {0} tokens are too short to hold a sentence: {least} are the fewest", least = ChunkLimits::LEAST)]
    TooShort(usize),
    #[error("{0} tokens are more than half of a chunk")]
    TooMuch(usize),
}

impl ChunkLimits {
    /// Fewest tokens that may be the bound of chunks.
    pub const LEAST: usize = 16;

    /// Limits of chunks: the bound that none passes, the length below which a chunk goes on under the next heading, and the most that a
    /// chunk repeats from the end of the one before, 0 for nothing.
    ///
    /// # Errors
    ///
    /// [`ChunkLimitsError`] where the bound is too short, or one of the others is more than half of it.
    pub fn new(max: usize, min: usize, overlap: usize) -> Result<Self, ChunkLimitsError> {
        if max < Self::LEAST {
            return Err(ChunkLimitsError::TooShort(max));
        }
        let most = min.max(overlap);
        if most > max / 2 {
            return Err(ChunkLimitsError::TooMuch(most));
        }
        Ok(Self { max, min, overlap })
    }

    /// Room for text that is not repeated.
    fn room(self) -> usize {
        self.max - self.overlap
    }
}

/// Part of the text of a document.
#[derive(Debug, Clone, PartialEq)]
pub struct Chunk {
    pub kind: ChunkKind,
    /// Paragraphs and rows of tables, one below the other; cells are parted by bars.
    pub text: String,
    pub tokens: usize,
    /// Bytes at the beginning of the text that repeat the end of the chunk before.
    pub repeated: usize,
    /// Headings that all of the chunk stands below, from the title down.
    pub headings: Vec<String>,
    /// Places of the text that is not repeated, in reading order; at least one.
    pub places: Vec<Place>,
}

impl Chunk {
    /// Number of the page on which the text begins that is not repeated.
    pub fn page(&self) -> u32 {
        self.places.first().map_or(0, |place| place.page)
    }
}

/// The chunks of a document in reading order. Each letter of its parts is in one of them, and what is repeated in two.
pub fn chunks(parts: &[Part], limits: ChunkLimits, tokens: &Tokens<'_>) -> Vec<Chunk> {
    pack::packed(parts, limits, tokens)
}
