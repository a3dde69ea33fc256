//! Linear systems of the size of a spline.

use super::SingularSystem;

/// Gaussian elimination with pivots chosen relative to the largest coefficient of their rows; the solution replaces `values`.
pub(super) fn solve(matrix: &mut [Vec<f64>], values: &mut [[f64; 2]]) -> Result<(), SingularSystem> {
    let size = matrix.len();
    // Coefficients of the upper rows are r² ln r, up to 1e8 on a page, those of the lower rows 1 and coordinates: the largest
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
            .filter(|&row| matrix[row][column].is_normal())
            .ok_or(SingularSystem)?;
        matrix.swap(column, pivot);
        values.swap(column, pivot);
        scales.swap(column, pivot);

        let (done, below) = matrix.split_at_mut(column + 1);
        let pivot_row = &done[column];
        for (offset, row) in below.iter_mut().enumerate() {
            let factor = row[column] / pivot_row[column];
            // Many coefficients are zero in the lower three rows.
            if factor == 0.0 {
                continue;
            }
            for (value, &pivot_value) in row[column..].iter_mut().zip(&pivot_row[column..]) {
                *value -= factor * pivot_value;
            }
            let pivot_values = values[column];
            let values = &mut values[column + 1 + offset];
            values[0] -= factor * pivot_values[0];
            values[1] -= factor * pivot_values[1];
        }
    }
    for row in (0..size).rev() {
        let (unknown, known) = values.split_at_mut(row + 1);
        let value = &mut unknown[row];
        for (coefficient, known) in matrix[row][row + 1..].iter().zip(known) {
            value[0] -= coefficient * known[0];
            value[1] -= coefficient * known[1];
        }
        *value = value.map(|rest| rest / matrix[row][row]);
    }
    let finite = values.iter().flatten().all(|value| value.is_finite());
    if finite { Ok(()) } else { Err(SingularSystem) }
}
