//! Tokens, and why there are none.

use std::ops::Range;

/// A token of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    pub id: u32,
    /// Bytes of the text that it stands for, from one boundary of characters to another. It is empty where the tokens before
    /// already cover the character: some make several.
    pub bytes: Range<usize>,
}

/// A description of tokens that makes no tokenizer.
#[derive(Debug, thiserror::Error)]
pub enum TokenizerError {
    #[error("this is no SentencePiece model: {0}")]
    NoModel(#[from] prost::DecodeError),

    #[error("the SentencePiece model has no {0}")]
    Missing(&'static str),

    #[error("the SentencePiece model is no unigram model, or prepares texts in a way that is not known here")]
    Unsupported,

    #[error("the normalisation of the SentencePiece model is damaged")]
    BadCharacterMap,

    #[error("the vocabulary has no {0}")]
    NoSpecialToken(&'static str),

    #[error("the vocabulary has `{0}` twice")]
    Twice(String),
}
