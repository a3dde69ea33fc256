//! The skew of a page, from the minimum-area rectangles of its line contours.

use super::super::DetectionConfig;
use crate::page::geometry::{Contour, contour_area, min_area_rect};

/// A rectangle that lies exactly along the axes has this angle, or 0.
const UPRIGHT_DEG: f64 = 90.0;

/// The angle by which the page has to be turned, in degrees counter-clockwise; 0 where it is at most
/// `min_angle_deg` (`get_rotation_angle_from_lines` of `ocr-inference`).
///
/// The rectangles vote: those turned a little one way against those turned a little the other way, and the mean of the
/// majority is the angle.
pub(super) fn page_skew(contours: &[Contour], (width, height): (u32, u32), config: &DetectionConfig) -> f64 {
    let smallest = f64::from(width) * f64::from(height) * config.min_line_area;
    let angles = contours
        .iter()
        .filter(|contour| contour_area(contour) > smallest)
        .map(|contour| f64::from(min_area_rect(contour).angle));
    let angle = majority(angles, f64::from(config.max_angle_deg));
    if angle.abs() > f64::from(config.min_angle_deg) {
        angle
    } else {
        0.0
    }
}

fn majority(angles: impl Iterator<Item = f64>, steepest: f64) -> f64 {
    let (mut low, mut high) = (Vec::new(), Vec::new());
    for angle in angles {
        if angle != 0.0 && angle < steepest {
            low.push(angle);
        }
        if angle != UPRIGHT_DEG && angle > UPRIGHT_DEG - steepest {
            high.push(angle);
        }
    }
    let mean = |angles: &[f64]| angles.iter().sum::<f64>() / angles.len() as f64;
    if low.len() > high.len() {
        mean(&low)
    } else if high.is_empty() {
        0.0
    } else {
        // A tie goes to this side, as upstream compares strictly.
        mean(&high) - UPRIGHT_DEG
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skew(angles: &[f64]) -> f64 {
        majority(angles.iter().copied(), 5.0)
    }

    #[test]
    fn the_majority_is_averaged_and_a_tie_goes_clockwise() {
        assert_eq!(skew(&[1.0, 3.0, 89.0]), 2.0);
        assert_eq!(skew(&[1.0, 88.0]), -2.0);
        assert_eq!(skew(&[89.0, 87.0, 1.0]), -2.0);
    }

    #[test]
    fn upright_and_steep_rectangles_have_no_say() {
        assert_eq!(skew(&[]), 0.0);
        assert_eq!(skew(&[0.0, 90.0, 45.0, 5.0, 85.0]), 0.0);
    }
}
