//! Linear systems of some dozens of unknowns.

/// Solves a system by Gaussian elimination with pivots chosen relative to the largest coefficient of their rows. `values` are the right sides
/// of `SIDES` systems with one matrix, and the solutions take their place; `None` where there is no single one, or it is too large for numbers.
pub fn solve<const SIDES: usize>(matrix: &mut [Vec<f64>], values: &mut [[f64; SIDES]]) -> Option<()> {
    let size = matrix.len();
    // Coefficients of the upper rows of a spline are r² ln r, up to 1e8 on a page, those of the lower rows 1 and coordinates: the largest
    // pivot as such would always be one of the former, however small it is within its row.
    let mut scales: Vec<f64> = matrix
        .iter()
        .map(|row| {
            row.iter()
                .fold(0.0_f64, |largest, value| largest.max(value.abs()))
        })
        .collect();
    for column in 0..size {
        let relative = |row: usize, matrix: &[Vec<f64>]| matrix[row][column].abs() / scales[row];
        let pivot = (column..size)
            .max_by(|&a, &b| relative(a, matrix).total_cmp(&relative(b, matrix)))
            // Zero and NaN are no pivots, and division by a subnormal number can overflow.
            .filter(|&row| matrix[row][column].is_normal())?;
        matrix.swap(column, pivot);
        values.swap(column, pivot);
        scales.swap(column, pivot);

        let (done, below) = matrix.split_at_mut(column + 1);
        let pivot_row = &done[column];
        for (offset, row) in below.iter_mut().enumerate() {
            let factor = row[column] / pivot_row[column];
            // Many coefficients are zero in the lower three rows of a spline.
            if factor == 0.0 {
                continue;
            }
            for (value, &pivot_value) in row[column..].iter_mut().zip(&pivot_row[column..]) {
                *value -= factor * pivot_value;
            }
            let pivot_values = values[column];
            subtract(&mut values[column + 1 + offset], factor, pivot_values);
        }
    }
    for row in (0..size).rev() {
        let (unknown, known) = values.split_at_mut(row + 1);
        let value = &mut unknown[row];
        for (coefficient, known) in matrix[row][row + 1..].iter().zip(known) {
            subtract(value, *coefficient, *known);
        }
        *value = value.map(|rest| rest / matrix[row][row]);
    }
    let is_finite = values.iter().flatten().all(|value| value.is_finite());
    is_finite.then_some(())
}

fn subtract<const SIDES: usize>(from: &mut [f64; SIDES], factor: f64, values: [f64; SIDES]) {
    for (from, value) in from.iter_mut().zip(values) {
        *from -= factor * value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systems_with_one_matrix_are_solved_together() {
        let mut matrix = [vec![0.0, 2.0, 1.0], vec![1.0, 0.0, 0.0], vec![3.0, 1.0, -1.0]].to_vec();
        let mut values = [[5.0, 0.0], [1.0, 2.0], [3.0, 6.0]];
        assert_eq!(solve(&mut matrix, &mut values), Some(()));
        let expected = [[1.0, 2.0], [5.0 / 3.0, 0.0], [5.0 / 3.0, 0.0]];
        let pairs = values.iter().flatten().zip(expected.iter().flatten());
        assert!(
            pairs
                .into_iter()
                .all(|(value, expected)| (value - expected).abs() < 1e-12),
            "{values:?}"
        );
    }

    #[test]
    fn equations_that_say_the_same_have_no_solution() {
        let mut matrix = vec![vec![1.0, 2.0], vec![2.0, 4.0]];
        assert_eq!(solve(&mut matrix, &mut [[1.0], [2.0]]), None);
    }
}
