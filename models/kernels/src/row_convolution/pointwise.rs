//! Convolutions of single pixels, and two of them with an activation between: matrix products over all pixels of a map.
//!
//! Rows of deep maps are shorter than a product is wide. So pixels are taken in strips that run over the ends of rows: a strip
//! is copied into a panel, `[channels][columns of a product]`, and multiplied there. What lies between two convolutions is
//! as wide as the strip and never leaves the cache.

use pulp::{Simd, WithSimd};

use super::buffer_pool::PooledBuffer;
use super::instruction_set::InstructionSet;
use super::map::SeenMap;
use super::perceptron::Added;
use super::product::{MAX_COLUMNS, OUTPUTS, PackedWeights, columns_at_once, load};
use super::strip::Strip;
use super::{Epilogue, TargetRows};
use crate::activation::Activation;
use crate::convolution::Conv2dShape;

/// Values of the panels that are filled before the weights are gone through: with fewer strips the weights would be read from
/// memory for each, with more the panels would be.
const PANELS: usize = 1 << 15;

/// A convolution of single pixels without a stride.
#[derive(Debug)]
pub(super) struct Pointwise {
    weights: PackedWeights,
}

impl Pointwise {
    /// Packs the weights; `weight` is `[outputs][inputs]`.
    pub(super) fn new(weight: &[f32], shape: &Conv2dShape) -> Self {
        let weights = PackedWeights::new(shape.outputs, shape.inputs, |output, input| {
            weight[output * shape.inputs + input]
        });
        Self { weights }
    }

    /// Returns whether a convolution is one of single pixels.
    pub(super) fn fits(shape: &Conv2dShape) -> bool {
        shape.kernel == [1, 1] && shape.stride == [1, 1] && shape.padding == [0, 0] && shape.after == [0, 0]
    }
}

/// Sums of a block of outputs over the channels of a panel.
#[inline(always)]
fn sums<S: Simd, const N: usize>(
    simd: S,
    panel: &[f32],
    stride: usize,
    weights: &[[f32; OUTPUTS]],
) -> [[S::f32s; N]; OUTPUTS] {
    let mut sums = [[simd.splat_f32s(0.0); N]; OUTPUTS];
    for (seen, weights) in panel.chunks(stride).zip(weights) {
        let seen = load::<S, N>(&seen[..N * S::F32_LANES]);
        for (sums, &weight) in sums.iter_mut().zip(weights) {
            let weight = simd.splat_f32s(weight);
            for (sum, seen) in sums.iter_mut().zip(seen) {
                *sum = simd.mul_add_e_f32s(weight, seen, *sum);
            }
        }
    }
    sums
}

/// Writes the sums of a block of outputs for a strip into a map, or, with `add_target`, adds them to what is there before the activation.
#[inline(always)]
fn write<S: Simd, const N: usize>(
    simd: S,
    epilogue: Epilogue<'_>,
    block: usize,
    sums: [[S::f32s; N]; OUTPUTS],
    strip: Strip,
    add_target: bool,
    target: &mut TargetRows<'_>,
) {
    let first = block * OUTPUTS;
    let count = OUTPUTS.min(target.channels - first);
    let (row, column) = (strip.first / target.width, strip.first % target.width);
    if column + strip.count > target.width {
        for (output, sums) in (first..first + count).zip(sums) {
            let mut values = [0.0; MAX_COLUMNS];
            if add_target {
                strip.gather(target, output, &mut values);
            }
            let vectors = &mut values[..N * S::F32_LANES];
            epilogue.write_vectors(simd, output, sums, add_target, vectors);
            epilogue.activate(simd, vectors);
            strip.scatter(&values, target, output);
        }
        return;
    }
    let width = target.width;
    let start = (row * target.channels + first) * width;
    let channels = &mut target.values[start..start + count * width];
    let columns = column..column + strip.count;
    // With a number of outputs that is known, the sums stay in registers.
    if count == OUTPUTS {
        for (output, sums) in sums.into_iter().enumerate() {
            let target = &mut channels[output * width..][columns.clone()];
            epilogue.write_vectors(simd, first + output, sums, add_target, target);
        }
    } else {
        for (output, sums) in (0..count).zip(sums) {
            let target = &mut channels[output * width..][columns.clone()];
            epilogue.write_vectors(simd, first + output, sums, add_target, target);
        }
    }
    for target in channels.chunks_exact_mut(width) {
        epilogue.activate(simd, &mut target[columns.clone()]);
    }
}

/// One use of a convolution, on one map.
pub(super) struct PointwisePass<'a> {
    pub(super) convolution: &'a Pointwise,
    pub(super) epilogue: Epilogue<'a>,
    pub(super) map: SeenMap<'a>,
    pub(super) target: TargetRows<'a>,
}

