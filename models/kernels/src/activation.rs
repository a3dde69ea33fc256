//! Activation functions, which follow a convolution.

use pulp::Simd;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    None,
    Relu,
    Sigmoid,
    /// `x * (1 + erf(x / sqrt 2)) / 2`, exactly and not by way of a hyperbolic tangent.
    Gelu,
    /// `x / 6 + 1 / 2`, between 0 and 1.
    HardSigmoid,
    /// The value times its hard sigmoid.
    HardSwish,
    /// The value times its sigmoid.
    Swish,
}

impl Activation {
    /// Returns whether the function does nothing but raise values to its [floor](Self::floor).
    #[inline(always)]
    pub(crate) fn is_floor(self) -> bool {
        matches!(self, Self::None | Self::Relu)
    }

    /// Value that ReLU has in place of those below it; minus infinity, which changes nothing, for all other functions.
    #[inline(always)]
    pub(crate) fn floor(self) -> f32 {
        match self {
            Self::Relu => 0.0,
            _ => f32::NEG_INFINITY,
        }
    }

    /// The function of each value.
    #[inline(always)]
    pub(crate) fn of_all<S: Simd>(self, simd: S, values: &mut [f32]) {
        let (vectors, rest) = S::as_mut_simd_f32s(values);
        // Loops, as the body of a closure may be compiled for another processor than its caller.
        macro_rules! each {
            ($value:ident => $result:expr) => {{
                for target in vectors {
                    let $value = *target;
                    *target = $result;
                }
                if !rest.is_empty() {
                    let $value = simd.partial_load_f32s(rest);
                    simd.partial_store_f32s(rest, $result);
                }
            }};
        }
        match self {
            Self::None => {}
            Self::Relu => each!(value => simd.max_f32s(value, simd.splat_f32s(0.0))),
            Self::Sigmoid => each!(value => sigmoid_of(simd, value)),
            Self::Gelu => each!(value => gelu(simd, value)),
            Self::HardSigmoid => each!(value => hard_sigmoid(simd, value)),
            Self::HardSwish => each!(value => simd.mul_f32s(value, hard_sigmoid(simd, value))),
            Self::Swish => each!(value => simd.mul_f32s(value, sigmoid_of(simd, value))),
        }
    }
}

/// Numerator of the error function, from its highest power; with [`ERF_BELOW`] that of Eigen's `erf`, a rational approximation
/// in the square of the argument.
const ERF_ABOVE: [f32; 7] = [
    -2.726_142e-10,
    2.770_681_5e-8,
    -2.101_024e-6,
    -5.692_506_5e-5,
    -7.349_906e-4,
    -2.954_6e-3,
    -1.609_603_3e-2,
];
const ERF_BELOW: [f32; 5] = [
    -1.456_607_2e-5,
    -2.133_740_5e-4,
    -1.682_827e-3,
    -7.373_329e-3,
    -1.426_473_9e-2,
];
/// Argument from which the error function is 1 in single precision.
const ERF_ONE: f32 = 4.0;

#[inline(always)]
fn gelu<S: Simd>(simd: S, value: S::f32s) -> S::f32s {
    let splat = |number| simd.splat_f32s(number);
    let argument = simd.mul_f32s(value, splat(std::f32::consts::FRAC_1_SQRT_2));
    let argument = simd.min_f32s(simd.max_f32s(argument, splat(-ERF_ONE)), splat(ERF_ONE));
    let square = simd.mul_f32s(argument, argument);
    let (mut above, mut below) = (splat(ERF_ABOVE[0]), splat(ERF_BELOW[0]));
    for &coefficient in &ERF_ABOVE[1..] {
        above = simd.mul_add_e_f32s(above, square, splat(coefficient));
    }
    for &coefficient in &ERF_BELOW[1..] {
        below = simd.mul_add_e_f32s(below, square, splat(coefficient));
    }
    let half = simd.mul_f32s(splat(0.5), value);
    let erf = simd.div_f32s(simd.mul_f32s(argument, above), below);
    simd.mul_add_e_f32s(half, erf, half)
}

#[inline(always)]
fn hard_sigmoid<S: Simd>(simd: S, value: S::f32s) -> S::f32s {
    let splat = |number| simd.splat_f32s(number);
    let line = simd.mul_add_e_f32s(value, splat(1.0 / 6.0), splat(0.5));
    simd.min_f32s(simd.max_f32s(line, splat(0.0)), splat(1.0))
}

/// The logistic function, in a form that becomes vector code in loops.
#[inline(always)]
pub fn sigmoid(value: f32) -> f32 {
    1.0 / (1.0 + exp(-value))
}

/// The logistic function of each lane, within 3e-7.
#[inline(always)]
fn sigmoid_of<S: Simd>(simd: S, value: S::f32s) -> S::f32s {
    let power = exp_of(simd, simd.neg_f32s(value));
    reciprocal(simd, simd.add_f32s(power, simd.splat_f32s(1.0)))
}

