//! Decision between the readings of a line.

use parkhang_algorithms::{Combination, Trust};

use crate::network::{Network, Slot};
use crate::skeleton::{Place, Skeleton, SkeletonLine};
use crate::syllables::Syllable;

/// Weight of the plausibility of a line against the mean log-probability of its syllables. Enough to tell a reading that is sure of nonsense, as
/// one without a language model may be; more only prefers what is usual. See docs/combining.md.
const PLAUSIBILITY: f32 = 0.1;

/// Syllable of a combined line.
#[derive(Debug, Clone, PartialEq)]
pub struct Piece {
    pub text: String,
    /// Probability that it is right, as far as the readings tell.
    pub confidence: f32,
    /// Numbers of the readings that have these letters here.
    pub readings: Vec<usize>,
    /// Number of the syllable that the line of [`Combined::place`] has here; `None` where it has none.
    pub at: Option<usize>,
}

/// Line of a combined text.
#[derive(Debug, Clone, PartialEq)]
pub struct Combined {
    /// The line whose place it has.
    pub place: Place,
    /// In order; none where no reading has anything on the line.
    pub pieces: Vec<Piece>,
}

impl Combined {
    pub fn text(&self) -> String {
        self.pieces.iter().map(|piece| piece.text.as_str()).collect()
    }
}

/// Combines the readings of the lines of a page. `trusts` are those of the readings, by their numbers; one that has none there is trusted as
/// an unknown one.
pub fn combine(skeleton: &Skeleton, trusts: &[Trust], how: Combination) -> Vec<Combined> {
    let unknown = Trust::default();
    let trust = |reading: usize| trusts.get(reading).unwrap_or(&unknown);
    let combined = |line: &SkeletonLine| {
        let network = Network::new(line.readings.iter().map(Option::as_deref));
        let one = match how {
            Combination::First => network.present.iter().position(|is| *is),
            Combination::Best => surest(line, &network, &trust),
            Combination::Vote => None,
        };
        let mut own = 0..;
        let pieces = network.slots.iter().filter_map(|slot| {
            let at = slot.votes[line.place.reading].as_ref().and_then(|_| own.next());
            let piece = match (how, one) {
                (Combination::Vote, _) => vote(slot, &network, &trust),
                (_, reading) => said_by(slot, reading?, &trust),
            };
            piece.map(|piece| Piece { at, ..piece })
        });
        Combined {
            place: line.place,
            pieces: pieces.collect(),
        }
    };
    skeleton.lines.iter().map(combined).collect()
}

/// The syllable as one reading has it.
fn said_by<'a>(slot: &Slot, reading: usize, trust: &impl Fn(usize) -> &'a Trust) -> Option<Piece> {
    let syllable = slot.votes[reading].as_ref()?;
    Some(Piece {
        text: syllable.text.clone(),
        confidence: trust(reading).of(syllable.confidence),
        readings: agreeing(slot, syllable.letters()),
        at: None,
    })
}

fn agreeing(slot: &Slot, letters: &str) -> Vec<usize> {
    let votes = slot.votes.iter().enumerate();
    votes
        .filter(|(_, vote)| vote.as_ref().is_some_and(|vote| vote.letters() == letters))
        .map(|(reading, _)| reading)
        .collect()
}

/// The reading with the greatest mean log-probability of its syllables and omissions; of equal ones the first. Plausibilities count
/// where all who have the line have one.
fn surest<'a>(line: &SkeletonLine, network: &Network, trust: &impl Fn(usize) -> &'a Trust) -> Option<usize> {
    let present = || (0..network.present.len()).filter(|reading| network.present[*reading]);
    let is_told = present().all(|reading| line.plausibilities[reading].is_some());
    let score = |reading: usize| {
        let sum: f32 = network
            .slots
            .iter()
            .map(|slot| probability(slot.votes[reading].as_ref(), trust(reading)).ln())
            .sum();
        let plausibility = line.plausibilities[reading].filter(|_| is_told).unwrap_or(0.0);
        sum / network.slots.len().max(1) as f32 + PLAUSIBILITY * plausibility
    };
    present().reduce(|best, reading| match score(reading) > score(best) {
        true => reading,
        false => best,
    })
}

fn probability(vote: Option<&Syllable>, trust: &Trust) -> f32 {
    vote.map_or_else(|| trust.of_omission(), |syllable| trust.of(syllable.confidence))
}

