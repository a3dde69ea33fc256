//! Table of words with their boxes.

use super::columns::named_column;
use super::row::artifact_row;

artifact_row! {
    /// Row of `words.parquet`: a word. Its box is in points, 72 to the inch, of the page as it is displayed, from its top left corner.
    pub struct WordRow = "words", version 1, batches of 4096 {
        image_name: String,
        /// Position of the page in its volume, from 0.
        page_index: i32,
        /// Number of the page in its volume, from 1, as names of files and addresses have it.
        page: i32,
        /// Reading position of the word on its page, from 0.
        word_index: i32,
        text: String,
        bbox_x0: f32,
        bbox_y0: f32,
        bbox_x1: f32,
        bbox_y1: f32,
        /// Confidence of the engine in the word, 0 to 1; absent for words that the file of the page holds.
        confidence: Option<f32>,
        /// Line of the page that the word stands on, from 0.
        line: i32,
        source: WordSource,
        /// Engine that read the word; empty for words that the file of the page holds.
        engine: String,
        /// True for the words of a page whose own text seemed good until a look at its picture contradicted it, so that it was read;
        /// absent in tables from before such looks.
        contradicted: Option<bool>,
    }
}

/// Origin of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WordSource {
    /// The text that the file of the page holds.
    TextLayer,
    /// A reading of the page's picture.
    Ocr,
}

impl WordSource {
    pub const ALL: [Self; 2] = [Self::TextLayer, Self::Ocr];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TextLayer => "text_layer",
            Self::Ocr => "ocr",
        }
    }
}

named_column!(WordSource, "source of words");
