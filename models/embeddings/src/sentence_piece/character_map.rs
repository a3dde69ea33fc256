//! Normalisation before the pieces: a map from sequences of characters to others, and spaces as a visible sign.
//!
//! The file has the map as a double array (Aoe 1989, in the form of darts-clone), which finds the longest sequence that begins at a
//! place, followed by the replacements, each ended by a zero byte.

use std::ops::Range;

use crate::token::TokenizerError;

/// Stands for a space, and before the first word.
const SPACE: &str = "\u{2581}";

/// Characters whose bytes a sequence of the map may have; the longest of `nmt_nfkc` has fewer.
const LONGEST: usize = 64;

/// A map of characters.
#[derive(Debug)]
pub(super) struct CharacterMap {
    units: Vec<u32>,
    replacements: String,
}

/// A normalised text.
#[derive(Debug)]
pub(super) struct Normalized {
    pub(super) text: String,
    /// For each byte, the bytes of the text before that its character was made of.
    sources: Vec<(usize, usize)>,
}

impl Normalized {
    /// Bytes of the text before that a part of this one was made of.
    pub(super) fn source_of(&self, part: Range<usize>) -> Range<usize> {
        match self.sources.get(part) {
            Some([only]) => only.0..only.1,
            Some([first, .., last]) => first.0..last.1,
            _ => 0..0,
        }
    }

    fn push(&mut self, text: &str, source: (usize, usize)) {
        self.text.push_str(text);
        self.sources.resize(self.text.len(), source);
    }
}

impl CharacterMap {
    /// Reads the map out of its field of the model file; an empty field is a map that changes nothing.
    pub(super) fn parse(field: &[u8]) -> Result<Self, TokenizerError> {
        if field.is_empty() {
            return Ok(Self {
                units: Vec::new(),
                replacements: String::new(),
            });
        }
        let parts = || {
            let (size, rest) = field.split_first_chunk::<4>()?;
            rest.split_at_checked(usize::try_from(u32::from_le_bytes(*size)).ok()?)
        };
        let (units, replacements) = parts().ok_or(TokenizerError::BadCharacterMap)?;
        let (units, rest) = units.as_chunks::<4>();
        let replacements = std::str::from_utf8(replacements).map_err(|_| TokenizerError::BadCharacterMap)?;
        if !rest.is_empty() {
            return Err(TokenizerError::BadCharacterMap);
        }
        Ok(Self {
            units: units.iter().map(|unit| u32::from_le_bytes(*unit)).collect(),
            replacements: replacements.to_owned(),
        })
    }

    /// Replaces sequences by those of the map, drops spaces at the start, at the end and after others, and writes the rest visibly.
    pub(super) fn normalize(&self, text: &str) -> Normalized {
        let mut normalized = Normalized {
            text: String::with_capacity(text.len() + SPACE.len()),
            sources: Vec::with_capacity(text.len() + SPACE.len()),
        };
        let mut after_space = true;
        let mut place = 0;
        while let Some(character) = text[place..].chars().next() {
            let (length, replacement) = self
                .replacement(&text[place..])
                .unwrap_or_else(|| (character.len_utf8(), &text[place..place + character.len_utf8()]));
            let source = (place, place + length);
            place += length;
            let kept = if after_space {
                replacement.trim_start_matches(' ')
            } else {
                replacement
            };
            if kept.is_empty() {
                continue;
            }
            if normalized.text.is_empty() {
                normalized.push(SPACE, (source.0, source.0));
            }
            for (number, word) in kept.split(' ').enumerate() {
                if number > 0 {
                    normalized.push(SPACE, source);
                }
                normalized.push(word, source);
            }
            after_space = kept.ends_with(' ');
        }
        let kept = normalized.text.trim_end_matches(SPACE).len();
        normalized.text.truncate(kept);
        normalized.sources.truncate(kept);
        normalized
    }

    /// The longest sequence of the map at the start of a text: its bytes and what replaces it.
    fn replacement(&self, text: &str) -> Option<(usize, &str)> {
        let mut node = offset(*self.units.first()?);
        let mut longest = None;
        for (length, &byte) in (1..=LONGEST).zip(text.as_bytes()) {
            node ^= usize::from(byte);
            let Some(&unit) = self.units.get(node) else {
                break;
            };
            if unit & 0x8000_00ff != u32::from(byte) {
                break;
            }
            node ^= offset(unit);
            if unit & 0x100 != 0 {
                longest = self.units.get(node).map(|leaf| (length, *leaf & 0x7fff_ffff));
            }
        }
        let (length, start) = longest?;
        let rest = self.replacements.get(usize::try_from(start).ok()?..)?;
        let (replacement, _) = rest.split_once('\0')?;
        // A damaged map could end a sequence within a character.
        text.is_char_boundary(length).then_some((length, replacement))
    }
}

/// Distance from a unit to its children.
fn offset(unit: u32) -> usize {
    ((unit >> 10) << ((unit & 0x200) >> 6)) as usize
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_damaged_map_is_refused_or_changes_nothing() {
        for field in [
            &[1_u8, 0][..],
            &[8, 0, 0, 0, 1],
            &[3, 0, 0, 0, 1, 2, 3],
            &[0, 0, 0, 0, 0xff],
        ] {
            assert!(CharacterMap::parse(field).is_err(), "{field:?}");
        }
        let nothing = CharacterMap::parse(&[]).unwrap();
        assert_eq!(nothing.normalize("  a  b ").text, "\u{2581}a\u{2581}b");
    }

    proptest! {
        #[test]
        fn any_bytes_make_a_map_that_ends(units in proptest::collection::vec(any::<u32>(), 0..300), text in ".*") {
            let mut field = u32::try_from(units.len() * 4).unwrap().to_le_bytes().to_vec();
            field.extend(units.iter().flat_map(|unit| unit.to_le_bytes()));
            field.extend(b"a\0b c\0");
            let normalized = CharacterMap::parse(&field).unwrap().normalize(&text);
            prop_assert_eq!(normalized.text.len(), normalized.sources.len());
        }
    }
}
