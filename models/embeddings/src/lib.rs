//! Vectors of texts, for search: the tokens that embedding models read.
//!
//! The crate knows neither chunks nor tables: it takes texts and gives tokens and vectors.

#[cfg(test)]
mod golden;
mod sentence_piece;
mod token;
mod word_piece;

pub use sentence_piece::SentencePiece;
pub use token::{Token, TokenizerError};
pub use word_piece::WordPiece;
