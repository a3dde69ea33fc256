//! Convolutions as a processor computes them fast.
//!
//! The rows of a map lie with their channels side by side, so what one row of the output needs is copied in whole runs into a
//! panel that stays in the cache, and is multiplied there with weights that were put in order when they were loaded. The
//! product, its bias and its activation are one pass over the output.
//!
//! The backend's own convolutions make a matrix of all that the kernels see (im2col): nine times the map for a kernel of 3 x 3,
//! written to memory and read again. The networks here are narrow, which leaves few multiplications for each value that is
//! moved. Four forms share the product: that of
//! single pixels, over strips of them, which patches are made pixels for; the direct one; Winograd's, where there are channels enough that
//! its fewer multiplications outweigh its transforms; and an int8-quantised one for processors with AVX-512 VNNI. Which one
//! is taken depends on the shape and the processor alone and is settled in `Form::of` at load time; all agree with the backend
//! up to rounding, which the tests hold.
//!
//! There is no `unsafe` here: `pulp` and `archmage` hand out tokens of what the processor can do, and functions that take such
//! a token are compiled for it. Code below a token has to be inlined into it, or it is compiled for the least processor; hence
//! `#[inline(always)]` throughout, and loops in place of closures.

mod band;
mod buffer_pool;
mod depthwise;
mod direct;
mod instruction_set;
#[cfg(target_arch = "x86_64")]
mod int8;
mod map;
mod panel;
mod patches;
mod perceptron;
mod pointwise;
mod product;
mod strip;
mod toom_cook;
mod winograd;

use std::ops::Range;

use pulp::Simd;
#[cfg(target_arch = "x86_64")]
use pulp::WithSimd;

pub(crate) use buffer_pool::PooledBuffer;
pub(crate) use depthwise::DepthwiseConvolution;
pub(crate) use map::{RowMap, RowsInOne};
use map::{SeenMap, TargetRows};
pub(crate) use panel::gather;
pub(crate) use perceptron::{Added, RowPerceptron};

use crate::activation::Activation;
use crate::convolution::Conv2dShape;
use crate::precision::Precision;
use direct::{Direct, DirectPass};
pub(crate) use instruction_set::InstructionSet;
use patches::Patches;
use pointwise::{Pointwise, PointwisePass};
use product::{load, store};
use toom_cook::POINTS;
use winograd::{Winograd, WinogradPass};

/// A convolution of all channels with all. The size of its result is that of the map by its stride, less what its kernel is
/// larger than its padding.
#[derive(Debug)]
pub struct RowConvolution {
    shape: Conv2dShape,
    form: Form,
    bias: Vec<f32>,
}

impl RowConvolution {
    /// Values of the patches that are made pixels together; they stay in the first-level cache.
    const PATCHES: usize = 1 << 12;

    /// Puts the weights in order; `weight` is `[outputs][inputs][kernel rows][kernel columns]`. The shape has one group.
    pub(crate) fn new(weight: &[f32], bias: Vec<f32>, shape: Conv2dShape, precision: Precision) -> Self {
        Self {
            form: Form::of(weight, &shape, precision),
            shape,
            bias,
        }
    }

    /// The map after the convolution, its bias and `activation`.
    pub(crate) fn forward(&self, map: &RowMap, activation: Activation) -> RowMap {
        self.forward_on(InstructionSet::detect(), map, activation)
    }

    fn forward_on(&self, instructions: InstructionSet, map: &RowMap, activation: Activation) -> RowMap {
        let (rows, width) = (self.output(map.rows, 0), self.output(map.width, 1));
        let mut target = RowMap::unset(rows, self.shape.outputs, width);
        let epilogue = Epilogue::new(&self.bias, activation);
        self.run(instructions, map, epilogue, target.all_rows());
        target
    }

