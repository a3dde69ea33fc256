//! Packing of the pieces of a document into chunks.

use std::ops::Range;

use super::cut::{Cut, cut, last_words};
use super::pieces::{self, Piece, headings_at_the_end, places, sum, text};
use super::table::{TableChunks, TableText};
use super::{Chunk, ChunkKind, ChunkLimits, Tokens};
use crate::block::Role;
use crate::captions::unit_at;
use crate::document::Part;
use crate::headings::{is_heading, paths};

pub(super) fn packed(parts: &[Part], limits: ChunkLimits, tokens: &Tokens<'_>) -> Vec<Chunk> {
    let mut packer = Packer {
        parts,
        paths: paths(parts),
        limits,
        tokens,
        open: Vec::new(),
        repeated: Vec::new(),
        chunks: Vec::new(),
    };
    let mut place = 0;
    while place < parts.len() {
        let role = |place: usize| parts.get(place).map(|part| part.role);
        let unit = place..place + unit_at(role, place);
        place = unit.end;
        match unit.clone().find(|&place| parts[place].table.is_some()) {
            Some(table) => packer.table(table, unit),
            None => packer.paragraphs(unit),
        }
    }
    packer.flush();
    packer.chunks
}

struct Packer<'d> {
    parts: &'d [Part],
    /// Headings of each part.
    paths: Vec<Vec<usize>>,
    limits: ChunkLimits,
    tokens: &'d Tokens<'d>,
    /// Pieces of the chunk at hand.
    open: Vec<Piece>,
    /// Pieces that it repeats from the end of the one before.
    repeated: Vec<Piece>,
    chunks: Vec<Chunk>,
}

