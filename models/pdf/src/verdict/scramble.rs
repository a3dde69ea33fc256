//! A test of whether the letters of a text are those that it was written with. The text is scored by a language model as it is, and
//! again with its letters exchanged at random among themselves, many times. A text in any language is far more plausible as it is; one
//! whose letters were exchanged already is not more plausible than others. So a text is measured against itself: neither its subject nor its
//! length needs a threshold of its own, and a language that the model does not know still has much in common with those that it knows.

use std::collections::BTreeMap;

use super::ngrams::Ngrams;
use super::tokens::{EDGE, Token, Writing};

/// Exchanges that a text is compared with.
const EXCHANGES: usize = 48;
/// Letters looked at, which bounds the work.
const MOST_LETTERS: usize = 4000;

/// Plausibility of a text as it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Plausibility {
    /// Number of letters looked at.
    pub letters: usize,
    /// Number of different ones.
    pub distinct: usize,
    /// Standard deviations by which the text is more plausible than with its letters exchanged.
    pub deviations: f64,
    /// Bits a letter that the model needs to write the text.
    pub bits: f64,
    /// Mean of the bits with letters exchanged.
    pub exchanged_bits: f64,
}

/// Compares the tokens of one writing with themselves; `None` if there are too few different letters to exchange.
pub(super) fn plausibility<'a>(
    model: &Ngrams,
    writing: Writing,
    tokens: impl Iterator<Item = &'a Token>,
) -> Option<Plausibility> {
    let mut numbers: BTreeMap<char, usize> = BTreeMap::new();
    let mut grams: BTreeMap<[usize; 3], f64> = BTreeMap::new();
    let mut letters = 0;
    // The edge has number 0 and is never exchanged.
    numbers.insert(EDGE, 0);
    for token in tokens.filter(|token| token.writing == writing) {
        if letters >= MOST_LETTERS {
            break;
        }
        let mut before = [0, 0];
        for letter in &token.letters {
            let next = numbers.len();
            let number = *numbers.entry(*letter).or_insert(next);
            *grams.entry([before[0], before[1], number]).or_default() += 1.0;
            before = [before[1], number];
            letters += 1;
        }
        if writing != Writing::Han {
            *grams.entry([before[0], before[1], 0]).or_default() += 1.0;
        }
    }
    let distinct = numbers.len() - 1;
    if distinct < 4 {
        return None;
    }
    // Numbers were given in the order in which letters were met.
    let mut own = vec![EDGE; numbers.len()];
    for (letter, number) in &numbers {
        if let Some(place) = own.get_mut(*number) {
            *place = *letter;
        }
    }
    let total: f64 = grams.values().sum();
    let bits = |letters: &[char]| -> f64 {
        let letter = |number: usize| letters.get(number).copied().unwrap_or(EDGE);
        let sum: f64 = grams
            .iter()
            .map(|(gram, count)| count * model.bits(gram.map(letter)))
            .sum();
        sum / total
    };
    let as_it_is = bits(&own);
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let exchanged: Vec<f64> = (0..EXCHANGES)
        .map(|_| {
            let mut letters = own.clone();
            for place in (2..letters.len()).rev() {
                letters.swap(place, 1 + random.below(place));
            }
            bits(&letters)
        })
        .collect();
    let mean = exchanged.iter().sum::<f64>() / EXCHANGES as f64;
    let variance = exchanged.iter().map(|bits| (bits - mean).powi(2)).sum::<f64>() / (EXCHANGES - 1) as f64;
    Some(Plausibility {
        letters,
        distinct,
        deviations: (mean - as_it_is) / variance.sqrt().max(1e-6),
        bits: as_it_is,
        exchanged_bits: mean,
    })
}

/// Generator of the same exchanges for every page (xorshift64*, Vigna 2016).
struct Random(u64);

impl Random {
    /// Number from 0 to `limit - 1`.
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let value = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33;
        (value % limit.max(1) as u64) as usize
    }
}
