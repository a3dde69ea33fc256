use image::GrayImage;

use super::ThinPlateSpline;
use crate::page::warp::{Interpolation, Sampler};

/// The image whose value at each position p is that of `image` at `spline.transform(p)` (a backward map from the output to
/// the source), bilinear, of the same size. Positions outside the outermost pixel centres get `border`.
pub fn warp_spline(image: &GrayImage, spline: &ThinPlateSpline, border: u8) -> GrayImage {
    let mut warped = GrayImage::from_pixel(image.width(), image.height(), image::Luma([border]));
    let sampler = Sampler::new(image, Interpolation::Linear);
    for_each_position(spline, image.width(), image.height(), |x, y, source| {
        if let Some(value) = sampler.sample(source) {
            warped.put_pixel(x, y, image::Luma([(value + 0.5) as u8]));
        }
    });
    warped
}

/// Calls `visit` with every pixel and its source position.
fn for_each_position(
    spline: &ThinPlateSpline,
    width: u32,
    height: u32,
    mut visit: impl FnMut(u32, u32, (f64, f64)),
) {
    for y in 0..height {
        for x in 0..width {
            visit(x, y, spline.transform((f64::from(x), f64::from(y))));
        }
    }
}
