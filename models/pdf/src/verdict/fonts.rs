//! Judgement of each font of a page.

use super::Reason;
use super::ngrams::Ngrams;
use super::scramble::{Plausibility, plausibility};
use super::tokens::{Token, Writing, tokens};
use super::widths;
use crate::content::{Content, Glyph};
use crate::text::{Layer, Script, script_of};

/// Share of a font's glyphs without a usable character above which the font is broken.
const UNUSABLE: f32 = 0.15;
/// Fewest different glyphs among them: one sign, such as a bullet, may be of a font of signs.
const UNUSABLE_KINDS: usize = 4;
/// Share of words that mix what does not go together above which the font is broken.
const MIXED: f32 = 0.35;
const MIXED_WORDS: usize = 6;
/// Share of signs in a word, and of such words in a font, above which the font is broken: its codes were taken for ASCII. The value is a
/// guess.
const SIGNS: f32 = 0.36;
const SIGN_KINDS: usize = 5;
const SIGN_WORD: usize = 3;
const SIGN_GLYPHS: usize = 30;
/// Letters that the comparison of a text with itself needs.
const LETTERS: usize = 40;
/// Different letters that it needs.
const DISTINCT: usize = 10;
/// Deviations below which a text is not more plausible than with its letters exchanged. Texts of the development set that are right
/// have 5 and more from forty letters on; exchanged ones are spread around 0 with a deviation of 1.
const DEVIATIONS: f64 = 3.0;
/// Bits a letter above which a text of so many letters is in no language. Those of the model need 3 to 4.3, letters that were exchanged or
/// spell another script 6.5 and more.
const BITS: f64 = 5.6;
const MANY_LETTERS: usize = 100;
/// Correlation of widths from which on a font's letters are right, whatever they write.
const FITTING: f64 = 0.75;

/// Judgement of a font.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct FontVerdict {
    /// Glyphs of the page in this font, spaces left out.
    pub glyphs: usize,
    /// From 0, broken, to 1; 0.5 if nothing can be said.
    pub score: f32,
    pub reason: Reason,
}

impl FontVerdict {
    pub(super) fn broken(&self) -> bool {
        self.score < 0.5
    }
}

/// Whether a glyph counts as text: spaces do not, nor marks without a width that come along with another glyph.
pub(super) fn counts(glyph: &Glyph) -> bool {
    let blank = glyph.mapped && glyph.text.chars().all(char::is_whitespace);
    !blank && (glyph.em_width > 0.01 || glyph.mapped)
}

/// Judges the fonts of a page.
pub(super) fn judge(content: &Content, layer: &Layer) -> Vec<FontVerdict> {
    let tokens = tokens(content, layer);
    (0..content.fonts)
        .map(|font| {
            let glyphs: Vec<&Glyph> = content
                .glyphs
                .iter()
                .filter(|glyph| glyph.font == font && counts(glyph))
                .collect();
            let words = layer.words.iter().filter(|found| {
                let first = content.glyphs.get(found.glyphs.start);
                first.is_some_and(|glyph| glyph.font == font)
            });
            let words: Vec<&str> = words.map(|found| found.word.text.as_str()).collect();
            let own: Vec<&Token> = tokens.iter().filter(|token| token.font == font).collect();
            judge_font(&glyphs, &words, &own)
        })
        .collect()
}

fn judge_font(glyphs: &[&Glyph], words: &[&str], tokens: &[&Token]) -> FontVerdict {
    let verdict = |score: f32, reason: Reason| FontVerdict {
        glyphs: glyphs.len(),
        score,
        reason,
    };
    if let Some((share, reason)) = unusable(glyphs) {
        return verdict(0.4 * (1.0 - share), reason);
    }
    let mixed = words.iter().filter(|word| is_mixed(word)).count();
    let share = mixed as f32 / words.len().max(1) as f32;
    if mixed >= MIXED_WORDS && share > MIXED {
        return verdict(0.4 * (1.0 - share), Reason::MixedScripts);
    }
    if let Some(share) = signs(words) {
        return verdict(0.4 * (1.0 - share), Reason::SignsForLetters);
    }
    let model = Ngrams::shipped();
    let fit = widths::fit(glyphs.iter().copied());
    let mut score: f32 = 0.6;
    for writing in [Writing::Alphabet, Writing::Han, Writing::Tibetan] {
        let Some(plausible) = plausibility(model, writing, tokens.iter().copied()) else {
            continue;
        };
        if plausible.letters < LETTERS || plausible.distinct < DISTINCT {
            continue;
        }
        let fits = writing == Writing::Alphabet && fit.is_some_and(|(correlation, _)| correlation >= FITTING);
        let foreign =
            writing == Writing::Alphabet && plausible.letters >= MANY_LETTERS && plausible.bits > BITS;
        if (plausible.deviations < DEVIATIONS || foreign) && !fits {
            let reason = match writing {
                Writing::Alphabet => Reason::LettersExchanged,
                Writing::Han | Writing::Tibetan => Reason::CharactersExchanged,
            };
            return verdict(0.05 * plausible.deviations.clamp(0.0, 5.0) as f32, reason);
        }
        score = score.max(certainty(&plausible));
    }
    verdict(score, Reason::TextIsPlausible)
}

