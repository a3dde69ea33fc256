//! Whether the text of a page can be trusted. Faults of a text layer are faults of a font, so each font of a page is judged apart, and a
//! page is broken if enough of its text is in a broken font.
//!
//! A font is judged by what its characters are (none, private use, controls), by language models (`ngrams`, `scramble`), and by
//! the widths of its letters (`widths`). A page is compared with its ink where a picture covers most of it (`ink`).

mod fonts;
mod ink;
mod kind;
mod ngrams;
mod reason;
mod scramble;
mod tokens;
mod widths;

use hayro_syntax::page::Page;

pub use kind::{UnknownVerdict, Verdict, VerdictKind};
pub use reason::Reason;

use crate::content::Content;
use crate::text::Layer;
use fonts::FontVerdict;

/// Share of a page's characters that must be in broken fonts for the page to be broken. In the development set partly broken pages
/// have a fifth or more; a good page may have bullets in a font without a mapping. The value between is a guess.
const BROKEN_SHARE: f32 = 0.06;
/// Fewest characters in broken fonts by which a page is broken, unless they are half of it.
const BROKEN_GLYPHS: usize = 12;
/// Letters drawn as paths for each character of the text, and how many in all, above which the text is beside the point.
const OUTLINES_PER_GLYPH: usize = 3;
const OUTLINES: usize = 150;

/// Judges the text of a page.
pub(crate) fn judge(page: &Page<'_>, content: &Content, layer: &Layer) -> Verdict {
    let glyphs = content.glyphs.iter().filter(|glyph| fonts::counts(glyph)).count();
    if glyphs == 0 {
        let marked = content.paths > 0 || !content.pictures.is_empty();
        return if marked {
            Verdict::of(VerdictKind::None, 0.0, Reason::NoText)
        } else {
            Verdict::of(VerdictKind::Blank, 1.0, Reason::NothingDrawn)
        };
    }
    if content.letter_paths >= OUTLINES && content.letter_paths > OUTLINES_PER_GLYPH * glyphs {
        return Verdict::of(VerdictKind::None, 0.1, Reason::OutlinedText);
    }
    let verdicts = fonts::judge(content, layer);
    let broken: usize = verdicts
        .iter()
        .filter(|font| font.broken())
        .map(|font| font.glyphs)
        .sum();
    let share = broken as f32 / glyphs as f32;
    let worst = verdicts
        .iter()
        .filter(|font| font.broken())
        .max_by_key(|font| font.glyphs);
    if let Some(worst) = worst
        && share >= BROKEN_SHARE
        && (broken >= BROKEN_GLYPHS || share >= 0.5)
    {
        return Verdict::of(VerdictKind::Broken, (1.0 - share).min(worst.score), worst.reason);
    }
    if let Some(uncovered) = ink::uncovered(page, content, layer) {
        return Verdict::of(VerdictKind::None, 1.0 - uncovered, Reason::TextOverPartOfScan);
    }
    let score = verdicts
        .iter()
        .map(|font: &FontVerdict| font.score * font.glyphs as f32)
        .sum::<f32>()
        / glyphs as f32;
    Verdict::of(VerdictKind::Good, score, Reason::TextIsPlausible)
}
