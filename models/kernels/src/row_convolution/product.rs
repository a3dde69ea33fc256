//! The matrix product inside a convolution: a few outputs times a strip of columns, summed in registers.

use pulp::Simd;

/// Outputs of one block of weights.
pub(super) const OUTPUTS: usize = 6;
/// Columns of a [`Tile`]: four vectors of AVX-512.
pub(super) const MAX_COLUMNS: usize = 64;

/// Sums of one block of outputs, one row of columns for each.
pub(super) type Tile = [[f32; MAX_COLUMNS]; OUTPUTS];

/// Columns that one product covers: as many vectors as make `OUTPUTS` times as many sums fill three quarters of the registers.
#[inline(always)]
pub(super) const fn columns_at_once<S: Simd>() -> usize {
    S::REGISTER_COUNT / 8 * S::F32_LANES
}

/// Weights in the order in which they are used: block after block of outputs, term after term. The last block is filled up
/// with zeros.
#[derive(Debug)]
pub(super) struct PackedWeights<W = f32, const N: usize = OUTPUTS> {
    terms: usize,
    weights: Vec<[W; N]>,
}

impl<W: Default, const N: usize> PackedWeights<W, N> {
    /// Packs the weights that `weight` gives for an output and a term.
    pub(super) fn new(outputs: usize, terms: usize, weight: impl Fn(usize, usize) -> W) -> Self {
        let mut weights = Vec::with_capacity(outputs.div_ceil(N) * terms);
        for first in (0..outputs).step_by(N) {
            for term in 0..terms {
                weights.push(std::array::from_fn(|output| {
                    if first + output < outputs {
                        weight(first + output, term)
                    } else {
                        W::default()
                    }
                }));
            }
        }
        Self { terms, weights }
    }

    /// Blocks of `N` outputs, one weight of each output for each term.
    #[inline(always)]
    pub(super) fn blocks(&self) -> std::slice::ChunksExact<'_, [W; N]> {
        self.weights.chunks_exact(self.terms.max(1))
    }
}

/// Values that a strip of columns sees.
#[derive(Debug, Clone, Copy)]
pub(super) struct Panel<'a> {
    pub(super) values: &'a [f32],
    /// Start in `values` of the run that each term of the sums is multiplied with; a run has the columns of a product.
    pub(super) starts: &'a [u32],
}

/// The sums of a block of outputs for the first `columns` columns. `weights` are those of the terms of the panel.
#[inline(always)]
pub(super) fn multiply<S: Simd>(
    simd: S,
    panel: Panel<'_>,
    weights: &[[f32; OUTPUTS]],
    columns: usize,
    tile: &mut Tile,
) {
    // The number of vectors is a constant of the loop, as only then the sums are held in registers.
    match columns.div_ceil(S::F32_LANES) {
        0 | 1 => multiply_vectors::<S, 1>(simd, panel, weights, tile),
        2 => multiply_vectors::<S, 2>(simd, panel, weights, tile),
        3 => multiply_vectors::<S, 3>(simd, panel, weights, tile),
        _ => multiply_vectors::<S, 4>(simd, panel, weights, tile),
    }
}

#[inline(always)]
fn multiply_vectors<S: Simd, const N: usize>(
    simd: S,
    panel: Panel<'_>,
    weights: &[[f32; OUTPUTS]],
    tile: &mut Tile,
) {
    let sums = sums::<S, N>(simd, panel, weights);
    for (target, sums) in tile.iter_mut().zip(sums) {
        store::<S, N>(sums, target);
    }
}

/// The sums of a block of outputs for `N` vectors of columns.
#[inline(always)]
pub(super) fn sums<S: Simd, const N: usize>(
    simd: S,
    panel: Panel<'_>,
    weights: &[[f32; OUTPUTS]],
) -> [[S::f32s; N]; OUTPUTS] {
    // All sums stay in registers over all terms: for each term N vectors are loaded, used OUTPUTS times each, and nothing is
    // stored. That is what the panel is for, and it is bound by the multipliers and not by the memory.
    let mut sums = [[simd.splat_f32s(0.0); N]; OUTPUTS];
    for (&start, weights) in panel.starts.iter().zip(weights) {
        let seen = load::<S, N>(&panel.values[start as usize..][..N * S::F32_LANES]);
        for (sums, &weight) in sums.iter_mut().zip(weights) {
            // Outputs are the outer dimension of the block: a weight is spread once and used for all vectors
            // of columns.
            let weight = simd.splat_f32s(weight);
            for (sum, seen) in sums.iter_mut().zip(seen) {
                *sum = simd.mul_add_e_f32s(weight, seen, *sum);
            }
        }
    }
    sums
}

/// The first `N` vectors of some values.
#[inline(always)]
pub(super) fn load<S: Simd, const N: usize>(values: &[f32]) -> [S::f32s; N] {
    let vectors = S::as_simd_f32s(values).0;
    std::array::from_fn(
        #[inline(always)]
        |number| vectors[number],
    )
}

/// Puts vectors at the start of `target`.
#[inline(always)]
pub(super) fn store<S: Simd, const N: usize>(vectors: [S::f32s; N], target: &mut [f32]) {
    for (target, vector) in S::as_mut_simd_f32s(target).0.iter_mut().zip(vectors) {
        *target = vector;
    }
}