fn certainty(plausible: &Plausibility) -> f32 {
    (0.6 + 0.05 * (plausible.deviations - DEVIATIONS)).clamp(0.6, 1.0) as f32
}

/// Share of glyphs without a usable character, with the commonest reason, if there are too many.
fn unusable(glyphs: &[&Glyph]) -> Option<(f32, Reason)> {
    let mut counts = [
        (0_usize, Reason::GlyphsWithoutUnicode),
        (0, Reason::PrivateUse),
        (0, Reason::ReplacementCharacters),
        (0, Reason::ControlCharacters),
    ];
    let mut kinds = std::collections::HashSet::new();
    for glyph in glyphs {
        let Some(fault) = fault(glyph) else { continue };
        kinds.insert(glyph.code);
        if let Some((count, _)) = counts.iter_mut().find(|(_, reason)| *reason == fault) {
            *count += 1;
        }
    }
    let all: usize = counts.iter().map(|(count, _)| count).sum();
    let share = all as f32 / glyphs.len().max(1) as f32;
    let (_, reason) = counts.into_iter().max_by_key(|(count, _)| *count)?;
    (share > UNUSABLE && kinds.len() >= UNUSABLE_KINDS).then_some((share, reason))
}

/// Share of characters in words that consist of signs in large part, if there are too many. Signs that stand alone are those of formulas.
fn signs(words: &[&str]) -> Option<f32> {
    let mut kinds = std::collections::HashSet::new();
    let (mut all, mut rich) = (0_usize, 0_usize);
    for word in words {
        let length = word.chars().count();
        all += length;
        let signs: Vec<char> = word.chars().filter(|c| is_odd_sign(*c)).collect();
        if length >= SIGN_WORD && signs.len() as f32 >= SIGNS * length as f32 {
            rich += length;
            kinds.extend(signs);
        }
    }
    let share = rich as f32 / all.max(1) as f32;
    (share > SIGNS && kinds.len() >= SIGN_KINDS && rich >= SIGN_GLYPHS).then_some(share)
}

/// Whether a character is a sign that is not frequent in leaders, rules, amounts and formulas.
fn is_odd_sign(c: char) -> bool {
    matches!(u32::from(c), 0x21..=0x27 | 0x2A | 0x2B | 0x3A..=0x40 | 0x5B..=0x5E | 0x60 | 0x7B..=0x7E | 0xA1..=0xB6 | 0xB8..=0xBF | 0x2018..=0x201F)
}

fn fault(glyph: &Glyph) -> Option<Reason> {
    if !glyph.mapped || glyph.text.is_empty() {
        return Some(Reason::GlyphsWithoutUnicode);
    }
    glyph.text.chars().find_map(|c| match u32::from(c) {
        0xFFFD => Some(Reason::ReplacementCharacters),
        0xE000..=0xF8FF | 0xF_0000..=0x10_FFFD => Some(Reason::PrivateUse),
        0xFFFE | 0xFFFF | 0xFDD0..=0xFDEF => Some(Reason::ControlCharacters),
        0x09 | 0x0A | 0x0D => None,
        0..=0x1F | 0x7F..=0x9F => Some(Reason::ControlCharacters),
        _ => None,
    })
}

/// Whether a word mixes what no word does: letters of two scripts, or signs of mathematics among letters.
fn is_mixed(word: &str) -> bool {
    let mut letters = None;
    let mut inner_sign = false;
    let mut sign_after_letter = false;
    for c in word.chars() {
        let script = script_of(c);
        match script {
            Script::Common => {
                if letters.is_some() && matches!(u32::from(c), 0x2190..=0x23FF | 0x25A0..=0x27BF) {
                    sign_after_letter = true;
                }
            }
            _ => {
                inner_sign |= sign_after_letter;
                if letters.is_some_and(|before| before != script) {
                    return true;
                }
                letters = Some(script);
            }
        }
    }
    inner_sign || is_operators(word)
}

/// Whether a word is of different signs of mathematics alone, as digits and letters are in a font for symbols.
fn is_operators(word: &str) -> bool {
    let operator = |c: char| matches!(u32::from(c), 0x2190..=0x23FF);
    let first = word.chars().next();
    word.chars().all(operator) && word.chars().any(|c| Some(c) != first)
}
