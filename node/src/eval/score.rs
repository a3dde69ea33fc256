//! Error rates: Levenshtein distance divided by the length of the ground truth, after normalising spellings that look the same.

use std::collections::HashMap;

use parkhang_models::recognition::normalize::canonical;
use rapidfuzz::distance::levenshtein;
use serde::Serialize;

/// Numbers of edits and of units of ground truth. Rates of several pages are computed from the sums of these.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ErrorCount {
    pub edits: usize,
    pub length: usize,
}

impl ErrorCount {
    /// Edits per unit of ground truth; 0 if both texts are empty, 1 if only the ground truth is.
    pub fn rate(&self) -> f64 {
        match (self.edits, self.length) {
            (0, _) => 0.0,
            // Text on a page that has none is wrong as a whole; dividing by nothing would be infinite.
            (_, 0) => 1.0,
            (edits, length) => edits as f64 / length as f64,
        }
    }
}

impl std::ops::AddAssign for ErrorCount {
    fn add_assign(&mut self, other: Self) {
        self.edits += other.edits;
        self.length += other.length;
    }
}

/// Counts character errors: in code points, without white space.
pub fn character_errors(truth: &str, reading: &str) -> ErrorCount {
    let (truth, reading) = (without_space(truth), without_space(reading));
    ErrorCount {
        edits: levenshtein::distance(truth.iter().copied(), reading.iter().copied()),
        length: truth.len(),
    }
}

/// Counts word errors. A word of Tibetan is a syllable: the text between tshegs, shads and spaces.
pub fn word_errors(truth: &str, reading: &str) -> ErrorCount {
    // Spellings that look the same are the same reading, so both sides are normalised before they are
    // compared.
    let (truth, reading) = (canonical(truth), canonical(reading));
    let mut numbers = HashMap::new();
    // Syllables are numbered, so that the distance compares integers instead of strings.
    let mut number = |syllable| {
        let next = numbers.len() as u64;
        *numbers.entry(syllable).or_insert(next)
    };
    let truth: Vec<u64> = syllables(&truth).map(&mut number).collect();
    let reading: Vec<u64> = syllables(&reading).map(&mut number).collect();
    ErrorCount {
        edits: levenshtein::distance(truth.iter().copied(), reading.iter().copied()),
        length: truth.len(),
    }
}

fn without_space(text: &str) -> Vec<char> {
    canonical(text).chars().filter(|c| !c.is_whitespace()).collect()
}

fn syllables(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| c.is_whitespace() || matches!(c, '\u{0f0b}'..='\u{0f14}'))
        .filter(|syllable| !syllable.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foldings_make_spellings_equal() {
        let same = [("ཀ༎ ", "ཀ།།"), ("ཀ༌ཁ", "ཀ་ཁ"), ("ཪ", "ར"), ("ཀ ཁ\n", "ཀཁ")];
        for (truth, reading) in same {
            assert_eq!(character_errors(truth, reading).edits, 0, "{truth:?} {reading:?}");
        }
    }

    #[test]
    fn rates() {
        let errors = character_errors("བཀྲ་ཤིས།", "བཀྲ་ཤས།");
        assert_eq!((errors.edits, errors.length), (1, 8));
        assert_eq!(
            word_errors("བཀྲ་ཤིས། བདེ་ལེགས།", "བཀྲ་ཤས། བདེ་ལེགས།"),
            ErrorCount { edits: 1, length: 4 }
        );
        assert_eq!(character_errors("", "").rate(), 0.0);
        assert_eq!(character_errors("", "x").rate(), 1.0);
    }
}
