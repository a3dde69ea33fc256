//! Choice of the recogniser that reads a volume, where a node has several.

/// Number of pages of a volume that recognisers are tried on, from its first one with lines.
pub const TRIAL_PAGES: usize = 4;
/// Largest number of lines that they are tried on.
pub const TRIAL_LINES: usize = 48;

/// Index of the recogniser that was surest of the lines it was tried on; the first of equals, and so the first if there was
/// nothing to try them on.
///
/// Each trial holds the confidence, from 0 to 1, of every line, and `None` for a line in which a recogniser found no text;
/// that counts as 0, or one that reads next to nothing would win.
pub fn surest(trials: &[Vec<Option<f32>>]) -> usize {
    let mut best = (0, f64::NEG_INFINITY);
    for (place, trial) in trials.iter().enumerate() {
        let mean = mean(trial);
        if mean > best.1 {
            best = (place, mean);
        }
    }
    best.0
}

fn mean(confidences: &[Option<f32>]) -> f64 {
    let sure = |confidence: &Option<f32>| confidence.map_or(0.0, f64::from);
    let sum: f64 = confidences
        .iter()
        .map(sure)
        // One NaN would make the mean one, and every comparison with it false.
        .map(|confidence| if confidence.is_nan() { 0.0 } else { confidence })
        .sum();
    sum / confidences.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_highest_mean_wins_and_the_first_of_equals() {
        let (poor, good) = (vec![Some(0.5), Some(0.7)], vec![Some(0.9), Some(0.8)]);
        assert_eq!(surest(&[poor.clone(), good.clone()]), 1);
        assert_eq!(surest(&[good.clone(), good.clone(), poor]), 0);
        assert_eq!(surest(&[Vec::new(), Vec::new()]), 0);
        assert_eq!(surest(&[]), 0);
    }

    #[test]
    fn a_line_without_text_is_no_confidence() {
        let reads_one = vec![Some(0.99), None, None];
        let reads_all = vec![Some(0.6), Some(0.6), Some(0.6)];
        assert_eq!(surest(&[reads_one, reads_all]), 1);
        assert_eq!(surest(&[vec![Some(f32::NAN)], vec![Some(0.1)]]), 1);
    }

    proptest! {
        #[test]
        fn nobody_else_was_surer(trials in prop::collection::vec(prop::collection::vec(prop::option::of(0.0_f32..1.0), 8), 1..5)) {
            let chosen = surest(&trials);
            prop_assert!(trials.iter().all(|trial| mean(trial) <= mean(&trials[chosen])));
            prop_assert!(trials[..chosen].iter().all(|trial| mean(trial) < mean(&trials[chosen])));
        }
    }
}
