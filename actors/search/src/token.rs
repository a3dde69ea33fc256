//! Tokens: the units of text that are indexed and looked for. Tibetan by syllable, Han and kana by letter and by pair of letters, all else
//! by word as Unicode divides it (UAX 29).

use std::ops::Range;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;
use unicode_segmentation::UnicodeSegmentation;

/// Largest number of bytes of a term; what is longer is no word.
const LONGEST_TERM: usize = 96;

/// Token of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// Form under which it is found: case, accents and the order of combining letters do not count.
    pub term: String,
    /// Number of the token in the text, from 0. Two forms of one word, or a letter and the pair that it begins, share a number.
    pub position: usize,
    /// Bytes of the text that it stands for.
    pub range: Range<usize>,
}

/// Script of a letter, as far as it decides how a text is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Script {
    Tibetan,
    /// Written without spaces: Han and kana.
    Ideographic,
    /// Divided at its spaces and marks.
    Spaced,
}

impl Script {
    const fn of(letter: char) -> Self {
        match letter {
            // Letters, vowels and subjoined letters, and the digits; marks between them are no part of a syllable.
            '\u{f00}' | '\u{f18}'..='\u{f39}' | '\u{f40}'..='\u{fbc}' | '\u{fc6}' => Self::Tibetan,
            '\u{3005}'..='\u{3007}'
            | '\u{3041}'..='\u{30ff}'
            | '\u{3400}'..='\u{4dbf}'
            | '\u{4e00}'..='\u{9fff}'
            | '\u{f900}'..='\u{faff}'
            | '\u{20000}'..='\u{3ffff}' => Self::Ideographic,
            _ => Self::Spaced,
        }
    }
}

/// Use of the tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Index,
    Query,
}

/// Returns the tokens of a text as an index holds them, all forms of each word included.
pub fn tokens(text: &str) -> Vec<Token> {
    tokenize(text, Purpose::Index)
}

/// Returns the tokens that a text is looked for by, one at each position. Of letters without spaces they are the pairs, and a single
/// letter where there is no other.
pub fn query_tokens(text: &str) -> Vec<Token> {
    tokenize(text, Purpose::Query)
}

/// Returns the tokens of the lines of a page, each with the index of its line. Positions go on from line to line, and a word that a hyphen
/// parts at the end of a line is a token on both lines as well as its parts.
pub fn line_tokens<S: AsRef<str>>(lines: &[S]) -> Vec<(usize, Token)> {
    let mut all: Vec<(usize, Token)> = Vec::new();
    let mut next = 0;
    for (index, line) in lines.iter().enumerate() {
        let line = line.as_ref();
        let mut of_line = tokens(line);
        if let Some(joined) = parted_word(&all, index, lines, of_line.first()) {
            // The two parts are one word, with one number.
            next -= 1;
            if let (Some((_, last)), Some(first)) = (all.last().cloned(), of_line.first().cloned()) {
                all.push((
                    index - 1,
                    Token {
                        term: joined.clone(),
                        ..last
                    },
                ));
                of_line.insert(
                    0,
                    Token {
                        term: joined,
                        ..first
                    },
                );
            }
        }
        let count = of_line.last().map_or(0, |token| token.position + 1);
        all.extend(of_line.into_iter().map(|mut token| {
            token.position += next;
            (index, token)
        }));
        next += count;
    }
    all
}

/// Returns the word that the end of the line before and the beginning of this one are together.
fn parted_word<S: AsRef<str>>(
    before: &[(usize, Token)],
    index: usize,
    lines: &[S],
    first: Option<&Token>,
) -> Option<String> {
    let (of, last) = before.last()?;
    let line = lines.get(index.checked_sub(1)?)?.as_ref();
    let first = first?;
    let is_parted = *of + 1 == index
        && matches!(
            line.get(last.range.end..)?.trim_end(),
            "-" | "\u{ad}" | "\u{2010}"
        )
        && lines
            .get(index)?
            .as_ref()
            .get(first.range.clone())?
            .starts_with(char::is_lowercase);
    is_parted.then(|| format!("{}{}", last.term, first.term))
}

fn tokenize(text: &str, purpose: Purpose) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut at = 0;
    for (script, run) in runs(text) {
        let piece = text.get(run.clone()).unwrap_or_default();
        at += match script {
            Script::Tibetan => syllable(piece, run.start, at, purpose, &mut tokens),
            Script::Ideographic => ideographs(piece, run.start, at, purpose, &mut tokens),
            Script::Spaced => words(piece, run.start, at, &mut tokens),
        };
    }
    tokens
}

