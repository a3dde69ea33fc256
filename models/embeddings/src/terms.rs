//! Terms of scripts that the vocabulary of the sparse network does not have, counted: pairs of Chinese characters, Tibetan syllables and
//! pairs of them.
//!
//! A term has the index of a hash of it, behind those of the vocabulary. The hash is FNV-1a (64 bits) over the UTF-8 of the term,
//! compatibility forms composed (NFKC), its upper half folded into the lower one; so that an index means the same in all vectors, now and later.

use std::collections::BTreeMap;

use unicode_normalization::UnicodeNormalization;

use crate::inference::Terms;

/// Index of the first counted term: the number of terms of the network's vocabulary.
pub(crate) const FIRST: u32 = 30_522;

/// Indices of counted terms: so many that two terms of a library seldom share one.
pub(crate) const INDICES: u32 = 1 << 24;

/// Parts a text: the terms that are counted, with the natural logarithm of one more than their number as weight, and the rest, which is for the
/// network.
pub(crate) fn counted(text: &str) -> (Terms, String) {
    let mut counts: BTreeMap<u32, u32> = BTreeMap::new();
    let mut count = |parts: [&str; 2]| *counts.entry(index(parts)).or_default() += 1;
    let mut rest = String::with_capacity(text.len());
    let (mut han, mut tibetan) = (Run::default(), Run::default());
    for character in text.nfkc() {
        match script(character) {
            Script::Han => {
                tibetan.end(&mut count);
                let mut letter = [0; 4];
                han.add(character.encode_utf8(&mut letter), false, &mut count);
                rest.push(' ');
            }
            Script::Letter => {
                han.end(&mut count);
                tibetan.open.push(character);
                rest.push(' ');
            }
            Script::Tsheg => {
                han.end(&mut count);
                let syllable = std::mem::take(&mut tibetan.open);
                if !syllable.is_empty() {
                    tibetan.add(&syllable, true, &mut count);
                }
                rest.push(' ');
            }
            Script::Other => {
                han.end(&mut count);
                tibetan.end(&mut count);
                rest.push(if is_mark(character) { ' ' } else { character });
            }
        }
    }
    han.end(&mut count);
    tibetan.end(&mut count);
    let weight = |count: u32| f64::from(count).ln_1p() as f32;
    (
        counts
            .into_iter()
            .map(|(term, count)| (term, weight(count)))
            .collect(),
        rest,
    )
}

/// Parts of words that follow each other.
#[derive(Debug, Default)]
struct Run {
    /// Syllable whose end has not been seen.
    open: String,
    before: Option<String>,
    parts: usize,
}

impl Run {
    /// Adds a part, which is a term by itself where `alone` is true, and with the part before it.
    fn add(&mut self, part: &str, alone: bool, count: &mut impl FnMut([&str; 2])) {
        if alone {
            count([part, ""]);
        }
        if let Some(before) = &self.before {
            count([before, part]);
        }
        self.before = Some(part.to_owned());
        self.parts += 1;
    }

