use std::sync::Arc;

use parkhang_models::inference::{InferenceError, Segmenter, TileBatch};

use super::BatchModel;

/// The line segmenter as a batch model: one request is the tiles of one page.
#[derive(Debug)]
pub struct PageSegmentation {
    pub network: Arc<dyn Segmenter>,
    /// Tiles in one forward pass.
    pub max_tiles: usize,
}

impl BatchModel for PageSegmentation {
    type Input = TileBatch;
    type Output = Vec<f32>;

    fn weight(&self, tiles: &TileBatch) -> usize {
        tiles.count
    }

    fn capacity(&self) -> usize {
        self.max_tiles
    }

    fn compatible(&self, first: &TileBatch, other: &TileBatch) -> bool {
        first.size == other.size
    }

    fn run(&self, pages: &[TileBatch]) -> Result<Vec<Vec<f32>>, InferenceError> {
        if let [page] = pages {
            return Ok(vec![self.network.line_probabilities(page)?]);
        }
        let size = pages.first().map_or(0, |page| page.size);
        let joined = TileBatch {
            size,
            count: pages.iter().map(|page| page.count).sum(),
            values: pages
                .iter()
                .flat_map(|page| page.values.iter().copied())
                .collect(),
        };
        let probabilities = self.network.line_probabilities(&joined)?;
        let expected = joined.count * size * size;
        if probabilities.len() != expected {
            return Err(InferenceError::Shape {
                expected: expected.to_string(),
                actual: probabilities.len(),
            });
        }
        let mut rest = probabilities.as_slice();
        Ok(pages
            .iter()
            .map(|page| {
                let (own, others) = rest.split_at(page.count * size * size);
                rest = others;
                own.to_vec()
            })
            .collect())
    }
}
