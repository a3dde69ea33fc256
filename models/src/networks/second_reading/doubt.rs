//! Doubt that a network shows in its scores.

use crate::inference::Logits;
use crate::recognition::charset::BLANK;
use crate::recognition::ctc::lanes;

/// Probability from which on a frame says a class clearly. More than a half, so that it is one class at most.
const CLEAR: f32 = 0.7;
/// Frames on either side of one in which a class that it hints at may be said.
const NEAR: usize = 3;
/// Probability from which on a frame hints at a class. Hundreds of classes have less, and next to nothing together.
const HINT: f32 = 0.01;

/// Frames that are in doubt, in order: those that give a probability of `least` or more to classes other than the blank that neither they
/// nor frames near them say clearly.
///
/// The best class of a frame alone tells little: where a letter begins and ends, frames lie between it and the blank whichever text is
/// read. So a class that is clear nearby is no doubt, however often it comes, and one that is nowhere clear is a letter that may be
/// another one, or none, or one that was left out.
pub(super) fn frames_in_doubt(scores: &Logits, least: f32) -> Vec<usize> {
    if scores.classes == 0 {
        return Vec::new();
    }
    let hints: Vec<Vec<(usize, f32)>> = scores.values.chunks_exact(scores.classes).map(hints).collect();
    let clear: Vec<Option<usize>> = hints
        .iter()
        .map(|hints| {
            hints
                .iter()
                .find(|(_, share)| *share >= CLEAR)
                .map(|(class, _)| *class)
        })
        .collect();
    let doubt = |frame: usize| -> f32 {
        let near = &clear[frame.saturating_sub(NEAR)..(frame + NEAR + 1).min(clear.len())];
        let unclear = hints[frame]
            .iter()
            .filter(|(class, _)| !near.contains(&Some(*class)));
        unclear.map(|(_, share)| share).sum()
    };
    (0..hints.len()).filter(|&frame| doubt(frame) >= least).collect()
}

/// Classes other than the blank that a frame hints at, and their probabilities.
fn hints(scores: &[f32]) -> Vec<(usize, f32)> {
    let highest = lanes::highest(scores);
    let sum = lanes::sum_of_exp(scores, highest);
    // The limit is compared as a score, so that the exponential is left to the few classes that reach it.
    let least = highest + (HINT * sum).ln();
    let classes = scores
        .iter()
        .enumerate()
        .filter(|(class, score)| *class != BLANK && **score >= least);
    classes
        .map(|(class, score)| (class, (score - highest).exp() / sum))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scores of frames over the blank and three letters, given as probabilities.
    fn scores(frames: &[[f32; 4]]) -> Logits {
        Logits {
            frames: frames.len(),
            classes: 4,
            values: frames
                .concat()
                .into_iter()
                .map(|share| share.ln() + 3.0)
                .collect(),
        }
    }

    const PAPER: [f32; 4] = [0.997, 0.001, 0.001, 0.001];

    #[test]
    fn a_letter_that_is_clear_nearby_is_no_doubt() {
        let begins = [0.5, 0.498, 0.001, 0.001];
        let says = [0.05, 0.948, 0.001, 0.001];
        let line = scores(&[PAPER, begins, says, begins, PAPER]);
        assert!(frames_in_doubt(&line, 0.2).is_empty());
    }

    #[test]
    fn a_letter_that_may_be_another_is_in_doubt() {
        let torn = [0.1, 0.5, 0.39, 0.01];
        assert_eq!(frames_in_doubt(&scores(&[PAPER, torn, PAPER]), 0.2), [1]);
        let says = [0.05, 0.9, 0.049, 0.001];
        let hints = [0.3, 0.4, 0.299, 0.001];
        let line = scores(&[hints, says, hints]);
        assert_eq!(frames_in_doubt(&line, 0.2), [0, 2], "the second letter");
        assert!(frames_in_doubt(&line, 0.35).is_empty());
    }

    #[test]
    fn a_letter_that_may_be_none_is_in_doubt() {
        let pale = [0.7, 0.298, 0.001, 0.001];
        assert_eq!(frames_in_doubt(&scores(&[PAPER, pale, PAPER]), 0.2), [1]);
        // Clear, but too far away to be what is hinted at.
        let says = [0.001, 0.997, 0.001, 0.001];
        let line = scores(&[pale, PAPER, PAPER, PAPER, says]);
        assert_eq!(frames_in_doubt(&line, 0.2), [0]);
        let line = scores(&[pale, PAPER, PAPER, says]);
        assert!(frames_in_doubt(&line, 0.2).is_empty());
    }

    #[test]
    fn without_any_doubt_all_frames_are_in_it_at_a_limit_of_zero() {
        assert_eq!(frames_in_doubt(&scores(&[PAPER; 3]), 0.0), [0, 1, 2]);
        assert!(frames_in_doubt(&scores(&[]), 0.0).is_empty());
    }
}
