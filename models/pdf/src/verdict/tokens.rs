//! Sequences of letters that language models are asked about.

use crate::content::Content;
use crate::text::{Layer, Script, script_of};

/// Edge of a word.
pub(super) const EDGE: char = ' ';

/// Letters of the shortest word of an alphabet: two letters are often an abbreviation, or a number to the base 16.
const FEWEST_LETTERS: usize = 3;

/// Kinds of writing, each of which has statistics of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Writing {
    /// Latin, Greek, Cyrillic.
    Alphabet,
    Han,
    Tibetan,
}

/// Letters that follow each other, between edges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token {
    pub writing: Writing,
    pub font: usize,
    pub letters: Vec<char>,
}

fn writing_of(c: char) -> Option<Writing> {
    match script_of(c) {
        Script::Latin | Script::Greek | Script::Cyrillic => Some(Writing::Alphabet),
        Script::Han => Some(Writing::Han),
        Script::Tibetan => Some(Writing::Tibetan),
        Script::Kana | Script::Other | Script::Common => None,
    }
}

/// Cuts the text of a page into words of one font and writing, without digits and signs. Words with digits are left out: codes and
/// quantities are in no language.
pub(super) fn tokens(content: &Content, layer: &Layer) -> Vec<Token> {
    let mut tokens: Vec<Token> = Vec::new();
    let mut line = None;
    for found in &layer.words {
        let glyphs = content.glyphs.get(found.glyphs.clone()).unwrap_or_default();
        let Some(font) = glyphs.first().map(|glyph| glyph.font) else {
            continue;
        };
        let text = &found.word.text;
        if text
            .chars()
            .any(|c| c.is_numeric() && script_of(c) == Script::Common)
        {
            line = None;
            continue;
        }
        // Chinese has no gaps: a character continues the run of the one before it in its line.
        let run = (found.word.line, font);
        if line == Some(run)
            && text.chars().all(|c| writing_of(c) == Some(Writing::Han))
            && let Some(last) = tokens.last_mut().filter(|last| last.writing == Writing::Han)
        {
            last.letters.extend(text.chars());
            continue;
        }
        line = Some(run);
        for part in text.split(|c: char| writing_of(c).is_none() || is_tibetan_sign(c)) {
            push(part, font, &mut tokens);
        }
    }
    tokens
}

fn push(part: &str, font: usize, tokens: &mut Vec<Token>) {
    let Some(writing) = part.chars().next().and_then(writing_of) else {
        return;
    };
    let letters: Vec<char> = part
        .chars()
        .filter(|c| writing_of(*c) == Some(writing))
        .flat_map(char::to_lowercase)
        .collect();
    let fewest = if writing == Writing::Alphabet {
        FEWEST_LETTERS
    } else {
        1
    };
    if letters.len() >= fewest {
        tokens.push(Token {
            writing,
            font,
            letters,
        });
    }
}

/// Tsheg, shad, marks and digits of Tibetan.
fn is_tibetan_sign(c: char) -> bool {
    matches!(u32::from(c), 0xF01..=0xF3F | 0xFBE..=0xFFF)
}
