//! Thin-plate splines: smooth maps of the plane through pairs of points.
//!
//! Duchon (1977); Bookstein, "Principal warps: thin-plate splines and the decomposition of deformations", IEEE PAMI 11
//! (1989). All positions are (x, y).
//!
//! A page that was photographed bent is flattened by a spline through points on its lines and its corners. The system of
//! equations is dense and has some dozens of unknowns, so Gaussian elimination on vectors of rows is enough, and a linear
//! algebra crate would be more code than the fifty lines of [`solve`]. The cost is in the use: each pixel of the output needs
//! the sum over all control points. [`warp_spline`] therefore evaluates a coarse grid and interpolates where the spline itself
//! says that this is exact to 1/256 pixel. Fitting is relaxed by `alpha`, as upstream does it, because control points are
//! measurements: a spline through all of them would bend letters after noise.

mod warp;

pub use warp::warp_spline;

use crate::linear::solve;

/// The control points do not determine a map: fewer than three, all on one straight line, coordinates that are not finite,
/// or twice the same point without relaxation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the control points of the thin-plate spline do not determine a map")]
pub struct SingularSystem;

/// A map of the plane that takes given points to given points and bends as little as possible in between.
#[derive(Debug, Clone, PartialEq)]
pub struct ThinPlateSpline {
    constant: (f64, f64),
    per_x: (f64, f64),
    per_y: (f64, f64),
    bends: Vec<Bend>,
}

/// Contribution of one control point beside the affine part.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Bend {
    center: (f64, f64),
    weight: (f64, f64),
}

impl ThinPlateSpline {
    /// Fits the spline that maps each point of `from` to the point of `to` at the same place. `alpha` relaxes that where it
    /// saves bending; zero interpolates. Surplus points of the longer list are ignored.
    ///
    /// To warp an image backwards fit from output positions to source positions.
    ///
    /// # Errors
    /// [`SingularSystem`] if the points do not determine a map.
    pub fn fit(from: &[(f64, f64)], to: &[(f64, f64)], alpha: f64) -> Result<Self, SingularSystem> {
        let count = from.len().min(to.len());
        let (from, to) = (&from[..count], &to[..count]);
        // On a line the affine part across it is not determined, and nearly so on nearly a line: elimination would go through
        // and give coefficients that throw pixels anywhere.
        if are_collinear(from) {
            return Err(SingularSystem);
        }
        // The map is an affine part plus one weight times the kernel for each control point. The upper rows say that it takes
        // each point to its target, the lower three that weights sum to zero, also times x and times y: without these bends
        // would grow without limit far away from the points, and there would be more unknowns than equations.
        let size = count + 3;
        let mut matrix = vec![vec![0.0; size]; size];
        let mut values = vec![[0.0; 2]; size];
        for (index, (&(x, y), &target)) in from.iter().zip(to).enumerate() {
            for (other, &center) in from.iter().enumerate() {
                matrix[index][other] = kernel((x, y), center);
            }
            // The kernel of a point with itself is zero; what stands there in its stead lets the map miss the target by alpha
            // times the weight.
            matrix[index][index] += alpha;
            for (offset, term) in [1.0, x, y].into_iter().enumerate() {
                matrix[index][count + offset] = term;
                matrix[count + offset][index] = term;
            }
            values[index] = [target.0, target.1];
        }
        // Both coordinates of the targets share the matrix, so they are two right sides of one elimination.
        solve(&mut matrix, &mut values).ok_or(SingularSystem)?;

        let solution = |index: usize| (values[index][0], values[index][1]);
        let bends = from.iter().enumerate();
        Ok(Self {
            constant: solution(count),
            per_x: solution(count + 1),
            per_y: solution(count + 2),
            bends: bends
                .map(|(index, &center)| Bend {
                    center,
                    weight: solution(index),
                })
                .collect(),
        })
    }

