use super::Samples;
use super::axis::Tap;

/// Number of fractional bits of the weights, which are fixed-point numbers.
const WEIGHT_BITS: u32 = 11;

/// Bilinear blend of the taps, horizontally first, with the roundings of OpenCV's 8-bit code.
pub(super) fn blend(source: Samples<'_>, columns: &[Tap], rows: &[Tap], pixels: &mut [u8]) {
    let channels = source.channels;
    let row_length = columns.len() * channels;
    // At the ends of a row the two weights are one; at the ends of a column both stay and are rounded on their own.
    let column = |&tap: &Tap| {
        (
            tap,
            if tap.first == tap.second {
                [1 << WEIGHT_BITS, 0]
            } else {
                weights(tap)
            },
        )
    };
    let columns: Vec<(Tap, [i32; 2])> = columns.iter().map(column).collect();

    let blend_columns = |row: usize, blended: &mut Vec<i32>| {
        let row = source.row(row);
        blended.clear();
        for &(tap, [first, second]) in &columns {
            let left = &row[tap.first * channels..][..channels];
            let right = &row[tap.second * channels..][..channels];
            blended.extend(
                left.iter()
                    .zip(right)
                    .map(|(&a, &b)| i32::from(a) * first + i32::from(b) * second),
            );
        }
    };
    // Neighbouring target rows often share source rows, which are then blended once.
    let mut upper = (None, Vec::with_capacity(row_length));
    let mut lower = (None, Vec::with_capacity(row_length));
    for (out, &tap) in pixels.chunks_exact_mut(row_length).zip(rows) {
        // The lower row of one target row is often the upper row of the next.
        if lower.0 == Some(tap.first) {
            std::mem::swap(&mut upper, &mut lower);
        }
        for (wanted, (held, blended)) in [(tap.first, &mut upper), (tap.second, &mut lower)] {
            if *held != Some(wanted) {
                blend_columns(wanted, blended);
                *held = Some(wanted);
            }
        }
        let [above, below] = weights(tap);
        for ((out, &a), &b) in out.iter_mut().zip(&upper.1).zip(&lower.1) {
            // Two weights leave 22 fractional bits, which OpenCV's vector code drops in three steps, 4, 16
            // and 2, to stay within 16-bit products. One step would round other values.
            let sum = ((above * (a >> 4)) >> 16) + ((below * (b >> 4)) >> 16);
            *out = ((sum + 2) >> 2) as u8;
        }
    }
}

fn weights(tap: Tap) -> [i32; 2] {
    let fixed = |weight: f32| (weight * (1 << WEIGHT_BITS) as f32).round_ties_even() as i32;
    [fixed(1.0 - tap.fraction), fixed(tap.fraction)]
}
