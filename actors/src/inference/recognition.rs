use std::sync::Arc;

use parkhang_models::inference::{InferenceError, LineBatch, Logits, Recognizer};

use super::BatchModel;

/// A recogniser as a batch model: one request is a bucket of lines of one width.
#[derive(Debug)]
pub struct LineRecognition {
    pub network: Arc<dyn Recognizer>,
    /// Limit on pixels (lines x height x width) in one forward pass.
    pub max_pixels: usize,
    /// A line of ordinary length, prepared as the network wants it.
    pub probe: LineBatch,
}

impl BatchModel for LineRecognition {
    type Input = LineBatch;
    type Output = Vec<Logits>;

    fn weight(&self, lines: &LineBatch) -> usize {
        lines.values.len()
    }

    fn capacity(&self) -> usize {
        self.max_pixels
    }

    fn compatible(&self, first: &LineBatch, other: &LineBatch) -> bool {
        (first.height, first.width) == (other.height, other.width)
    }

    /// One line.
    fn smallest(&self, buckets: &[LineBatch]) -> usize {
        buckets.first().map_or(0, |bucket| bucket.height * bucket.width)
    }

    fn run(&self, buckets: &[LineBatch], limit: usize) -> Result<Vec<Vec<Logits>>, InferenceError> {
        let [first, ..] = buckets else {
            return Ok(Vec::new());
        };
        let (height, width) = (first.height, first.width);
        let of_a_line = (height * width).max(1);
        // At least one line, whatever the limit: less cannot be asked of the network.
        let at_once = (limit / of_a_line).max(1);
        // By far the most frequent case, and the only one in which no pixel is copied.
        if buckets.len() == 1 && first.line_widths.len() <= at_once {
            return Ok(vec![self.network.logits(first)?]);
        }
        let lines: Vec<(usize, &[f32])> = buckets
            .iter()
            .flat_map(|bucket| {
                let values = bucket.values.chunks_exact(of_a_line);
                bucket.line_widths.iter().copied().zip(values)
            })
            .collect();
        let mut logits = Vec::with_capacity(lines.len());
        for part in lines.chunks(at_once) {
            logits.extend(
                self.network.logits(&LineBatch {
                    height,
                    width,
                    line_widths: part.iter().map(|(width, _)| *width).collect(),
                    values: part
                        .iter()
                        .flat_map(|(_, values)| values.iter().copied())
                        .collect(),
                })?,
            );
        }
        // Parts do not end where buckets do, so the answers are dealt out by the number of lines of each bucket.
        let mut logits = logits.into_iter();
        Ok(buckets
            .iter()
            .map(|bucket| logits.by_ref().take(bucket.line_widths.len()).collect())
            .collect())
    }

    fn probe(&self) -> LineBatch {
        self.probe.clone()
    }

    fn is_sound(&self, lines: &Vec<Logits>) -> bool {
        let mut values = lines.iter().flat_map(|line| &line.values);
        !lines.is_empty() && values.all(|value| value.is_finite())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Answers a line with its first value, and remembers how many lines were asked for at once.
    #[derive(Debug, Default)]
    struct FirstValue {
        asked: Mutex<Vec<usize>>,
    }

    impl Recognizer for FirstValue {
        fn logits(&self, lines: &LineBatch) -> Result<Vec<Logits>, InferenceError> {
            self.asked.lock().unwrap().push(lines.line_widths.len());
            let firsts = lines.values.chunks_exact(lines.height * lines.width);
            Ok(firsts
                .map(|values| Logits {
                    frames: 1,
                    classes: 1,
                    values: vec![values[0]],
                })
                .collect())
        }
    }

    fn bucket(firsts: &[f32]) -> LineBatch {
        LineBatch {
            height: 2,
            width: 3,
            line_widths: vec![3; firsts.len()],
            values: firsts
                .iter()
                .flat_map(|&first| [first, 0.0, 0.0, 0.0, 0.0, 0.0])
                .collect(),
        }
    }

    #[test]
    fn buckets_meet_and_heavy_ones_go_in_parts() {
        let buckets = [bucket(&[1.0, 2.0, 3.0]), bucket(&[4.0])];
        for (limit, asked) in [(1000, vec![4]), (12, vec![2, 2]), (5, vec![1; 4])] {
            let network = Arc::new(FirstValue::default());
            let model = LineRecognition {
                network: network.clone(),
                max_pixels: 1000,
                probe: bucket(&[0.0]),
            };
            assert_eq!(model.smallest(&buckets), 6);
            let answers: Vec<Vec<f32>> = model
                .run(&buckets, limit)
                .unwrap()
                .into_iter()
                .map(|lines| lines.into_iter().flat_map(|line| line.values).collect())
                .collect();
            assert_eq!(answers, [vec![1.0, 2.0, 3.0], vec![4.0]], "{limit}");
            assert_eq!(*network.asked.lock().unwrap(), asked, "{limit}");
        }
    }
}
