//! Toom-Cook algorithms: fewer multiplications along a row (Winograd, 1980; Toom and Cook before him): a tile of neighbouring
//! columns of a convolution with `taps` taps takes `outputs + taps - 1` products in place of `outputs * taps`, one at each of
//! as many points.
//!
//! This is the transposed form that filters use: the columns that a tile sees become one value at each point, are multiplied
//! there with the kernel evaluated at the point, and the columns of the tile come out of the sums of the products over all
//! channels. Both transforms are linear, so they are done once for each input and each output channel, while the products are
//! one for each pair of them. The points are 0, pairs of opposite numbers, and infinity: small powers of two keep the rounding
//! small, and opposite numbers share half of their work. The denominators of Lagrange's interpolation are put into the kernel,
//! which is evaluated once, at load time, in 64 bits.

use pulp::Simd;

/// Pairs of points other than 0 and infinity.
pub(super) const PAIRS: usize = 3;
/// Number of points: eight, so that the tiles of kernels with three and with five taps have six and four columns.
pub(super) const POINTS: usize = 2 * PAIRS + 2;
/// Positive point of each pair.
const PAIR: [f64; PAIRS] = [1.0, 2.0, 0.5];

/// The finite points: 0, then each pair.
fn finite() -> [f64; POINTS - 1] {
    let mut points = [0.0; POINTS - 1];
    for (pair, value) in PAIR.into_iter().enumerate() {
        (points[1 + 2 * pair], points[2 + 2 * pair]) = (value, -value);
    }
    points
}

/// Coefficients of the polynomial whose roots are `roots`, from the constant on.
fn with_roots(roots: impl Iterator<Item = f64>) -> Vec<f64> {
    roots.fold(vec![1.0], |polynomial, root| {
        let mut product = vec![0.0; polynomial.len() + 1];
        for (power, coefficient) in polynomial.into_iter().enumerate() {
            product[power + 1] += coefficient;
            product[power] -= root * coefficient;
        }
        product
    })
}

/// Coefficients that turn the taps of a kernel into its values at the points.
#[derive(Debug)]
pub(super) struct KernelEvaluation {
    /// Share of each tap in the value at each point.
    of_taps: Vec<[f64; POINTS]>,
}

impl KernelEvaluation {
    /// Coefficients for kernels of so many taps.
    pub(super) fn new(taps: usize) -> Self {
        let points = finite();
        let mut of_taps = vec![[0.0; POINTS]; taps];
        for (number, point) in points.into_iter().enumerate() {
            let others = points.iter().filter(|&&other| other != point);
            // The denominator of Lagrange's interpolation at this point.
            let mut share = 1.0 / others.map(|other| point - other).product::<f64>();
            for of_tap in &mut of_taps {
                of_tap[number] = share;
                share *= point;
            }
        }
        // The value at infinity is the leading coefficient.
        if let Some(last) = of_taps.last_mut() {
            last[POINTS - 1] = 1.0;
        }
        Self { of_taps }
    }

    /// The kernel of one channel at every point: the first taps of `kernel`; those that it lacks at its end are zero.
    pub(super) fn of(&self, kernel: &[f32]) -> [f32; POINTS] {
        let mut values = [0.0; POINTS];
        for (&tap, shares) in kernel.iter().zip(&self.of_taps) {
            for (value, share) in values.iter_mut().zip(shares) {
                *value += f64::from(tap) * share;
            }
        }
        values.map(|value| value as f32)
    }
}

/// Coefficients that turn the columns that a tile sees into values at the points. A pair of points has its even powers in
/// common and its odd powers up to the sign.
#[derive(Debug, Clone, Copy)]
pub(super) struct Evaluation {
    zero: [f32; PAIRS + 1],
    even: [[f32; PAIRS]; PAIRS],
    odd: [[f32; PAIRS]; PAIRS],
    infinity: [f32; PAIRS + 1],
}

impl Evaluation {
    pub(super) fn new() -> Self {
        let points = finite();
        let without = |point: usize| {
            let others = points
                .into_iter()
                .enumerate()
                .filter(move |&(number, _)| number != point);
            with_roots(others.map(|(_, other)| other))
        };
        let at_zero = without(0);
        let at_infinity = with_roots(points.into_iter());
        let of_pair: [Vec<f64>; PAIRS] = std::array::from_fn(|pair| without(1 + 2 * pair));
        Self {
            // Without the root 0 the others are pairs of opposites, and the polynomial has even powers alone;
            // with all roots it is that times x, with odd powers alone.
            zero: std::array::from_fn(|index| at_zero[2 * index] as f32),
            // Without the root p the polynomial is x (x + p) times one of even powers: its even powers come
            // from x^2 and are the same for -p, its odd ones come from p x and have the other sign.
            even: std::array::from_fn(|pair| {
                std::array::from_fn(|index| of_pair[pair][2 * index + 2] as f32)
            }),
            odd: std::array::from_fn(|pair| std::array::from_fn(|index| of_pair[pair][2 * index + 1] as f32)),
            infinity: std::array::from_fn(|index| at_infinity[2 * index + 1] as f32),
        }
    }

    #[inline(always)]
    pub(super) fn of<S: Simd>(&self, simd: S, seen: [S::f32s; POINTS]) -> [S::f32s; POINTS] {
        let zero = simd.splat_f32s(0.0);
        let mut values = [zero; POINTS];
        for index in 0..=PAIRS {
            values[0] = scaled_add(simd, values[0], self.zero[index], seen[2 * index]);
            values[POINTS - 1] = scaled_add(
                simd,
                values[POINTS - 1],
                self.infinity[index],
                seen[2 * index + 1],
            );
        }
        for pair in 0..PAIRS {
            let (mut even, mut odd) = (zero, zero);
            for index in 0..PAIRS {
                even = scaled_add(simd, even, self.even[pair][index], seen[2 * index + 2]);
                odd = scaled_add(simd, odd, self.odd[pair][index], seen[2 * index + 1]);
            }
            values[1 + 2 * pair] = simd.add_f32s(even, odd);
            values[2 + 2 * pair] = simd.sub_f32s(even, odd);
        }
        values
    }
}

/// The columns of a tile out of the sums at the points.
#[inline(always)]
pub(super) fn interpolate<S: Simd, const COLUMNS: usize>(
    simd: S,
    sums: [S::f32s; POINTS],
) -> [S::f32s; COLUMNS] {
    let mut columns = [simd.splat_f32s(0.0); COLUMNS];
    // At 0 all powers but the lowest vanish, and at infinity the highest is all that counts.
    columns[0] = sums[0];
    columns[COLUMNS - 1] = sums[POINTS - 1];
    for pair in 0..PAIRS {
        let (positive, negative) = (sums[1 + 2 * pair], sums[2 + 2 * pair]);
        let both = [
            simd.add_f32s(positive, negative),
            simd.sub_f32s(positive, negative),
        ];
        let mut power = 1.0;
        for (number, column) in columns.iter_mut().enumerate() {
            // The even powers of p and of -p are the same, the odd ones opposite.
            *column = scaled_add(simd, *column, power, both[number % 2]);
            power *= PAIR[pair] as f32;
        }
    }
    columns
}

// Vector code keeps to loops: a closure that the compiler does not inline is compiled without the vector instructions.
#[inline(always)]
fn scaled_add<S: Simd>(simd: S, sum: S::f32s, factor: f32, value: S::f32s) -> S::f32s {
    simd.mul_add_e_f32s(simd.splat_f32s(factor), value, sum)
}
