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
        let device = device.into_planes().unwrap();
        for (host, device) in host.into_planes().unwrap().into_iter().zip(device) {
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
        map.residual_block(&block).unwrap(),
        whole_block(&map, &block).unwrap(),
    );
    assert!(whole.values.iter().any(|&value| value > 0.0));
    assert_eq!(*in_bands.values, *whole.values);
}
