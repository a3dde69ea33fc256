//! Gives the strokes of every line the same distance. Hands differ more in how narrow they are than in how high: a narrow
//! hand scaled to the height of the network has fewer frames than letters, a wide one has frames to spare.
//! `models/training/stroke_pitch.py` is the same for training.

use std::num::NonZeroU16;

/// Ink from which a pixel counts as part of a stroke.
const DARK: f32 = 0.5;
/// Rows that are counted together, so that one notch of noise does not make two strokes.
const CORE_ROWS: usize = 5;
/// Longer stretches of paper between ink, in columns, are not text and count as one stroke distance.
const GAP: usize = 32;
const LEAST_STRETCH: f64 = 0.8;
const MOST_STRETCH: f64 = 2.5;

/// Stretches an ink map of rows `width` wide until its strokes are `pitch` columns apart, within bounds; answers the map and
/// its width.
pub(super) fn even_strokes(ink: Vec<f32>, width: usize, pitch: NonZeroU16) -> (Vec<f32>, usize) {
    let pitch = usize::from(pitch.get());
    let stretch = match stroke_pitch(&ink, width, pitch) {
        Some(found) => (pitch as f64 / found).clamp(LEAST_STRETCH, MOST_STRETCH),
        // Blank paper is none of the text: the fewest frames do for it.
        None => LEAST_STRETCH,
    };
    let stretched = ((width as f64 * stretch).round_ties_even() as usize).max(1);
    let source = column_sources(width, stretched);
    let rows = ink.chunks_exact(width);
    let resized = rows.flat_map(|row| {
        source
            .iter()
            .map(|&(left, right, share)| row[left] + (row[right] - row[left]) * share)
    });
    (resized.collect(), stretched)
}

/// Mean distance, in columns, of the strokes that a horizontal cut meets at the height where it meets most of them. `None` for
/// empty paper.
fn stroke_pitch(ink: &[f32], width: usize, pitch_of_gap: usize) -> Option<f64> {
    let mut inked = vec![false; width];
    let mut strokes_of_rows = Vec::with_capacity(ink.len() / width);
    for row in ink.chunks_exact(width) {
        let mut strokes = 0_usize;
        let mut inside = false;
        for (column, &value) in inked.iter_mut().zip(row) {
            let dark = value >= DARK;
            // A stroke is counted where the cut enters it, however thick it is.
            strokes += usize::from(dark && !inside);
            *column |= dark;
            inside = dark;
        }
        strokes_of_rows.push(strokes);
    }
    let in_core = strokes_of_rows
        .windows(CORE_ROWS)
        .map(|rows| rows.iter().sum::<usize>())
        .max()?;
    if in_core == 0 {
        return None;
    }
    Some((columns_of_text(&inked, pitch_of_gap) * CORE_ROWS) as f64 / in_core as f64)
}

/// Columns from the first ink to the last, with `long_gap` in place of each long gap between.
fn columns_of_text(inked: &[bool], long_gap: usize) -> usize {
    let mut last = None;
    let mut columns = 0;
    for (column, _) in inked.iter().enumerate().filter(|&(_, &inked)| inked) {
        columns += match last {
            Some(last) if column - last <= GAP => column - last,
            Some(_) => long_gap,
            None => 1,
        };
        last = Some(column);
    }
    columns
}

/// Two of `from` columns that each of `to` columns lies between, and the share of the second.
fn column_sources(from: usize, to: usize) -> Vec<(usize, usize, f32)> {
    let scale = from as f64 / to as f64;
    (0..to)
        .map(|column| {
            // Pixels are sampled by their centres, as in the tool that made the training data.
            let position = ((column as f64 + 0.5) * scale - 0.5).clamp(0.0, (from - 1) as f64);
            let left = position as usize;
            (left, (left + 1).min(from - 1), position.fract() as f32)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PITCH: NonZeroU16 = NonZeroU16::new(10).unwrap();

    /// Strokes of two columns, `distance` apart, in the middle of 64 rows.
    fn strokes(width: usize, distance: usize) -> Vec<f32> {
        (0..64 * width)
            .map(|pixel| {
                let (row, column) = (pixel / width, pixel % width);
                f32::from(u8::from((20..40).contains(&row) && column % distance < 2))
            })
            .collect()
    }

    #[test]
    fn narrow_strokes_move_apart_and_wide_ones_together() {
        assert_eq!(even_strokes(strokes(600, 5), 600, PITCH).1, 1206);
        assert_eq!(even_strokes(strokes(600, 12), 600, PITCH).1, 508);
        assert_eq!(even_strokes(strokes(600, 30), 600, PITCH).1, 480);
        assert_eq!(even_strokes(strokes(600, 60), 600, PITCH).1, 594);
    }

    #[test]
    fn paper_between_lines_of_text_does_not_count() {
        let mut ink = strokes(1000, 5);
        for row in ink.chunks_exact_mut(1000) {
            row[300..700].fill(0.0);
        }
        let (_, width) = even_strokes(ink, 1000, PITCH);
        assert!((1990..2040).contains(&width), "{width}");
    }

    #[test]
    fn empty_paper_stays_empty() {
        assert_eq!(
            even_strokes(vec![0.0; 64 * 100], 100, PITCH),
            (vec![0.0; 64 * 80], 80)
        );
    }

    proptest! {
        #[test]
        fn any_map_keeps_its_rows_and_its_range(width in 1_usize..80, rows in 1_usize..20, seed in 0_u32..1000) {
            let ink: Vec<f32> = (0..rows * width).map(|index| ((index as u32 * 7 + seed) % 11) as f32 / 10.0).collect();
            let (resized, resized_width) = even_strokes(ink, width, PITCH);
            prop_assert_eq!(resized.len(), rows * resized_width);
            prop_assert!(resized.iter().all(|value| (0.0..=1.0).contains(value)));
        }
    }
}
