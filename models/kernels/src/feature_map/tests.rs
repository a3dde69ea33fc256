//! Comparison of the processor's maps with the backend's own operators.

use burn::tensor::Device;
use proptest::prelude::*;

use super::recurrent::DirectionWeights;
use super::*;

fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count)
        .map(|index| ((index * 31 + seed * 17) % 23) as f32 / 23.0 - 0.5)
        .collect()
}

/// A map with `size.rows` rows, out of an image of one row.
fn map<M: FeatureMap>(size: MapSize, seed: usize) -> M {
    let values = numbers(size.rows * size.columns, seed);
    let image = M::images(values, 1, MapSize { channels: 1, ..size }, &Device::flex());
    let more: Vec<M> = (0..size.channels)
        .map(|channel| {
            let factor = M::images(
                numbers(1, channel),
                1,
                MapSize {
                    channels: 1,
                    rows: 1,
                    columns: 1,
                },
                &Device::flex(),
            );
            image.clone().scale(&factor)
        })
        .collect();
    M::stack(&more)
}

/// Every operation but those with weights.
fn plain<M: FeatureMap>(size: MapSize, seed: usize) -> Vec<M> {
    let map: M = map(size, seed);
    let MapSize {
        channels,
        rows,
        columns,
    } = size;
    let values = numbers(channels, seed + 1);
    let mean = map.mean(columns - 1);
    vec![
        map.max_pool(Pool::of(2, 2)),
        map.max_pool(Pool::of(2, 1)),
        map.max_pool(Pool {
            kernel: [3, 3],
            stride: [2, 2],
            padding: 1,
            after: 0,
        }),
        map.max_pool(Pool {
            kernel: [2, 2],
            stride: [1, 1],
            padding: 0,
            after: 1,
        }),
        map.enlarge(4 * rows, 4 * columns),
        map.enlarge(rows, columns),
        map.doubled(),
        map.enlarge(2 * rows, 2 * columns).add_doubled(&map),
        map.clone().cropped(rows, columns),
        map.channels(channels / 2..channels),
        map.clone().cropped(rows - 1, columns - 1),
        map.clone().rows_as_channels(),
        map.clone().add(&map).relu(),
        map.clone().pad_columns(2, 3, &values),
        map.clone().pad_columns(0, 1, &values),
        map.clone().scale(&mean),
        M::stack(&[map.clone(), mean.spread(rows, columns)]),
        mean,
    ]
}

fn depthwise<M: FeatureMap>(size: MapSize, seed: usize) -> Vec<M> {
    let map: M = map(size, seed);
    let channels = size.channels;
    let convolved = |dilation, activation| {
        let shape = Conv2dShape::depthwise(channels, 3).dilated(dilation);
        let weights = ConvolutionWeights {
            weight: numbers(9 * channels, seed + 2),
            bias: numbers(channels, seed + 3),
            of_zero: vec![0.0; channels],
        };
        let convolution = M::convolution(weights, shape, Precision::Full, &Device::flex());
        map.convolve(&convolution, activation).unwrap()
    };
    [1, 2, 6]
        .into_iter()
        .flat_map(|dilation| {
            [Activation::None, Activation::Relu, Activation::Sigmoid]
                .map(|activation| convolved(dilation, activation))
        })
        .collect()
}

fn weights(shape: Conv2dShape, seed: usize) -> ConvolutionWeights {
    let [down, across] = shape.kernel;
    ConvolutionWeights {
        weight: numbers(shape.outputs * shape.inputs / shape.groups * down * across, seed),
        bias: numbers(shape.outputs, seed + 1),
        of_zero: vec![0.0; shape.outputs],
    }
}

