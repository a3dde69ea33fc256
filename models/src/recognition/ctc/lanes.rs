//! Sums and maxima over a row, in independent lanes so that they compile to vector instructions.

use crate::page::simd::vectorised;

const LANES: usize = 16;

/// The highest value; NaN never is. Negative infinity for an empty row.
pub(crate) fn highest(row: &[f32]) -> f32 {
    vectorised(
        #[inline(always)]
        || highest_in_lanes(row),
    )
}

#[inline(always)]
fn highest_in_lanes(row: &[f32]) -> f32 {
    let higher = |a: f32, b: f32| if b > a { b } else { a };
    let mut lanes = [f32::NEG_INFINITY; LANES];
    let chunks = row.chunks_exact(LANES);
    for (lane, &value) in lanes.iter_mut().zip(chunks.remainder()) {
        *lane = higher(*lane, value);
    }
    for chunk in chunks {
        for (lane, &value) in lanes.iter_mut().zip(chunk) {
            *lane = higher(*lane, value);
        }
    }
    lanes.into_iter().fold(f32::NEG_INFINITY, higher)
}

/// The sum of `exp(value - highest)`; NaN if a value is NaN or `highest` is infinite.
pub(crate) fn sum_of_exp(row: &[f32], highest: f32) -> f32 {
    vectorised(
        #[inline(always)]
        || sum_of_exp_in_lanes(row, highest),
    )
}

#[inline(always)]
fn sum_of_exp_in_lanes(row: &[f32], highest: f32) -> f32 {
    let mut lanes = [0.0_f32; LANES];
    let chunks = row.chunks_exact(LANES);
    for (lane, &value) in lanes.iter_mut().zip(chunks.remainder()) {
        *lane = exp(value - highest);
    }
    for chunk in chunks {
        for (lane, &value) in lanes.iter_mut().zip(chunk) {
            *lane += exp(value - highest);
        }
    }
    lanes.into_iter().sum()
}

/// e^x for x from negative infinity to 0, to about 2e-7 of its value; what is below e^-87 counts as that. As 2^(n + f)
/// with a whole n and |f| <= 1/2: the exponent bits are set to n, and 2^f is a Taylor sum.
#[inline(always)]
fn exp(x: f32) -> f32 {
    /// Adding it leaves the nearest whole number in the low bits.
    const ROUND: f32 = 12_582_912.0;
    const MANTISSA_BITS: u32 = 23;
    const BIAS: u32 = 127;
    // (ln 2)^k / k!
    const TAYLOR: [f32; 7] = [
        1.0,
        std::f32::consts::LN_2,
        0.240_226_5,
        0.055_504_11,
        0.009_618_129,
        0.001_333_355_8,
        0.000_154_035_3,
    ];

    // A comparison that NaN fails, so that it goes through to the result; `max` would turn it into a number.
    let x = if x < -87.0 { -87.0 } else { x };
    let exponent = x * std::f32::consts::LOG2_E;
    // The constant is 1.5 * 2^23, around which floats are one apart; the half keeps negative sums there too.
    let rounded = exponent + ROUND;
    let fraction = exponent - (rounded - ROUND);
    let power = TAYLOR
        .iter()
        .rev()
        .fold(0.0, |sum, coefficient| sum * fraction + coefficient);
    // The shift leaves only the low bits of the rounded exponent, in the place of a float's exponent.
    let scale = (rounded.to_bits() << MANTISSA_BITS).wrapping_add(BIAS << MANTISSA_BITS);
    power * f32::from_bits(scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_close_over_its_range() {
        for step in 0..87_000 {
            let x = step as f32 * -0.001;
            let expected = f64::from(x).exp();
            // The rounding of x * log2(e) grows with x.
            let tolerance = 4e-7 + 1.2e-7 * f64::from(-x);
            assert!(
                (f64::from(exp(x)) / expected - 1.0).abs() < tolerance,
                "{x}: {} for {expected}",
                exp(x)
            );
        }
        assert!(exp(f32::NEG_INFINITY) < 1e-37);
        assert!(exp(f32::NAN).is_nan());
    }

    #[test]
    fn every_value_of_a_row_counts() {
        for length in 1..50 {
            let row: Vec<f32> = (0..length).map(|at| -(at as f32) / 10.0).collect();
            for turn in 0..length {
                let mut row = row.clone();
                row.rotate_left(turn);
                assert_eq!(highest(&row), 0.0);
                let expected: f32 = row.iter().map(|value| value.exp()).sum();
                assert!((sum_of_exp(&row, 0.0) / expected - 1.0).abs() < 1e-5);
            }
        }
        assert_eq!(highest(&[]), f32::NEG_INFINITY);
        assert_eq!(highest(&[f32::NAN, -3.0]), -3.0);
        assert!(sum_of_exp(&[0.0, f32::NAN], 0.0).is_nan());
    }
}
