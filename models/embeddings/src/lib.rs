//! Vectors of texts, for search: a dense one of their meaning, over many languages, and a sparse one of their terms.
//!
//! The rooms import each other in one direction. [`inference`] is the seam in the middle: a trait over ids of tokens. On its one side are
//! the tokens ([`SentencePiece`], [`WordPiece`]) and what is made of texts with them (`embed`); on the other the networks, over the maps of
//! `parkhang-kernels`, whose layers come from bundles (`models`).
//!
//! The crate knows neither chunks nor tables: it takes texts and gives vectors.

mod embed;
#[cfg(test)]
mod golden;
pub mod inference;
mod models;
mod networks;
#[cfg(test)]
mod parity;
mod sentence_piece;
mod terms;
mod token;
mod word_piece;

pub use embed::{Embedding, dense, sparse};
pub use inference::InferenceError;
pub use models::{EmbeddingModels, FOLDERS, is_embedding_models, load, load_tokenizer};
pub use parkhang_kernels::device::{ComputeDevice, DeviceSpec};
pub use parkhang_models::checkpoint::WeightsError;
pub use sentence_piece::SentencePiece;
pub use token::{Token, TokenizerError};
pub use word_piece::WordPiece;
