//! Depthwise convolutions of 3 x 3 and 5 x 5 taps with AVX-512.
//!
//! A vector fills a line of the cache, so that of three loads that are a value apart two cross lines, and each of those takes as long as two.
//! Here only whole lines are loaded, from where the map lies; what the taps beside a pixel see is cut out of two neighbours.

use std::ops::Range;

use archmage::prelude::*;

use super::super::RowMap;
use super::super::buffer_pool::PooledBuffer;
use super::{DepthwiseConvolution, Layout, StripMethod};
use crate::activation::Activation;

/// Values of a vector.
const LANES: usize = 16;
/// Rows that are computed together.
const ROWS: usize = DepthwiseConvolution::ROWS;
/// Vectors of a row that are computed together: with [`ROWS`] times as many sums, 16 of the 32 registers, they leave room for what is seen.
const VECTORS: usize = 4;

/// A use of a convolution whose output is as large as the map, on a map that is whole vectors wide.
pub(super) struct Aligned<'a> {
    processor: X64V4Token,
    taps: Taps,
    convolution: &'a DepthwiseConvolution,
    map: &'a RowMap,
    /// Value in place of those below it.
    least: f32,
}

/// Rows and columns of a kernel whose taps are neighbours.
#[derive(Clone, Copy)]
enum Taps {
    Three,
    Five,
}

impl<'a> Aligned<'a> {
    /// The use, or `None` where the convolution, the map or the activation is of another kind.
    pub(super) fn of(
        convolution: &'a DepthwiseConvolution,
        map: &'a RowMap,
        activation: Activation,
    ) -> Option<Self> {
        let shape = &convolution.shape;
        let taps = match StripMethod::of(shape) {
            StripMethod::Three => Taps::Three,
            StripMethod::Five => Taps::Five,
            StripMethod::Together | StripMethod::Single => return None,
        };
        let fits = activation.is_floor()
            && map.width.is_multiple_of(LANES)
            && shape.padding == shape.kernel.map(|taps| taps / 2);
        Some(Self {
            processor: X64V4Token::summon().filter(|_| fits)?,
            taps,
            convolution,
            map,
            least: activation.floor(),
        })
    }

    /// Fills in a target that has some rows of the output.
    pub(super) fn fill(self, rows: Range<usize>, layout: Layout, target: &mut [f32]) {
        match self.taps {
            Taps::Three => fill::<3, 6>(self.processor, &self, rows, layout, target),
            Taps::Five => fill::<5, 8>(self.processor, &self, rows, layout, target),
        }
    }
}

/// Fills in the target with `K` x `K` taps; `SEEN` is the number of rows that [`ROWS`] rows see.
#[arcane]
fn fill<const K: usize, const SEEN: usize>(
    _: X64V4Token,
    aligned: &Aligned<'_>,
    rows: Range<usize>,
    layout: Layout,
    target: &mut [f32],
) {
    const { assert!(SEEN == ROWS + K - 1) };
    let Aligned { convolution, map, .. } = aligned;
    let mut outside = PooledBuffer::take(map.width);
    outside.fill(0.0);
    let vectors = map.width / LANES;
    let kernels = convolution.weight.as_chunks::<K>().0.as_chunks::<K>().0;
    for (channel, (kernel, &bias)) in kernels.iter().zip(&convolution.bias).enumerate() {
        for first in rows.clone().step_by(ROWS) {
            let mut seen = [outside.as_chunks().0; SEEN];
            for (number, seen) in seen.iter_mut().enumerate() {
                let row = (first + number).checked_sub(K / 2);
                if let Some(row) = row.filter(|&row| row < map.rows) {
                    *seen = map.channel(row, channel).as_chunks().0;
                }
            }
            let start = (first - rows.start) * layout.row + channel * layout.channel;
            for vector in (0..vectors).step_by(VECTORS) {
                let block = VectorBlock {
                    seen,
                    vector,
                    kernel,
                    bias,
                    least: aligned.least,
                    rows: ROWS.min(rows.end - first),
                    distance: layout.row,
                };
                let target = &mut target[start + vector * LANES..];
                match vectors - vector {
                    1 => block.fill::<1>(target),
                    2 => block.fill::<2>(target),
                    3 => block.fill::<3>(target),
                    _ => block.fill::<VECTORS>(target),
                }
            }
        }
    }
}

/// Part of a channel that is computed at once: some vectors of some rows.
#[derive(Clone, Copy)]
struct VectorBlock<'a, const K: usize, const SEEN: usize> {
    /// Rows of the channel, from the first that is seen.
    seen: [&'a [[f32; LANES]]; SEEN],
    /// First vector of each row.
    vector: usize,
    kernel: &'a [[f32; K]; K],
    bias: f32,
    least: f32,
    /// Rows that the target has, and their distance.
    rows: usize,
    distance: usize,
}