/// What the networks for print have besides: other activations, strides of depthwise convolutions, kernels of an even size, a
/// perceptron for each pixel, and four pixels out of one.
fn print<M: FeatureMap>(size: MapSize, seed: usize) -> Vec<M> {
    let map: M = map(size, seed);
    let channels = size.channels;
    let convolved = |shape: Conv2dShape, activation| {
        let convolution = M::convolution(weights(shape, seed), shape, Precision::Full, &Device::flex());
        map.convolve(&convolution, activation).unwrap()
    };
    let pointwise = |inputs, outputs| {
        let shape = Conv2dShape::pointwise(inputs, outputs);
        M::convolution(weights(shape, seed + 2), shape, Precision::Full, &Device::flex())
    };
    let activations = [
        Activation::Gelu,
        Activation::HardSigmoid,
        Activation::HardSwish,
        Activation::Swish,
    ];
    let mut maps: Vec<M> = activations
        .into_iter()
        .flat_map(|activation| {
            [
                convolved(Conv2dShape::pointwise(channels, 7), activation),
                convolved(Conv2dShape::square(channels, 3, 3, [1, 1]), activation),
            ]
        })
        .collect();
    for stride in [[2, 2], [2, 1], [1, 2]] {
        for kernel in [3, 5] {
            let shape = Conv2dShape::depthwise(channels, kernel).with_stride(stride);
            maps.push(convolved(shape, Activation::HardSwish));
        }
    }
    let along = Conv2dShape {
        kernel: [1, 7],
        padding: [0, 3],
        ..Conv2dShape::depthwise(channels, 1)
    };
    maps.push(convolved(along, Activation::None));
    maps.push(convolved(Conv2dShape::even(channels, 5, 2), Activation::None));
    maps.push(convolved(Conv2dShape::pointwise(channels, 8), Activation::None).interleave(2));
    maps.push(convolved(Conv2dShape::pointwise(channels, 18), Activation::None).interleave(3));
    maps.push(convolved(Conv2dShape::pointwise(channels, 32), Activation::None).interleave(4));
    maps.push(map.average_pool(3, 2));
    maps.push(map.layer_norm(&LayerNorm {
        scale: numbers(channels, seed + 4),
        shift: numbers(channels, seed + 5),
        // The numbers of a map may be nearly alike in all channels.
        epsilon: 0.1,
    }));
    let factors = map.mean(size.columns);
    for residual in [true, false] {
        let perceptron = Perceptron {
            widen: pointwise(channels, 13),
            activation: Activation::Gelu,
            narrow: pointwise(13, channels),
            residual,
        };
        maps.push(map.perceptron(&perceptron, None).unwrap());
        maps.push(map.perceptron(&perceptron, Some(&factors)).unwrap());
    }
    maps
}

/// A line, read with attention and by its likeliest classes.
fn attentive<M: FeatureMap>(
    heads: usize,
    depth: usize,
    columns: usize,
    seed: usize,
) -> (Vec<M>, Vec<(u32, f32)>) {
    let size = MapSize {
        channels: 4,
        rows: 1,
        columns,
    };
    let shape = Conv2dShape::pointwise(4, 3 * heads * depth);
    let split = M::convolution(weights(shape, seed), shape, Precision::Full, &Device::flex());
    let split = map::<M>(size, seed).convolve(&split, Activation::None).unwrap();
    let attended = split.attend(heads);
    let shape = Conv2dShape::pointwise(heads * depth, 101);
    let mut scores = weights(shape, seed + 1);
    // Far enough apart that the largest is the largest in both forms.
    for (class, bias) in scores.bias.iter_mut().enumerate() {
        *bias += (class * 37 % 101) as f32;
    }
    let classifier = M::convolution(scores, shape, Precision::Full, &Device::flex());
    let likeliest = attended.likeliest(&classifier).unwrap();
    (vec![attended], likeliest)
}

fn recurrent<M: FeatureMap>([inputs, hidden, steps]: [usize; 3], seed: usize) -> Vec<M> {
    let size = MapSize {
        channels: inputs,
        rows: 1,
        columns: steps,
    };
    let weights = LstmWeights {
        inputs,
        hidden,
        directions: [0, 1].map(|way| DirectionWeights {
            input: numbers(4 * hidden * inputs, seed + way),
            recurrent: numbers(4 * hidden * hidden, seed + 3 * way + 1),
            bias: numbers(4 * hidden, seed + 5 * way + 2),
        }),
    };
    let lstm = M::lstm(weights, &Device::flex());
    vec![map::<M>(size, seed).recur(&lstm).unwrap()]
}

