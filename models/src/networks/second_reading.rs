//! Two recognisers in a row: a small network reads every line, and a larger one reads again what the small one is unsure of.
//!
//! Most lines of a print are read by the small network as well as by any, and cost what it costs; the larger one takes its
//! time where there is something to gain. Both write the same classes, so whoever decodes does not see which of them answered.

use std::sync::Arc;

use crate::inference::{InferenceError, LineBatch, Logits, Recognizer};
use crate::recognition::charset::BLANK;

/// Scores so far below the best of a frame add less than rounding to what all of them add up to.
const NEGLIGIBLE: f32 = 16.0;

/// A [`Recognizer`] that asks `second` about the lines of which `first` is less sure than `below`.
#[derive(Debug)]
pub(crate) struct SecondReading<R, S> {
    pub(crate) first: Arc<R>,
    pub(crate) second: Arc<S>,
    /// Confidence from 0 to 1, see [`confidence`].
    pub(crate) below: f32,
}

impl<R: Recognizer, S: Recognizer> Recognizer for SecondReading<R, S> {
    fn logits(&self, lines: &LineBatch) -> Result<Vec<Logits>, InferenceError> {
        let mut answers = self.first.logits(lines)?;
        let unsure: Vec<usize> = answers
            .iter()
            .enumerate()
            .filter(|(_, logits)| confidence(logits) < self.below)
            .map(|(place, _)| place)
            .collect();
        if unsure.is_empty() {
            return Ok(answers);
        }
        let again = self.second.logits(&lines.select(&unsure))?;
        if again.len() != unsure.len() {
            return Err(InferenceError::Shape {
                expected: format!("{} lines", unsure.len()),
                actual: again.len(),
            });
        }
        for (place, logits) in unsure.into_iter().zip(again) {
            answers[place] = logits;
        }
        Ok(answers)
    }
}

/// Confidence of the best path through the scores: the geometric mean of its probability per written class, as
/// [`greedy`](crate::recognition::ctc::greedy) tells it; 1 for a line without frames, in which nobody sees more.
fn confidence(logits: &Logits) -> f32 {
    let (mut log_score, mut written, mut last) = (0.0_f64, 0_usize, BLANK);
    for frame in logits.values.chunks_exact(logits.classes.max(1)) {
        let best = frame.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        // The log-softmax of the best score, without the exponentials of the hundreds of classes that have no share in it.
        let sum: f32 = frame
            .iter()
            .filter(|&&score| score > best - NEGLIGIBLE)
            .map(|&score| (score - best).exp())
            .sum();
        log_score -= f64::from(sum.ln());
        let class = frame.iter().position(|&score| score == best).unwrap_or(BLANK);
        written += usize::from(class != BLANK && class != last);
        last = class;
    }
    let units = if written == 0 { logits.frames } else { written };
    (log_score / units.max(1) as f64).exp() as f32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recognition::charset::Charset;
    use crate::recognition::ctc::{greedy, log_softmax};

    /// A network that answers each line with one frame: its first pixel for the blank, its second for the one class, and
    /// says who read by a third score.
    #[derive(Debug)]
    struct Pixels(f32);

    impl Recognizer for Pixels {
        fn logits(&self, lines: &LineBatch) -> Result<Vec<Logits>, InferenceError> {
            let lines = lines.values.chunks_exact(lines.height * lines.width);
            Ok(lines
                .map(|line| Logits {
                    frames: 1,
                    classes: 3,
                    values: vec![line[0], line[1], self.0],
                })
                .collect())
        }
    }

    fn lines(values: &[[f32; 2]]) -> LineBatch {
        LineBatch {
            height: 1,
            width: 2,
            line_widths: vec![2; values.len()],
            values: values.concat(),
        }
    }

    fn readers(below: f32) -> SecondReading<Pixels, Pixels> {
        SecondReading {
            first: Arc::new(Pixels(-20.0)),
            second: Arc::new(Pixels(-30.0)),
            below,
        }
    }

    #[test]
    fn lines_that_are_unsure_are_read_again_and_others_are_not() {
        // Sure of the blank, torn between both, sure of the class, torn again.
        let lines = lines(&[[9.0, 0.0], [1.0, 1.1], [0.0, 9.0], [2.0, 2.0]]);
        let read_by = |below| -> Vec<f32> {
            let answers = readers(below).logits(&lines).unwrap();
            answers.iter().map(|logits| logits.values[2]).collect()
        };
        assert_eq!(read_by(0.9), [-20.0, -30.0, -20.0, -30.0]);
        assert_eq!(read_by(0.0), [-20.0; 4]);
        let answers = readers(0.9).logits(&lines).unwrap();
        assert_eq!(answers[3].values[..2], [2.0, 2.0]);
    }

    #[test]
    fn the_confidence_is_that_of_the_greedy_decoder() {
        let charset = Charset::new(vec!["ka".to_owned(), "kha".to_owned()]).unwrap();
        let values = vec![
            4.0, 0.5, 0.1, 0.0, 3.0, 1.0, 0.2, 2.5, 1.9, 5.0, -1.0, 0.0, 0.3, 0.1, 2.0, -40.0, 1.0, 0.9,
        ];
        let logits = Logits {
            frames: 6,
            classes: 3,
            values,
        };
        let decoded = greedy(&log_softmax(logits.clone()).unwrap(), &charset);
        assert!((confidence(&logits) - decoded.confidence).abs() < 1e-5);
        let blank = Logits {
            frames: 1,
            classes: 3,
            values: vec![4.0, 0.5, 0.1],
        };
        let decoded = greedy(&log_softmax(blank.clone()).unwrap(), &charset);
        assert!((confidence(&blank) - decoded.confidence).abs() < 1e-5);
        let nothing = Logits {
            frames: 0,
            classes: 3,
            values: Vec::new(),
        };
        assert_eq!(confidence(&nothing), 1.0);
    }

    #[test]
    fn an_answer_that_is_missing_is_an_error() {
        #[derive(Debug)]
        struct Silent;
        impl Recognizer for Silent {
            fn logits(&self, _: &LineBatch) -> Result<Vec<Logits>, InferenceError> {
                Ok(Vec::new())
            }
        }
        let readers = SecondReading {
            first: Arc::new(Pixels(0.0)),
            second: Arc::new(Silent),
            below: 1.0,
        };
        assert!(readers.logits(&lines(&[[1.0, 1.0]])).is_err());
    }
}
