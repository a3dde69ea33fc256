//! Language model of the beam search: n-grams of the recogniser's classes, which back off to shorter ones (Katz, 1987).

mod file;

pub use file::NgramError;

/// Longest n-grams that a file may hold.
const MAX_ORDER: usize = 8;
/// Step in which natural logarithms are stored.
const STEP: f32 = 1.0 / 16.0;
/// Log-probability of a unit that the corpus does not have: the least that can be stored.
pub(super) const UNSEEN: f32 = -255.0 * STEP;
const ABSENT: u32 = u32::MAX;

/// The n-grams of one length, ordered by what they begin with and then by unit.
#[derive(Debug, Clone, PartialEq, Default)]
struct Level {
    /// The last unit of each.
    units: Vec<u16>,
    log_probs: Vec<f32>,
    /// ln of the weight for backing off from it; empty for the longest.
    back_off: Vec<f32>,
    /// Start of the n-grams on the next level that begin with each of these, and the end of the last ones; empty for the
    /// longest.
    children: Vec<u32>,
}

/// Probabilities of units after up to `order - 1` others. A unit is a class, or one that stands for several, such as all digits.
#[derive(Debug, Clone, PartialEq)]
pub struct Ngrams {
    /// Unit of each class; 0 for what is passed over.
    unit_of: Vec<u16>,
    levels: Vec<Level>,
}

/// Context of the next unit: for each length the n-gram that it ends in, if there is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct History([u32; MAX_ORDER]);

impl History {
    /// Nothing came before; a line begins anywhere in a text.
    pub const EMPTY: Self = Self([ABSENT; MAX_ORDER]);
}

impl Ngrams {
    /// Classes of the charset that it is for, the blank among them.
    pub fn classes(&self) -> usize {
        self.unit_of.len()
    }

    /// ln of the probability of a class after a history, and the history after it; `None` for what is passed over.
    pub fn step(&self, history: &History, class: usize) -> Option<(f32, History)> {
        let unit = self.unit_of.get(class).copied().filter(|unit| *unit != 0)?;
        // All lengths are gone through even when the probability is known: the next unit needs the n-gram of
        // each length that ends in this one.
        let mut after = History::EMPTY;
        let mut log_prob = None;
        let mut weight = 0.0;
        for length in (0..self.levels.len()).rev() {
            let before = length.checked_sub(1).map(|level| (level, history.0[level]));
            // A context that the corpus does not have costs nothing: its weight for backing off is 1.
            if before.is_some_and(|(_, entry)| entry == ABSENT) {
                continue;
            }
            match self.find(before, unit) {
                Some(entry) => {
                    if let Some(slot) = after.0.get_mut(length) {
                        *slot = entry;
                    }
                    log_prob.get_or_insert_with(|| weight + self.levels[length].log_probs[entry as usize]);
                }
                None if log_prob.is_none() => {
                    // Katz: no such n-gram, so the shorter one counts, times the weight of the context that
                    // was too long.
                    weight +=
                        before.map_or(0.0, |(level, entry)| self.levels[level].back_off[entry as usize]);
                }
                None => {}
            }
        }
        Some((log_prob.unwrap_or(weight + UNSEEN), after))
    }

    /// The n-gram that is `before` followed by the unit; a single unit where nothing is before it.
    fn find(&self, before: Option<(usize, u32)>, unit: u16) -> Option<u32> {
        let (level, range) = match before {
            None => (self.levels.first()?, 0..self.levels.first()?.units.len()),
            Some((level, entry)) => {
                let children = &self.levels[level].children;
                let (from, to) = (*children.get(entry as usize)?, *children.get(entry as usize + 1)?);
                (self.levels.get(level + 1)?, from as usize..to as usize)
            }
        };
        let from = range.start;
        let place = level.units.get(range)?.binary_search(&unit).ok()?;
        u32::try_from(from + place).ok()
    }
}

/// N-grams, and how much they count against what the network sees.
#[derive(Debug, Clone, PartialEq)]
pub struct LanguageModel {
    pub ngrams: Ngrams,
    /// Factor of the logarithm of a unit's probability.
    pub weight: f32,
    /// Score added for each unit: without it, few and short would be likelier than many.
    pub bonus: f32,
}

impl LanguageModel {
    /// Score that writing a class adds to a text, and the history after it.
    pub(super) fn step(&self, history: &History, class: usize) -> (f64, History) {
        match self.ngrams.step(history, class) {
            Some((log_prob, after)) => (f64::from(self.weight * log_prob + self.bonus), after),
            None => (0.0, *history),
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