    /// Ends the run. A character that stands alone is a term, as it has no pair.
    fn end(&mut self, count: &mut impl FnMut([&str; 2])) {
        let open = std::mem::take(&mut self.open);
        if !open.is_empty() {
            self.add(&open, true, count);
        }
        if let (Some(only), 1) = (&self.before, self.parts)
            && only
                .chars()
                .next()
                .is_some_and(|letter| script(letter) == Script::Han)
        {
            count([only, ""]);
        }
        *self = Self::default();
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Script {
    Han,
    /// Letter, vowel sign or other part of a Tibetan syllable.
    Letter,
    /// Mark between Tibetan syllables.
    Tsheg,
    Other,
}

fn script(character: char) -> Script {
    match character {
        '\u{3400}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}'
        | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{3ffff}'
        | '\u{3005}'
        | '\u{3007}' => Script::Han,
        '\u{f0b}' | '\u{f0c}' => Script::Tsheg,
        '\u{f00}' | '\u{f18}'..='\u{f39}' | '\u{f3e}'..='\u{f84}' | '\u{f86}'..='\u{fbc}' | '\u{fc6}' => {
            Script::Letter
        }
        _ => Script::Other,
    }
}

/// Marks of Tibetan and Chinese, which belong to what is counted.
fn is_mark(character: char) -> bool {
    matches!(character, '\u{f00}'..='\u{fff}' | '\u{3000}'..='\u{3020}')
}

/// Index of a term of one or two parts.
fn index([first, second]: [&str; 2]) -> u32 {
    // No part has a space, so that no two terms are spelled alike.
    let separator = if second.is_empty() { "" } else { " " };
    let bytes = [first, separator, second].into_iter().flat_map(str::bytes);
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let folded = (hash ^ (hash >> 32)) as u32;
    FIRST + folded % INDICES
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn weights(text: &str, parts: &[[&str; 2]]) -> Vec<f32> {
        let (terms, _) = counted(text);
        assert_eq!(terms.len(), parts.len(), "{text}: {terms:?}");
        let weight = |parts: &[&str; 2]| {
            let term = index(*parts);
            let found = terms.iter().find(|(known, _)| *known == term);
            found.unwrap_or_else(|| panic!("{text}: {parts:?}")).1
        };
        parts.iter().map(weight).collect()
    }

    #[test]
    fn chinese_is_counted_in_pairs_of_characters() {
        let (once, twice) = (2.0_f32.ln(), 3.0_f32.ln());
        let pairs = [["收", "入"], ["入", "上"], ["上", "升"]];
        assert_eq!(weights("收入上升，收入", &pairs), [twice, once, once]);
        assert_eq!(weights("A 書 B", &[["書", ""]]), [once]);
        // A compatibility ideograph is its unified one.
        assert_eq!(counted("\u{f9fa}入").0, counted("狀入").0);
    }

    #[test]
    fn tibetan_is_counted_in_syllables_and_pairs_of_them() {
        let (once, twice) = (2.0_f32.ln(), 3.0_f32.ln());
        let terms = [["བཀྲ", ""], ["ཤིས", ""], ["བཀྲ", "ཤིས"], ["བདེ", ""]];
        assert_eq!(weights("བཀྲ་ཤིས། བདེ། བཀྲ་ཤིས", &terms), [twice, twice, twice, once]);
        // The mark that does not break a line is one between syllables too.
        assert_eq!(counted("བཀྲ\u{f0c}ཤིས་").0, counted("བཀྲ་ཤིས").0);
    }

    #[test]
    fn words_of_other_scripts_are_left_for_the_network() {
        let (terms, rest) = counted("Revenue 收入 rose བཀྲ་ཤིས by 12%");
        assert_eq!(terms.len(), 4);
        assert_eq!(
            rest.split_whitespace().collect::<Vec<_>>(),
            ["Revenue", "rose", "by", "12%"]
        );
        assert!(counted("Revenue rose").0.is_empty());
        assert!(counted("「收入」。 །།").1.trim().is_empty());
    }

    /// Indices are in tables that are kept: these values may not change.
    #[test]
    fn an_index_is_the_same_for_ever() {
        // Computed by another program.
        assert_eq!([index(["收", "入"]), index(["བཀྲ", ""])], [3_682_354, 5_813_789]);
    }

    proptest! {
        #[test]
        fn any_text_has_terms_in_order(text in "[ a\u{4e00}-\u{4e05}\u{f0b}-\u{f0d}\u{f40}-\u{f43}\\PC]{0,60}") {
            let (terms, _) = counted(&text);
            prop_assert!(terms.is_sorted_by(|one, other| one.0 < other.0));
            prop_assert!(terms.iter().all(|(term, weight)| (FIRST..FIRST + INDICES).contains(term) && *weight > 0.5));
        }
    }
}
