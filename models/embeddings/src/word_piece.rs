//! WordPiece as BERT has it (Devlin et al. 2019): words in lower case without accents, each parted into the longest pieces of a vocabulary
//! from its start on.

use std::collections::HashMap;

use unicode_normalization::UnicodeNormalization;
use unicode_properties::{GeneralCategory, GeneralCategoryGroup, UnicodeGeneralCategory};

use crate::token::TokenizerError;

/// Characters of the longest word that is parted; a longer one is unknown.
const LONGEST_WORD: usize = 100;

/// Mark of a piece that goes on with a word.
const INNER: &str = "##";

/// A tokenizer, of the pieces of a vocabulary.
#[derive(Debug)]
pub struct WordPiece {
    /// Ids of the pieces that begin words, and of those within words.
    first: HashMap<String, u32>,
    inner: HashMap<String, u32>,
    unknown: u32,
    start: u32,
    end: u32,
    vocabulary: usize,
}

impl WordPiece {
    /// Reads a vocabulary, one piece a line in the order of the ids.
    ///
    /// # Errors
    /// [`TokenizerError`] where it has a piece twice or no special tokens.
    pub fn new(lines: &str) -> Result<Self, TokenizerError> {
        let (mut first, mut inner) = (HashMap::new(), HashMap::new());
        let mut vocabulary = 0;
        for (piece, id) in lines.lines().zip(0..) {
            let twice = match piece.strip_prefix(INNER) {
                Some(rest) if !rest.is_empty() => inner.insert(rest.to_owned(), id),
                _ => first.insert(piece.to_owned(), id),
            };
            if twice.is_some() {
                return Err(TokenizerError::Twice(piece.to_owned()));
            }
            vocabulary += 1;
        }
        let special = |name: &'static str| {
            let id = first.get(name).copied();
            id.ok_or(TokenizerError::NoSpecialToken(name))
        };
        Ok(Self {
            unknown: special("[UNK]")?,
            start: special("[CLS]")?,
            end: special("[SEP]")?,
            first,
            inner,
            vocabulary,
        })
    }

    /// Number of ids.
    pub fn vocabulary(&self) -> usize {
        self.vocabulary
    }

    /// Ids that stand before and behind each text.
    pub fn marks(&self) -> [u32; 2] {
        [self.start, self.end]
    }

    /// Ids of a text, without those that mark its start and end.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        let mut ids = Vec::new();
        let mut word = Vec::new();
        let plain = text.chars().filter_map(cleaned);
        let plain = plain.nfd().filter(|character| !is_accent(*character));
        for character in plain.flat_map(char::to_lowercase) {
            if character.is_whitespace() {
                self.part(&mut word, &mut ids);
            } else if stands_alone(character) {
                self.part(&mut word, &mut ids);
                word.push(character);
                self.part(&mut word, &mut ids);
            } else {
                word.push(character);
            }
        }
        self.part(&mut word, &mut ids);
        ids
    }

    /// Adds the pieces of a word, which is empty then.
    fn part(&self, word: &mut Vec<char>, ids: &mut Vec<u32>) {
        let before = ids.len();
        let mut start = 0;
        while start < word.len() {
            let pieces = if start == 0 { &self.first } else { &self.inner };
            let mut rest: String = word[start..].iter().take(LONGEST_WORD).collect();
            let mut length = word.len() - start;
            let id = loop {
                if word.len() > LONGEST_WORD || rest.is_empty() {
                    break None;
                }
                if let Some(id) = pieces.get(&rest) {
                    break Some(*id);
                }
                rest.pop();
                length -= 1;
            };
            let Some(id) = id else {
                ids.truncate(before);
                ids.push(self.unknown);
                break;
            };
            ids.push(id);
            start += length;
        }
        word.clear();
    }
}

/// A character as it is read: white space is a space, and what is not seen is left out.
fn cleaned(character: char) -> Option<char> {
    match character {
        '\t' | '\n' | '\r' => Some(' '),
        '\0' | '\u{fffd}' => None,
        _ if character.is_whitespace() => Some(' '),
        _ => (!is_control(character)).then_some(character),
    }
}

fn is_control(character: char) -> bool {
    use GeneralCategory::{Control, Format, PrivateUse};
    matches!(character.general_category(), Control | Format | PrivateUse)
}

fn is_accent(character: char) -> bool {
    character.general_category() == GeneralCategory::NonspacingMark
}

/// Returns whether a character is a word by itself: a mark of punctuation, or a Chinese character.
fn stands_alone(character: char) -> bool {
    character.is_ascii_punctuation()
        || character.general_category_group() == GeneralCategoryGroup::Punctuation
        || matches!(character,
            '\u{4e00}'..='\u{9fff}' | '\u{3400}'..='\u{4dbf}' | '\u{20000}'..='\u{2a6df}'
            | '\u{2a700}'..='\u{2b73f}' | '\u{2b740}'..='\u{2b81f}' | '\u{2b920}'..='\u{2ceaf}'
            | '\u{f900}'..='\u{faff}' | '\u{2f800}'..='\u{2fa1f}')
}

#[cfg(test)]
mod tests;