/// What is said in a slot, and by how many.
struct Candidate<'a> {
    /// `None` for an omission.
    letters: Option<&'a str>,
    /// Sum of the weights of those who say it.
    votes: f32,
    /// Negative logarithm of the probability that all who say it are wrong, if each were by chance.
    score: f32,
}

/// The syllable that most readings have, unless most have none; of those with as many votes that of the preferred reading. How sure a reading is
/// of the single syllable does not count: where readings differ that says next to nothing of who is right (docs/combining.md).
fn vote<'a>(slot: &Slot, network: &Network, trust: &impl Fn(usize) -> &'a Trust) -> Option<Piece> {
    let voters = || {
        let votes = slot.votes.iter().enumerate();
        votes.filter(|(reading, _)| network.present[*reading])
    };
    let sureness = |reading: usize, vote: Option<&Syllable>| -(1.0 - probability(vote, trust(reading))).ln();
    let mut candidates: Vec<Candidate<'_>> = Vec::new();
    for (reading, vote) in voters() {
        let letters = vote.as_ref().map(Syllable::letters);
        let (votes, score) = (trust(reading).weight, sureness(reading, vote.as_ref()));
        match candidates
            .iter_mut()
            .find(|candidate| candidate.letters == letters)
        {
            Some(candidate) => {
                candidate.votes += votes;
                candidate.score += score;
            }
            None => candidates.push(Candidate {
                letters,
                votes,
                score,
            }),
        }
    }
    // The first of equal ones, which is that of the preferred reading.
    let winner = candidates
        .iter()
        .reduce(|best, next| match next.votes > best.votes {
            true => next,
            false => best,
        })?;
    let letters = winner.letters?;
    // Odds that at least one of them is right; all of them may be wrong.
    let odds = |candidate: &Candidate<'_>| candidate.score.exp() - 1.0;
    let all: f32 = candidates.iter().map(odds).sum();
    let readings = agreeing(slot, letters);
    let mut signs: Vec<(&str, f32)> = Vec::new();
    for (reading, vote) in voters().filter(|(reading, _)| readings.contains(reading)) {
        let own = vote.as_ref().map_or("", Syllable::signs);
        let votes = trust(reading).weight;
        match signs.iter_mut().find(|(signs, _)| *signs == own) {
            Some((_, sum)) => *sum += votes,
            None => signs.push((own, votes)),
        }
    }
    let (signs, _) = signs
        .into_iter()
        .reduce(|best, next| if next.1 > best.1 { next } else { best })?;
    Some(Piece {
        text: format!("{letters}{signs}"),
        confidence: (odds(winner) / (all + 1.0)).clamp(0.0, 1.0),
        readings,
        at: None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::reading::{Bounds, Line, Reading};
    use crate::syllables::syllables;

    /// A reading of one line, with a confidence for each syllable.
    fn reading(text: &str, confidences: &[f32]) -> Reading {
        let mut syllables = syllables(text);
        for (syllable, confidence) in syllables.iter_mut().zip(confidences) {
            syllable.confidence = Some(*confidence);
        }
        let bounds = Bounds {
            left: 0.0,
            top: 0.0,
            right: 100.0,
            bottom: 10.0,
        };
        Reading {
            lines: vec![Line {
                syllables,
                bounds: Some(bounds),
                plausibility: None,
            }],
        }
    }

    fn text(readings: &[Reading], how: Combination) -> String {
        let combined = combine(&Skeleton::new(readings), &[], how);
        combined.iter().map(Combined::text).collect()
    }

    #[test]
    fn two_outvote_one_that_is_as_sure() {
        let sure = [0.9; 4];
        let readings = [
            reading("བདེ་བར་གཤགས་པ།", &sure),
            reading("བད་བར་གཤེགས་པ།", &sure),
            reading("བདེ་བར་གཤེགས་བ།", &sure),
        ];
        assert_eq!(text(&readings, Combination::Vote), "བདེ་བར་གཤེགས་པ།");
        assert_eq!(text(&readings, Combination::First), "བདེ་བར་གཤགས་པ།");
        let combined = combine(&Skeleton::new(&readings), &[], Combination::Vote);
        let agreed: Vec<&[usize]> = combined[0]
            .pieces
            .iter()
            .map(|piece| &piece.readings[..])
            .collect();
        assert_eq!(agreed, [&[0, 2][..], &[0, 1, 2], &[1, 2], &[0, 1]]);
        let places: Vec<Option<usize>> = combined[0].pieces.iter().map(|piece| piece.at).collect();
        assert_eq!(places, [Some(0), Some(1), Some(2), Some(3)]);
        let confidences: Vec<f32> = combined[0].pieces.iter().map(|piece| piece.confidence).collect();
        assert!(
            confidences[1] > confidences[0] && confidences[0] > 0.9,
            "{confidences:?}"
        );
    }

    #[test]
    fn one_that_is_known_to_be_better_outvotes_two() {
        let readings = [
            reading("བདེ་བར་", &[0.4, 0.9]),
            reading("བདི་བར་", &[0.99, 0.9]),
            reading("བདེ་བར་", &[0.3, 0.9]),
        ];
        assert_eq!(text(&readings, Combination::Vote), "བདེ་བར་");
        let weights = [1.0, 2.5, 1.0].map(|weight| Trust {
            weight,
            ..Trust::default()
        });
        let combined = combine(&Skeleton::new(&readings), &weights, Combination::Vote);
        assert_eq!(combined[0].text(), "བདི་བར་");
    }

    #[test]
    fn of_as_many_votes_those_of_the_preferred_reading_count() {
        let readings = [
            reading("བདེ་", &[0.4]),
            reading("བདི་", &[0.99]),
            reading("བདུ་", &[0.9]),
        ];
        assert_eq!(text(&readings, Combination::Vote), "བདེ་");
        assert_eq!(text(&readings[1..], Combination::Vote), "བདི་");
    }

    #[test]
    fn what_most_leave_out_is_left_out_and_what_most_add_is_there() {
        let readings = [
            reading("བདེ་བར་གཤེགས་", &[0.9, 0.3, 0.9]),
            reading("བདེ་གཤེགས་པ་", &[0.9, 0.9, 0.9]),
            reading("བདེ་གཤེགས་པ།", &[0.9, 0.9, 0.95]),
        ];
        assert_eq!(text(&readings, Combination::Vote), "བདེ་གཤེགས་པ་");
        let combined = combine(&Skeleton::new(&readings), &[], Combination::Vote);
        let places: Vec<Option<usize>> = combined[0].pieces.iter().map(|piece| piece.at).collect();
        assert_eq!(places, [Some(0), Some(2), None], "the first reading has the line");
    }

    #[test]
    fn the_surest_line_is_the_one_that_lacks_least() {
        let readings = [
            reading("བདེ་", &[0.99]),
            reading("བདེ་བར་གཤེགས་པ།", &[0.9, 0.8, 0.9, 0.9]),
            reading("བདེ་བར་གཤགས་པ།", &[0.9, 0.8, 0.5, 0.9]),
        ];
        assert_eq!(text(&readings, Combination::Best), "བདེ་བར་གཤེགས་པ།");
        let mut told = readings;
        for (reading, plausibility) in told.iter_mut().zip([-3.0, -9.0, -1.0]) {
            reading.lines[0].plausibility = Some(plausibility);
        }
        assert_eq!(text(&told, Combination::Best), "བདེ་བར་གཤགས་པ།");
    }

    fn any_reading() -> impl Strategy<Value = Reading> {
        ("[ཀཁག་། ]{0,14}", prop::collection::vec(0.0..1.0_f32, 14))
            .prop_map(|(text, sure)| reading(&text, &sure))
    }

    proptest! {
        #[test]
        fn readings_that_agree_are_taken_as_they_are(one in any_reading(), times in 1..4_usize, how in prop::sample::select(&Combination::ALL)) {
            let readings = vec![one; times];
            let line = readings[0].lines[0].text();
            let expected = if line.trim().is_empty() { String::new() } else { line };
            prop_assert_eq!(text(&readings, how), expected);
        }

        #[test]
        fn nothing_is_made_up(readings in prop::collection::vec(any_reading(), 1..5), how in prop::sample::select(&Combination::ALL)) {
            for line in combine(&Skeleton::new(&readings), &[], how) {
                for piece in line.pieces {
                    prop_assert!(!piece.readings.is_empty());
                    prop_assert!((0.0..=1.0).contains(&piece.confidence), "{}", piece.confidence);
                    let own = syllables(&piece.text);
                    let letters = own.first().map_or("", |syllable| syllable.letters());
                    let has = |reading: &Reading| reading.lines[0].syllables.iter().any(|s| s.letters() == letters);
                    prop_assert!(readings.iter().any(has), "{:?}", piece.text);
                }
            }
        }
    }
}