impl WithSimd for PointwisePass<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self {
            convolution: Pointwise { weights },
            epilogue,
            map,
            mut target,
        } = self;
        let columns = columns_at_once::<S>();
        let of_a_strip = map.channels * columns;
        let together = (PANELS / of_a_strip.max(1)).max(1);
        let strips: Vec<Strip> = Strip::all([map.rows, map.width], columns, S::F32_LANES).collect();
        let mut panels = PooledBuffer::take(together.min(strips.len()) * of_a_strip);
        for strips in strips.chunks(together) {
            for (strip, panel) in strips.iter().zip(panels.chunks_exact_mut(of_a_strip.max(1))) {
                if map.in_place(*strip, columns).is_none() {
                    strip.pack(map, None, columns, panel);
                }
            }
            for (block, weights) in weights.blocks().enumerate() {
                for (strip, panel) in strips.iter().zip(panels.chunks_exact(of_a_strip.max(1))) {
                    let (panel, stride) = match map.in_place(*strip, columns) {
                        Some(seen) => (seen, map.stride),
                        None => (panel, columns),
                    };
                    let target = &mut target;
                    match strip.count.div_ceil(S::F32_LANES) {
                        0 | 1 => {
                            let sums = sums::<S, 1>(simd, panel, stride, weights);
                            write(simd, epilogue, block, sums, *strip, false, target);
                        }
                        2 => {
                            let sums = sums::<S, 2>(simd, panel, stride, weights);
                            write(simd, epilogue, block, sums, *strip, false, target);
                        }
                        3 => {
                            let sums = sums::<S, 3>(simd, panel, stride, weights);
                            write(simd, epilogue, block, sums, *strip, false, target);
                        }
                        _ => {
                            let sums = sums::<S, 4>(simd, panel, stride, weights);
                            write(simd, epilogue, block, sums, *strip, false, target);
                        }
                    }
                }
            }
        }
    }
}

/// Two convolutions of single pixels with an activation between.
#[derive(Debug, Clone, Copy)]
pub(super) struct Perceptron<'a> {
    pub(super) widen: &'a Pointwise,
    pub(super) widen_bias: &'a [f32],
    pub(super) activation: Activation,
    pub(super) narrow: &'a Pointwise,
    pub(super) narrow_bias: &'a [f32],
    pub(super) added: Added,
    pub(super) after: Activation,
}

impl Perceptron<'_> {
    /// Fills in the target, which has the size of the map; `factors` scale the channels of the map before.
    pub(super) fn fill(
        self,
        instructions: InstructionSet,
        map: SeenMap<'_>,
        factors: Option<&[f32]>,
        target: TargetRows<'_>,
    ) {
        instructions.run(PerceptronPass {
            perceptron: self,
            map,
            factors,
            target,
        });
    }
}

/// One use of a perceptron, on one map.
struct PerceptronPass<'a> {
    perceptron: Perceptron<'a>,
    map: SeenMap<'a>,
    factors: Option<&'a [f32]>,
    target: TargetRows<'a>,
}

impl WithSimd for PerceptronPass<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let columns = columns_at_once::<S>();
        let hidden = self.perceptron.widen_bias.len().next_multiple_of(OUTPUTS);
        let mut seen = PooledBuffer::take(self.map.channels * columns);
        let mut middle = PooledBuffer::take(hidden * columns);
        for strip in Strip::all([self.map.rows, self.map.width], columns, S::F32_LANES) {
            let map = self.map;
            let in_place = map.in_place(strip, columns).filter(|_| self.factors.is_none());
            let (seen, stride) = match in_place {
                Some(seen) => (seen, map.stride),
                None => {
                    strip.pack(map, self.factors, columns, &mut seen);
                    (&*seen, columns)
                }
            };
            match strip.count.div_ceil(S::F32_LANES) {
                0 | 1 => self.strip::<S, 1>(simd, strip, [columns, stride], seen, &mut middle),
                2 => self.strip::<S, 2>(simd, strip, [columns, stride], seen, &mut middle),
                3 => self.strip::<S, 3>(simd, strip, [columns, stride], seen, &mut middle),
                _ => self.strip::<S, 4>(simd, strip, [columns, stride], seen, &mut middle),
            }
        }
    }
}

impl PerceptronPass<'_> {
    /// Fills in a strip of the target; `seen` is the panel of its input, and `middle` has place for what is between.
    #[inline(always)]
    fn strip<S: Simd, const N: usize>(
        &mut self,
        simd: S,
        strip: Strip,
        [columns, stride]: [usize; 2],
        seen: &[f32],
        middle: &mut [f32],
    ) {
        let Perceptron {
            widen,
            widen_bias,
            activation,
            narrow,
            narrow_bias,
            added,
            after,
        } = self.perceptron;
        let between = Epilogue::new(widen_bias, activation);
        let blocks = middle.chunks_exact_mut(OUTPUTS * columns);
        for ((block, weights), middle) in widen.weights.blocks().enumerate().zip(blocks) {
            let sums = sums::<S, N>(simd, seen, stride, weights);
            let first = block * OUTPUTS;
            let count = OUTPUTS.min(widen_bias.len() - first);
            if count == OUTPUTS {
                for (output, sums) in sums.into_iter().enumerate() {
                    let middle = &mut middle[output * columns..][..N * S::F32_LANES];
                    between.write_vectors(simd, first + output, sums, false, middle);
                }
            } else {
                for (output, sums) in (0..count).zip(sums) {
                    let middle = &mut middle[output * columns..][..N * S::F32_LANES];
                    between.write_vectors(simd, first + output, sums, false, middle);
                }
            }
            for middle in middle.chunks_exact_mut(columns).take(count) {
                between.activate(simd, &mut middle[..N * S::F32_LANES]);
            }
        }
        let after = Epilogue::new(narrow_bias, after);
        let add_target = matches!(added, Added::Target);
        for (block, weights) in narrow.weights.blocks().enumerate() {
            let mut sums = sums::<S, N>(simd, middle, columns, weights);
            if matches!(added, Added::Input) {
                let inputs = seen.chunks(stride).skip(block * OUTPUTS);
                for (sums, input) in sums.iter_mut().zip(inputs) {
                    for (sum, input) in sums.iter_mut().zip(load::<S, N>(&input[..N * S::F32_LANES])) {
                        *sum = simd.add_f32s(*sum, input);
                    }
                }
            }
            write(simd, after, block, sums, strip, add_target, &mut self.target);
        }
    }
}
