use proptest::prelude::*;

use super::super::direct::Direct;
use super::super::{Form, RowConvolution};
use super::kernel::OUTPUTS;
use super::*;

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
        let actual = convolution(Form::Int8(Box::new(in_whole_numbers))).forward(&map, activation);
        prop_assert_eq!([actual.rows, actual.channels, actual.width], [expected.rows, expected.channels, expected.width]);
        let terms = (inputs * kernel[0] * kernel[1]) as f32;
        let bound = 1e-4 + terms * (0.6 / 127.0 / 2.0 + 1.0 / 254.0 / 2.0) * 0.6;
        for (actual, expected) in actual.values.iter().zip(expected.values.iter()) {
            prop_assert!((actual - expected).abs() < bound, "{actual} {expected} {bound}");
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
