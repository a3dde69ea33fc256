//! Pictures as engines get them.

use bytes::Bytes;
use image::codecs::png::{CompressionType, FilterType, PngEncoder};
use image::{ExtendedColorType, GrayImage, ImageEncoder};
use parkhang_answers::picture_size::PictureBounds;
use parkhang_answers::vision::IMAGE_BYTES;
use parkhang_models::page::decode::{DecodeLimits, decode_page};
use parkhang_models::page::resize::resize_area;

/// The picture itself, if Google Vision takes one of its size.
pub(super) fn within_limits(jpeg: &Bytes) -> Result<Bytes, String> {
    match jpeg.len() {
        bytes if bytes > IMAGE_BYTES => Err(format!(
            "the picture has {bytes} bytes, and Google Vision takes {IMAGE_BYTES}"
        )),
        _ => Ok(jpeg.clone()),
    }
}

/// The picture as a PNG within bounds: nothing is lost but by shrinking it.
pub(super) fn png(jpeg: &Bytes, bounds: PictureBounds) -> Result<Bytes, String> {
    let page = decode_page(jpeg, &DecodeLimits::default()).map_err(|error| error.to_string())?;
    png_of(page.gray, bounds)
}

/// The pixels of a page as a PNG within bounds.
pub(super) fn png_of(page: GrayImage, bounds: PictureBounds) -> Result<Bytes, String> {
    let (width, height) = bounds.fit(page.width(), page.height());
    let gray = match (width, height) == page.dimensions() {
        true => page,
        false => resize_area(&page, width, height),
    };
    let mut png = Vec::new();
    PngEncoder::new_with_quality(&mut png, CompressionType::Fast, FilterType::Adaptive)
        .write_image(gray.as_raw(), width, height, ExtendedColorType::L8)
        .map_err(|error| error.to_string())?;
    Ok(png.into())
}

#[cfg(test)]
mod tests {
    use image::Luma;

    use super::*;
    use crate::jpeg::encode_jpeg;

    /// Rows: 84.
    #[test]
    fn a_picture_is_shrunk_to_its_bounds_and_no_further() {
        let page = GrayImage::from_fn(300, 100, |x, _| Luma([(x % 256) as u8]));
        let jpeg: Bytes = encode_jpeg(&page, 95).unwrap().into();
        let size = |bounds: PictureBounds| {
            let png = png(&jpeg, bounds).unwrap();
            image::load_from_memory_with_format(&png, image::ImageFormat::Png)
                .unwrap()
                .into_luma8()
        };
        let small = PictureBounds {
            side: 150,
            pixels: 1_000_000,
        };
        assert_eq!(size(small).dimensions(), (150, 50));
        let whole = size(PictureBounds::of_archive());
        assert_eq!(whole, decode_page(&jpeg, &DecodeLimits::default()).unwrap().gray);
        assert!(png(&Bytes::from_static(b"no picture"), small).is_err());
        assert_eq!(within_limits(&jpeg).unwrap(), jpeg);
        assert!(within_limits(&vec![0; IMAGE_BYTES + 1].into()).is_err());
    }
}
