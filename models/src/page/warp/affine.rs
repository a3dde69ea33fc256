use image::{ImageBuffer, Pixel};

use crate::page::geometry::Point;

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

    /// The same with coefficients rounded to `f32`.
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
    let fixed = |value: f64| (value * f64::from(1 << POSITION_BITS)).round_ties_even() as i32;
    let half_step = 1 << (POSITION_BITS - SAMPLE_BITS - 1);
    let column_steps: Vec<(i32, i32)> = (0..image.width())
        .map(|x| (fixed(a * f64::from(x)), fixed(d * f64::from(x))))
        .collect();
    let source = Source { image, border };
    for (y, row) in warped.chunks_exact_mut(row_length).enumerate() {
        let row_x = fixed(b * y as f64 + c).saturating_add(half_step);
        let row_y = fixed(e * y as f64 + f).saturating_add(half_step);
        for (pixel, &(dx, dy)) in row.chunks_exact_mut(P::CHANNEL_COUNT as usize).zip(&column_steps) {
            let x = row_x.saturating_add(dx) >> (POSITION_BITS - SAMPLE_BITS);
            let y = row_y.saturating_add(dy) >> (POSITION_BITS - SAMPLE_BITS);
            source.sample(x, y, pixel);
        }
    }
    warped
}

struct Source<'a, P: Pixel<Subpixel = u8>> {
    image: &'a ImageBuffer<P, Vec<u8>>,
    border: u8,
}

impl<P: Pixel<Subpixel = u8>> Source<'_, P> {
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
