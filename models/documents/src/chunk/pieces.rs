//! Pieces of the parts of a document, and the texts that are made of them.

use std::ops::Range;

use crate::document::{Part, Place};
use crate::headings::is_heading;

/// Piece of a part: a sentence or less.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Piece {
    /// Place of the part among the parts of the document.
    pub part: usize,
    /// Bytes of the part's text.
    pub range: Range<usize>,
    pub tokens: usize,
}

/// Tokens of pieces, one by one; together they have about as many.
pub(super) fn sum(pieces: &[Piece]) -> usize {
    pieces.iter().map(|piece| piece.tokens).sum()
}

/// The text of pieces: those of one part as they stand there, parts one below the other.
pub(super) fn text(parts: &[Part], pieces: &[Piece]) -> String {
    let runs = pieces.chunk_by(|one, other| one.part == other.part);
    let texts = runs.filter_map(|run| {
        let (first, last) = (run.first()?, run.last()?);
        parts[first.part].text.get(first.range.start..last.range.end)
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// Places of the text of pieces, in reading order.
pub(super) fn places(parts: &[Part], pieces: &[Piece]) -> Vec<Place> {
    let mut found: Vec<Place> = Vec::new();
    for piece in pieces {
        let of_part = &parts[piece.part].places;
        for (number, place) in of_part.iter().enumerate() {
            let end = of_part.get(number + 1).map_or(usize::MAX, |next| next.start);
            if place.start < piece.range.end && piece.range.start < end && found.last() != Some(place) {
                found.push(*place);
            }
        }
    }
    found
}

/// Number of pieces at the end that are of headings.
pub(super) fn headings_at_the_end(parts: &[Part], pieces: &[Piece]) -> usize {
    let of_heading = |piece: &&Piece| is_heading(&parts[piece.part]);
    pieces.iter().rev().take_while(of_heading).count()
}