    /// The map after the convolution of the channels of maps of one size, one after the other; `None` for convolutions that see one map: those of
    /// floats, and of single pixels.
    #[cfg_attr(
        not(target_arch = "x86_64"),
        expect(unused_variables, reason = "other processors have no such convolutions")
    )]
    pub(crate) fn forward_stacked(&self, maps: &[RowMap], activation: Activation) -> Option<RowMap> {
        #[cfg(target_arch = "x86_64")]
        if let (Form::Int8(convolution), Some(map)) = (&self.form, maps.first()) {
            let (rows, width) = (self.output(map.rows, 0), self.output(map.width, 1));
            let mut target = RowMap::unset(rows, self.shape.outputs, width);
            let maps: Vec<&RowMap> = maps.iter().collect();
            let epilogue = Epilogue::new(&self.bias, activation);
            convolution.forward(VerticalTaps::new(&self.shape), epilogue, &maps, target.all_rows());
            return Some(target);
        }
        None
    }

    /// Number of channels of the result.
    pub(crate) fn outputs(&self) -> usize {
        self.shape.outputs
    }

    /// Returns for each pixel the channel with the largest score after this convolution, of single pixels and int8-quantised, and its
    /// share of the softmax over all; `None` for other convolutions.
    #[cfg_attr(
        not(target_arch = "x86_64"),
        expect(unused_variables, reason = "other processors have no such convolutions")
    )]
    pub(crate) fn likeliest(&self, map: &RowMap) -> Option<Vec<(u32, f32)>> {
        #[cfg(target_arch = "x86_64")]
        if let Form::Pixels(Pixels::Int8(convolution)) = &self.form {
            let bias = &self.bias;
            return Some(int8::Layer { convolution, bias }.likeliest(map));
        }
        None
    }

    fn run(
        &self,
        instructions: InstructionSet,
        map: &RowMap,
        epilogue: Epilogue<'_>,
        target: TargetRows<'_>,
    ) {
        debug_assert_eq!(map.channels, self.shape.inputs);
        debug_assert_eq!(target.values.len(), target.rows * target.channels * target.width);
        if target.values.is_empty() {
            return;
        }
        let vertical = VerticalTaps::new(&self.shape);
        match &self.form {
            #[cfg(target_arch = "x86_64")]
            Form::Int8(convolution) => convolution.forward(vertical, epilogue, &[map], target),
            Form::Pixels(pixels) => pixels.fill(instructions, map.all_seen(), epilogue, target),
            Form::Patches(patches, pixels) => {
                let mut target = target;
                let of_a_row = patches.values(map.channels) * target.width;
                let at_once = (Self::PATCHES / of_a_row).max(1);
                for first in (0..target.rows).step_by(at_once) {
                    let rows = first..target.rows.min(first + at_once);
                    let seen = instructions.run_loops(
                        #[inline(always)]
                        || patches.rows_in_one(map, rows.clone(), target.width),
                    );
                    pixels.fill(instructions, seen.seen(), epilogue, target.part(rows));
                }
            }
            Form::Direct(convolution) => instructions.run(DirectPass {
                convolution,
                vertical,
                epilogue,
                map,
                target,
            }),
            Form::Short(convolution) => instructions.run(WinogradPass {
                convolution,
                vertical,
                epilogue,
                map,
                target,
            }),
            Form::Long(convolution) => instructions.run(WinogradPass {
                convolution,
                vertical,
                epilogue,
                map,
                target,
            }),
        }
    }

    /// Number of rows (axis 0) or columns (axis 1) of the output for as many of the input.
    fn output(&self, input: usize, axis: usize) -> usize {
        let Conv2dShape {
            kernel,
            stride,
            dilation,
            padding,
            after,
            ..
        } = self.shape;
        let reach = dilation[axis] * (kernel[axis] - 1);
        (input + 2 * padding[axis] + after[axis])
            // A map smaller than the kernel has no place for it.
            .checked_sub(reach + 1)
            .map_or(0, |last| last / stride[axis] + 1)
    }
}

