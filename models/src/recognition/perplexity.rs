//! Perplexity of texts: how surprising they are to the n-grams of a recogniser, whoever has read them.
//!
//! A reading full of errors is surprising, but so are Sanskrit, names and tables: the number says where to look, not what is wrong. It
//! counts stacks, not syllables, as the n-grams do: text as in their corpus has about 3, letters at random have several hundred.

use std::collections::HashMap;
use std::iter::Sum;
use std::ops::Add;

use super::charset::Charset;
use super::language::{History, Ngrams, UNSEEN};
use super::normalize::canonical_order;

/// N-grams with the spelling of their classes, to score texts with.
#[derive(Debug)]
pub struct TextScorer {
    ngrams: Ngrams,
    class_of: HashMap<String, usize>,
    /// Letters of the longest label.
    longest: usize,
}

/// Log-probability of a text, and how long the text is. Scores of parts of a text add up to that of the whole.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct TextScore {
    /// Sum of the natural logarithms of the stacks' probabilities.
    log_prob: f64,
    /// Number of stacks, which includes signs and numbers.
    stacks: u32,
    /// Number of letters of other scripts.
    foreign: u32,
}

impl TextScore {
    /// Number of stacks, punctuation included.
    pub fn stacks(self) -> u32 {
        self.stacks
    }

    /// Number of stacks among which the next one would have to be guessed on average, at least 1. `None` for a text that is empty, or
    /// mostly of another script.
    pub fn perplexity(self) -> Option<f32> {
        let is_tibetan = self.stacks > 0 && self.stacks >= self.foreign;
        is_tibetan.then(|| (-self.log_prob / f64::from(self.stacks)).exp() as f32)
    }
}

impl Add for TextScore {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            log_prob: self.log_prob + other.log_prob,
            stacks: self.stacks + other.stacks,
            foreign: self.foreign + other.foreign,
        }
    }
}

impl Sum for TextScore {
    fn sum<I: Iterator<Item = Self>>(scores: I) -> Self {
        scores.fold(Self::default(), Add::add)
    }
}

impl TextScorer {
    /// A scorer with the n-grams of the classes of `charset`, whose labels are Unicode.
    pub fn new(charset: &Charset, ngrams: Ngrams) -> Self {
        let labels = (0..charset.classes()).map(|class| (charset.label(class), class));
        let class_of: HashMap<String, usize> = labels
            .filter(|(label, _)| !label.is_empty())
            .map(|(label, class)| (label.to_owned(), class))
            .collect();
        let longest = class_of.keys().map(|label| label.chars().count()).max();
        Self {
            ngrams,
            class_of,
            longest: longest.unwrap_or_default(),
        }
    }

    /// Score of a line or another piece of text in Unicode, before which anything may stand.
    pub fn score(&self, text: &str) -> TextScore {
        let text = canonical_order(text);
        let (mut score, mut history) = (TextScore::default(), History::EMPTY);
        let mut rest = text.as_str();
        while let Some(first) = rest.chars().next() {
            if let Some((label, class)) = self.longest_label(rest) {
                rest = &rest[label.len()..];
                if let Some((log_prob, after)) = self.ngrams.step(&history, class) {
                    score.log_prob += f64::from(log_prob);
                    score.stacks += 1;
                    history = after;
                }
                continue;
            }
            rest = &rest[first.len_utf8()..];
            match first {
                // A letter of Tibetan that the corpus does not have.
                '\u{f00}'..='\u{fff}' => {
                    score.log_prob += f64::from(UNSEEN);
                    score.stacks += 1;
                    history = History::EMPTY;
                }
                other if other.is_alphanumeric() => {
                    score.foreign += 1;
                    history = History::EMPTY;
                }
                _ => {}
            }
        }
        score
    }

    /// The longest label that a text begins with, and its class.
    fn longest_label<'t>(&self, text: &'t str) -> Option<(&'t str, usize)> {
        let ends = text.char_indices().map(|(at, letter)| at + letter.len_utf8());
        let mut found = None;
        for end in ends.take(self.longest) {
            let label = &text[..end];
            if let Some(class) = self.class_of.get(label) {
                found = Some((label, *class));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::language::tests::ngrams;
    use super::*;

    /// Classes 1 to 4 of the n-grams: 2 and 3 are one unit, and 4 is passed over.
    fn scorer() -> TextScorer {
        let charset = Charset::new(["ཀ", "ཁ", "ཁྱ", " "]).unwrap();
        TextScorer::new(&charset, ngrams())
    }

    #[test]
    fn the_longest_stack_is_taken_and_spaces_are_passed_over() {
        let scorer = scorer();
        let score = scorer.score("ཀ ཁྱ");
        assert_eq!(score.stacks(), 2);
        assert_eq!(score, scorer.score("ཀཁ"));
        assert!(scorer.score("ཀཁ").perplexity() < scorer.score("ཁཁ").perplexity());
    }

    #[test]
    fn what_is_not_known_is_surprising_and_other_scripts_are_not_judged() {
        let scorer = scorer();
        let unseen = (-UNSEEN).exp();
        assert_eq!(scorer.score("ཉ").perplexity(), Some(unseen));
        assert_eq!(scorer.score("").perplexity(), None);
        assert_eq!(scorer.score("Tibet").perplexity(), None);
        assert!(scorer.score("ཀཁཀ ab").perplexity().is_some());
        assert_eq!(scorer.score("ཀ abc").perplexity(), None);
    }

    proptest! {
        #[test]
        fn a_score_is_at_least_one_and_adds_up(texts in prop::collection::vec("[ཀཁཉྱ a]{0,12}", 0..6)) {
            let scorer = scorer();
            let scores = || texts.iter().map(|text| scorer.score(text));
            let sum: TextScore = scores().sum();
            prop_assert_eq!(sum.stacks(), scores().map(TextScore::stacks).sum::<u32>());
            prop_assert!(sum.perplexity().is_none_or(|perplexity| perplexity >= 1.0));
            let most = scores().filter_map(TextScore::perplexity).fold(1.0, f32::max);
            let all_judged = scores().all(|score| score.stacks() == 0 || score.perplexity().is_some());
            prop_assert!(!all_judged || sum.perplexity().is_none_or(|perplexity| perplexity <= most * 1.001));
        }
    }
}
