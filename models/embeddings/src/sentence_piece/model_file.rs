//! The messages of SentencePiece's model files, as far as tokens need them. Other fields are skipped.

use prost::Message;

use crate::token::TokenizerError;

#[derive(Clone, PartialEq, Message)]
pub(super) struct Model {
    #[prost(message, repeated, tag = "1")]
    pub(super) pieces: Vec<Piece>,
    #[prost(message, required, tag = "2")]
    trainer: Trainer,
    #[prost(message, required, tag = "3")]
    pub(super) normalizer: Normalizer,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Piece {
    #[prost(string, tag = "1")]
    pub(super) piece: String,
    #[prost(float, tag = "2")]
    pub(super) score: f32,
    #[prost(int32, optional, tag = "3")]
    kind: Option<i32>,
}

/// Role of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PieceRole {
    Normal,
    Unknown,
    Other,
}

impl Piece {
    pub(super) fn role(&self) -> PieceRole {
        match self.kind {
            None | Some(1) if !self.piece.is_empty() => PieceRole::Normal,
            Some(2) => PieceRole::Unknown,
            _ => PieceRole::Other,
        }
    }
}

#[derive(Clone, PartialEq, Message)]
struct Trainer {
    #[prost(int32, optional, tag = "3")]
    model_type: Option<i32>,
    #[prost(bool, tag = "24")]
    treat_whitespace_as_suffix: bool,
    #[prost(bool, tag = "35")]
    byte_fallback: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Normalizer {
    #[prost(bytes = "vec", tag = "2")]
    pub(super) character_map: Vec<u8>,
    #[prost(bool, optional, tag = "3")]
    add_dummy_prefix: Option<bool>,
    #[prost(bool, optional, tag = "4")]
    remove_extra_whitespaces: Option<bool>,
    #[prost(bool, optional, tag = "5")]
    escape_whitespaces: Option<bool>,
}

impl Model {
    /// Reads a file, and refuses what would make other tokens than here.
    pub(super) fn parse(file: &[u8]) -> Result<Self, TokenizerError> {
        let model = Self::decode(file)?;
        let Trainer {
            model_type,
            treat_whitespace_as_suffix,
            byte_fallback,
        } = model.trainer;
        let normalizer = &model.normalizer;
        let prepares = [
            normalizer.add_dummy_prefix,
            normalizer.remove_extra_whitespaces,
            normalizer.escape_whitespaces,
        ];
        let is_unigram = model_type.unwrap_or(1) == 1;
        if is_unigram && !treat_whitespace_as_suffix && !byte_fallback && !prepares.contains(&Some(false)) {
            return Ok(model);
        }
        Err(TokenizerError::Unsupported)
    }
}