/// Algorithm of a convolution, with its weights.
#[derive(Debug)]
enum Form {
    #[cfg(target_arch = "x86_64")]
    Int8(Box<int8::Int8>),
    Pixels(Pixels),
    /// A convolution of single pixels, each of which is a patch of the map.
    Patches(Patches, Pixels),
    Direct(Direct),
    /// Winograd for kernels of up to three taps along the row.
    Short(Box<Winograd<6>>),
    /// Winograd for longer kernels.
    Long(Box<Winograd<4>>),
}

impl Form {
    /// Largest number of weights at points, 32 MiB: those of 512 channels and a kernel of three by three. They are read once for each band.
    const MAX_WEIGHTS: usize = 1 << 23;
    /// Smallest number of channels for Winograd: with fewer, going to the points and back costs more than it saves.
    const MIN_CHANNELS: usize = 24;

    #[cfg_attr(
        not(target_arch = "x86_64"),
        expect(unused_variables, reason = "other processors have one precision")
    )]
    fn of(weight: &[f32], shape: &Conv2dShape, precision: Precision) -> Self {
        if Pointwise::fits(shape) {
            return Self::Pixels(Pixels::new(weight, shape, precision));
        }
        if let Some(patches) = Patches::of(shape) {
            let weight = patches.order(weight, shape.inputs);
            let shape = Conv2dShape::pointwise(patches.values(shape.inputs), shape.outputs);
            return Self::Patches(patches, Pixels::new(&weight, &shape, precision));
        }
        #[cfg(target_arch = "x86_64")]
        if precision == Precision::Int8
            && let Some(convolution) = int8::Int8::new(weight, shape)
        {
            return Self::Int8(Box::new(convolution));
        }
        let taps = shape.kernel[1];
        let at_points = weight.len() / taps * POINTS;
        // A tile needs columns that see neighbouring values, which those of a convolution with a stride do
        // not.
        let worthwhile = taps > 1
            && shape.stride[1] == 1
            && shape.inputs.min(shape.outputs) >= Self::MIN_CHANNELS
            && at_points <= Self::MAX_WEIGHTS;
        match taps {
            _ if !worthwhile => Self::Direct(Direct::new(weight, shape)),
            0..=3 => Self::Short(Box::new(Winograd::new(weight, shape))),
            _ => Self::Long(Box::new(Winograd::new(weight, shape))),
        }
    }
}

/// A convolution of single pixels.
#[derive(Debug)]
enum Pixels {
    #[cfg(target_arch = "x86_64")]
    Int8(Box<int8::Int8>),
    Float(Pointwise),
}

impl Pixels {
    #[cfg_attr(
        not(target_arch = "x86_64"),
        expect(unused_variables, reason = "other processors have one precision")
    )]
    fn new(weight: &[f32], shape: &Conv2dShape, precision: Precision) -> Self {
        #[cfg(target_arch = "x86_64")]
        if precision == Precision::Int8
            && let Some(convolution) = int8::Int8::new(weight, shape)
        {
            return Self::Int8(Box::new(convolution));
        }
        Self::Float(Pointwise::new(weight, shape))
    }

    /// Fills in the target, which has the rows and columns of the map.
    fn fill(
        &self,
        instructions: InstructionSet,
        map: SeenMap<'_>,
        epilogue: Epilogue<'_>,
        target: TargetRows<'_>,
    ) {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Int8(convolution) => {
                let bias = epilogue.bias;
                int8::Layer { convolution, bias }.fill(map, epilogue.activation, target);
            }
            Self::Float(convolution) => instructions.run(PointwisePass {
                convolution,
                epilogue,
                map,
                target,
            }),
        }
    }
}

/// Rows of the input that a row of the output sees.
#[derive(Debug, Clone, Copy)]
struct VerticalTaps {
    kernel: usize,
    stride: usize,
    dilation: usize,
    padding: usize,
}

impl VerticalTaps {
    fn new(shape: &Conv2dShape) -> Self {
        Self {
            kernel: shape.kernel[0],
            stride: shape.stride[0],
            dilation: shape.dilation[0],
            padding: shape.padding[0],
        }
    }

