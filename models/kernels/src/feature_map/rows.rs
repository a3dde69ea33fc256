//! Maps in host memory, one image each.

use std::borrow::Cow;
use std::ops::Range;

use super::recurrent::{HostLstm, LstmWeights};
use super::{
    Activation, FeatureMap, LayerNorm, MapSize, Perceptron, Pool, ResidualBlock, attention, bands, blocks,
};
use crate::convolution::{Conv2dShape, ConvolutionWeights};
use crate::device::Device;
use crate::error::InferenceError;
use crate::precision::Precision;
use crate::row_convolution::{
    DepthwiseConvolution, InstructionSet, PooledBuffer, RowConvolution, RowMap, gather,
};

/// A convolution of all channels with all, or of each with itself.
#[derive(Debug)]
pub enum HostConvolution {
    Dense(Box<RowConvolution>),
    Depthwise(DepthwiseConvolution),
}

impl FeatureMap for RowMap {
    type Convolution = HostConvolution;
    type Lstm = HostLstm;

    fn images(values: Vec<f32>, count: usize, size: MapSize, _: &Device) -> Self {
        debug_assert_eq!(count, 1);
        let MapSize {
            channels,
            rows,
            columns,
        } = size;
        let as_they_are = channels == 1 || rows == 1;
        let values = if as_they_are {
            values.into()
        } else {
            by_row(&values, size)
        };
        Self {
            rows,
            channels,
            width: columns,
            values,
        }
    }

    fn convolution(
        weights: ConvolutionWeights,
        shape: Conv2dShape,
        precision: Precision,
        _: &Device,
    ) -> HostConvolution {
        let ConvolutionWeights { weight, bias, .. } = weights;
        if shape.groups == 1 {
            return HostConvolution::Dense(Box::new(RowConvolution::new(&weight, bias, shape, precision)));
        }
        HostConvolution::Depthwise(DepthwiseConvolution::new(weight, bias, shape))
    }

    fn lstm(weights: LstmWeights, device: &Device) -> HostLstm {
        HostLstm::new(weights, device)
    }

    fn size(&self) -> MapSize {
        MapSize {
            channels: self.channels,
            rows: self.rows,
            columns: self.width,
        }
    }

    fn convolve(
        &self,
        convolution: &HostConvolution,
        activation: Activation,
    ) -> Result<Self, InferenceError> {
        match convolution {
            HostConvolution::Dense(dense) => Ok(dense.forward(self, activation)),
            HostConvolution::Depthwise(depthwise) => Ok(depthwise.forward(self, activation)),
        }
    }

    fn convolve_stack(
        maps: &[Self],
        convolution: &HostConvolution,
        activation: Activation,
    ) -> Result<Self, InferenceError> {
        match convolution {
            HostConvolution::Dense(dense) => dense.forward_stacked(maps, activation),
            HostConvolution::Depthwise(_) => None,
        }
        .map_or_else(|| Self::stack(maps).convolve(convolution, activation), Ok)
    }

    fn by_bands(
        &self,
        unit: usize,
        compute: impl Fn(&Self) -> Result<Self, InferenceError>,
    ) -> Result<Self, InferenceError> {
        bands::by_bands(self, unit, compute)
    }

    fn residual_block(mut self, block: &ResidualBlock<HostConvolution>) -> Result<Self, InferenceError> {
        match blocks::residual_block(&mut self, block) {
            Some(()) => Ok(self),
            None => super::whole_block(&self, block),
        }
    }

    fn perceptron(
        &self,
        perceptron: &Perceptron<HostConvolution>,
        factors: Option<&Self>,
    ) -> Result<Self, InferenceError> {
        blocks::perceptron(self, perceptron, factors)
            .map_or_else(|| super::whole_perceptron(self, perceptron, factors), Ok)
    }

    fn attend(&self, heads: usize) -> Self {
        attention::attend(self, heads)
    }

    fn layer_norm(&self, norm: &LayerNorm) -> Self {
        attention::layer_norm(self, norm)
    }

    fn average_pool(&self, rows: usize, columns: usize) -> Self {
        InstructionSet::detect().run_loops(
            #[inline(always)]
            || pooled(self, rows, columns),
        )
    }

    fn interleave(&self, side: usize) -> Self {
        InstructionSet::detect().run_loops(
            #[inline(always)]
            || Self::interleaved(self, side),
        )
    }

    fn likeliest(&self, classifier: &HostConvolution) -> Result<Vec<(u32, f32)>, InferenceError> {
        if let HostConvolution::Dense(classifier) = classifier
            && let Some(likeliest) = classifier.likeliest(self)
        {
            return Ok(likeliest);
        }
        let scores = self.convolve(classifier, Activation::None)?;
        Ok(attention::likeliest(&scores))
    }

    fn recur(&self, lstm: &HostLstm) -> Result<Self, InferenceError> {
        lstm.forward(self)
    }

    fn windows(&self, before: usize, count: usize) -> Self {
        attention::windows(self, before, count)
    }

    fn masked(mut self, kept: &[bool]) -> Self {
        for channel in self.values.chunks_exact_mut(self.width.max(1)) {
            for (value, kept) in channel.iter_mut().zip(kept) {
                *value = if *kept { *value } else { 0.0 };
            }
        }
        self
    }

