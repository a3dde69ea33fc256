//! The scores of one line as log-probabilities.

use std::ops::Range;

use super::lanes;
use crate::inference::{InferenceError, Logits};

/// Lowest log-probability, finite so that sums of them stay finite.
const FLOOR: f32 = -10_000.0;

/// Natural log-probabilities of one line: `frames x classes`, row-major, class 0 is the blank. Holds no NaN and no
/// infinity.
#[derive(Debug, Clone, PartialEq)]
pub struct LogProbs {
    frames: usize,
    classes: usize,
    values: Vec<f32>,
}

impl LogProbs {
    /// Log-probabilities that the network has already normalised: `frames x classes`, row-major.
    ///
    /// # Errors
    /// [`InferenceError`] on a wrong number of values or on NaN.
    pub fn new(frames: usize, classes: usize, mut values: Vec<f32>) -> Result<Self, InferenceError> {
        check_shape(frames, classes, values.len())?;
        for value in &mut values {
            if value.is_nan() {
                return Err(InferenceError::Failed("the network answered NaN".to_owned()));
            }
            // A probability of zero is minus infinity, and the difference of two of them would be NaN.
            *value = value.clamp(FLOOR, f32::MAX);
        }
        Ok(Self {
            frames,
            classes,
            values,
        })
    }

    pub fn frames(&self) -> usize {
        self.frames
    }

    pub fn classes(&self) -> usize {
        self.classes
    }

    /// The classes of one frame.
    pub fn frame(&self, frame: usize) -> &[f32] {
        &self.values[frame * self.classes..(frame + 1) * self.classes]
    }

    /// All frames in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[f32]> {
        self.values.chunks_exact(self.classes)
    }

    /// Keeps a range of frames; what lies outside the line is ignored.
    #[must_use]
    pub fn crop(mut self, range: Range<usize>) -> Self {
        let end = range.end.min(self.frames);
        let start = range.start.min(end);
        self.values.truncate(end * self.classes);
        self.values.drain(..start * self.classes);
        self.frames = end - start;
        self
    }

    /// Best class of a frame and its value; the first of equals.
    pub fn best(&self, frame: usize) -> (usize, f32) {
        let row = self.frame(frame);
        let highest = lanes::highest(row);
        // Two passes, of which the first is done in vectors, are faster than one that carries an index along.
        let class = row.iter().position(|&value| value == highest);
        (class.unwrap_or(0), highest)
    }
}

/// Normalises every frame so that its probabilities add up to one. Harmless on values that are normalised already.
///
/// # Errors
/// [`InferenceError`] on a wrong number of values and on a frame without one finite score.
pub fn log_softmax(logits: Logits) -> Result<LogProbs, InferenceError> {
    let Logits {
        frames,
        classes,
        mut values,
    } = logits;
    check_shape(frames, classes, values.len())?;
    for row in values.chunks_exact_mut(classes) {
        let highest = lanes::highest(row);
        // Less the highest score no exponential overflows, and at least one of them is 1.
        let log_sum = highest + lanes::sum_of_exp(row, highest).ln();
        // NaN or infinity anywhere, or minus infinity everywhere, shows in the sum: one look a frame is
        // enough.
        if !log_sum.is_finite() {
            return Err(InferenceError::Failed(
                "the network answered NaN or infinite scores".to_owned(),
            ));
        }
        for value in row {
            *value = (*value - log_sum).max(FLOOR);
        }
    }
    Ok(LogProbs {
        frames,
        classes,
        values,
    })
}

fn check_shape(frames: usize, classes: usize, actual: usize) -> Result<(), InferenceError> {
    if classes == 0 || frames.checked_mul(classes) != Some(actual) {
        return Err(InferenceError::Shape {
            expected: format!("{frames} frames x {classes} classes"),
            actual,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logits(frames: usize, classes: usize, values: &[f32]) -> Logits {
        Logits {
            frames,
            classes,
            values: values.to_vec(),
        }
    }

    #[test]
    fn rows_add_up_to_one() {
        let log_probs = log_softmax(logits(2, 3, &[1.0, 2.0, 3.0, 1000.0, 0.0, f32::NEG_INFINITY])).unwrap();
        for row in log_probs.iter() {
            let sum: f32 = row.iter().map(|value| value.exp()).sum();
            assert!((sum - 1.0).abs() < 1e-6, "{sum}");
        }
        assert_eq!(log_probs.best(0).0, 2);
        assert_eq!(log_probs.best(1), (0, 0.0));
    }

    #[test]
    fn crop_keeps_whole_frames() {
        let log_probs = LogProbs::new(3, 2, vec![0.0, -1.0, -2.0, -3.0, -4.0, -5.0]).unwrap();
        let middle = log_probs.clone().crop(1..2);
        assert_eq!((middle.frames(), middle.frame(0)), (1, &[-2.0, -3.0][..]));
        assert_eq!(log_probs.clone().crop(2..9).frames(), 1);
        assert_eq!(log_probs.crop(7..9).frames(), 0);
    }

    #[test]
    fn broken_scores_are_refused() {
        assert!(log_softmax(logits(1, 2, &[f32::NAN, 0.0])).is_err());
        assert!(log_softmax(logits(1, 2, &[f32::NEG_INFINITY; 2])).is_err());
        assert!(log_softmax(logits(1, 2, &[f32::INFINITY, 0.0])).is_err());
        assert!(log_softmax(logits(1, 2, &[0.0])).is_err());
        assert!(log_softmax(logits(1, 0, &[])).is_err());
        assert!(LogProbs::new(1, 1, vec![f32::NAN]).is_err());
    }
}