impl Packer<'_> {
    /// Adds parts that stay together where they can.
    fn paragraphs(&mut self, unit: Range<usize>) {
        let first = unit.clone().next().map(|place| &self.parts[place]);
        let heads = first.is_some_and(is_heading);
        let is_title = first.is_some_and(|first| first.role == Role::Title);
        let pieces: Vec<Piece> = unit.flat_map(|place| self.pieces(place)).collect();
        if heads && self.has_text() && (is_title || sum(&self.open) >= self.limits.min) {
            self.flush();
        }
        let length = sum(&pieces);
        let is_half_full = sum(&self.open) >= self.limits.max / 2;
        // A paragraph that fits into a chunk is not cut to fill one that is half full.
        if is_half_full && length <= self.limits.room() && self.length() + length > self.limits.max {
            self.close();
        }
        for piece in pieces {
            while self.length() + piece.tokens > self.limits.max && !self.open.is_empty() {
                self.close();
            }
            if heads && self.open.is_empty() {
                self.repeated.clear();
            }
            self.open.push(piece);
        }
    }

    /// Adds a table with its captions: in one chunk, with what little stands before it, or by rows.
    fn table(&mut self, table: usize, unit: Range<usize>) {
        let (before, after) = (unit.start..table, table + 1..unit.end);
        if self.has_text() && sum(&self.open) >= self.limits.min {
            self.close();
        }
        self.paragraphs(before);
        self.repeated.clear();
        let grid = self.parts[table].table.as_ref();
        let rows = grid.map(|grid| TableText::new(grid, self.limits, self.tokens));
        let Some(rows) = rows.filter(|rows| !rows.is_empty()) else {
            return self.paragraphs(after);
        };
        if !rows.has_room_below(&text(self.parts, &self.open)) {
            self.flush();
        }
        let lead = std::mem::take(&mut self.open);
        let below: Vec<Piece> = after.clone().flat_map(|place| self.pieces(place)).collect();
        let TableChunks { texts, has_below } =
            rows.chunks(&text(self.parts, &lead), &text(self.parts, &below));
        let mut path = self.common_path(lead.iter().map(|piece| piece.part).chain([table]));
        let mut above = places(self.parts, &lead);
        for (text, tokens) in texts {
            above.extend(&self.parts[table].places);
            self.chunks.push(Chunk {
                kind: ChunkKind::Table,
                text,
                tokens,
                repeated: 0,
                headings: self.headings(&path),
                places: std::mem::take(&mut above),
            });
            path.clone_from(&self.paths[table]);
        }
        match self.chunks.last_mut() {
            Some(last) if has_below => last.places.extend(places(self.parts, &below)),
            _ => self.paragraphs(after),
        }
    }

    fn pieces(&self, place: usize) -> Vec<Piece> {
        let cuts = cut(&self.parts[place].text, self.limits.room(), self.tokens);
        let piece = |cut: Cut| Piece {
            part: place,
            range: cut.range,
            tokens: cut.tokens,
        };
        cuts.into_iter().map(piece).collect()
    }

    /// True if the chunk at hand has more than headings.
    fn has_text(&self) -> bool {
        headings_at_the_end(self.parts, &self.open) < self.open.len()
    }

    fn length(&self) -> usize {
        sum(&self.repeated) + sum(&self.open)
    }

    /// Ends the chunk at hand, which has no more room. Headings at its end go on to the next one; the end of its text is repeated there
    /// where no heading begins it.
    fn close(&mut self) {
        let carried = if self.has_text() {
            let headings = headings_at_the_end(self.parts, &self.open);
            self.open.split_off(self.open.len() - headings)
        } else {
            Vec::new()
        };
        let pieces = std::mem::take(&mut self.open);
        let (used, left) = self.emit(pieces);
        self.repeated = if left.is_empty() && !carried.is_empty() {
            Vec::new()
        } else {
            self.end_of(&used)
        };
        self.open = left;
        self.open.extend(carried);
    }

    /// Ends the chunk at hand where a section ends: nothing of it is repeated.
    fn flush(&mut self) {
        while !self.open.is_empty() {
            let pieces = std::mem::take(&mut self.open);
            let (used, left) = self.emit(pieces);
            self.repeated = self.end_of(&used);
            self.open = left;
        }
        self.repeated.clear();
    }

    /// Makes a chunk of pieces, and returns those that it consists of and those that it had no room for.
    fn emit(&mut self, mut pieces: Vec<Piece>) -> (Vec<Piece>, Vec<Piece>) {
        let mut repeated = std::mem::take(&mut self.repeated);
        let mut left = Vec::new();
        // Pieces may have more tokens together than one by one.
        let (text, tokens) = loop {
            let whole = [&repeated[..], &pieces[..]].concat();
            let text = text(self.parts, &whole);
            let tokens = (self.tokens)(&text).len();
            if tokens <= self.limits.max {
                break (text, tokens);
            }
            if !repeated.is_empty() {
                repeated.remove(0);
            } else if pieces.len() > 1 {
                left.extend(pieces.pop());
            } else {
                break (text, tokens);
            }
        };
        left.reverse();
        let own = pieces::text(self.parts, &pieces).len();
        let path = self.common_path(pieces.iter().map(|piece| piece.part));
        self.chunks.push(Chunk {
            kind: ChunkKind::Text,
            repeated: text.len() - own,
            text,
            tokens,
            headings: self.headings(&path),
            places: places(self.parts, &pieces),
        });
        (pieces, left)
    }

    /// The end of pieces that the next chunk repeats: whole sentences, or the last words of one that is too long.
    fn end_of(&self, pieces: &[Piece]) -> Vec<Piece> {
        let limit = self.limits.overlap;
        let mut first = pieces.len();
        let mut length = 0;
        for (place, piece) in pieces.iter().enumerate().rev() {
            length += piece.tokens;
            if length > limit || is_heading(&self.parts[piece.part]) {
                break;
            }
            first = place;
        }
        if first < pieces.len() {
            return pieces[first..].to_vec();
        }
        let Some(last) = pieces.last().filter(|last| !is_heading(&self.parts[last.part])) else {
            return Vec::new();
        };
        let text = &self.parts[last.part].text[last.range.clone()];
        let words = last_words(text, limit, self.tokens);
        words
            .map(|words| Piece {
                part: last.part,
                range: last.range.start + words.range.start..last.range.end,
                tokens: words.tokens,
            })
            .into_iter()
            .collect()
    }

    /// The headings that all of these parts stand below.
    fn common_path(&self, parts: impl IntoIterator<Item = usize>) -> Vec<usize> {
        let common = |one: Vec<usize>, other: Vec<usize>| {
            let same = one.iter().zip(&other).take_while(|(one, other)| one == other);
            one[..same.count()].to_vec()
        };
        let paths = parts.into_iter().map(|part| self.paths[part].clone());
        paths.reduce(common).unwrap_or_default()
    }

    fn headings(&self, path: &[usize]) -> Vec<String> {
        path.iter().map(|&place| self.parts[place].text.clone()).collect()
    }
}
