//! Convolutions as a processor computes them fast.
//!
//! The rows of a map lie with their channels side by side, so what one row of the output needs is copied in whole runs into
//! a panel that stays in the cache, and is multiplied there with weights that were put in order when they were loaded. The
//! product, its bias and its activation are one pass over the output. Wide convolutions are computed with fewer
//! multiplications than their definition has.

mod band;
mod depthwise;
mod direct;
mod instruction_set;
#[cfg(target_arch = "x86_64")]
mod int8;
mod map;
mod panel;
mod product;
mod spare;
mod toom_cook;
mod winograd;

use std::ops::Range;

use pulp::Simd;

pub(crate) use depthwise::DepthwiseConvolution;
pub(crate) use map::RowMap;
use map::TargetRows;

use crate::activation::{Activation, sigmoid};
use crate::device::Precision;
use crate::weights::layers::Conv2dShape;
use direct::{Direct, DirectPass};
use instruction_set::InstructionSet;
use product::{MAX_COLUMNS, load, store};
use toom_cook::POINTS;
use winograd::{Winograd, WinogradPass};

/// A convolution. Its size is that of the map by its stride, less what its kernel is larger than its padding.
#[derive(Debug)]
pub(crate) struct RowConvolution {
    shape: Conv2dShape,
    form: Form,
    bias: Vec<f32>,
}

impl RowConvolution {
    /// `weight` is `[outputs][inputs][kernel rows][kernel columns]`. The shape has one group.
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

    /// Adds the map after the convolution and its bias to `target`, which is a map of its size, and applies `activation` to the sum.
    pub(crate) fn accumulate(&self, target: &mut [f32], map: &RowMap, activation: Activation) {
        self.accumulate_on(InstructionSet::detect(), target, map, activation);
    }

    fn accumulate_on(
        &self,
        instructions: InstructionSet,
        target: &mut [f32],
        map: &RowMap,
        activation: Activation,
    ) {
        let target = TargetRows {
            rows: self.output(map.rows, 0),
            channels: self.shape.outputs,
            width: self.output(map.width, 1),
            values: target,
        };
        let epilogue = Epilogue {
            accumulates: true,
            ..Epilogue::new(&self.bias, activation)
        };
        self.run(instructions, map, epilogue, target);
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
            Form::Int8(convolution) => convolution.forward(vertical, epilogue, map, target),
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

    /// Rows or columns of the output for as many of the input.
    fn output(&self, input: usize, axis: usize) -> usize {
        let Conv2dShape {
            kernel,
            stride,
            dilation,
            padding,
            ..
        } = self.shape;
        let reach = dilation[axis] * (kernel[axis] - 1);
        (input + 2 * padding[axis])
            .checked_sub(reach + 1)
            .map_or(0, |last| last / stride[axis] + 1)
    }
}

/// How a convolution is computed.
#[derive(Debug)]
enum Form {
    #[cfg(target_arch = "x86_64")]
    Int8(Box<int8::Int8>),
    Direct(Direct),
    /// Kernels of up to three taps along the row.
    Short(Box<Winograd<6>>),
    /// Longer ones.
    Long(Box<Winograd<4>>),
}

impl Form {
    /// Weights at points that are larger than this would drive everything else out of the cache.
    const MAX_WEIGHTS: usize = 1 << 21;
    /// With fewer channels, going to the points and back costs more than it saves.
    const MIN_CHANNELS: usize = 24;

    #[cfg_attr(
        not(target_arch = "x86_64"),
        expect(unused_variables, reason = "other processors have one precision")
    )]
    fn of(weight: &[f32], shape: &Conv2dShape, precision: Precision) -> Self {
        #[cfg(target_arch = "x86_64")]
        if precision == Precision::Int8
            && let Some(convolution) = int8::Int8::new(weight, shape)
        {
            return Self::Int8(Box::new(convolution));
        }
        let taps = shape.kernel[1];
        let at_points = weight.len() / taps * POINTS;
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

/// Which rows of the input a row of the output sees.
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

    /// The taps that see one of `rows` rows, from the output row `row`.
    #[inline(always)]
    fn inside(self, row: usize, rows: usize) -> Range<usize> {
        let start = row * self.stride;
        let end = (rows + self.padding)
            .saturating_sub(start)
            .div_ceil(self.dilation);
        let end = end.min(self.kernel);
        let first = self.padding.saturating_sub(start).div_ceil(self.dilation);
        first.min(end)..end
    }

    /// Whether a row sees nothing but what is in its place.
    fn sees_one_row(self) -> bool {
        self.kernel == 1 && self.stride == 1 && self.padding == 0
    }

    /// What a tap [`inside`](Self::inside) the map sees.
    #[inline(always)]
    fn input(self, row: usize, tap: usize) -> usize {
        row * self.stride + tap * self.dilation - self.padding
    }
}

/// What happens to the sums of a convolution.
#[derive(Debug, Clone, Copy)]
struct Epilogue<'a> {
    bias: &'a [f32],
    /// What the target held is added before the activation.
    accumulates: bool,
    activation: Activation,
}

impl<'a> Epilogue<'a> {
    fn new(bias: &'a [f32], activation: Activation) -> Self {
        Self {
            bias,
            accumulates: false,
            activation,
        }
    }
}

impl Epilogue<'_> {
    #[inline(always)]
    fn write(self, output: usize, sums: &[f32], target: &mut [f32]) {
        let bias = self.bias[output];
        match self.activation {
            Activation::None => self.write_each(bias, sums, target, |value| value),
            Activation::Relu => self.write_each(bias, sums, target, |value| value.max(0.0)),
            Activation::Sigmoid => self.write_each(bias, sums, target, sigmoid),
        }
    }

    #[inline(always)]
    fn write_each(self, bias: f32, sums: &[f32], target: &mut [f32], of: impl Fn(f32) -> f32) {
        let pairs = target.iter_mut().zip(sums);
        if self.accumulates {
            pairs.for_each(|(target, &sum)| *target = of(sum + bias + *target));
        } else {
            pairs.for_each(|(target, &sum)| *target = of(sum + bias));
        }
    }

    /// The same for sums that are still in registers; there are vectors for all of the target.
    #[inline(always)]
    fn write_vectors<S: Simd, const N: usize>(
        self,
        simd: S,
        output: usize,
        mut sums: [S::f32s; N],
        target: &mut [f32],
    ) {
        let whole = N * S::F32_LANES;
        let mut values = [0.0; MAX_COLUMNS];
        if self.activation == Activation::Sigmoid || target.len() != whole {
            store::<S, N>(sums, &mut values);
            self.write(output, &values[..whole], target);
            return;
        }
        let (bias, zero) = (simd.splat_f32s(self.bias[output]), simd.splat_f32s(0.0));
        for sum in &mut sums {
            *sum = simd.add_f32s(*sum, bias);
        }
        if self.accumulates {
            for (sum, held) in sums.iter_mut().zip(load::<S, N>(target)) {
                *sum = simd.add_f32s(*sum, held);
            }
        }
        if self.activation == Activation::Relu {
            for sum in &mut sums {
                *sum = simd.max_f32s(*sum, zero);
            }
        }
        store::<S, N>(sums, target);
    }
}

#[cfg(test)]
mod tests;
