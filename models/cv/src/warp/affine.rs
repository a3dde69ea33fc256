use image::{ImageBuffer, Pixel};

use crate::geometry::Point;
use crate::simd;

/// Fractional bits of a source position while it is accumulated, and of the position that is sampled.
const POSITION_BITS: u32 = 10;
const SAMPLE_BITS: u32 = 5;
const SAMPLE_STEPS: i32 = 1 << SAMPLE_BITS;

/// A map of the plane: `x' = a x + b y + c`, `y' = d x + e y + f` for the rows `[a, b, c]` and `[d, e, f]`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Affine {
    pub rows: [[f64; 3]; 2],
}

/// Rotation by `angle` degrees, counter-clockwise on screen, and scaling around `center` (x, y).
pub fn rotation_matrix(center: (f64, f64), angle: f64, scale: f64) -> Affine {
    let radians = angle * std::f64::consts::PI / 180.0;
    let (cos, sin) = (scale * radians.cos(), scale * radians.sin());
    let (x, y) = center;
    Affine {
        rows: [
            [cos, sin, (1.0 - cos) * x - sin * y],
            [-sin, cos, sin * x + (1.0 - cos) * y],
        ],
    }
}

impl Affine {
    /// The image of (x, y).
    pub fn apply(&self, (x, y): (f64, f64)) -> (f64, f64) {
        let [[a, b, c], [d, e, f]] = self.rows;
        (a * x + b * y + c, d * x + e * y + f)
    }

    /// The image of a pixel, rounded half to even.
    pub fn apply_to_pixel(&self, point: Point) -> Point {
        let (x, y) = self.apply((f64::from(point.x), f64::from(point.y)));
        Point::new(x.round_ties_even() as i32, y.round_ties_even() as i32)
    }

    /// The map back; `None` if the plane is mapped to a line or a point.
    pub fn invert(&self) -> Option<Self> {
        let [[a, b, c], [d, e, f]] = self.rows;
        let determinant = a * e - b * d;
        if determinant == 0.0 || !determinant.is_finite() {
            return None;
        }
        let scale = 1.0 / determinant;
        let (inverse_a, inverse_e) = (e * scale, a * scale);
        let (inverse_b, inverse_d) = (b * -scale, d * -scale);
        Some(Self {
            rows: [
                [inverse_a, inverse_b, -inverse_a * c - inverse_b * f],
                [inverse_d, inverse_e, -inverse_d * c - inverse_e * f],
            ],
        })
    }

    /// This transform with coefficients rounded to `f32`.
    #[must_use]
    pub fn to_single_precision(self) -> Self {
        Self {
            rows: self.rows.map(|row| row.map(|value| f64::from(value as f32))),
        }
    }
}

/// The image moved by `map`, on a canvas of the same size; what comes from outside the image is `border`.
///
/// Bilinear at positions rounded to 1/32 pixel, as OpenCV's `warpAffine`. A map without inverse gives a blank image.
/// GEN-2 passes its matrices through `f32` first, see [`Affine::to_single_precision`]; GEN-1 does not.
pub fn warp_affine<P>(image: &ImageBuffer<P, Vec<u8>>, map: &Affine, border: u8) -> ImageBuffer<P, Vec<u8>>
where
    P: Pixel<Subpixel = u8>,
{
    let mut warped = ImageBuffer::new(image.width(), image.height());
    let row_length = image.width() as usize * P::CHANNEL_COUNT as usize;
    let Some(Affine {
        rows: [[a, b, c], [d, e, f]],
    }) = map.invert()
    else {
        warped.fill(border);
        return warped;
    };
    if row_length == 0 {
        return warped;
    }
    // OpenCV rounds the part that comes from x and the part that comes from y to 1/1024 pixel each before it
    // adds them. Rounding the sum once would sample other places.
    let fixed = |value: f64| (value * f64::from(1 << POSITION_BITS)).round_ties_even() as i32;
    // The lower bits are dropped by a shift, which rounds down; half a step makes it the nearest.
    let half_step = 1 << (POSITION_BITS - SAMPLE_BITS - 1);
    let steps: Vec<Position> = (0..image.width())
        .map(|x| Position {
            x: fixed(a * f64::from(x)),
            y: fixed(d * f64::from(x)),
        })
        .collect();
    let source = Source { image, border };
    for (y, row) in warped.chunks_exact_mut(row_length).enumerate() {
        let start = Position {
            x: fixed(b * y as f64 + c).saturating_add(half_step),
            y: fixed(e * y as f64 + f).saturating_add(half_step),
        };
        if P::CHANNEL_COUNT == 1 {
            simd::vectorised(
                #[inline(always)]
                || source.sample_grey_row(start, &steps, row),
            );
        } else {
            source.sample_row(start, &steps, row);
        }
    }
    warped
}

