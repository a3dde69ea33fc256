use proptest::prelude::*;

use super::super::direct::Direct;
use super::super::{Added, Form, RowConvolution, RowPerceptron};
use super::kernel::OUTPUTS;
use super::*;
use crate::activation::Activation;
use crate::precision::Precision;

fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count)
        .map(|index| ((index * 31 + seed * 17) % 101) as f32 / 101.0 - 0.4)
        .collect()
}

proptest! {
    /// Each product is off by no more than half a step of the feature and half a step of the weight make.
    #[test]
    fn whole_numbers_give_nearly_the_same(
        [rows, width] in [1_usize..7, 1_usize..120],
        [inputs, outputs] in [MIN_INPUTS..MIN_INPUTS + 7, 1_usize..19],
        kernel in prop::sample::select(vec![[1, 1], [3, 3], [1, 5], [2, 2], [4, 1]]),
        stride in prop::sample::select(vec![[1, 1], [2, 1], [2, 2], [1, 3]]),
        dilation in prop::sample::select(vec![[1, 1], [1, 2], [2, 1]]),
        padded: bool,
        positive: bool,
        activation in prop::sample::select(vec![Activation::None, Activation::Relu, Activation::Sigmoid]),
        seed in 0_usize..100,
    ) {
        let reach = [0, 1].map(|axis| (kernel[axis] - 1) * dilation[axis]);
        prop_assume!(padded || (rows > reach[0] && width > reach[1]));
        let padding = if padded { [reach[0] / 2, reach[1] / 2] } else { [0, 0] };
        prop_assume!(rows + 2 * padding[0] > reach[0] && width + 2 * padding[1] > reach[1]);
        let shape = Conv2dShape { inputs, outputs, kernel, stride, dilation, padding, after: [0, 0], groups: 1, stored_flat: false };
        let weight = numbers(outputs * inputs * kernel[0] * kernel[1], seed);
        let mut values = numbers(inputs * rows * width, seed + 2);
        if positive {
            values.iter_mut().for_each(|value| *value = value.max(0.0));
        }
        let map = RowMap { rows, channels: inputs, width, values: values.into() };
        let convolution = |form| RowConvolution { form, shape, bias: numbers(outputs, seed + 1) };
        let Some(in_whole_numbers) = Int8::new(&weight, &shape) else {
            eprintln!("skipped: this processor has no AVX-512 VNNI");
            return Ok(());
        };
        let expected = convolution(Form::Direct(Direct::new(&weight, &shape))).forward(&map, activation);
        let terms = (inputs * kernel[0] * kernel[1]) as f32;
        let bound = 1e-4 + terms * (0.6 / 127.0 / 2.0 + 1.0 / 254.0 / 2.0) * 0.6;
        // Those of single pixels, and patches, have forms of their own.
        let loaded = RowConvolution::new(&weight, numbers(outputs, seed + 1), shape, Precision::Int8);
        for convolution in [convolution(Form::Int8(Box::new(in_whole_numbers))), loaded] {
            let actual = convolution.forward(&map, activation);
            prop_assert_eq!([actual.rows, actual.channels, actual.width], [expected.rows, expected.channels, expected.width]);
            for (actual, expected) in actual.values.iter().zip(expected.values.iter()) {
                prop_assert!((actual - expected).abs() < bound, "{actual} {expected} {bound}");
            }
        }
    }

    /// Weights and features that are whole numbers already are not rounded, and the result is exact.
    #[test]
    fn whole_numbers_stay_what_they_are(
        [rows, width] in [1_usize..7, 1_usize..120],
        kernel in prop::sample::select(vec![[1, 1], [3, 3], [1, 5], [2, 2]]),
        stride in prop::sample::select(vec![[1, 1], [2, 1], [2, 2]]),
        seed in 0_usize..100,
    ) {
        let (inputs, outputs) = (MIN_INPUTS, OUTPUTS + 1);
        let padding = kernel.map(|kernel| kernel / 2);
        let shape = Conv2dShape { inputs, outputs, kernel, stride, dilation: [1, 1], padding, after: [0, 0], groups: 1, stored_flat: false };
        let taps = kernel[0] * kernel[1];
        let mut weight: Vec<f32> = (0..outputs * inputs * taps).map(|index| ((index * 37 + seed) % 255) as f32 - 127.0).collect();
        weight.chunks_exact_mut(inputs * taps).for_each(|of_output| of_output[0] = 127.0);
        let mut values: Vec<f32> = (0..inputs * rows * width).map(|index| ((index * 29 + seed) % 256) as f32).collect();
        values[seed % (inputs * rows * width)] = 255.0;
        let map = RowMap { rows, channels: inputs, width, values: values.into() };
        let convolution = |form| RowConvolution { form, shape, bias: vec![0.0; outputs] };
        let Some(in_whole_numbers) = Int8::new(&weight, &shape) else {
            eprintln!("skipped: this processor has no AVX-512 VNNI");
            return Ok(());
        };
        let expected = convolution(Form::Direct(Direct::new(&weight, &shape))).forward(&map, Activation::None);
        let actual = convolution(Form::Int8(Box::new(in_whole_numbers))).forward(&map, Activation::None);
        prop_assert_eq!(&*actual.values, &*expected.values);
    }
}

