//! Connectionist temporal classification (Graves et al., 2006): from the class scores of every frame to a text.
//!
//! A network writes for each frame either a class or the blank; equal classes in a row count once, and the blank parts
//! them. [`greedy`] takes the best class of each frame; [`beam_search`] adds up the paths that lead to one text.
//!
//! Scores become log-probabilities once ([`log_softmax`]) and are checked there: decoders see finite numbers only and have no
//! errors of their own. Decoding returns tokens with their frames beside the text, as later steps place syllables on the
//! line. The beam search follows `pyctcdecode` down to the order of ties, since its results are compared with those of the
//! production pipeline that uses it; golden vectors hold that.

mod beam;
mod greedy;
pub(crate) mod lanes;
mod log_probs;
mod text_hash;
mod vocabulary;

use serde::{Deserialize, Serialize};

pub use beam::{BeamSearch, beam_search, n_best};
pub use greedy::greedy;
pub use log_probs::{LogProbs, log_softmax};
pub use vocabulary::kept_classes;

use super::charset::Charset;
use super::language::LanguageModel;

/// One written class of a line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DecodedToken {
    pub class: usize,
    /// First frame that shows the class.
    pub start_frame: usize,
    /// One past the last frame that shows it.
    pub end_frame: usize,
    /// Highest log-probability of the class among those frames.
    pub log_prob: f32,
}

/// The text that a decoder read from one line.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Decoding {
    /// The labels of `tokens`, joined.
    pub text: String,
    pub tokens: Vec<DecodedToken>,
    /// Geometric mean of the probability per written token: `exp(log_score / tokens)`, per frame if nothing is written.
    /// From 0 to 1, never NaN; 0 for a line without frames.
    pub confidence: f32,
    /// Natural log of the probability of the text (beam search) or of its best path (greedy).
    pub log_score: f32,
    /// Number of frames that were decoded.
    pub frames: usize,
}

impl Decoding {
    fn new(tokens: Vec<DecodedToken>, log_score: f64, frames: usize, charset: &Charset) -> Self {
        let text = tokens.iter().map(|token| charset.label(token.class)).collect();
        let units = if tokens.is_empty() { frames } else { tokens.len() };
        let confidence = if frames == 0 {
            0.0
        } else {
            // A path or a text can come out a little more probable than certain by rounding.
            (log_score / units as f64).exp().min(1.0) as f32
        };
        Self {
            text,
            tokens,
            confidence,
            log_score: log_score as f32,
            frames,
        }
    }
}

/// Choice of the decoder that reads the lines.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Decoder {
    Greedy,
    BeamSearch(BeamSearch),
}

impl Default for Decoder {
    fn default() -> Self {
        Self::BeamSearch(BeamSearch::default())
    }
}

impl Decoder {
    /// Reads a line; the language model helps the beam search alone.
    pub fn decode(
        &self,
        log_probs: &LogProbs,
        charset: &Charset,
        language: Option<&LanguageModel>,
    ) -> Decoding {
        match self {
            Self::Greedy => greedy(log_probs, charset),
            Self::BeamSearch(search) => beam_search(log_probs, charset, search, language),
        }
    }
}

#[cfg(test)]
mod tests;
