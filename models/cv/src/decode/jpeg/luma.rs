//! The luma of a sound stream by libjpeg-turbo, in a third of the time of the decoder that tells what is wrong with others.

use turbojpeg::{Colorspace, Decompressor, Image, PixelFormat};

/// Largest number of scans, the limit of the other decoder: a stream of few bytes may ask for any number of passes over all pixels.
const MOST_SCANS: u32 = 100;

/// Luma of `width` x `height` pixels as the stream stores it, row by row. `None` where libjpeg finds anything to object to.
pub(super) fn luma(bytes: &[u8], width: usize, height: usize) -> Option<Vec<u8>> {
    let mut decompressor = Decompressor::new().ok()?;
    let header = decompressor.read_header(bytes).ok()?;
    let stores_luma = matches!(header.colorspace, Colorspace::Gray | Colorspace::YCbCr);
    // A size that the two decoders read differently means a stream that is not sound.
    if !stores_luma || header.is_lossless || (header.width, header.height) != (width, height) {
        return None;
    }
    decompressor.set_scan_limit(MOST_SCANS).ok()?;
    let mut pixels = vec![0; width * height];
    let image = Image {
        pixels: pixels.as_mut_slice(),
        width,
        pitch: width,
        height,
        format: PixelFormat::GRAY,
    };
    decompressor.decompress(bytes, image).ok()?;
    Some(pixels)
}

#[cfg(test)]
mod tests {
    use jpeg_encoder::{ColorType, Encoder, SamplingFactor};
    use proptest::prelude::*;
    use zune_jpeg::zune_core::colorspace::ColorSpace;

    use super::super::run;
    use super::*;

    fn encoded(
        width: u16,
        height: u16,
        kind: ColorType,
        set: impl FnOnce(&mut Encoder<&mut Vec<u8>>),
    ) -> Vec<u8> {
        let samples = match kind {
            ColorType::Luma => 1,
            ColorType::Cmyk => 4,
            _ => 3,
        };
        let length = usize::from(width) * usize::from(height) * samples;
        let pixels: Vec<u8> = (0..length).map(|at| (at * at / 91 % 256) as u8).collect();
        let mut file = Vec::new();
        let mut encoder = Encoder::new(&mut file, 85);
        set(&mut encoder);
        encoder.encode(&pixels, width, height, kind).unwrap();
        file
    }

    proptest! {
        /// Their inverse transforms round differently.
        #[test]
        fn both_decoders_agree_but_for_rounding(
            (width, height) in (1..=70u16, 1..=70u16),
            kind in prop::sample::select(vec![ColorType::Luma, ColorType::Rgb]),
            sampling in prop::sample::select(vec![SamplingFactor::F_1_1, SamplingFactor::F_2_1, SamplingFactor::F_2_2]),
            progressive in any::<bool>(),
        ) {
            let file = encoded(width, height, kind, |encoder| {
                encoder.set_sampling_factor(sampling);
                encoder.set_progressive(progressive);
            });
            let luma = luma(&file, width.into(), height.into());
            let other = run(&file, ColorSpace::Luma, true).ok();
            let worst = luma.unwrap().iter().zip(other.unwrap()).map(|(&a, b)| a.abs_diff(b)).max();
            prop_assert!(worst <= Some(1), "{:?}", worst);
        }
    }

    /// A baseline stream whose first scan holds one component alone may have any number of scans.
    #[test]
    fn scans_without_end_are_left_to_others() {
        let gray = encoded(64, 64, ColorType::Luma, |_| {});
        let scan = gray.windows(2).position(|marker| marker == [0xff, 0xda]).unwrap();
        let many = |times| {
            let (head, scan) = (&gray[..scan], &gray[scan..gray.len() - 2]);
            // Three components of which only the first is ever there.
            let frame = head.windows(2).position(|marker| marker == [0xff, 0xc0]).unwrap();
            let mut head = head.to_vec();
            head.splice(frame + 2..frame + 4, [0, 17]);
            head[frame + 9] = 3;
            let table = head[frame + 12];
            head.splice(frame + 13..frame + 13, [2, 0x11, table, 3, 0x11, table]);
            [head, scan.repeat(times), vec![0xff, 0xd9]].concat()
        };
        assert!(luma(&many(3), 64, 64).is_some());
        assert_eq!(luma(&many(1000), 64, 64), None);
    }

    #[test]
    fn what_is_not_sound_or_stores_no_luma_is_left_to_others() {
        let sound = encoded(60, 40, ColorType::Luma, |_| {});
        assert!(luma(&sound, 60, 40).is_some());
        assert_eq!(luma(&sound, 40, 60), None);
        assert_eq!(luma(&sound[..sound.len() / 2], 60, 40), None);
        let inks = encoded(60, 40, ColorType::Cmyk, |_| {});
        assert_eq!(luma(&inks, 60, 40), None);
    }
}
