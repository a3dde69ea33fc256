use std::sync::Arc;

use parkhang_models::inference::{InferenceError, LineBatch, Logits, Recognizer};

use super::BatchModel;

/// The recogniser as a batch model: one request is a bucket of lines of one width.
#[derive(Debug)]
pub struct LineRecognition {
    pub network: Arc<dyn Recognizer>,
    /// Pixels (lines x height x width) in one forward pass.
    pub max_pixels: usize,
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

    fn run(&self, buckets: &[LineBatch]) -> Result<Vec<Vec<Logits>>, InferenceError> {
        let [first, ..] = buckets else {
            return Ok(Vec::new());
        };
        if buckets.len() == 1 {
            return Ok(vec![self.network.logits(first)?]);
        }
        let joined = LineBatch {
            height: first.height,
            width: first.width,
            line_widths: buckets
                .iter()
                .flat_map(|bucket| bucket.line_widths.iter().copied())
                .collect(),
            values: buckets
                .iter()
                .flat_map(|bucket| bucket.values.iter().copied())
                .collect(),
        };
        let mut logits = self.network.logits(&joined)?.into_iter();
        Ok(buckets
            .iter()
            .map(|bucket| logits.by_ref().take(bucket.line_widths.len()).collect())
            .collect())
    }
}
