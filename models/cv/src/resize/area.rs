use super::axis::{Axis, Share};
use super::{Samples, lanes};
use crate::simd;

/// Mean over the area each target pixel covers; no side grows.
pub(super) fn average(source: Samples<'_>, columns: &Axis, rows: &Axis, pixels: &mut [u8]) {
    match (columns.whole_scale(), rows.whole_scale()) {
        (Some(width), Some(height)) => average_blocks(source, width, height, pixels),
        _ => average_shares(source, &columns.area_shares(), &rows.area_shares(), pixels),
    }
}

/// Every target pixel covers exactly `width` x `height` source pixels.
fn average_blocks(source: Samples<'_>, width: usize, height: usize, pixels: &mut [u8]) {
    let Samples {
        values,
        stride,
        channels,
    } = source;
    let row_length = stride / channels / width * channels;
    let count = (width * height) as u32;
    let scale = 1.0 / count as f32;
    let mut sums = vec![0_u32; row_length];
    for (block, out) in values
        .chunks_exact(stride * height)
        .zip(pixels.chunks_exact_mut(row_length))
    {
        sums.fill(0);
        for row in block.chunks_exact(stride) {
            for (sums, block) in sums
                .chunks_exact_mut(channels)
                .zip(row.chunks_exact(width * channels))
            {
                for pixel in block.chunks_exact(channels) {
                    for (sum, &value) in sums.iter_mut().zip(pixel) {
                        *sum += u32::from(value);
                    }
                }
            }
        }
        for (out, &sum) in out.iter_mut().zip(&sums) {
            // OpenCV has integer code for halves, which rounds halves up; other factors are floats, rounded
            // half to even.
            *out = if (width, height) == (2, 2) {
                ((sum + 2) >> 2) as u8
            } else {
                (sum as f32 * scale).round_ties_even() as u8
            };
        }
    }
}

fn average_shares(source: Samples<'_>, columns: &[Vec<Share>], rows: &[Vec<Share>], pixels: &mut [u8]) {
    if source.channels == 1 {
        simd::vectorised(
            #[inline(always)]
            || lanes::average(source, columns, rows, pixels),
        );
    } else {
        average_plainly(source, columns, rows, pixels);
    }
}

fn average_plainly(source: Samples<'_>, columns: &[Vec<Share>], rows: &[Vec<Share>], pixels: &mut [u8]) {
    let channels = source.channels;
    let row_length = columns.len() * channels;
    let mut sums = vec![0.0_f32; row_length];
    for (out, rows) in pixels.chunks_exact_mut(row_length).zip(rows) {
        sums.fill(0.0);
        for share in rows {
            let row = source.row(share.source);
            for (sums, columns) in sums.chunks_exact_mut(channels).zip(columns) {
                for (channel, sum) in sums.iter_mut().enumerate() {
                    let along = columns.iter().fold(0.0_f32, |along, share| {
                        along + f32::from(row[share.source * channels + channel]) * share.weight
                    });
                    *sum += along * share.weight;
                }
            }
        }
        for (out, &sum) in out.iter_mut().zip(&sums) {
            *out = sum.round_ties_even() as u8;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn rows_side_by_side_give_what_rows_one_by_one_give(
            (width, height, values) in (1_u32..90, 1_u32..70).prop_flat_map(|(width, height)| {
                let values = proptest::collection::vec(any::<u8>(), (width * height) as usize);
                (Just(width), Just(height), values)
            }),
            across in 0.02_f64..1.0,
            down in 0.02_f64..1.0,
        ) {
            let shrunk = |side: u32, factor: f64| (f64::from(side) * factor).ceil() as u32;
            let (columns, rows) = (shrunk(width, across), shrunk(height, down));
            let source = Samples { values: &values, stride: width as usize, channels: 1 };
            let shares = |from, to| Axis::new(from, to).area_shares();
            let (columns, rows) = (shares(width, columns), shares(height, rows));
            let mut plain = vec![0; columns.len() * rows.len()];
            let mut in_lanes = plain.clone();
            average_plainly(source, &columns, &rows, &mut plain);
            simd::vectorised(#[inline(always)] || lanes::average(source, &columns, &rows, &mut in_lanes));
            prop_assert_eq!(plain, in_lanes);
        }
    }
}