/// A place on the source, or a distance there, in steps of 1/1024 pixel.
#[derive(Debug, Clone, Copy)]
struct Position {
    x: i32,
    y: i32,
}

impl Position {
    /// Position in steps of 1/32 pixel.
    #[inline(always)]
    fn sampled_at(self, step: Self) -> (i32, i32) {
        const DROPPED: u32 = POSITION_BITS - SAMPLE_BITS;
        (
            self.x.saturating_add(step.x) >> DROPPED,
            self.y.saturating_add(step.y) >> DROPPED,
        )
    }
}

struct Source<'a, P: Pixel<Subpixel = u8>> {
    image: &'a ImageBuffer<P, Vec<u8>>,
    border: u8,
}

/// Pixels of a row that are sampled at once.
const LANES: usize = 16;

impl<P: Pixel<Subpixel = u8>> Source<'_, P> {
    fn sample_row(&self, start: Position, steps: &[Position], row: &mut [u8]) {
        for (pixel, &step) in row.chunks_exact_mut(P::CHANNEL_COUNT as usize).zip(steps) {
            let (x, y) = start.sampled_at(step);
            self.sample(x, y, pixel);
        }
    }

    /// Fills a row of one channel. Where the source of a few pixels side by side lies side by side too, and crosses from one
    /// row to the next at most, they are blended together.
    #[inline(always)]
    fn sample_grey_row(&self, start: Position, steps: &[Position], row: &mut [u8]) {
        let (chunks, rest) = row.as_chunks_mut::<LANES>();
        let (step_chunks, step_rest) = steps.as_chunks::<LANES>();
        for (pixels, steps) in chunks.iter_mut().zip(step_chunks) {
            let (mut xs, mut ys) = ([0; LANES], [0; LANES]);
            for lane in 0..LANES {
                (xs[lane], ys[lane]) = start.sampled_at(steps[lane]);
            }
            if !self.blend_neighbours(&xs, &ys, pixels) {
                self.sample_row(start, steps, pixels);
            }
        }
        self.sample_row(start, step_rest, rest);
    }

    /// Blends the pixels at these places, in steps of 1/32 pixel, together; returns `false` where they lie too far apart.
    #[inline(always)]
    fn blend_neighbours(&self, xs: &[i32; LANES], ys: &[i32; LANES], pixels: &mut [u8; LANES]) -> bool {
        let (left, end) = (xs[0] >> SAMPLE_BITS, ys[LANES - 1] >> SAMPLE_BITS);
        let top = (ys[0] >> SAMPLE_BITS).min(end);
        let mut astray = 0;
        for lane in 0..LANES {
            // Zero only where the column is the expected one: all lanes are tested without a branch.
            astray |= (xs[lane] >> SAMPLE_BITS) ^ (left.wrapping_add(lane as i32));
            // Neither above the first row nor below the second.
            astray |= ((ys[lane] >> SAMPLE_BITS).wrapping_sub(top)) & !1;
        }
        let (width, height) = (self.image.width() as usize, self.image.height() as usize);
        let (Ok(left), Ok(top)) = (usize::try_from(left), usize::try_from(top)) else {
            return false;
        };
        // The second row is read even where no pixel needs it.
        if astray != 0 || left + LANES >= width || top + 2 >= height {
            return false;
        }
        let rows = &self.image.as_raw()[top * width..][..3 * width];
        let (mut first, mut second, mut third) = ([0; LANES + 1], [0; LANES + 1], [0; LANES + 1]);
        first.copy_from_slice(&rows[left..][..LANES + 1]);
        second.copy_from_slice(&rows[width + left..][..LANES + 1]);
        third.copy_from_slice(&rows[2 * width + left..][..LANES + 1]);
        for lane in 0..LANES {
            let (fraction_x, fraction_y) = (xs[lane] & (SAMPLE_STEPS - 1), ys[lane] & (SAMPLE_STEPS - 1));
            let below = (ys[lane] >> SAMPLE_BITS) - top as i32;
            let along = |row: &[u8; LANES + 1]| {
                i32::from(row[lane]) * (SAMPLE_STEPS - fraction_x) + i32::from(row[lane + 1]) * fraction_x
            };
            let (first, second, third) = (along(&first), along(&second), along(&third));
            let (upper, lower) = if below == 0 {
                (first, second)
            } else {
                (second, third)
            };
            let sum = upper * (SAMPLE_STEPS - fraction_y) + lower * fraction_y;
            // The four weights add up to 1024, so the rounded sum is a byte.
            pixels[lane] = ((sum + SAMPLE_STEPS * SAMPLE_STEPS / 2) >> (2 * SAMPLE_BITS)) as u8;
        }
        true
    }

    /// Bilinear at a position in steps of 1/32 pixel.
    #[inline]
    fn sample(&self, x: i32, y: i32, pixel: &mut [u8]) {
        let channels = P::CHANNEL_COUNT as usize;
        let (fraction_x, fraction_y) = (x & (SAMPLE_STEPS - 1), y & (SAMPLE_STEPS - 1));
        let (left, top) = (x >> SAMPLE_BITS, y >> SAMPLE_BITS);
        let (width, height) = (self.image.width() as i32, self.image.height() as i32);
        let blend = |upper: (u8, u8), lower: (u8, u8)| {
            let horizontal = |(left, right): (u8, u8)| {
                i32::from(left) * (SAMPLE_STEPS - fraction_x) + i32::from(right) * fraction_x
            };
            let sum = horizontal(upper) * (SAMPLE_STEPS - fraction_y) + horizontal(lower) * fraction_y;
            ((sum + SAMPLE_STEPS * SAMPLE_STEPS / 2) >> (2 * SAMPLE_BITS)) as u8
        };
        if left >= 0 && top >= 0 && left < width - 1 && top < height - 1 {
            let stride = width as usize * channels;
            let at = top as usize * stride + left as usize * channels;
            let upper = &self.image.as_raw()[at..at + 2 * channels];
            let lower = &self.image.as_raw()[at + stride..at + stride + 2 * channels];
            for (channel, value) in pixel.iter_mut().enumerate() {
                *value = blend(
                    (upper[channel], upper[channel + channels]),
                    (lower[channel], lower[channel + channels]),
                );
            }
        // Between -1 and 0 the border and the first pixel are still blended, as between the last pixel and
        // the border.
        } else if left < -1 || top < -1 || left >= width || top >= height {
            pixel.fill(self.border);
        } else {
            for (channel, value) in pixel.iter_mut().enumerate() {
                let at = |x, y| self.value_or_border(x, y, channel);
                *value = blend(
                    (at(left, top), at(left + 1, top)),
                    (at(left, top + 1), at(left + 1, top + 1)),
                );
            }
        }
    }

    fn value_or_border(&self, x: i32, y: i32, channel: usize) -> u8 {
        let pixel = u32::try_from(x).ok().zip(u32::try_from(y).ok());
        pixel
            .and_then(|(x, y)| self.image.get_pixel_checked(x, y))
            .map_or(self.border, |pixel| pixel.channels()[channel])
    }
}

#[cfg(test)]
mod tests {
    use image::{GrayImage, Luma, Rgb, RgbImage};
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn grey_pixels_are_blended_together_as_colours_are_one_by_one(
            width in 1_u32..120,
            height in 1_u32..60,
            angle in prop_oneof![-4.0_f64..4.0, -180.0_f64..180.0],
            scale in prop_oneof![Just(1.0), 0.3_f64..3.0],
            seed: u32,
            border: u8,
        ) {
            let grey = GrayImage::from_fn(width, height, |x, y| {
                let mixed = (seed ^ (x * 7919 + y * 104_729)).wrapping_mul(2_654_435_761);
                Luma([(mixed >> 24) as u8])
            });
            let colour = RgbImage::from_fn(width, height, |x, y| Rgb([grey.get_pixel(x, y).0[0]; 3]));
            let center = (f64::from(width) / 2.0, f64::from(height) / 2.0);
            let map = rotation_matrix(center, angle, scale);
            let warped = warp_affine(&grey, &map, border);
            for (pixel, one_by_one) in warped.pixels().zip(warp_affine(&colour, &map, border).pixels()) {
                prop_assert_eq!(pixel.0[0], one_by_one.0[0]);
            }
        }
    }
}
