//! Loops of language models, told by what repeats itself.

use std::collections::HashSet;

/// Number of syllables in a row that are compared.
const GRAM: usize = 20;
/// Longest unit, in characters, that may repeat at the end of a text without a break between syllables,
const UNIT: usize = 40;
/// and the characters that it has to fill.
const TAIL: usize = 200;

/// Share of a text that repeats itself, 0 to 1: of its runs of twenty syllables, those that are no first ones. A text that ends in many
/// repetitions of a few characters has 1, as it may be a single syllable.
pub fn repetition(text: &str) -> f64 {
    if ends_in_a_loop(text) {
        1.0
    } else {
        repeated_grams(text, GRAM)
    }
}

fn repeated_grams(text: &str, n: usize) -> f64 {
    let is_break = |c: char| matches!(c, '\u{0F0B}' | '\u{0F0D}') || c.is_whitespace();
    let syllables: Vec<&str> = text
        .split(is_break)
        .filter(|syllable| !syllable.is_empty())
        .collect();
    let grams = syllables.windows(n);
    if grams.len() == 0 {
        return 0.0;
    }
    let all = grams.len();
    let different: HashSet<&[&str]> = grams.collect();
    1.0 - different.len() as f64 / all as f64
}

fn ends_in_a_loop(text: &str) -> bool {
    let tail: Vec<char> = text.trim_end().chars().rev().take(TAIL + UNIT).collect();
    // Characters of the tail that are the same as those a unit before them.
    let repeats = |unit: usize| {
        tail.iter()
            .zip(&tail[unit..])
            .take_while(|(one, other)| one == other)
            .count()
    };
    tail.len() >= TAIL && (1..=UNIT.min(tail.len())).any(|unit| repeats(unit) + unit >= TAIL)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::fixture;

    /// Rows: 84.
    #[test]
    fn repetition_is_that_of_the_archive() {
        for case in fixture("loop_rep_score.jsonl") {
            let n = usize::try_from(case["n"].as_u64().unwrap()).unwrap();
            let found = repeated_grams(case["text"].as_str().unwrap(), n);
            let expected = case["rep_score"].as_f64().unwrap();
            assert!((found - expected).abs() < 1e-12, "{found} {case}");
        }
    }

    #[test]
    fn a_loop_of_a_few_characters_is_one_too() {
        let is_loop = |text: &str| repetition(text) > 0.5;
        assert!(is_loop(&"ཀ".repeat(300)) && is_loop(&format!("བོད་ {}", "abc".repeat(100))));
        assert!(!is_loop("བོད་ཡིག་ གི་ ཀ་ཀ་ཀ་"));
        let long: String = (0..500).map(|number| format!("{number}་")).collect();
        assert!(!is_loop(&long));
    }
}
