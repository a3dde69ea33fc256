//! Convolutions against those of the backend.

use burn::tensor::module::conv2d;
use burn::tensor::ops::ConvOptions;
use burn::tensor::{Device, Tensor, TensorData};
use proptest::prelude::*;
use pulp::Arch;

use super::*;
use crate::device::read;

fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count)
        .map(|index| ((index * 31 + seed * 17) % 23) as f32 / 23.0 - 0.5)
        .collect()
}

/// Instruction sets that this processor knows.
fn instruction_sets() -> Vec<InstructionSet> {
    let mut known = vec![InstructionSet::Other(Arch::Scalar), InstructionSet::detect()];
    #[cfg(target_arch = "x86_64")]
    known.extend(pulp::x86::V3::try_new().map(InstructionSet::Avx2));
    known
}

fn activations() -> impl Strategy<Value = Activation> {
    prop::sample::select(vec![
        Activation::None,
        Activation::Relu,
        Activation::Sigmoid,
        Activation::Gelu,
        Activation::HardSigmoid,
        Activation::HardSwish,
        Activation::Swish,
    ])
}

impl RowMap {
    pub(super) fn rows_in_one(&self) -> RowsInOne {
        let mut in_one = RowsInOne::unset(self.channels, self.rows * self.width);
        let stride = in_one.stride();
        for channel in 0..self.channels {
            for row in 0..self.rows {
                in_one.values[channel * stride + row * self.width..][..self.width]
                    .copy_from_slice(self.channel(row, channel));
            }
        }
        in_one
    }
}

impl RowsInOne {
    fn channel(&self, channel: usize) -> &[f32] {
        &self.values[channel * self.stride()..][..self.width]
    }
}

