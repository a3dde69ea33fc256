//! Softmax over planes.

/// Probabilities out of the logits of each pixel, whose classes lie `area` values apart.
pub(super) fn softmax(planes: &mut [f32], area: usize) {
    for pixel in 0..area {
        let of_pixel = || (pixel..planes.len()).step_by(area);
        let highest = of_pixel().fold(f32::NEG_INFINITY, |highest, place| highest.max(planes[place]));
        let sum: f32 = of_pixel().map(|place| (planes[place] - highest).exp()).sum();
        for place in (pixel..planes.len()).step_by(area) {
            planes[place] = (planes[place] - highest).exp() / sum;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_of_a_pixel_add_up() {
        let mut planes = vec![1.0, 5.0, 1.0, -5.0];
        softmax(&mut planes, 2);
        assert_eq!((planes[0], planes[2]), (0.5, 0.5));
        assert!((planes[1] + planes[3] - 1.0).abs() < 1e-6 && planes[1] > 0.9999);
    }
}