    /// Taps that see one of the `rows` rows of the map from the output row `row`.
    #[inline(always)]
    fn inside(self, row: usize, rows: usize) -> Range<usize> {
        let start = row * self.stride;
        let end = (rows + self.padding)
            .saturating_sub(start)
            .div_ceil(self.dilation);
        let end = end.min(self.kernel);
        // Rounded up on both sides: the first tap not above the map, and the first one below it.
        let first = self.padding.saturating_sub(start).div_ceil(self.dilation);
        first.min(end)..end
    }

    /// Row of the input that a tap [`inside`](Self::inside) the map sees.
    #[inline(always)]
    fn input(self, row: usize, tap: usize) -> usize {
        row * self.stride + tap * self.dilation - self.padding
    }
}

/// Treatment of the sums of a convolution on their way into the target.
#[derive(Debug, Clone, Copy)]
struct Epilogue<'a> {
    bias: &'a [f32],
    activation: Activation,
}

impl<'a> Epilogue<'a> {
    fn new(bias: &'a [f32], activation: Activation) -> Self {
        Self { bias, activation }
    }

    /// Finishes the sums of one output channel, where they lie.
    #[inline(always)]
    fn finish<S: Simd>(self, simd: S, output: usize, sums: &mut [f32]) {
        let bias = self.bias[output];
        let floor = self.activation.floor();
        for sum in sums.iter_mut() {
            *sum = (*sum + bias).max(floor);
        }
        self.activate(simd, sums);
    }

    /// Activates what [`write_vectors`](Self::write_vectors) wrote, as far as it left that over.
    #[inline(always)]
    fn activate<S: Simd>(self, simd: S, target: &mut [f32]) {
        if !self.activation.is_floor() {
            simd.vectorize(Activated(self.activation, target));
        }
    }

    /// Writes sums that are still in registers; there are vectors for all of the target. With `add_target`, what it
    /// has is added before the activation. Functions other than ReLU are left to [`activate`](Self::activate): with all of them in a loop over outputs,
    /// their sums would not stay in registers.
    #[inline(always)]
    fn write_vectors<S: Simd, const N: usize>(
        self,
        simd: S,
        output: usize,
        mut sums: [S::f32s; N],
        add_target: bool,
        target: &mut [f32],
    ) {
        let bias = simd.splat_f32s(self.bias[output]);
        for sum in sums.iter_mut() {
            *sum = simd.add_f32s(*sum, bias);
        }
        let is_whole = target.len() == N * S::F32_LANES;
        if add_target && is_whole {
            for (sum, before) in sums.iter_mut().zip(load::<S, N>(target)) {
                *sum = simd.add_f32s(*sum, before);
            }
        } else if add_target {
            for (sum, before) in sums.iter_mut().zip(target.chunks(S::F32_LANES)) {
                *sum = simd.add_f32s(*sum, simd.partial_load_f32s(before));
            }
        }
        let floor = simd.splat_f32s(self.activation.floor());
        for sum in sums.iter_mut() {
            *sum = simd.max_f32s(*sum, floor);
        }
        if is_whole {
            store::<S, N>(sums, target);
        } else {
            for (target, sum) in target.chunks_mut(S::F32_LANES).zip(sums) {
                simd.partial_store_f32s(target, sum);
            }
        }
    }
}

/// Values to which a function is applied, in a function of its own: in line, all functions would stand in each loop that writes sums, and the
/// compiler would take three times as long.
struct Activated<'a>(Activation, &'a mut [f32]);

impl WithSimd for Activated<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        self.0.of_all(simd, self.1);
    }
}

/// Applies a function other than ReLU to all values of a map.
#[cfg(target_arch = "x86_64")]
fn activate(activation: Activation, values: &mut [f32]) {
    if !activation.is_floor() {
        InstructionSet::detect().run(Activated(activation, values));
    }
}

#[cfg(test)]
mod tests;
