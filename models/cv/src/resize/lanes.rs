//! Averages of one channel by area, several target rows at once: in vectors that hold a pixel of each of them.
//!
//! Every sum has the terms of the plain formulation in their order, so that it is rounded alike.

use super::Samples;
use super::axis::Share;

const LANES: usize = 8;

type Lanes = [f32; LANES];

#[inline(always)]
pub(super) fn average(source: Samples<'_>, columns: &[Vec<Share>], rows: &[Vec<Share>], pixels: &mut [u8]) {
    let width = columns.len();
    let columns = Columns::new(columns);
    let mut beside = vec![[0; LANES]; source.stride.next_multiple_of(LANES)];
    let mut sums = vec![[0.0; LANES]; width.next_multiple_of(LANES)];
    for (out, rows) in pixels.chunks_mut(width * LANES).zip(rows.chunks(LANES)) {
        sums.fill([0.0; LANES]);
        let most = rows.iter().map(Vec::len).max().unwrap_or(0);
        for turn in 0..most {
            // A row that covers less than another, or is none at all, takes part with a weight of zero.
            let share = |lane: usize| {
                let covered = rows.get(lane).and_then(|shares| shares.get(turn));
                covered.copied().unwrap_or(Share {
                    source: 0,
                    weight: 0.0,
                })
            };
            let shares: [Share; LANES] = std::array::from_fn(share);
            interleave(shares.map(|share| source.row(share.source)), &mut beside);
            columns.add(&beside, shares.map(|share| share.weight), &mut sums);
        }
        write(&sums, width, out);
    }
}

/// The shares of all columns in one piece.
struct Columns {
    /// End of the shares of each column.
    ends: Vec<usize>,
    shares: Vec<Share>,
}

impl Columns {
    fn new(columns: &[Vec<Share>]) -> Self {
        let mut flat = Self {
            ends: Vec::with_capacity(columns.len()),
            shares: Vec::new(),
        };
        for column in columns {
            flat.shares.extend_from_slice(column);
            flat.ends.push(flat.shares.len());
        }
        flat
    }

    /// Adds the average along the rows, weighted.
    #[inline(always)]
    fn add(&self, beside: &[[u8; LANES]], weights: Lanes, sums: &mut [Lanes]) {
        let mut start = 0;
        for (sums, &end) in sums.iter_mut().zip(&self.ends) {
            let mut along = [0.0; LANES];
            for share in &self.shares[start..end] {
                let pixels = beside[share.source];
                for (along, pixel) in along.iter_mut().zip(pixels) {
                    *along += f32::from(pixel) * share.weight;
                }
            }
            start = end;
            for ((sum, along), weight) in sums.iter_mut().zip(along).zip(weights) {
                *sum += along * weight;
            }
        }
    }
}

/// Puts the pixels of the rows beside one another, column by column. `beside` has room for whole blocks.
#[inline(always)]
fn interleave(rows: [&[u8]; LANES], beside: &mut [[u8; LANES]]) {
    let (blocks, _) = beside.as_chunks_mut::<LANES>();
    let mut rows = rows;
    for columns in blocks {
        // A constant length is copied without a call.
        if rows[0].len() >= LANES {
            for (pixels, row) in columns.iter_mut().zip(&mut rows) {
                let (start, rest) = row.split_at(LANES);
                pixels.copy_from_slice(start);
                *row = rest;
            }
        } else {
            for (pixels, row) in columns.iter_mut().zip(&rows) {
                // What lies behind the end of a row stays as it was: no share refers to it.
                pixels[..row.len()].copy_from_slice(row);
            }
        }
        transpose(columns);
    }
}

/// Rounds the sums to the rows of `out`, which are `width` long.
#[inline(always)]
fn write(sums: &[Lanes], width: usize, out: &mut [u8]) {
    for (block, sums) in sums.as_chunks::<LANES>().0.iter().enumerate() {
        let mut rows = [[0; LANES]; LANES];
        for (rounded, sum) in rows.as_flattened_mut().iter_mut().zip(sums.as_flattened()) {
            *rounded = sum.round_ties_even() as u8;
        }
        transpose(&mut rows);
        let start = block * LANES;
        let count = LANES.min(width - start);
        for (out, row) in out.chunks_exact_mut(width).zip(&rows) {
            match out[start..].first_chunk_mut() {
                Some(out) => *out = *row,
                None => out[start..].copy_from_slice(&row[..count]),
            }
        }
    }
}

/// Rows become columns: blocks of 4, 2 and 1 bytes beside the diagonal change places.
#[inline(always)]
fn transpose(rows: &mut [[u8; LANES]; LANES]) {
    let mut words = [0; LANES];
    for (word, row) in words.iter_mut().zip(rows.iter()) {
        *word = u64::from_le_bytes(*row);
    }
    exchange(&mut words, 4, 0x0000_0000_FFFF_FFFF);
    exchange(&mut words, 2, 0x0000_FFFF_0000_FFFF);
    exchange(&mut words, 1, 0x00FF_00FF_00FF_00FF);
    for (row, word) in rows.iter_mut().zip(words) {
        *row = word.to_le_bytes();
    }
}

/// Exchanges the upper part of each block of a row with the lower of the row so far `apart`.
#[inline(always)]
fn exchange(words: &mut [u64; LANES], apart: usize, lower: u64) {
    let bits = u8::BITS * apart as u32;
    for upper in 0..LANES {
        if upper & apart == 0 {
            let exchanged = (words[upper] >> bits ^ words[upper + apart]) & lower;
            words[upper] ^= exchanged << bits;
            words[upper + apart] ^= exchanged;
        }
    }
}