/// The reciprocals of numbers from 1 to 2^126, within 2 units in the last place, without a quotient: those of wide vectors take as long as a whole activation.
#[inline(always)]
fn reciprocal<S: Simd>(simd: S, value: S::f32s) -> S::f32s {
    /// Number from which the bits of a positive float are taken to make those of a rough reciprocal, within an eighth of it.
    const ROUGH: u32 = 0x7ef3_11c7;
    let bits = simd.sub_u32s(simd.splat_u32s(ROUGH), simd.transmute_u32s_f32s(value));
    let mut reciprocal = simd.transmute_f32s_u32s(bits);
    let negative = simd.neg_f32s(value);
    // Each step of Newton's method doubles the number of right digits.
    for _ in 0..3 {
        let error = simd.mul_add_e_f32s(negative, reciprocal, simd.splat_f32s(1.0));
        reciprocal = simd.mul_add_e_f32s(reciprocal, error, reciprocal);
    }
    reciprocal
}

/// The hyperbolic tangent, in a form that becomes vector code in loops.
#[inline(always)]
pub fn tanh(value: f32) -> f32 {
    2.0 * sigmoid(2.0 * value) - 1.0
}

/// Range of the arguments of [`exp`]: beyond it the power of two does not fit the eight bits of an exponent, or that of its reciprocal does not.
const EXP_RANGE: [f32; 2] = [-87.0, 87.0];
/// Number that rounds to a whole number when it is added, which is then in the low bits. It is 1.5 * 2^23: floats around it are one apart, and the half
/// keeps negative numbers within the same power of two.
const ROUND: f32 = 12_582_912.0;
/// ln 2 in two parts; the first has so few digits that small multiples of it are exact. They and the polynomial are those of `expf` in the Cephes
/// library (Moshier).
const LN_2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];
/// Coefficients of the exponential series behind 1 and the argument, from the highest power.
const EXP_SERIES: [f32; 6] = [
    1.987_569_1e-4,
    1.398_2e-3,
    8.333_452e-3,
    4.166_579_6e-2,
    1.666_666_5e-1,
    0.5,
];
/// Bits of a float before its exponent.
const MANTISSA: u32 = 23;

/// The exponential without branches or calls, so that loops over it become vectors; right to 2 units in the last place, and
/// bounded where the true value leaves the range.
#[inline(always)]
pub(crate) fn exp(value: f32) -> f32 {
    let value = value.clamp(EXP_RANGE[0], EXP_RANGE[1]);
    let rounded = value * std::f32::consts::LOG2_E + ROUND;
    let power = rounded - ROUND;
    let rest = value - power * LN_2[0] - power * LN_2[1];
    let mut series = EXP_SERIES[0];
    for coefficient in &EXP_SERIES[1..] {
        series = series * rest + coefficient;
    }
    let of_rest = series * rest * rest + rest + 1.0;
    of_rest * f32::from_bits((rounded.to_bits() << MANTISSA).wrapping_add(1.0_f32.to_bits()))
}

/// [`exp`] of each lane.
#[inline(always)]
fn exp_of<S: Simd>(simd: S, value: S::f32s) -> S::f32s {
    let splat = |number| simd.splat_f32s(number);
    let value = simd.min_f32s(simd.max_f32s(value, splat(EXP_RANGE[0])), splat(EXP_RANGE[1]));
    let rounded = simd.mul_add_e_f32s(value, splat(std::f32::consts::LOG2_E), splat(ROUND));
    let power = simd.sub_f32s(rounded, splat(ROUND));
    let rest = simd.mul_add_e_f32s(power, splat(-LN_2[0]), value);
    let rest = simd.mul_add_e_f32s(power, splat(-LN_2[1]), rest);
    let mut series = splat(EXP_SERIES[0]);
    for &coefficient in &EXP_SERIES[1..] {
        series = simd.mul_add_e_f32s(series, rest, splat(coefficient));
    }
    let linear = simd.add_f32s(rest, splat(1.0));
    let of_rest = simd.mul_add_e_f32s(simd.mul_f32s(series, rest), rest, linear);
    let bits = simd.transmute_u32s_f32s(rounded);
    let bits = simd.wrapping_dyn_shl_u32s(bits, simd.splat_u32s(MANTISSA));
    let bits = simd.add_u32s(bits, simd.splat_u32s(1.0_f32.to_bits()));
    simd.mul_f32s(of_rest, simd.transmute_f32s_u32s(bits))
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
            for sigmoid in [sigmoid(value), sigmoid_of(pulp::Scalar::new(), value)] {
                assert!((sigmoid - expected / (1.0 + expected)).abs() < 3e-7, "{value}");
            }
        }
        let gelus = [
            (-6.0, 0.0),
            (-1.0, -0.158_655_26),
            (-0.5, -0.154_268_77),
            (0.0, 0.0),
            (0.25, 0.149_676_2),
            (1.0, 0.841_344_7),
            (3.0, 2.995_950_3),
            (20.0, 20.0),
        ];
        for (value, expected) in gelus {
            let gelu = gelu(pulp::Scalar::new(), value);
            assert!((gelu - expected).abs() < 2e-6, "{value} {gelu}");
        }
        assert_eq!((sigmoid(-1e30), sigmoid(1e30)), (1.0 / (1.0 + exp(87.0)), 1.0));
    }
}
