//! Text layer of a page: words with boxes, made of glyphs by their places.

mod order;
mod script;
mod words;

use serde::{Deserialize, Serialize};

pub(crate) use order::ordered;
pub use script::{Script, script_of};
pub(crate) use words::{Layer, layer};

use crate::geometry::Rect;

/// Word of a text layer. A Latin word is what stands between gaps, a Chinese one a character, a Tibetan one a syllable with the tsheg or
/// shad after it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Word {
    pub text: String,
    /// Box in points of the displayed page: from the start of the first glyph to the end of the last, as high as the font's letters.
    pub bbox: Rect,
    /// Number of the line, in reading order from 0.
    pub line: u32,
    /// Whether the text is painted; text over a scan is not.
    pub visible: bool,
}

/// Characters of a page by script; spaces, digits and punctuation belong to none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Scripts {
    pub latin: u32,
    pub han: u32,
    pub tibetan: u32,
    pub other: u32,
}