proptest! {
    #[test]
    fn agrees_with_the_backends_convolution(
        [rows, width] in [1_usize..9, 1_usize..150],
        [inputs, outputs] in [1_usize..4, 1_usize..9],
        kernel in prop::sample::select(vec![[1, 1], [2, 1], [1, 3], [2, 2], [3, 3], [4, 4], [1, 5], [5, 3], [7, 7]]),
        stride in prop::sample::select(vec![[1, 1], [2, 1], [2, 2], [1, 3], [4, 4]]),
        dilation in prop::sample::select(vec![[1, 1], [1, 2], [2, 1], [3, 3]]),
        padded: bool,
        seed in 0_usize..100,
    ) {
        let reach = [0, 1].map(|axis| (kernel[axis] - 1) * dilation[axis]);
        prop_assume!(padded || (rows > reach[0] && width > reach[1]));
        let device = Device::default();
        let padding = if padded { [reach[0] / 2, reach[1] / 2] } else { [0, 0] };
        prop_assume!(rows + 2 * padding[0] > reach[0] && width + 2 * padding[1] > reach[1]);
        let shape = Conv2dShape { inputs, outputs, kernel, stride, dilation, padding, after: [0, 0], groups: 1, stored_flat: false };
        let weight = numbers(outputs * inputs * kernel[0] * kernel[1], seed);
        let bias = numbers(outputs, seed + 1);
        let image = numbers(inputs * rows * width, seed + 2);

        let tensor = |values: Vec<f32>, shape: [usize; 4]| Tensor::<4>::from_data(TensorData::new(values, shape), &device);
        let expected = conv2d(
            tensor(image.clone(), [1, inputs, rows, width]),
            tensor(weight.clone(), [outputs, inputs, kernel[0], kernel[1]]),
            Some(Tensor::from_data(TensorData::new(bias.clone(), [outputs]), &device)),
            ConvOptions::new(stride, padding, dilation, 1),
        );
        let expected_rows = expected.permute([0, 2, 1, 3]);

        let by_row = tensor(image, [1, inputs, rows, width]).permute([0, 2, 1, 3]);
        let map = RowMap { rows, channels: inputs, width, values: read(by_row).unwrap().into() };
        let convolution = RowConvolution::new(&weight, bias, shape, Precision::Full);
        let expected_size = expected_rows.dims();
        let expected = read(expected_rows).unwrap();
        for instructions in instruction_sets() {
            let actual = convolution.forward_on(instructions, &map, Activation::None);
            prop_assert_eq!([1, actual.rows, actual.channels, actual.width], expected_size);
            for (actual, expected) in actual.values.iter().zip(&expected) {
                prop_assert!((actual - expected).abs() < 1e-5, "{actual} {expected} {instructions:?}");
            }
        }
    }

    #[test]
    fn fewer_multiplications_give_the_same(
        [rows, width] in [1_usize..9, 1_usize..300],
        [inputs, outputs] in [1_usize..4, 1_usize..9],
        kernel in prop::sample::select(vec![[1, 2], [2, 2], [3, 3], [1, 4], [1, 5], [3, 7], [1, 9], [1, 11]]),
        down in 1_usize..3,
        dilation in prop::sample::select(vec![[1, 1], [1, 2], [2, 2], [1, 3]]),
        padded: bool,
        seed in 0_usize..100,
    ) {
        let reach = [0, 1].map(|axis| (kernel[axis] - 1) * dilation[axis]);
        prop_assume!(padded || (rows > reach[0] && width > reach[1]));
        let padding = if padded { [reach[0] / 2, reach[1] / 2] } else { [0, 0] };
        let stride = [down, 1];
        let shape = Conv2dShape { inputs, outputs, kernel, stride, dilation, padding, after: [0, 0], groups: 1, stored_flat: false };
        let weight = numbers(outputs * inputs * kernel[0] * kernel[1], seed);
        let map = RowMap { rows, channels: inputs, width, values: numbers(inputs * rows * width, seed + 2).into() };
        let convolution = |form| RowConvolution { form, shape, bias: numbers(outputs, seed + 1) };
        let plain = convolution(Form::Direct(Direct::new(&weight, &shape)));
        let expected = plain.forward(&map, Activation::Relu);
        let mut forms = vec![convolution(Form::Long(Box::new(Winograd::new(&weight, &shape))))];
        if kernel[1] <= 3 {
            forms.push(convolution(Form::Short(Box::new(Winograd::new(&weight, &shape)))));
        }
        for convolution in forms {
            for instructions in instruction_sets() {
                let actual = convolution.forward_on(instructions, &map, Activation::Relu);
                prop_assert_eq!([actual.rows, actual.width], [expected.rows, expected.width]);
                for (actual, expected) in actual.values.iter().zip(expected.values.iter()) {
                    prop_assert!((actual - expected).abs() < 1e-4, "{actual} {expected} {instructions:?}");
                }
            }
        }
    }

    #[test]
    fn a_perceptron_is_its_convolutions_one_after_the_other(
        [rows, width] in [1_usize..9, 1_usize..150],
        [inputs, hidden, outputs] in [1_usize..18, 1_usize..20, 1_usize..9],
        between in activations(),
        after in activations(),
        added in 0_usize..3,
        in_one_row: bool,
        seed in 0_usize..100,
    ) {
        let outputs = if added == 1 { inputs } else { outputs };
        let layer = |inputs, outputs, seed| {
            let weight = numbers(outputs * inputs, seed);
            RowConvolution::new(&weight, numbers(outputs, seed + 1), Conv2dShape::pointwise(inputs, outputs), Precision::Full)
        };
        let (widen, narrow) = (layer(inputs, hidden, seed), layer(hidden, outputs, seed + 2));
        let of_channels = |channels, seed| RowMap { rows, channels, width, values: numbers(rows * channels * width, seed).into() };
        let (map, held) = (of_channels(inputs, seed + 3), of_channels(outputs, seed + 4));
        let alone = narrow.forward(&widen.forward(&map, between), Activation::None);
        let mut expected = match added {
            0 => alone,
            1 => alone.add(&map),
            _ => alone.add(&held),
        };
        after.of_all(pulp::Scalar::new(), &mut expected.values);

        let added = [Added::Nothing, Added::Input, Added::Target][added];
        let perceptron = RowPerceptron { widen: &widen, between, narrow: &narrow, added, after };
        // Pixels have the same numbers in a map and in one of a single row.
        let in_one = map.rows_in_one();
        let seen = if in_one_row { in_one.seen() } else { map.all_seen() };
        for instructions in instruction_sets() {
            let mut actual = held.clone();
            let filled = perceptron.fill_on(instructions, seen, None, actual.all_rows());
            prop_assert!(filled.is_some());
            for (actual, expected) in actual.values.iter().zip(expected.values.iter()) {
                prop_assert!((actual - expected).abs() < 1e-5, "{actual} {expected} {instructions:?}");
            }
        }
    }

    #[test]
    fn depthwise_convolutions_are_those_of_each_channel(
        rows in 1_usize..12,
        width in prop_oneof![1_usize..150, (1_usize..10).prop_map(|vectors| 16 * vectors)],
        channels in 1_usize..4,
        kernel in prop::sample::select(vec![3, 5]),
        dilation in 1_usize..3,
        cut in 0_usize..12,
        seed in 0_usize..100,
    ) {
        let weight = numbers(channels * kernel * kernel, seed);
        let map = RowMap { rows, channels, width, values: numbers(channels * rows * width, seed + 1).into() };
        let shape = Conv2dShape::depthwise(channels, kernel).dilated(dilation);
        let bias = numbers(channels, seed + 2);
        let all = DepthwiseConvolution::new(weight.clone(), bias.clone(), shape);
        let first = cut.min(rows - 1);
        for instructions in instruction_sets() {
            let actual = all.forward_on(instructions, &map, Activation::Relu);
            let in_one = all.rows_in_one_on(instructions, &map, first..rows, Activation::Relu);
            prop_assert_eq!([in_one.channels, in_one.width], [channels, (rows - first) * width]);
            let expected = actual.rows_of(first..rows).rows_in_one();
            for channel in 0..channels {
                prop_assert_eq!(in_one.channel(channel), expected.channel(channel));
            }
            for (channel, weight) in weight.chunks_exact(kernel * kernel).enumerate() {
                let values: Vec<f32> = (0..rows).flat_map(|row| map.channel(row, channel)).copied().collect();
                let shape = Conv2dShape::square(1, 1, kernel, [1, 1]).dilated(dilation);
                let one = RowConvolution::new(weight, vec![bias[channel]], shape, Precision::Full);
                let expected = one.forward(&RowMap { rows, channels: 1, width, values: values.into() }, Activation::Relu);
                for row in 0..rows {
                    for (actual, expected) in actual.channel(row, channel).iter().zip(expected.channel(row, 0)) {
                        prop_assert!((actual - expected).abs() < 1e-5, "{actual} {expected} {instructions:?}");
                    }
                }
            }
        }
    }
}

/// A map of so many channels that its rows are cut into bands.
#[test]
fn bands_give_the_same_as_the_whole() {
    let (channels, rows, width) = (48, 9, 330);
    for down in [1, 2] {
        let shape = Conv2dShape::square(channels, channels, 3, [down, 1]);
        let mut weight = numbers(channels * channels * 9, 1);
        // The sums are then of the size of a single term.
        weight.iter_mut().for_each(|weight| *weight /= 20.0);
        let map = RowMap {
            rows,
            channels,
            width,
            values: numbers(channels * rows * width, 2).into(),
        };
        let convolution = |form| RowConvolution {
            form,
            shape,
            bias: numbers(channels, 3),
        };
        let plain = convolution(Form::Direct(Direct::new(&weight, &shape)));
        let in_bands = convolution(Form::Short(Box::new(Winograd::new(&weight, &shape))));
        let expected = plain.forward(&map, Activation::None);
        let actual = in_bands.forward(&map, Activation::None);
        assert_eq!(actual.values.len(), expected.values.len());
        for (actual, expected) in actual.values.iter().zip(expected.values.iter()) {
            assert!((actual - expected).abs() < 1e-4, "{actual} {expected}");
        }
    }
}
