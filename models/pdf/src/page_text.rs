//! What a page says, and whether it can be trusted.

use serde::{Deserialize, Serialize};

use crate::geometry::PageSize;
use crate::text::{Layer, Scripts, Word, ordered};
use crate::verdict::Verdict;

/// Text layer of a page, with the verdict about it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PageText {
    pub size: PageSize,
    /// Words in reading order, also those of a layer that cannot be trusted.
    pub words: Vec<Word>,
    pub verdict: Verdict,
    pub scripts: Scripts,
    /// Turn of most of the text on the displayed page, clockwise: 0, 90, 180 or 270 degrees.
    pub content_rotation: u16,
}

impl PageText {
    pub(crate) fn of(layer: Layer, size: PageSize, verdict: Verdict) -> Self {
        let words = layer.words.into_iter().map(|found| found.word).collect();
        Self {
            size,
            scripts: layer.scripts,
            content_rotation: layer.content_rotation,
            words: ordered(words, layer.content_rotation),
            verdict,
        }
    }
}
