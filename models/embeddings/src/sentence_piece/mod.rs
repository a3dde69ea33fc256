//! SentencePiece with a unigram model (Kudo 2018): a text is normalised, then parted into the pieces whose scores have the
//! largest sum.

mod character_map;
mod model_file;
mod trie;

use std::ops::Range;

use self::character_map::{CharacterMap, Normalized};
use self::model_file::{Model, PieceRole};
use self::trie::Trie;
use crate::token::{Token, TokenizerError};

/// Score of a character without a piece, below that of the worst piece.
const UNKNOWN_PENALTY: f32 = 10.0;

/// Names of the tokens that mark the start and end of a text.
const START: &str = "<s>";
const END: &str = "</s>";

/// A tokenizer, of the bytes of a model file.
#[derive(Debug)]
pub struct SentencePiece {
    character_map: CharacterMap,
    /// Finds pieces in normalised text.
    trie: Trie,
    /// Id and score of each piece in the trie.
    pieces: Vec<(u32, f32)>,
    unknown: u32,
    unknown_score: f32,
    marks: [u32; 2],
    vocabulary: usize,
}

impl SentencePiece {
    /// Reads a model file.
    ///
    /// # Errors
    /// [`TokenizerError`] where it is damaged or of another kind.
    pub fn new(file: &[u8]) -> Result<Self, TokenizerError> {
        let model = Model::parse(file)?;
        let mut pieces = Vec::with_capacity(model.pieces.len());
        let mut texts = Vec::with_capacity(model.pieces.len());
        let (mut unknown, mut start, mut end) = (None, None, None);
        for (piece, id) in model.pieces.iter().zip(0..) {
            match piece.role() {
                // No text spells one of these.
                PieceRole::Other if piece.piece == START => start = Some(id),
                PieceRole::Other if piece.piece == END => end = Some(id),
                PieceRole::Other => {}
                PieceRole::Unknown => unknown = Some(id),
                PieceRole::Normal => {
                    texts.push(piece.piece.as_str());
                    pieces.push((id, piece.score));
                }
            }
        }
        let worst = pieces.iter().map(|(_, score)| *score).min_by(f32::total_cmp);
        Ok(Self {
            character_map: CharacterMap::parse(&model.normalizer.character_map)?,
            trie: Trie::new(&texts)?,
            unknown: unknown.ok_or(TokenizerError::Missing("unknown token"))?,
            marks: [
                start.ok_or(TokenizerError::Missing(START))?,
                end.ok_or(TokenizerError::Missing(END))?,
            ],
            unknown_score: worst.ok_or(TokenizerError::Missing("pieces"))? - UNKNOWN_PENALTY,
            pieces,
            vocabulary: model.pieces.len(),
        })
    }

    /// Number of ids.
    pub fn vocabulary(&self) -> usize {
        self.vocabulary
    }

    /// Id of what has no piece.
    pub fn unknown(&self) -> u32 {
        self.unknown
    }

    /// Ids that stand before and behind each text.
    pub fn marks(&self) -> [u32; 2] {
        self.marks
    }

    /// Tokens of a text, without those that mark its start and end.
    ///
    /// Consecutive characters without a piece are a token each.
    pub fn encode(&self, text: &str) -> Vec<Token> {
        let normalized = self.character_map.normalize(text);
        let mut end = 0;
        self.parts(&normalized.text)
            .into_iter()
            .map(|(id, part)| {
                let of_source = normalized.source_of(part);
                let start = of_source.start.max(end);
                end = of_source.end.max(end);
                Token {
                    id,
                    bytes: start.min(end)..end,
                }
            })
            .collect()
    }

    /// Number of tokens of a text.
    pub fn count(&self, text: &str) -> usize {
        let Normalized { text, .. } = self.character_map.normalize(text);
        self.parts(&text).len()
    }

    /// Bytes of the text that each token stands for, one after the other.
    pub fn tokens(&self, text: &str) -> Vec<Range<usize>> {
        self.encode(text).into_iter().map(|token| token.bytes).collect()
    }

    /// Ids and bytes of the parts of a normalised text with the largest sum of scores.
    fn parts(&self, text: &str) -> Vec<(u32, Range<usize>)> {
        // The best way to each byte: its score, and the last part of it. Between characters alone there are ways.
        let mut best = vec![(f32::NEG_INFINITY, self.unknown, 0_usize); text.len() + 1];
        best[0].0 = 0.0;
        for (start, character) in text.char_indices() {
            let (so_far, next) = (best[start].0, start + character.len_utf8());
            let mut is_known = false;
            // The first of equal ways to a byte stays: it has the longest last piece.
            let mut offer = |end: usize, id: u32, score: f32| {
                if so_far + score > best[end].0 {
                    best[end] = (so_far + score, id, start);
                }
            };
            for (piece, length) in self.trie.prefixes(&text[start..]) {
                let (id, score) = self.pieces[piece];
                is_known |= start + length == next;
                offer(start + length, id, score);
            }
            if !is_known {
                offer(next, self.unknown, self.unknown_score);
            }
        }
        let mut parts = Vec::new();
        let mut end = text.len();
        while end > 0 {
            let (_, id, start) = best[end];
            parts.push((id, start..end));
            end = start;
        }
        parts.reverse();
        parts
    }
}

#[cfg(test)]
mod tests;
