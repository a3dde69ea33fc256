//! Activation functions, which follow a convolution.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    None,
    Relu,
    Sigmoid,
}

#[inline(always)]
pub(crate) fn sigmoid(value: f32) -> f32 {
    1.0 / (1.0 + exp(-value))
}

#[inline(always)]
pub(crate) fn tanh(value: f32) -> f32 {
    2.0 * sigmoid(2.0 * value) - 1.0
}

/// The exponential without branches or calls, so that loops over it become vectors; right to 2 units in the last place, and
/// bounded where the true value leaves the range.
#[inline(always)]
fn exp(value: f32) -> f32 {
    /// Adding it rounds to a whole number, which is then in the low bits.
    const ROUND: f32 = 12_582_912.0;
    /// ln 2 in two parts; the first has so few digits that small multiples of it are exact.
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    // Beyond these the power of two does not fit the eight bits of an exponent.
    let value = value.clamp(-87.0, 88.0);
    // The constant is 1.5 * 2^23: floats around it are one apart, and the half keeps negative numbers within
    // the same power of two.
    let rounded = value * std::f32::consts::LOG2_E + ROUND;
    let power = rounded - ROUND;
    let rest = value - power * LN_2_HIGH - power * LN_2_LOW;
    // The polynomial and the two parts of ln 2 are those of `expf` in the Cephes library (Moshier).
    let mut series = 1.987_569_1e-4;
    for coefficient in [1.398_2e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5] {
        series = series * rest + coefficient;
    }
    let of_rest = series * rest * rest + rest + 1.0;
    of_rest * f32::from_bits((rounded.to_bits() << 23).wrapping_add(1.0_f32.to_bits()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_those_of_the_standard_library() {
        for number in -8800..=8700 {
            let value = number as f32 / 100.0;
            let expected = value.exp();
            assert!((exp(value.max(-87.0)) - value.max(-87.0).exp()).abs() <= 3e-7 * value.max(-87.0).exp());
            assert!((tanh(value) - value.tanh()).abs() < 3e-7, "{value}");
            assert!(
                (sigmoid(value) - expected / (1.0 + expected)).abs() < 3e-7,
                "{value}"
            );
        }
        assert_eq!((sigmoid(-1e30), sigmoid(1e30)), (1.0 / (1.0 + exp(88.0)), 1.0));
    }
}
