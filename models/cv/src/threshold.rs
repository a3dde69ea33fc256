//! Binarisation.

use image::GrayImage;

use super::simd;

/// Columns that are summed at once, in registers.
const LANES: usize = 32;

/// White (255) where a pixel is brighter than the Gaussian mean of the `block` x `block` pixels around it minus `c`, else
/// black. An even `block` counts as the next odd one.
///
/// OpenCV's `adaptiveThreshold(ADAPTIVE_THRESH_GAUSSIAN_C, THRESH_BINARY)`: the mean is a separable blur in `f32` with the
/// image's border repeated, rounded half to even.
pub fn adaptive_gaussian(image: &GrayImage, block: u32, c: i32) -> GrayImage {
    let mut binary = GrayImage::new(image.width(), image.height());
    if !image.is_empty() {
        let kernel = half_gaussian(block as usize / 2);
        simd::vectorised(
            #[inline(always)]
            || threshold_rows(image, &kernel, c as f32, &mut binary),
        );
    }
    binary
}

/// The centre and the right half of a Gaussian of `2 * radius + 1` values that sum to one. The deviation follows from the
/// size as in OpenCV's `getGaussianKernel`.
fn half_gaussian(radius: usize) -> Vec<f32> {
    let deviation = 0.3 * (radius as f64 - 1.0) + 0.8;
    let value = |distance: usize| (-0.5 * (distance as f64 / deviation).powi(2)).exp();
    let total = 1.0 + 2.0 * (1..=radius).map(value).sum::<f64>();
    (0..=radius)
        .map(|distance| (value(distance) / total) as f32)
        .collect()
}

#[inline(always)]
fn threshold_rows(image: &GrayImage, kernel: &[f32], c: f32, binary: &mut GrayImage) {
    let (width, height) = (image.width() as usize, image.height() as usize);
    let radius = kernel.len() - 1;
    let block = 2 * radius + 1;
    // Whole blocks of lanes spare the loops their tails; what is blurred behind the end of a row is not
    // written out.
    let stride = width.next_multiple_of(LANES);
    // The rows around the current one, blurred horizontally; row y is kept at slot y modulo the block.
    let mut blurred = vec![0.0_f32; stride * block];
    let mut padded = vec![0.0_f32; stride + 2 * radius];
    let mut next_row = 0;

    let row_of = |offset: usize| offset % block * stride;
    let mut pairs = Vec::with_capacity(radius);
    for (y, out) in binary.chunks_exact_mut(width).enumerate() {
        // The ring holds the rows from y - radius to y + radius and no more: each row is blurred along once,
        // and the one that a new row replaces lies above all that are still read.
        while next_row <= (y + radius).min(height - 1) {
            let row = &image.as_raw()[next_row * width..][..width];
            pad(row, radius, &mut padded);
            blur_row(&padded, kernel, &mut blurred[row_of(next_row)..][..stride]);
            next_row += 1;
        }
        // Rows equally far above and below have the same weight and take one multiplication. Clamped rows
        // repeat the border, and are in the ring as they are nearer than the block reaches.
        pairs.clear();
        pairs.extend((1..=radius).map(|distance| {
            (
                row_of(y.saturating_sub(distance)),
                row_of((y + distance).min(height - 1)),
            )
        }));
        let pixels = &image.as_raw()[y * width..][..width];
        for (chunk, (out, pixels)) in out.chunks_mut(LANES).zip(pixels.chunks(LANES)).enumerate() {
            let column = chunk * LANES;
            let mut mean = scaled(lanes(&blurred, row_of(y) + column), kernel[0]);
            for (&(above, below), &weight) in pairs.iter().zip(&kernel[1..]) {
                let (above, below) = (lanes(&blurred, above + column), lanes(&blurred, below + column));
                add_pair(&mut mean, above, below, weight);
            }
            for ((out, &pixel), mean) in out.iter_mut().zip(pixels).zip(mean) {
                // OpenCV rounds the mean to a byte before it compares.
                let brighter = f32::from(pixel) - mean.round_ties_even() > -c;
                *out = if brighter { u8::MAX } else { 0 };
            }
        }
    }
}

#[inline(always)]
fn pad(row: &[u8], radius: usize, padded: &mut [f32]) {
    let (left, rest) = padded.split_at_mut(radius);
    let (middle, right) = rest.split_at_mut(row.len());
    left.fill(f32::from(row[0]));
    right.fill(f32::from(row[row.len() - 1]));
    for (value, &pixel) in middle.iter_mut().zip(row) {
        *value = f32::from(pixel);
    }
}

#[inline(always)]
fn blur_row(padded: &[f32], kernel: &[f32], blurred: &mut [f32]) {
    let radius = kernel.len() - 1;
    for (chunk, blurred) in blurred.as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
        let centre = chunk * LANES + radius;
        let mut sum = scaled(lanes(padded, centre), kernel[0]);
        for (distance, &weight) in (1..).zip(&kernel[1..]) {
            add_pair(
                &mut sum,
                lanes(padded, centre - distance),
                lanes(padded, centre + distance),
                weight,
            );
        }
        *blurred = sum;
    }
}

#[inline(always)]
fn lanes(values: &[f32], from: usize) -> [f32; LANES] {
    let mut lanes = [0.0; LANES];
    lanes.copy_from_slice(&values[from..from + LANES]);
    lanes
}

#[inline(always)]
fn scaled(values: [f32; LANES], weight: f32) -> [f32; LANES] {
    values.map(|value| value * weight)
}

#[inline(always)]
fn add_pair(sum: &mut [f32; LANES], left: [f32; LANES], right: [f32; LANES], weight: f32) {
    for lane in 0..LANES {
        sum[lane] += weight * (left[lane] + right[lane]);
    }
}