/// Divides a text into parts of one script each.
fn runs(text: &str) -> Vec<(Script, Range<usize>)> {
    let mut runs: Vec<(Script, Range<usize>)> = Vec::new();
    for (at, letter) in text.char_indices() {
        let end = at + letter.len_utf8();
        let script = Script::of(letter);
        // A mark of no script, as a selector of a variant of a Han letter, is of the letter before.
        let is_carried = script == Script::Spaced && is_combining_mark(letter);
        match runs.last_mut() {
            Some((last, run)) if *last == script || is_carried => run.end = end,
            _ => runs.push((script, at..end)),
        }
    }
    runs
}

/// Adds a token, and returns whether it is one: what has no letters, or too many, is no word and takes no position.
fn push(tokens: &mut Vec<Token>, term: String, position: usize, range: Range<usize>) -> bool {
    let is_word = !term.is_empty() && term.len() <= LONGEST_TERM;
    if is_word {
        tokens.push(Token {
            term,
            position,
            range,
        });
    }
    is_word
}

/// A run of Tibetan letters is one syllable, as the mark after each is none of them. Like its siblings, returns how many positions there are.
fn syllable(text: &str, start: usize, at: usize, purpose: Purpose, tokens: &mut Vec<Token>) -> usize {
    let term = folded_syllable(text);
    let range = start..start + text.len();
    let stem = without_particle(&term).map(str::to_owned);
    let is_word = push(tokens, term, at, range.clone());
    if let (Purpose::Index, true, Some(stem)) = (purpose, is_word, stem) {
        push(tokens, stem, at, range);
    }
    usize::from(is_word)
}

/// A syllable in the one order of its letters, without the marks that emphasise it.
fn folded_syllable(text: &str) -> String {
    let letters = text.chars().filter(|letter| {
        // A mark of no script that the syllable carries does not count either.
        Script::of(*letter) == Script::Tibetan
            && !matches!(letter, '\u{f35}' | '\u{f37}' | '\u{f18}' | '\u{f19}')
    });
    letters
        .nfd()
        .map(|letter| match letter {
            // Three ways to write one sign.
            '\u{f82}' | '\u{f83}' => '\u{f7e}',
            letter => letter,
        })
        .collect()
}

/// The syllable without a particle that is written together with it (འི, འོ, འང, འམ, འིས), if it has one.
fn without_particle(syllable: &str) -> Option<&str> {
    const PARTICLES: [&str; 5] = ["འིས", "འི", "འོ", "འང", "འམ"];
    let stem = PARTICLES
        .iter()
        .find_map(|particle| syllable.strip_suffix(particle))?;
    (!stem.is_empty()).then_some(stem)
}

fn ideographs(text: &str, start: usize, at: usize, purpose: Purpose, tokens: &mut Vec<Token>) -> usize {
    let letters = letters_with_marks(text);
    let is_alone = letters.len() == 1;
    for (index, (letter, range)) in letters.iter().enumerate() {
        let place = start + range.start;
        if purpose == Purpose::Index || is_alone {
            push(tokens, letter.clone(), at + index, place..start + range.end);
        }
        if let Some((other, other_range)) = letters.get(index + 1) {
            let pair = format!("{letter}{other}");
            push(tokens, pair, at + index, place..start + other_range.end);
        }
    }
    letters.len()
}

/// Returns the folded letters of a text and the bytes that each stands for, its marks included. A mark without a letter is none.
fn letters_with_marks(text: &str) -> Vec<(String, Range<usize>)> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for (offset, letter) in text.char_indices() {
        let end = offset + letter.len_utf8();
        match ranges.last_mut() {
            Some(range) if is_combining_mark(letter) => range.end = end,
            _ => ranges.push(offset..end),
        }
    }
    ranges
        .into_iter()
        .filter_map(|range| Some((folded(text.get(range.clone())?), range)))
        .filter(|(letter, _)| !letter.is_empty())
        .collect()
}

fn words(text: &str, start: usize, at: usize, tokens: &mut Vec<Token>) -> usize {
    let mut count = 0;
    for (offset, piece) in text.unicode_word_indices() {
        let place = start + offset;
        let is_word = push(tokens, folded(piece), at + count, place..place + piece.len());
        count += usize::from(is_word);
    }
    count
}

