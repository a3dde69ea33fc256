//! The skew of a page, from the directions of its lines.

use super::DetectionConfig;
use crate::median::median;

/// A minimum-area rectangle flatter than this has no direction to speak of; OpenCV's angle is then exactly 0 or 90.
const FLAT_DEG: f32 = 1e-6;
/// Distance from the median, in median absolute deviations, beyond which a direction is an outlier.
const OUTLIER_DEVIATIONS: f32 = 3.0;

/// The direction of one line: angle and size of its minimum-area rectangle as OpenCV's `minAreaRect` gives them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct LineDirection {
    pub angle: f32,
    pub width: f32,
    pub height: f32,
}

impl LineDirection {
    /// Angle of the line's long side against the horizontal, in `-45.0..=45.0` for a rectangle angle in `-90..=90`.
    fn skew(&self) -> f32 {
        if self.angle > 45.0 {
            self.angle - 90.0
        } else if self.angle < -45.0 {
            self.angle + 90.0
        } else {
            self.angle
        }
    }
}

/// The angle by which a page has to be turned, in degrees counter-clockwise; 0 when its lines are straight enough.
///
/// The area-weighted mean of the line directions, after dropping those beyond three median absolute deviations
/// (`get_rotation_angle` of `ldv1`).
pub(super) fn page_skew(lines: &[LineDirection], config: &DetectionConfig) -> f32 {
    let (skews, weights): (Vec<f32>, Vec<f32>) = lines
        .iter()
        // A flat rectangle has no area, and a weight of zero could leave the mean without any.
        .map(|line| (line.skew(), (line.width * line.height).max(1.0)))
        .filter(|(skew, _)| skew.abs() >= FLAT_DEG && skew.abs() <= config.max_angle_deg)
        .unzip();
    let median_of =
        |values: &[f32]| median(values.iter().copied().map(f64::from)).map(|middle| middle as f32);
    let Some(center) = median_of(&skews) else {
        return 0.0;
    };
    let deviations: Vec<f32> = skews.iter().map(|skew| (skew - center).abs()).collect();
    let spread = median_of(&deviations).unwrap_or(0.0);

    // Directions are in single precision as upstream's are; sums of areas of a page would lose digits in it.
    let (mut sum, mut total) = (0.0_f64, 0.0_f64);
    for ((&skew, &weight), &deviation) in skews.iter().zip(&weights).zip(&deviations) {
        // With a spread of zero half of the lines agree exactly, and every other one would be an outlier.
        if spread == 0.0 || deviation <= OUTLIER_DEVIATIONS * spread {
            sum += f64::from(skew) * f64::from(weight);
            total += f64::from(weight);
        }
    }
    let angle = (sum / total) as f32;
    if angle.abs() < config.min_angle_deg {
        0.0
    } else {
        angle
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(angle: f32) -> LineDirection {
        LineDirection {
            angle,
            width: 1000.0,
            height: 40.0,
        }
    }

    #[test]
    fn a_rectangle_on_its_side_has_the_same_skew() {
        let config = DetectionConfig::default();
        assert_eq!(page_skew(&[line(1.0), line(1.0)], &config), 1.0);
        assert_eq!(page_skew(&[line(89.0), line(89.0)], &config), -1.0);
    }

    #[test]
    fn outliers_and_steep_lines_have_no_say() {
        let config = DetectionConfig::default();
        let lines = [line(1.0), line(1.1), line(0.9), line(1.05), line(4.9), line(30.0)];
        let angle = page_skew(&lines, &config);
        assert!((0.9..=1.1).contains(&angle), "{angle}");
    }

    #[test]
    fn small_skew_is_left_alone() {
        let config = DetectionConfig::default();
        assert_eq!(page_skew(&[line(0.29)], &config), 0.0);
        assert_eq!(page_skew(&[line(89.8)], &config), 0.0);
        assert_eq!(page_skew(&[line(0.31)], &config), 0.31);
        assert_eq!(page_skew(&[], &config), 0.0);
        assert_eq!(page_skew(&[line(0.0), line(90.0)], &config), 0.0);
    }
}
