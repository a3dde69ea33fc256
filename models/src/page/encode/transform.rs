//! Pixels to quantised coefficients.

use super::SIDE;

type Row = [i32; SIDE];

/// Fractional bits of `COSINES`, and of what the first pass leaves to the second.
const COSINE_BITS: u32 = 13;
const PASS_BITS: u32 = 2;

/// The discrete cosine transform in whole numbers: how much the pixel of each column takes part in the frequency of each
/// row, times the square root of eight.
///
/// These are the sums of products that libjpeg's accurate integer transform (Loeffler, Ligtenberg and Moschytz, 1989)
/// comes down to, with its constants rounded one by one; the difference is the order of additions.
const COSINES: [Row; SIDE] = [
    [8192, 8192, 8192, 8192, 8192, 8192, 8192, 8192],
    [11363, 9633, 6437, 2260, -2260, -6437, -9633, -11363],
    [10703, 4433, -4433, -10703, -10703, -4433, 4433, 10703],
    [9633, -2259, -11362, -6436, 6436, 11362, 2259, -9633],
    [8192, -8192, -8192, 8192, 8192, -8192, -8192, 8192],
    [6437, -11362, 2261, 9633, -9633, -2261, 11362, -6437],
    [4433, -10704, 10704, -4433, -4433, 10704, -10704, 4433],
    [2260, -6436, 9633, -11363, 11363, -9633, 6436, -2260],
];

const COSINES_BY_COLUMN: [Row; SIDE] = {
    let mut turned = [[0; SIDE]; SIDE];
    let mut place = 0;
    while place < SIDE * SIDE {
        turned[place % SIDE][place / SIDE] = COSINES[place / SIDE][place % SIDE];
        place += 1;
    }
    turned
};

/// What is added before the last bits are dropped, for all frequencies down but 0 and 4, and for these two.
///
/// Of the latter, every second is rounded down and not to the nearest, as the crate `jpeg-encoder` does with AVX2: the same
/// page gives the same file as with that, and so the same text.
const HALVES: [Row; 2] = {
    const HALF: i32 = 1 << (COSINE_BITS + PASS_BITS - 1);
    [[HALF; SIDE], [HALF, 0, HALF, 0, HALF, 0, HALF, 0]]
};

/// The coefficients of a block, eight times as large as they are defined.
#[inline(always)]
pub(super) fn coefficients(block: &[[u8; SIDE]; SIDE]) -> [Row; SIDE] {
    let mut along = [[0; SIDE]; SIDE];
    for (sums, pixels) in along.iter_mut().zip(block) {
        for (&pixel, cosines) in pixels.iter().zip(&COSINES_BY_COLUMN) {
            for (sum, cosine) in sums.iter_mut().zip(cosines) {
                *sum += (i32::from(pixel) - 128) * cosine;
            }
        }
        for sum in sums {
            *sum = (*sum + (1 << (COSINE_BITS - PASS_BITS - 1))) >> (COSINE_BITS - PASS_BITS);
        }
    }
    transform_columns(&along)
}

/// The upper half of the rows mirrors the lower, so that half of the products is enough.
#[inline(always)]
fn transform_columns(rows: &[Row; SIDE]) -> [Row; SIDE] {
    const HALF: usize = SIDE / 2;
    let mut even = [[0; SIDE]; HALF];
    let mut odd = [[0; SIDE]; HALF];
    for y in 0..HALF {
        for x in 0..SIDE {
            even[y][x] = rows[y][x] + rows[SIDE - 1 - y][x];
            odd[y][x] = rows[y][x] - rows[SIDE - 1 - y][x];
        }
    }
    let mut transformed = [[0; SIDE]; SIDE];
    for (frequency, (sums, cosines)) in transformed.iter_mut().zip(&COSINES).enumerate() {
        let rows = if frequency % 2 == 0 { &even } else { &odd };
        for (row, cosine) in rows.iter().zip(cosines) {
            for (sum, value) in sums.iter_mut().zip(row) {
                *sum += value * cosine;
            }
        }
        let halves = &HALVES[usize::from(frequency % 4 == 0)];
        for (sum, half) in sums.iter_mut().zip(halves) {
            *sum = (*sum + half) >> (COSINE_BITS + PASS_BITS);
        }
    }
    transformed
}

/// Division by the steps of a quantisation table, by means of multiplication.
#[derive(Debug)]
pub(super) struct Quantiser {
    corrections: [i32; 64],
    reciprocals: [i32; 64],
}