fn of_pixels(inputs: usize, outputs: usize, seed: usize, precision: Precision) -> RowConvolution {
    let shape = Conv2dShape::pointwise(inputs, outputs);
    let weight = numbers(outputs * inputs, seed);
    RowConvolution::new(&weight, numbers(outputs, seed + 1), shape, precision)
}

/// Pixels that are looked at together.
const STRIP: usize = VECTORS * LANES;

proptest! {
    #[test]
    fn a_perceptron_in_whole_numbers_gives_nearly_the_same(
        [rows, width] in [1_usize..7, 1_usize..120],
        [inputs, hidden, outputs] in [MIN_INPUTS..MIN_INPUTS + 7, MIN_INPUTS..MIN_INPUTS + 30, 1_usize..19],
        between in prop::sample::select(vec![Activation::Gelu, Activation::Relu]),
        after in prop::sample::select(vec![Activation::None, Activation::Relu]),
        added in 0_usize..3,
        [scaled, in_one_row]: [bool; 2],
        seed in 0_usize..100,
    ) {
        let outputs = if added == 1 { inputs } else { outputs };
        let map = RowMap { rows, channels: inputs, width, values: numbers(inputs * rows * width, seed + 2).into() };
        let held = RowMap { rows, channels: outputs, width, values: numbers(outputs * rows * width, seed + 4).into() };
        let factors = numbers(inputs, seed + 3);
        let added = [Added::Nothing, Added::Input, Added::Target][added];
        let through = |precision| {
            let [widen, narrow] =
                [(inputs, hidden, 0), (hidden, outputs, 1)].map(|(from, to, number)| of_pixels(from, to, seed + number, precision));
            let perceptron = RowPerceptron { widen: &widen, between, narrow: &narrow, added, after };
            let mut result = held.clone();
            let factors = scaled.then_some(&*factors);
            let in_one = map.rows_in_one();
            let seen = if in_one_row { in_one.seen() } else { map.all_seen() };
            perceptron.fill(seen, factors, result.all_rows()).unwrap();
            result
        };
        let (expected, actual) = (through(Precision::Full), through(Precision::Int8));
        prop_assert_eq!([actual.rows, actual.channels, actual.width], [rows, outputs, width]);
        let pairs = || actual.values.iter().zip(expected.values.iter());
        let error: f32 = pairs().map(|(actual, expected)| (actual - expected).powi(2)).sum();
        let size: f32 = pairs().map(|(_, expected)| expected.powi(2)).sum();
        prop_assert!(error.sqrt() < 0.02 * size.sqrt() + 1e-3, "{error} {size}");
    }

    #[test]
    fn the_likeliest_class_is_that_of_the_scores(
        [inputs, classes] in [MIN_INPUTS..MIN_INPUTS + 7, 1_usize..300],
        width in 1_usize..=STRIP,
        seed in 0_usize..100,
    ) {
        let classifier = of_pixels(inputs, classes, seed, Precision::Int8);
        let map = RowMap { rows: 1, channels: inputs, width, values: numbers(inputs * width, seed + 2).into() };
        let Some(actual) = classifier.likeliest(&map) else {
            eprintln!("skipped: this processor has no AVX-512 VNNI");
            return Ok(());
        };
        let scores = classifier.forward(&map, Activation::None);
        prop_assert_eq!(actual.len(), width);
        for (column, (class, share)) in actual.into_iter().enumerate() {
            let score = |class: usize| scores.channel(0, class)[column];
            let best = (0..classes).map(score).fold(f32::NEG_INFINITY, f32::max);
            prop_assert!(score(class as usize) > best - 1e-5, "{class}");
            let whole: f32 = (0..classes).map(|class| (score(class) - best).exp()).sum();
            prop_assert!((share * whole - 1.0).abs() < 1e-4, "{share} {whole}");
        }
    }

    #[test]
    fn the_likeliest_classes_of_a_long_line_are_those_of_its_strips(width in STRIP + 1..3 * STRIP, seed in 0_usize..100) {
        let inputs = MIN_INPUTS;
        let classifier = of_pixels(inputs, 70, seed, Precision::Int8);
        let values = numbers(inputs * width, seed + 2);
        let of_columns = |first: usize, end: usize| {
            let channels = values.chunks_exact(width).map(|channel| &channel[first..end]);
            let values = channels.collect::<Vec<_>>().concat();
            classifier.likeliest(&RowMap { rows: 1, channels: inputs, width: end - first, values: values.into() })
        };
        let strips = (0..width).step_by(STRIP).map(|first| of_columns(first, width.min(first + STRIP)));
        let in_strips: Option<Vec<_>> = strips.collect();
        prop_assert_eq!(of_columns(0, width), in_strips.map(|strips| strips.concat()));
    }

    #[test]
    fn maps_are_seen_as_if_they_were_one(
        [rows, width] in [1_usize..7, 1_usize..60],
        channels in prop::collection::vec(1_usize..12, 2..4),
        kernel in prop::sample::select(vec![[1, 3], [3, 3]]),
        seed in 0_usize..100,
    ) {
        let inputs = MIN_INPUTS.max(channels.iter().sum());
        let mut channels = channels;
        channels.push(inputs - channels.iter().sum::<usize>());
        let shape = Conv2dShape { padding: kernel.map(|kernel| kernel / 2), kernel, ..Conv2dShape::pointwise(inputs, 9) };
        let weight = numbers(9 * inputs * kernel[0] * kernel[1], seed);
        let convolution = RowConvolution::new(&weight, numbers(9, seed + 1), shape, Precision::Int8);
        let maps: Vec<RowMap> = (0..).zip(channels).map(|(number, channels)| {
            let values = numbers(rows * channels * width, seed + number).into();
            RowMap { rows, channels, width, values }
        }).collect();
        let Some(actual) = convolution.forward_stacked(&maps, Activation::Relu) else {
            eprintln!("skipped: this processor has no AVX-512 VNNI");
            return Ok(());
        };
        let rows_of_all = (0..rows).flat_map(|row| maps.iter().filter_map(move |map| map.row(row)));
        let values: Vec<f32> = rows_of_all.flatten().copied().collect();
        let expected = convolution.forward(&RowMap { rows, channels: inputs, width, values: values.into() }, Activation::Relu);
        prop_assert_eq!(&*actual.values, &*expected.values);
    }
}

#[test]
fn an_empty_and_a_constant_map_have_levels() {
    for range in [(0.0, 0.0), (0.0, f32::MIN_POSITIVE), (-0.0, 0.0)] {
        let levels = Quantization::of(range);
        assert!(levels.scale > 0.0 && levels.zero_point == 0.0, "{levels:?}");
    }
}

proptest! {
    #[test]
    fn every_value_of_the_range_has_a_byte(low in -1e3_f32..=0.0, high in 0.0_f32..1e3) {
        let levels = Quantization::of((low, high));
        for value in [low, 0.0, high] {
            let byte = value.mul_add(1.0 / levels.scale, levels.zero_point).round_ties_even();
            prop_assert!((0.0..=255.0).contains(&byte), "{value} {levels:?}");
            prop_assert!((levels.scale * (byte - levels.zero_point) - value).abs() <= 0.51 * levels.scale.max(1e-3));
        }
    }
}