/// A word without case and accents; of numbers, without the marks between thousands. A space that carries a mark is left out with it.
fn folded(word: &str) -> String {
    let letters = word
        .nfkd()
        .filter(|letter| !is_combining_mark(*letter) && !letter.is_whitespace());
    let lower: String = letters.flat_map(char::to_lowercase).collect();
    let is_number = lower.starts_with(|letter: char| letter.is_ascii_digit());
    if is_number { lower.replace(',', "") } else { lower }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn terms(tokens: &[Token]) -> Vec<(&str, usize)> {
        tokens
            .iter()
            .map(|token| (token.term.as_str(), token.position))
            .collect()
    }

    #[test]
    fn words_lose_case_accents_and_marks_of_thousands() {
        let found = tokens("Émile's HK$3,482.6 café");
        assert_eq!(
            terms(&found),
            [("emile's", 0), ("hk", 1), ("3482.6", 2), ("cafe", 3)]
        );
    }

    #[test]
    fn tibetan_is_divided_into_syllables_whose_particles_do_not_hide_them() {
        let found = tokens("༄༅།།རིན་པོ་ཆེའི་ཕྲེང་བ།");
        assert_eq!(
            terms(&found),
            [("རིན", 0), ("པོ", 1), ("ཆེའི", 2), ("ཆེ", 2), ("ཕྲེང", 3), ("བ", 4)]
        );
        assert_eq!(terms(&query_tokens("ཆེའི་ཕྲེང་")), [("ཆེའི", 0), ("ཕྲེང", 1)]);
    }

    #[test]
    fn spellings_of_one_sign_are_one_term() {
        // A long vowel in one letter and in two.
        assert_eq!(tokens("ཀཱི")[0].term, tokens("ཀ\u{f71}\u{f72}")[0].term);
        assert_eq!(tokens("ཨོ\u{f83}")[0].term, tokens("ཨོ\u{f7e}")[0].term);
        // A mark of no script within a syllable.
        assert_eq!(terms(&tokens("ཀ\u{303}ོ")), [("ཀོ", 0)]);
    }

    #[test]
    fn han_is_found_by_letter_and_by_pair() {
        let found = tokens("物業銷售");
        assert_eq!(
            terms(&found),
            [
                ("物", 0),
                ("物業", 0),
                ("業", 1),
                ("業銷", 1),
                ("銷", 2),
                ("銷售", 2),
                ("售", 3)
            ]
        );
        assert_eq!(terms(&query_tokens("物業銷")), [("物業", 0), ("業銷", 1)]);
        assert_eq!(terms(&query_tokens("售")), [("售", 0)]);
    }

    #[test]
    fn marks_of_han_and_kana_belong_to_their_letter() {
        // A selector of a variant, and a sound mark apart from its kana.
        assert_eq!(terms(&query_tokens("葛\u{e0100}城")), [("葛城", 0)]);
        assert_eq!(terms(&query_tokens("か\u{3099}く")), terms(&query_tokens("がく")));
        assert_eq!(tokens("\u{3099}"), []);
    }

    #[test]
    fn what_is_no_word_takes_no_position() {
        // Marks without letters, a word of more bytes than any, and an emphasis without a syllable.
        let no_word = "w".repeat(LONGEST_TERM + 1);
        let text = format!("a \u{11d90} \u{b01} {no_word} \u{f35} b");
        assert_eq!(terms(&tokens(&text)), [("a", 0), ("b", 1)]);
    }

    #[test]
    fn a_word_that_a_line_parts_is_one_word() {
        let found = line_tokens(&["of the infor-", "mation given"]);
        let found: Vec<(usize, &str, usize)> = found
            .iter()
            .map(|(line, token)| (*line, token.term.as_str(), token.position))
            .collect();
        assert_eq!(
            found,
            [
                (0, "of", 0),
                (0, "the", 1),
                (0, "infor", 2),
                (0, "information", 2),
                (1, "information", 2),
                (1, "mation", 2),
                (1, "given", 3)
            ]
        );
    }

    proptest! {
        #[test]
        fn any_text_has_tokens_in_order_at_boundaries_of_letters(text in "[\\PC\u{f00}-\u{fff}一-丐a-c \\-]{0,60}") {
            // The last of several Han letters is no token of a query by itself, but has its position.
            for (tokens, largest_step) in [(tokens(&text), 1), (query_tokens(&text), 2)] {
                for token in &tokens {
                    prop_assert!(text.get(token.range.clone()).is_some_and(|piece| !piece.is_empty()));
                }
                for pair in tokens.windows(2) {
                    let step = pair[1].position - pair[0].position;
                    prop_assert!(step <= largest_step && pair[0].range.start <= pair[1].range.start);
                }
            }
        }

        #[test]
        fn each_token_of_a_query_is_one_of_the_index(text in "[a-cÉ\u{f40}-\u{f56}\u{f0b}\u{f72}物業銷 ]{0,30}") {
            let indexed = tokens(&text);
            for token in query_tokens(&text) {
                prop_assert!(indexed.iter().any(|other| other.term == token.term && other.position == token.position));
            }
        }
    }
}