impl Quantiser {
    const RECIPROCAL_BITS: u32 = 15;

    /// As in libjpeg's `compute_reciprocal`. Quotients are rounded half away from zero, but large ones may be rounded wrongly
    /// where they lie near a half.
    pub(super) fn new(steps: &[u8; 64]) -> Self {
        let mut quantiser = Self {
            corrections: [0; 64],
            reciprocals: [0; 64],
        };
        for (place, &step) in steps.iter().enumerate() {
            // The coefficients are eight times too large.
            let divisor = 8 * i32::from(step);
            let one = 1 << Self::RECIPROCAL_BITS;
            let (whole, rest) = (one / divisor, one % divisor);
            let (reciprocal, correction) = match rest {
                0 => (whole, divisor / 2),
                rest if rest <= divisor / 2 => (whole, divisor / 2 + 1),
                _ => (whole + 1, divisor / 2),
            };
            quantiser.reciprocals[place] = reciprocal;
            quantiser.corrections[place] = correction;
        }
        quantiser
    }

    #[inline(always)]
    pub(super) fn quantise(&self, coefficients: &[Row; SIDE]) -> [i16; 64] {
        let mut quantised = [0; 64];
        let factors = self.corrections.iter().zip(&self.reciprocals);
        for ((quantised, &value), (correction, reciprocal)) in
            quantised.iter_mut().zip(coefficients.as_flattened()).zip(factors)
        {
            let size = ((value.abs() + correction) * reciprocal) >> Self::RECIPROCAL_BITS;
            *quantised = if value < 0 { -size } else { size } as i16;
        }
        quantised
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// One pass as libjpeg writes it, over eight values; its constants are the cosines' sums and differences.
    fn butterfly(values: Row) -> Row {
        let [a, b, c, d, e, f, g, h] = values;
        let (s0, s1, s2, s3) = (a + h, b + g, c + f, d + e);
        let (d0, d1, d2, d3) = (a - h, b - g, c - f, d - e);
        let even = (s0 - s3 + s1 - s2) * 4433;
        let five = (d3 + d1 + d2 + d0) * 9633;
        let (one, two) = ((d3 + d0) * -7373, (d2 + d1) * -20995);
        let (three, four) = ((d3 + d1) * -16069 + five, (d2 + d0) * -3196 + five);
        [
            (s0 + s3 + s1 + s2) << 13,
            d0 * 12299 + one + four,
            even + (s0 - s3) * 6270,
            d1 * 25172 + two + three,
            (s0 + s3 - s1 - s2) << 13,
            d2 * 16819 + two + four,
            even - (s1 - s2) * 15137,
            d3 * 2446 + one + three,
        ]
    }

    fn plain(block: &[[u8; SIDE]; SIDE]) -> [Row; SIDE] {
        let along = block
            .map(|row| butterfly(row.map(|pixel| i32::from(pixel) - 128)).map(|sum| (sum + (1 << 10)) >> 11));
        let mut transformed = [[0; SIDE]; SIDE];
        for across in 0..SIDE {
            let sums = butterfly(along.map(|row| row[across]));
            for (down, sum) in sums.into_iter().enumerate() {
                let to_nearest = down % 4 != 0 || across % 2 == 0;
                transformed[down][across] = if to_nearest {
                    (sum + (1 << 14)) >> 15
                } else {
                    sum >> 15
                };
            }
        }
        transformed
    }

    proptest! {
        #[test]
        fn the_transform_is_that_of_butterflies(
            noise: [[u8; SIDE]; SIDE],
            black_and_white: bool,
        ) {
            let mut block = noise;
            if black_and_white {
                block = noise.map(|row| row.map(|pixel| 255 * (pixel / 128)));
            }
            prop_assert_eq!(coefficients(&block), plain(&block));
        }
    }

    #[test]
    fn quantising_is_division() {
        let steps: [u8; 64] = std::array::from_fn(|place| 1 + place as u8 * 4);
        let quantiser = Quantiser::new(&steps);
        for value in -10_000..=10_000_i32 {
            let quantised = quantiser.quantise(&[[value; SIDE]; SIDE]);
            for (quantised, step) in quantised.into_iter().zip(steps) {
                let exact = f64::from(value) / (8.0 * f64::from(step));
                let off = (f64::from(quantised) - exact).abs();
                let reciprocal_error = f64::from(value.abs()) / f64::from(1 << 15);
                assert!(off <= 0.5 + reciprocal_error, "{value} / {step}: {quantised}");
            }
        }
    }
}
