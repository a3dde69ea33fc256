//! What a page says, and whether it can be trusted.

use serde::{Deserialize, Serialize};

use crate::content::Content;
use crate::geometry::PageSize;
use crate::text::{Layer, Scripts, Word};
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
    /// Share of the page that its largest picture covers, 0 to 1.
    pub picture_share: f32,
}

impl PageText {
    pub(crate) fn of(layer: Layer, content: &Content, verdict: Verdict) -> Self {
        Self {
            size: content.frame.size,
            picture_share: content.picture_share() as f32,
            scripts: layer.scripts,
            content_rotation: layer.content_rotation,
            words: layer.words.into_iter().map(|found| found.word).collect(),
            verdict,
        }
    }
}