    fn peaks(self) -> Result<Vec<f32>, InferenceError> {
        Ok(attention::peaks(&self))
    }

    fn add(self, other: &Self) -> Self {
        Self::add(self, other)
    }

    fn relu(mut self) -> Self {
        for value in self.values.iter_mut() {
            *value = value.max(0.0);
        }
        self
    }

    fn pad_columns(self, before: usize, after: usize, values: &[f32]) -> Self {
        let width = before + self.width + after;
        let mut padded = Vec::with_capacity(self.rows * self.channels * width);
        for row in self.values.chunks_exact((self.channels * self.width).max(1)) {
            for (channel, &value) in row.chunks_exact(self.width.max(1)).zip(values) {
                padded.resize(padded.len() + before, value);
                padded.extend_from_slice(channel);
                padded.resize(padded.len() + after, value);
            }
        }
        Self {
            width,
            values: padded.into(),
            ..self
        }
    }

    fn max_pool(&self, pool: Pool) -> Self {
        InstructionSet::detect().run_loops(
            #[inline(always)]
            || match pool {
                Pool {
                    kernel: [2, 2],
                    stride: [1, 1],
                    padding: 0,
                    after: 1,
                } => largest_of_four(self),
                pool => largest_of_windows(self, pool),
            },
        )
    }

    fn mean(&self, columns: usize) -> Self {
        // Rows are added up in 64 bits: the sum of a whole map grows far beyond its values and would lose
        // their digits.
        let mut sums = vec![0.0_f64; self.channels];
        for row in self.values.chunks_exact((self.channels * self.width).max(1)) {
            for (channel, sum) in row.chunks_exact(self.width.max(1)).zip(&mut sums) {
                *sum += f64::from(total(&channel[..columns.min(channel.len())]));
            }
        }
        let count = (self.rows * columns) as f64;
        Self {
            rows: 1,
            channels: self.channels,
            width: 1,
            values: sums
                .into_iter()
                .map(|sum| (sum / count) as f32)
                .collect::<Vec<_>>()
                .into(),
        }
    }

    fn scale(mut self, factors: &Self) -> Self {
        let (channels, width) = (self.channels, self.width);
        for row in self.values.chunks_exact_mut((channels * width).max(1)) {
            for (channel, &factor) in row.chunks_exact_mut(width.max(1)).zip(factors.values.iter()) {
                for value in channel {
                    *value *= factor;
                }
            }
        }
        self
    }

    fn spread(&self, rows: usize, columns: usize) -> Self {
        let mut values = Vec::with_capacity(rows * self.channels * columns);
        for _ in 0..rows {
            for &value in self.values.iter() {
                values.resize(values.len() + columns, value);
            }
        }
        Self {
            rows,
            channels: self.channels,
            width: columns,
            values: values.into(),
        }
    }

    fn channels(&self, range: Range<usize>) -> Self {
        Self::channels(self, range)
    }

    fn stack(maps: &[Self]) -> Self {
        let (rows, width) = maps.first().map_or((0, 0), |map| (map.rows, map.width));
        let channels: usize = maps.iter().map(|map| map.channels).sum();
        let mut stacked = Self::unset(rows, channels, width);
        let mut rest = &mut *stacked.values;
        for row in 0..rows {
            for row in maps.iter().filter_map(|map| map.row(row)) {
                let (target, after) = rest.split_at_mut(row.len());
                target.copy_from_slice(row);
                rest = after;
            }
        }
        stacked
    }

    fn enlarge(&self, rows: usize, columns: usize) -> Self {
        let (down, across) = (between(self.rows, rows), between(self.width, columns));
        let mut values = Vec::with_capacity(rows * self.channels * columns);
        let mut blend = vec![0.0; self.channels * self.width];
        // First between rows and then along them: the blend of two rows is made once for all columns.
        for (first, second, share) in down {
            let (Some(upper), Some(lower)) = (self.row(first), self.row(second)) else {
                continue;
            };
            for ((target, &upper), &lower) in blend.iter_mut().zip(upper).zip(lower) {
                *target = upper + (lower - upper) * share;
            }
            for channel in blend.chunks_exact(self.width.max(1)) {
                values.extend(
                    across.iter().map(|&(left, right, share)| {
                        channel[left] + (channel[right] - channel[left]) * share
                    }),
                );
            }
        }
        Self {
            rows,
            channels: self.channels,
            width: columns,
            values: values.into(),
        }
    }

    fn doubled(&self) -> Self {
        Self::doubled(self)
    }

    fn add_doubled(mut self, coarse: &Self) -> Self {
        InstructionSet::detect().run_loops(
            #[inline(always)]
            || Self::add_doubled(&mut self, coarse),
        );
        self
    }

    fn cropped(self, rows: usize, columns: usize) -> Self {
        if (self.rows, self.width) == (rows, columns) {
            return self;
        }
        Self::cropped(&self, rows, columns)
    }

    fn rows_as_channels(self) -> Self {
        Self::rows_as_channels(&self)
    }

