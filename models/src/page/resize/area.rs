use image::Pixel;

use super::{
    Image,
    axis::{Axis, Share},
};

/// Mean over the area each target pixel covers; no side grows.
pub(super) fn average<P: Pixel<Subpixel = u8>>(
    image: &Image<P>,
    columns: &Axis,
    rows: &Axis,
    pixels: &mut [u8],
) {
    match (columns.whole_scale(), rows.whole_scale()) {
        (Some(width), Some(height)) => average_blocks(image, width, height, pixels),
        _ => average_shares(image, &columns.area_shares(), &rows.area_shares(), pixels),
    }
}

/// Every target pixel covers exactly `width` x `height` source pixels.
fn average_blocks<P: Pixel<Subpixel = u8>>(image: &Image<P>, width: usize, height: usize, pixels: &mut [u8]) {
    let channels = P::CHANNEL_COUNT as usize;
    let stride = image.width() as usize * channels;
    let row_length = image.width() as usize / width * channels;
    let count = (width * height) as u32;
    let scale = 1.0 / count as f32;
    let mut sums = vec![0_u32; row_length];
    for (block, out) in image
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
            *out = if (width, height) == (2, 2) {
                ((sum + 2) >> 2) as u8
            } else {
                (sum as f32 * scale).round_ties_even() as u8
            };
        }
    }
}

fn average_shares<P: Pixel<Subpixel = u8>>(
    image: &Image<P>,
    columns: &[Vec<Share>],
    rows: &[Vec<Share>],
    pixels: &mut [u8],
) {
    let channels = P::CHANNEL_COUNT as usize;
    let stride = image.width() as usize * channels;
    let row_length = columns.len() * channels;
    let mut sums = vec![0.0_f32; row_length];
    for (out, rows) in pixels.chunks_exact_mut(row_length).zip(rows) {
        sums.fill(0.0);
        for share in rows {
            let row = &image.as_raw()[share.source * stride..][..stride];
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