    /// This map in a plane whose unit is `1 / factor` of this one's: `p` goes to `factor * transform(p / factor)`.
    /// `factor` is positive.
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Self {
        let scale = |(x, y): (f64, f64)| (x * factor, y * factor);
        let scaled_bend = |bend: &Bend| Bend {
            center: scale(bend.center),
            weight: (bend.weight.0 / factor, bend.weight.1 / factor),
        };
        let bends: Vec<Bend> = self.bends.iter().map(scaled_bend).collect();
        // The kernel of a scaled distance is the scaled kernel but for a multiple of r^2. The weights sum to zero, also
        // when multiplied by their centres, so all that remains of that multiple is a constant.
        let remainder = bends.iter().fold((0.0, 0.0), |sum, bend| {
            let squared = bend.center.0.powi(2) + bend.center.1.powi(2);
            (sum.0 + bend.weight.0 * squared, sum.1 + bend.weight.1 * squared)
        });
        let constant = scale(self.constant);
        Self {
            constant: (
                constant.0 - factor.ln() * remainder.0,
                constant.1 - factor.ln() * remainder.1,
            ),
            per_x: self.per_x,
            per_y: self.per_y,
            bends,
        }
    }

    /// The image of (x, y).
    pub fn transform(&self, (x, y): (f64, f64)) -> (f64, f64) {
        let mut mapped = (
            self.constant.0 + self.per_x.0 * x + self.per_y.0 * y,
            self.constant.1 + self.per_x.1 * x + self.per_y.1 * y,
        );
        for bend in &self.bends {
            let value = kernel((x, y), bend.center);
            mapped.0 += value * bend.weight.0;
            mapped.1 += value * bend.weight.1;
        }
        mapped
    }
}

/// Returns whether the points deviate from their best line by no more than a millionth of their extent.
fn are_collinear(points: &[(f64, f64)]) -> bool {
    let count = points.len() as f64;
    let sum = points
        .iter()
        .fold((0.0, 0.0), |sum, point| (sum.0 + point.0, sum.1 + point.1));
    let center = (sum.0 / count, sum.1 / count);
    let (mut xx, mut xy, mut yy) = (0.0, 0.0, 0.0);
    for point in points {
        let (x, y) = (point.0 - center.0, point.1 - center.1);
        xx += x * x;
        xy += x * y;
        yy += y * y;
    }
    // The determinant of the scatter matrix, compared with the square of its trace: no unit of length
    // matters.
    let spread = xx * yy - xy * xy;
    spread.is_nan() || spread <= 1e-12 * (xx + yy) * (xx + yy)
}

/// The kernel `r² ln r` of the distance r between a point and a centre.
fn kernel((x, y): (f64, f64), center: (f64, f64)) -> f64 {
    let squared = (x - center.0).powi(2) + (y - center.1).powi(2);
    // The limit at zero, where the logarithm has none.
    if squared == 0.0 {
        0.0
    } else {
        // r² ln r is half of r² ln r², which needs no root.
        0.5 * squared * squared.ln()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_scaled_spline_is_the_same_map_in_another_unit(
            offsets in proptest::collection::vec((-40.0_f64..40.0, -40.0_f64..40.0), 6),
            factor in 0.1_f64..5.0,
            x in 0.0_f64..900.0,
            y in 0.0_f64..500.0,
        ) {
            let from = [(0.0, 0.0), (900.0, 0.0), (0.0, 500.0), (900.0, 500.0), (300.0, 200.0), (700.0, 350.0)];
            let to: Vec<_> = from.iter().zip(&offsets).map(|(p, d)| (p.0 + d.0, p.1 + d.1)).collect();
            let spline = ThinPlateSpline::fit(&from, &to, 0.5).unwrap();
            let (scaled_x, scaled_y) = spline.scaled(factor).transform((x * factor, y * factor));
            let (expected_x, expected_y) = spline.transform((x, y));
            prop_assert!((scaled_x - factor * expected_x).abs() < 1e-6, "{} {}", scaled_x, expected_x);
            prop_assert!((scaled_y - factor * expected_y).abs() < 1e-6, "{} {}", scaled_y, expected_y);
        }
    }
}