fn assert_equal(host: Vec<HostMap>, device: Vec<DeviceMap>) {
    for (number, (host, device)) in host.into_iter().zip(device).enumerate() {
        assert_eq!(host.size(), device.size(), "result {number}");
        let (host, device) = (host.planes().unwrap(), device.planes().unwrap());
        for (host, device) in host.iter().zip(&*device) {
            assert!((host - device).abs() < 1e-5, "result {number}: {host} {device}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn both_forms_agree(channels in 1_usize..5, rows in 3_usize..9, columns in 3_usize..11, seed in 0_usize..99) {
        let size = MapSize { channels, rows, columns };
        assert_equal(plain(size, seed), plain(size, seed));
        assert_equal(depthwise(size, seed), depthwise(size, seed));
    }

    #[test]
    fn both_forms_agree_in_what_networks_for_print_have(
        channels in 1_usize..9, rows in 3_usize..9, columns in 3_usize..70, seed in 0_usize..99,
    ) {
        let size = MapSize { channels, rows, columns };
        assert_equal(print(size, seed), print(size, seed));
    }

    #[test]
    fn both_forms_attend_alike(heads in 1_usize..4, depth in 1_usize..9, columns in 1_usize..40, seed in 0_usize..99) {
        let (host, on_host) = attentive::<HostMap>(heads, depth, columns, seed);
        let (device, on_device) = attentive::<DeviceMap>(heads, depth, columns, seed);
        assert_equal(host, device);
        prop_assert_eq!(on_host.len(), columns);
        for ((host, host_share), (device, device_share)) in on_host.into_iter().zip(on_device) {
            prop_assert_eq!(host, device);
            prop_assert!((host_share - device_share).abs() < 1e-5);
        }
    }

    #[test]
    fn both_forms_see_the_columns_of_a_sequence_alike(
        channels in 1_usize..5, columns in 1_usize..40, before in 0_usize..4, after in 0_usize..4, seed in 0_usize..99,
    ) {
        let size = MapSize { channels, rows: 1, columns };
        let kept: Vec<bool> = (0..columns).map(|column| (column + seed) % 3 > 0).collect();
        assert_equal(
            vec![map::<HostMap>(size, seed).windows(before, before + 1 + after), map::<HostMap>(size, seed).masked(&kept)],
            vec![map::<DeviceMap>(size, seed).windows(before, before + 1 + after), map::<DeviceMap>(size, seed).masked(&kept)],
        );
        prop_assert_eq!(map::<HostMap>(size, seed).peaks().unwrap(), map::<DeviceMap>(size, seed).peaks().unwrap());
    }

    #[test]
    fn both_forms_recur_alike(inputs in 1_usize..6, hidden in 1_usize..19, steps in 1_usize..7, seed in 0_usize..99) {
        let size = [inputs, hidden, steps];
        assert_equal(recurrent(size, seed), recurrent(size, seed));
    }

    #[test]
    fn both_forms_are_read_column_by_column(channels in 1_usize..40, columns in 1_usize..40) {
        let size = MapSize { channels, rows: 1, columns };
        let host = FeatureMap::into_columns(map::<HostMap>(size, 3)).unwrap();
        let device = FeatureMap::into_columns(map::<DeviceMap>(size, 3)).unwrap();
        prop_assert_eq!(host, device);
    }
}

#[test]
fn a_peak_is_no_number_where_a_value_is_none() {
    for (columns, place) in [(3, 1), (40, 17), (40, 39)] {
        let mut values = numbers(2 * columns, 1);
        values[place] = f32::NAN;
        let size = MapSize {
            channels: 2,
            rows: 1,
            columns,
        };
        let peaks = HostMap::images(values, 1, size, &Device::flex()).peaks().unwrap();
        assert!(peaks[0].is_nan() && peaks[1].is_finite(), "{peaks:?}");
    }
}

/// A map whose block takes several bands.
#[test]
fn a_block_is_the_same_in_bands() {
    let (channels, rows, columns) = (8, 100, 128);
    let size = MapSize {
        channels,
        rows,
        columns,
    };
    let map: HostMap = map(size, 5);
    let mut seed = 0;
    let mut convolution = |shape: Conv2dShape| {
        seed += 1;
        let weights = ConvolutionWeights {
            weight: numbers(
                shape.outputs * shape.inputs / shape.groups * shape.kernel[0] * shape.kernel[1],
                seed,
            ),
            bias: numbers(shape.outputs, seed),
            of_zero: vec![0.0; shape.outputs],
        };
        HostMap::convolution(weights, shape, Precision::Full, &Device::flex())
    };
    let block = ResidualBlock {
        depthwise: convolution(Conv2dShape::depthwise(channels, 5)),
        widen: convolution(Conv2dShape::pointwise(channels, 2 * channels)),
        narrow: convolution(Conv2dShape::pointwise(2 * channels, channels)),
    };
    let (in_bands, whole) = (
        map.clone().residual_block(&block).unwrap(),
        whole_block(&map, &block).unwrap(),
    );
    assert!(whole.values.iter().any(|&value| value > 0.0));
    assert_eq!(*in_bands.values, *whole.values);
}
