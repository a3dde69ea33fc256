//! Tone curves of grey images.

use std::sync::LazyLock;

use image::GrayImage;

/// sRGB (IEC 61966-2-1) to linear light, 8 bit to 8 bit, in single precision and rounded half up.
static SRGB_TO_LINEAR: LazyLock<[u8; 256]> = LazyLock::new(|| {
    std::array::from_fn(|value| {
        let encoded = value as f32 / 255.0;
        let linear = if encoded <= 0.04045 {
            encoded / 12.92
        } else {
            ((encoded + 0.055) / 1.055).powf(2.4)
        };
        (255.0 * linear + 0.5).floor() as u8
    })
});

/// Turns sRGB greys into linear light, which darkens the midtones so that faint ink stands out before binarisation.
pub fn linearise(image: &mut GrayImage) {
    let table = &*SRGB_TO_LINEAR;
    for value in image.iter_mut() {
        *value = table[usize::from(*value)];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_curve_is_that_of_upstream() {
        #[derive(serde::Deserialize)]
        struct Table {
            lut: Vec<u8>,
        }
        let table: Table =
            serde_json::from_str(include_str!("../../tests/golden/scale/srgb_to_linear_lut.json")).unwrap();
        let mut all = GrayImage::from_fn(256, 1, |x, _| image::Luma([x as u8]));
        linearise(&mut all);
        assert_eq!(all.into_raw(), table.lut);
    }
}
