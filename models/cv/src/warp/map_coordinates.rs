use image::GrayImage;

/// Interpolation of values between pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interpolation {
    /// Bilinear (order 1).
    Linear,
    /// Cubic B-spline through the pixels, mirrored at the borders (order 3).
    Cubic,
}

/// An image of `width` x `height` pixels whose value at (x, y) is that of `image` at `source(x, y)`, both in the order x, y.
///
/// SciPy's `map_coordinates(mode = "constant")`: positions outside the outermost pixel centres get `border`; values are
/// rounded half up and clamped.
pub fn map_coordinates(
    image: &GrayImage,
    (width, height): (u32, u32),
    interpolation: Interpolation,
    border: u8,
    source: impl Fn(u32, u32) -> (f64, f64),
) -> GrayImage {
    let sampler = Sampler::new(image, interpolation);
    GrayImage::from_fn(width, height, |x, y| {
        let value = sampler.sample(source(x, y));
        // A cubic overshoots beside edges, below 0 and above 255: a float is clamped by the cast, and half a
        // level added before it cuts off the fraction is SciPy's rounding.
        image::Luma([value.map_or(border, |value| (value + 0.5) as u8)])
    })
}

/// Values of an image between its pixels.
pub(crate) enum Sampler<'a> {
    Linear(&'a GrayImage),
    Cubic(CubicSpline),
}

impl<'a> Sampler<'a> {
    pub(crate) fn new(image: &'a GrayImage, interpolation: Interpolation) -> Self {
        match interpolation {
            Interpolation::Linear => Self::Linear(image),
            Interpolation::Cubic => Self::Cubic(CubicSpline::new(image)),
        }
    }

    /// The value at (x, y), not clamped; `None` outside the outermost pixel centres.
    #[inline]
    pub(crate) fn sample(&self, position: (f64, f64)) -> Option<f64> {
        match self {
            Self::Linear(image) => linear(image, position),
            Self::Cubic(spline) => spline.sample(position),
        }
    }
}

#[inline]
fn contains(width: usize, height: usize, (x, y): (f64, f64)) -> bool {
    x >= 0.0 && y >= 0.0 && x <= width as f64 - 1.0 && y <= height as f64 - 1.0
}

#[inline]
fn linear(image: &GrayImage, (x, y): (f64, f64)) -> Option<f64> {
    let (width, height) = (image.width() as usize, image.height() as usize);
    if !contains(width, height, (x, y)) {
        return None;
    }
    // No coordinate is negative here, so cutting off the fraction is the floor.
    let (left, top) = (x as u32 as usize, y as u32 as usize);
    let (fraction_x, fraction_y) = (x - left as f64, y - top as f64);
    // At the last pixel the fraction is zero: the neighbour has no weight, but its index has to exist.
    let right = (left + 1).min(width - 1);
    let below = (top + 1).min(height - 1);
    let row = |y: usize| {
        let row = &image.as_raw()[y * width..][..width];
        f64::from(row[left]) * (1.0 - fraction_x) + f64::from(row[right]) * fraction_x
    };
    Some(row(top) * (1.0 - fraction_y) + row(below) * fraction_y)
}

/// Coefficients of the cubic B-spline through an image.
///
/// Unser, "Splines: a perfect fit for signal and image processing", IEEE Signal Processing Magazine 16 (1999).
pub(crate) struct CubicSpline {
    coefficients: Vec<f64>,
    width: usize,
    height: usize,
}

impl CubicSpline {
    fn new(image: &GrayImage) -> Self {
        let (width, height) = (image.width() as usize, image.height() as usize);
        let mut coefficients: Vec<f64> = image.iter().map(|&pixel| f64::from(pixel)).collect();
        if width > 0 {
            // A spline in two dimensions is a product of two in one, so that the filters of both axes are
            // independent.
            for row in coefficients.chunks_exact_mut(width) {
                prefilter(row, 1);
            }
            prefilter(&mut coefficients, width);
        }
        Self {
            coefficients,
            width,
            height,
        }
    }

    fn sample(&self, (x, y): (f64, f64)) -> Option<f64> {
        if !contains(self.width, self.height, (x, y)) {
            return None;
        }
        let (left, top) = (x as u32 as usize, y as u32 as usize);
        let columns = Self::support(left, self.width);
        let column_weights = Self::weights(x - left as f64);
        let row_weights = Self::weights(y - top as f64);
        let sum = Self::support(top, self.height)
            .into_iter()
            .zip(row_weights)
            .map(|(row, row_weight)| {
                let row = &self.coefficients[row * self.width..][..self.width];
                let along: f64 = columns
                    .iter()
                    .zip(column_weights)
                    .map(|(&column, w)| row[column] * w)
                    .sum();
                along * row_weight
            });
        Some(sum.sum())
    }

    /// The four knots around a position between `at` and `at + 1`, mirrored at the ends.
    fn support(at: usize, count: usize) -> [usize; 4] {
        let last = count as isize - 1;
        [-1, 0, 1, 2].map(|offset| {
            let mirrored = (at as isize + offset).abs();
            let mirrored = if mirrored > last {
                2 * last - mirrored
            } else {
                mirrored
            };
            // Mirroring once is enough from three pixels on. Of one pixel there is one knot, and of two the
            // knot that is still outside has no weight, only an index that has to exist.
            mirrored.clamp(0, last) as usize
        })
    }

    fn weights(fraction: f64) -> [f64; 4] {
        let rest = 1.0 - fraction;
        // The two polynomials of the cubic B-spline: up to a distance of one, and from there to two.
        let near = |distance: f64| (distance * distance * (distance - 2.0) * 3.0 + 4.0) / 6.0;
        let far = |closeness: f64| closeness * closeness * closeness / 6.0;
        [far(rest), near(fraction), near(rest), far(fraction)]
    }
}

/// Turns samples into B-spline coefficients along the slowest axis of rows of `stride` samples, all columns at once.
fn prefilter(values: &mut [f64], stride: usize) {
    let count = values.len() / stride;
    if count < 2 {
        return;
    }
    // The B-spline has the values 1/6, 4/6, 1/6 at the knots. Its inverse is a recursive filter with this
    // pole, run forwards and back; the gain keeps a constant row as it is.
    let pole = 3.0_f64.sqrt() - 2.0;
    let gain = (1.0 - pole) * (1.0 - 1.0 / pole);
    values.iter_mut().for_each(|value| *value *= gain);

    // The causal start: the sum over the mirrored sequence, whose period is 2 (count - 1).
    let last_power = pole.powi(count as i32 - 1);
    for column in 0..stride {
        let at = |index: usize| values[index * stride + column];
        let mut sum = at(0) + last_power * at(count - 1);
        let mut power = pole;
        for index in 1..count - 1 {
            sum += power * (at(index) + last_power * at(count - 1 - index));
            power *= pole;
            // The powers underflow before the six hundredth sample, and further ones would add nothing.
            if power == 0.0 {
                break;
            }
        }
        values[column] = sum / (1.0 - last_power * last_power);
    }
    for index in stride..values.len() {
        values[index] += pole * values[index - stride];
    }

    // The start of the way back: the sum over the mirrored sequence has a closed form there.
    let last = (count - 1) * stride;
    for index in last..values.len() {
        values[index] = (pole * values[index - stride] + values[index]) * pole / (pole * pole - 1.0);
    }
    for index in (0..last).rev() {
        values[index] = pole * (values[index + stride] - values[index]);
    }
}