    fn planes(&self) -> Result<Cow<'_, [f32]>, InferenceError> {
        // Planes of one row each, or one plane, lie as they should.
        if self.channels == 1 || self.rows == 1 {
            return Ok(Cow::Borrowed(&self.values));
        }
        let mut planes = Vec::with_capacity(self.values.len());
        for channel in 0..self.channels {
            for row in 0..self.rows {
                planes.extend_from_slice(self.channel(row, channel));
            }
        }
        Ok(Cow::Owned(planes))
    }

    fn into_columns(self) -> Result<Vec<f32>, InferenceError> {
        Ok(Self::into_columns(self))
    }
}

/// Images `[channels][rows][columns]` as `[rows][channels][columns]`.
fn by_row(values: &[f32], size: MapSize) -> PooledBuffer {
    let MapSize {
        channels,
        rows,
        columns,
    } = size;
    let mut by_row = PooledBuffer::take(values.len());
    for (place, target) in by_row.chunks_exact_mut(columns.max(1)).enumerate() {
        let (row, channel) = (place / channels, place % channels);
        target.copy_from_slice(&values[(channel * rows + row) * columns..][..columns]);
    }
    by_row
}

/// Means of windows of so many rows and columns.
#[inline(always)]
fn pooled(map: &RowMap, rows: usize, columns: usize) -> RowMap {
    let mut target = RowMap::unset(map.rows / rows, map.channels, map.width / columns);
    let share = 1.0 / (rows * columns) as f32;
    let width = target.width.max(1);
    let mut sums = vec![0.0_f32; map.width];
    for (place, target) in target.values.chunks_exact_mut(width).enumerate() {
        let (row, channel) = (place / map.channels, place % map.channels);
        sums.copy_from_slice(map.channel(row * rows, channel));
        for row in row * rows + 1..(row + 1) * rows {
            for (sum, value) in sums.iter_mut().zip(map.channel(row, channel)) {
                *sum += value;
            }
        }
        for (target, sums) in target.iter_mut().zip(sums.chunks_exact(columns)) {
            *target = sums.iter().sum::<f32>() * share;
        }
    }
    target
}

/// The largest of each window, of what lies in the map.
#[inline(always)]
fn largest_of_windows(map: &RowMap, pool: Pool) -> RowMap {
    let Pool {
        kernel,
        stride,
        padding,
        after,
    } = pool;
    let output = |size: usize, axis: usize| (size + 2 * padding + after - kernel[axis]) / stride[axis] + 1;
    let (rows, width) = (output(map.rows, 0), output(map.width, 1));
    let mut target = RowMap::unset(rows, map.channels, width);
    target.values.fill(f32::NEG_INFINITY);
    let mut seen = vec![0.0; width];
    for (row, target) in target
        .values
        .chunks_exact_mut((map.channels * width).max(1))
        .enumerate()
    {
        let sources =
            (0..kernel[0]).filter_map(|down| map.row((row * stride[0] + down).checked_sub(padding)?));
        for source in sources {
            let channels = source.chunks_exact(map.width).zip(target.chunks_exact_mut(width));
            for (source, target) in channels {
                for across in 0..kernel[1] {
                    // Padding must not win against negative values.
                    gather(source, padding, f32::NEG_INFINITY, across, stride[1], &mut seen);
                    for (target, &seen) in target.iter_mut().zip(&seen) {
                        *target = target.max(seen);
                    }
                }
            }
        }
    }
    target
}

/// The largest of each pixel, the one after it, and the two below these.
#[inline(always)]
fn largest_of_four(map: &RowMap) -> RowMap {
    let mut target = RowMap::unset(map.rows, map.channels, map.width);
    let (width, size) = (map.width.max(1), (map.channels * map.width).max(1));
    for (row, target) in target.values.chunks_exact_mut(size).enumerate() {
        let upper = &map.values[row * size..][..size];
        let lower = map.row(row + 1).unwrap_or(upper);
        for ((target, &upper), &lower) in target.iter_mut().zip(upper).zip(lower) {
            *target = upper.max(lower);
        }
        for channel in target.chunks_exact_mut(width) {
            for column in 1..width {
                channel[column - 1] = channel[column - 1].max(channel[column]);
            }
        }
    }
    target
}

/// Sum of some values, in lanes that the compiler makes vectors of.
fn total(values: &[f32]) -> f32 {
    const LANES: usize = 16;
    let (groups, rest) = values.as_chunks::<LANES>();
    let mut sums = [0.0; LANES];
    for group in groups {
        for (sum, value) in sums.iter_mut().zip(group) {
            *sum += value;
        }
    }
    sums.iter().chain(rest).sum()
}

/// Two places of the input around each place of the output, and the share of the second.
fn between(input: usize, output: usize) -> Vec<(usize, usize, f32)> {
    let last = input.saturating_sub(1);
    let step = if output > 1 {
        last as f32 / (output - 1) as f32
    } else {
        0.0
    };
    (0..output)
        .map(|place| {
            let place = place as f32 * step;
            let first = (place as usize).min(last);
            (first, (first + 1).min(last), place - first as f32)
        })
        .collect()
}
