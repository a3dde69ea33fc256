//! Narrowing a large charset to the classes that a line may show at all.

use super::LogProbs;
use crate::recognition::charset::BLANK;

/// Classes whose log-probability exceeds `threshold` in at least one frame, in ascending order; the blank is always
/// among them. A charset of ten thousand stacks shrinks to a few dozen per line.
pub fn kept_classes(log_probs: &LogProbs, threshold: f32) -> Vec<usize> {
    let mut highest = vec![f32::NEG_INFINITY; log_probs.classes()];
    for row in log_probs.iter() {
        for (highest, &value) in highest.iter_mut().zip(row) {
            *highest = if value > *highest { value } else { *highest };
        }
    }
    (0..log_probs.classes())
        .filter(|&class| class == BLANK || highest[class] > threshold)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blank_stays_and_silent_classes_go() {
        let log_probs =
            LogProbs::new(2, 4, vec![-20.0, -9.0, -11.0, -10.0, -20.0, -30.0, -10.5, -10.0]).unwrap();
        assert_eq!(kept_classes(&log_probs, -10.0), [0, 1]);
        assert_eq!(kept_classes(&log_probs, -40.0), [0, 1, 2, 3]);
    }
}