impl<const K: usize, const SEEN: usize> VectorBlock<'_, K, SEEN> {
    /// Fills in `N` vectors of each row; the target begins with the first of them.
    #[rite(v4, import_intrinsics)]
    fn fill<const N: usize>(&self, target: &mut [f32]) {
        let mut sums = [[_mm512_set1_ps(self.bias); N]; ROWS];
        self.add_row::<N, 0>(&mut sums);
        self.add_row::<N, 1>(&mut sums);
        self.add_row::<N, 2>(&mut sums);
        self.add_row::<N, 3>(&mut sums);
        self.add_row::<N, 4>(&mut sums);
        self.add_row::<N, 5>(&mut sums);
        if K == 5 {
            self.add_row::<N, 6>(&mut sums);
            self.add_row::<N, 7>(&mut sums);
        }
        // With a number of rows that is known, the sums stay in registers.
        if self.rows == ROWS {
            for (row, sums) in sums.into_iter().enumerate() {
                self.write(sums, &mut target[row * self.distance..]);
            }
        } else {
            for (row, sums) in (0..self.rows).zip(sums) {
                self.write(sums, &mut target[row * self.distance..]);
            }
        }
    }

    /// Adds what the rows of the output see in one of those that are seen.
    #[rite(v4, import_intrinsics)]
    fn add_row<const N: usize, const NUMBER: usize>(&self, sums: &mut [[__m512; N]; ROWS]) {
        let row = self.seen[NUMBER];
        let vectors = &row[self.vector..][..N];
        // Loops in place of closures, which may be compiled for another processor than their caller.
        let mut here = [_mm512_setzero_ps(); N];
        for number in 0..N {
            here[number] = _mm512_loadu_ps(&vectors[number]);
        }
        let (mut before, mut after) = (_mm512_setzero_ps(), _mm512_setzero_ps());
        if self.vector > 0 {
            before = _mm512_loadu_ps(&row[self.vector - 1]);
        }
        if self.vector + N < row.len() {
            after = _mm512_loadu_ps(&row[self.vector + N]);
        }
        let middle = K / 2;
        if K == 5 {
            self.add_tap::<N, NUMBER>(0, from_before::<N, 14>(before, here), sums);
        }
        self.add_tap::<N, NUMBER>(middle - 1, from_before::<N, 15>(before, here), sums);
        self.add_tap::<N, NUMBER>(middle, here, sums);
        self.add_tap::<N, NUMBER>(middle + 1, from_after::<N, 1>(here, after), sums);
        if K == 5 {
            self.add_tap::<N, NUMBER>(4, from_after::<N, 2>(here, after), sums);
        }
    }

    /// Adds to each row that sees them the products of some values of the row `NUMBER` and their tap.
    #[rite(v4, import_intrinsics)]
    fn add_tap<const N: usize, const NUMBER: usize>(
        &self,
        tap: usize,
        seen: [__m512; N],
        sums: &mut [[__m512; N]; ROWS],
    ) {
        for (row, sums) in sums.iter_mut().enumerate() {
            if NUMBER >= row && NUMBER - row < K {
                let weight = _mm512_set1_ps(self.kernel[NUMBER - row][tap]);
                for (sum, seen) in sums.iter_mut().zip(seen) {
                    *sum = _mm512_fmadd_ps(weight, seen, *sum);
                }
            }
        }
    }

    #[rite(v4, import_intrinsics)]
    fn write<const N: usize>(&self, sums: [__m512; N], target: &mut [f32]) {
        let least = _mm512_set1_ps(self.least);
        let target = &mut target.as_chunks_mut::<LANES>().0[..N];
        for (target, sum) in target.iter_mut().zip(sums) {
            _mm512_storeu_ps(target, _mm512_max_ps(sum, least));
        }
    }
}

/// Vectors whose first values are the last of the vector before, from its value `FIRST`.
#[rite(v4, import_intrinsics)]
fn from_before<const N: usize, const FIRST: i32>(before: __m512, vectors: [__m512; N]) -> [__m512; N] {
    let mut shifted = vectors;
    for number in 0..N {
        let before = if number == 0 { before } else { vectors[number - 1] };
        shifted[number] = joined::<FIRST>(before, vectors[number]);
    }
    shifted
}

/// Vectors from their value `FIRST`, whose last values are the first of the vector after.
#[rite(v4, import_intrinsics)]
fn from_after<const N: usize, const FIRST: i32>(vectors: [__m512; N], after: __m512) -> [__m512; N] {
    let mut shifted = vectors;
    for number in 0..N {
        let after = if number + 1 == N {
            after
        } else {
            vectors[number + 1]
        };
        shifted[number] = joined::<FIRST>(vectors[number], after);
    }
    shifted
}

/// The values from `FIRST` of one vector and the first of the next.
#[rite(v4, import_intrinsics)]
fn joined<const FIRST: i32>(vector: __m512, next: __m512) -> __m512 {
    let (vector, next) = (_mm512_castps_si512(vector), _mm512_castps_si512(next));
    _mm512_castsi512_ps(_mm512_alignr_epi32::<FIRST>(next, vector))
}
