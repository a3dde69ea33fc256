//! Splitting Wylie into signs.

use super::letters::{CONSONANTS, Consonant, FINALS, Final, STANDALONE, VOWELS};

/// A sign of a Wylie text and its spelling.
#[derive(Debug, Clone, Copy)]
pub(super) struct Token<'a> {
    pub(super) text: &'a str,
    pub(super) sign: Sign,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Sign {
    Consonant(&'static Consonant),
    /// The Unicode vowel sign; empty for `a`.
    Vowel(&'static str),
    Final(&'static Final),
    Standalone(char),
    Plus,
    Dot,
    Newline,
    OpenBracket,
    CloseBracket,
    /// A backslash and what it protects: one character, or `u` with 4 and `U` with 8 digits.
    Escape,
    /// A byte order mark or a space without width.
    Invisible,
    Other,
}

const LINE_BREAK: &str = "\r\n";
/// Length of the longest spelling.
const LONGEST: usize = 4;

pub(super) fn tokenize(wylie: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::with_capacity(wylie.len());
    let mut rest = wylie;
    while let Some(first) = rest.chars().next() {
        let length = multi_letter(rest)
            .or_else(|| escape(rest))
            .unwrap_or(first.len_utf8());
        let (text, tail) = rest.split_at(length);
        tokens.push(Token {
            text,
            sign: sign(text, first),
        });
        rest = tail;
    }
    tokens
}

/// Length of the longest spelling of several letters at the start of `rest`; all of them are ASCII.
fn multi_letter(rest: &str) -> Option<usize> {
    // The longest first: `tsh` is not `t` and `sh`. Where a length ends within a character, `get` finds no
    // text.
    (2..=LONGEST).rev().find(|&length| {
        rest.get(..length).is_some_and(|text| {
            text == LINE_BREAK
                || CONSONANTS.iter().any(|known| known.wylie == text)
                || VOWELS.iter().any(|known| known.0 == text)
                || FINALS.iter().any(|known| known.wylie == text)
                || STANDALONE.iter().any(|known| known.0 == text)
        })
    })
}

/// Length of the escape at the start of `rest`, if it is one.
fn escape(rest: &str) -> Option<usize> {
    let kind = rest.strip_prefix('\\')?.chars().next()?;
    let characters = match kind {
        'u' => 6,
        'U' => 10,
        _ => 2,
    };
    let length_of = |characters: usize| {
        let last = rest.char_indices().nth(characters - 1)?;
        Some(last.0 + last.1.len_utf8())
    };
    // At the end of the text the digits may be missing.
    length_of(characters).or_else(|| length_of(2))
}

fn sign(text: &str, first: char) -> Sign {
    if let Some((_, sign)) = STANDALONE.iter().find(|known| known.0 == text) {
        return Sign::Standalone(*sign);
    }
    if let Some((_, sign)) = VOWELS.iter().find(|known| known.0 == text) {
        return Sign::Vowel(sign);
    }
    if let Some(consonant) = CONSONANTS.iter().find(|known| known.wylie == text) {
        return Sign::Consonant(consonant);
    }
    if let Some(known) = FINALS.iter().find(|known| known.wylie == text) {
        return Sign::Final(known);
    }
    match first {
        '+' => Sign::Plus,
        '.' => Sign::Dot,
        '[' => Sign::OpenBracket,
        ']' => Sign::CloseBracket,
        '\r' | '\n' => Sign::Newline,
        '\u{feff}' | '\u{200b}' => Sign::Invisible,
        '\\' => Sign::Escape,
        _ => Sign::Other,
    }
}
