//! Sample values to 8-bit grey.

use image::GrayImage;

/// Grey of a colour: OpenCV's `cvtColor` RGB2GRAY for 8-bit samples, weights 0.299/0.587/0.114 in 15-bit fixed point,
/// rounded.
pub(super) fn luma([r, g, b]: [u8; 3]) -> u8 {
    ((9798 * u32::from(r) + 19235 * u32::from(g) + 3735 * u32::from(b) + (1 << 14)) >> 15) as u8
}

/// An unsigned 16-bit sample scaled to 8 bits, rounded: 0 stays 0 and 65535 becomes 255.
pub(super) fn from_u16(sample: u16) -> u8 {
    ((u32::from(sample) + 128) / 257) as u8
}

/// `a * b / 255`, rounded.
pub(super) fn scale(a: u8, b: u8) -> u8 {
    ((u32::from(a) * u32::from(b) + 127) / 255) as u8
}

/// Grey of amounts of ink, 255 being full cover.
pub(super) fn from_ink([c, m, y, k]: [u8; 4]) -> u8 {
    luma([
        scale(255 - c, 255 - k),
        scale(255 - m, 255 - k),
        scale(255 - y, 255 - k),
    ])
}

/// `gray` with straight alpha laid on white paper.
pub(super) fn on_white(gray: u8, alpha: u8) -> u8 {
    // The first term is at most alpha, so the sum is a byte.
    scale(gray, alpha) + (255 - alpha)
}

/// Returns whether every pixel is 0 or 255.
pub(super) fn is_bilevel(gray: &GrayImage) -> bool {
    /// Enough to be looked at together; most pages show a grey in the first of them.
    const TOGETHER: usize = 1024;
    gray.as_raw()
        .chunks(TOGETHER)
        .all(|pixels| pixels.iter().fold(true, |all, &v| all & (v == 0 || v == 255)))
}

/// Turns a page of zeros and ones, a 1-bit page that was written unscaled, into 0 and 255. Anything else is left alone;
/// so is a page of zeros alone. Returns whether the page was scaled.
pub(super) fn scale_zero_one(gray: &mut [u8]) -> bool {
    let unscaled = gray.iter().all(|&v| v <= 1) && gray.contains(&1);
    if unscaled {
        gray.iter_mut().for_each(|v| *v *= 255);
    }
    unscaled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neutral_colours_keep_their_value() {
        for v in 0..=255 {
            assert_eq!(luma([v, v, v]), v);
            assert_eq!(from_u16(u16::from(v) * 257), v);
            assert_eq!(from_ink([0, 0, 0, 255 - v]), v);
            assert_eq!(on_white(v, 255), v);
            assert_eq!(on_white(v, 0), 255);
        }
    }

    #[test]
    fn a_single_grey_pixel_anywhere_is_found() {
        let mut page = GrayImage::from_fn(90, 50, |x, y| {
            image::Luma([if (x + y) % 3 == 0 { 0 } else { 255 }])
        });
        assert!(is_bilevel(&page));
        for (x, y) in [(0, 0), (33, 11), (89, 49)] {
            let before = *page.get_pixel(x, y);
            for grey in [1, 128, 254] {
                page.put_pixel(x, y, image::Luma([grey]));
                assert!(!is_bilevel(&page));
            }
            page.put_pixel(x, y, before);
        }
        assert!(is_bilevel(&GrayImage::new(0, 0)));
    }

    #[test]
    fn only_zeros_and_ones_are_scaled() {
        let mut bits = [0, 1, 1, 0];
        assert!(scale_zero_one(&mut bits));
        assert_eq!(bits, [0, 255, 255, 0]);
        for mut kept in [[0, 1, 2, 0], [0; 4], [255; 4]] {
            let before = kept;
            assert!(!scale_zero_one(&mut kept));
            assert_eq!(kept, before);
        }
    }
}
