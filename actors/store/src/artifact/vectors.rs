//! Table of the vectors of chunks, for search by meaning and by terms.

use super::row::artifact_row;

artifact_row! {
    /// Row of `vectors.parquet`: the vectors of a chunk, which belongs to the page that it begins on.
    pub struct VectorRow = "vectors", version 2, batches of 256 {
        image_name: String,
        /// Position of the page in its volume, from 0.
        page_index: i32,
        /// Number of the page in its volume, from 1.
        page: i32,
        /// Number of the chunk among those of the page, as the table of chunks has it.
        chunk: i32,
        /// Direction of the meaning, of length 1; as many numbers in all rows of a table.
        dense: Vec<f32>,
        /// Terms with a weight, in order.
        indices: Vec<u32>,
        /// Weights of the terms.
        values: Vec<f32>,
    }
}
