//! The seam between texts and networks: a trait over ids of tokens.

use std::fmt::Debug;

pub use parkhang_kernels::InferenceError;

/// Terms of a text and their weights, in the order of the terms, each once.
pub type Terms = Vec<(u32, f32)>;

/// A network that makes a vector of the tokens of a text.
pub trait TextEncoder: Debug + Send + Sync {
    type Vector;

    /// Vectors of texts, in order; a text is the ids of its tokens with those that mark its start and end.
    ///
    /// # Errors
    /// [`InferenceError`] of the device, and for ids that the network does not have or more than [`Self::longest`].
    fn vectors(&self, texts: &[Vec<u32>]) -> Result<Vec<Self::Vector>, InferenceError>;

    /// Number of tokens of the longest text.
    fn longest(&self) -> usize;
}

/// A network of dense vectors.
pub type DenseEncoder = dyn TextEncoder<Vector = Vec<f32>>;

/// A network of sparse vectors.
pub type SparseEncoder = dyn TextEncoder<Vector = Terms>;

/// Refuses texts that a network with so many ids does not take.
pub(crate) fn check(texts: &[Vec<u32>], vocabulary: usize, longest: usize) -> Result<(), InferenceError> {
    let known = |id: &u32| (*id as usize) < vocabulary;
    let fits = |text: &Vec<u32>| (1..=longest).contains(&text.len()) && text.iter().all(known);
    match texts.iter().find(|text| !fits(text)) {
        None => Ok(()),
        Some(text) => Err(InferenceError::Shape {
            expected: format!("of 1 to {longest} ids below {vocabulary}"),
            actual: text.len(),
        }),
    }
}
