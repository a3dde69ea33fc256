//! A table of embeddings whose values are levels of a byte: a quarter of the memory of floats, of which a text needs a few rows.

use parkhang_models::checkpoint::WeightsError;
use parkhang_models::weights::Bundle;

/// Rows of embeddings in blocks, each with a scale of its own; row `id` is the one of number `id / blocks` of block `id % blocks`.
#[derive(Debug)]
pub(crate) struct Levels {
    /// Level of each value, `[blocks][rows][width]`.
    levels: Vec<u8>,
    width: usize,
    /// Step between levels, and value of the lowest one, of each block.
    scales: Vec<(f32, f32)>,
}

impl Levels {
    /// Unpacks the table of a bundle, frames of zstd one after the other. Their size is bounded by `vocabulary`, the least number of rows.
    pub(crate) fn read(
        bundle: &Bundle,
        architecture: &'static str,
        scales: Vec<(f32, f32)>,
        [vocabulary, width]: [usize; 2],
    ) -> Result<Self, WeightsError> {
        let model = bundle.embedding(architecture)?;
        let blocks = scales.len().max(1);
        let expected = vocabulary.next_multiple_of(blocks) * width;
        let mut levels = Vec::with_capacity(expected);
        for table in &model.tables {
            let left = expected - levels.len();
            let part = zstd::bulk::decompress(bundle.file(table), left)
                .map_err(|error| bundle.invalid("tables", format!("cannot be unpacked: {error}")))?;
            levels.extend(part);
        }
        if levels.len() != expected {
            let problem = format!("have {} values, expected {expected}", levels.len());
            return Err(bundle.invalid("tables", problem));
        }
        Ok(Self {
            levels,
            width,
            scales,
        })
    }

    /// Number of ids.
    pub(crate) fn rows(&self) -> usize {
        self.levels.len() / self.width.max(1)
    }

    /// The embedding of an id below [`Self::rows`].
    pub(crate) fn row(&self, id: u32) -> impl Iterator<Item = f32> {
        let (id, blocks) = (id as usize, self.scales.len());
        let (scale, lowest) = self.scales[id % blocks];
        let row = id % blocks * (self.rows() / blocks) + id / blocks;
        let levels = &self.levels[row * self.width..][..self.width];
        levels.iter().map(move |&level| f32::from(level) * scale + lowest)
    }
}
