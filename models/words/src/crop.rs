//! Line images: what stands in a box of text, upright and of the recogniser's height.

use image::{Rgb, RgbImage, imageops};
use parkhang_cv::resize::{resize_area, resize_linear};

use crate::quad::Quad;

/// Height of a line image.
pub(crate) const HEIGHT: u32 = 48;
/// Largest width of a line image: longer boxes are squeezed, and nobody prints such lines.
const MAX_WIDTH: u32 = 8192;
/// Largest number of pixels of a box before it is scaled.
const MAX_PIXELS: f32 = 64e6;
/// Slope below which a box counts as upright.
const UPRIGHT: f32 = 0.004;

/// The image of what stands in a box; `None` for a box without a pixel.
pub(crate) fn line_image(page: &RgbImage, quad: &Quad) -> Option<RgbImage> {
    let (width, height) = (quad.width().round(), quad.height().round());
    if width < 1.0 || height < 1.0 || width * height > MAX_PIXELS {
        return None;
    }
    let cut = upright(page, quad).unwrap_or_else(|| sampled(page, quad, width as u32, height as u32));
    let scaled = (f64::from(HEIGHT) * f64::from(cut.width()) / f64::from(cut.height().max(1))).ceil();
    let width = (scaled as u32).clamp(1, MAX_WIDTH);
    if cut.height() >= 2 * HEIGHT {
        return Some(resize_area(&cut, width, HEIGHT));
    }
    Some(resize_linear(&cut, width, HEIGHT))
}

/// The pixels of a box whose sides are upright as they are; `None` for others.
fn upright(page: &RgbImage, quad: &Quad) -> Option<RgbImage> {
    let [origin, right, _, _] = quad.0;
    let (dx, dy) = (right.0 - origin.0, right.1 - origin.1);
    if dx <= 0.0 || dy.abs() > UPRIGHT * dx {
        return None;
    }
    let [x0, y0, x1, y1] = quad.bounds();
    let edge = |value: f32, limit: u32| (value.round().max(0.0) as u32).min(limit);
    let (left, right) = (edge(x0, page.width()), edge(x1, page.width()));
    let (top, bottom) = (edge(y0, page.height()), edge(y1, page.height()));
    if left >= right || top >= bottom {
        return None;
    }
    Some(imageops::crop_imm(page, left, top, right - left, bottom - top).to_image())
}

/// The pixels of a box, between those of the page; the page's border goes on outside.
fn sampled(page: &RgbImage, quad: &Quad, width: u32, height: u32) -> RgbImage {
    RgbImage::from_fn(width, height, |column, row| {
        let along = (column as f32 + 0.5) / width as f32;
        let down = (row as f32 + 0.5) / height as f32;
        let (x, y) = quad.at(along, down);
        between(page, x - 0.5, y - 0.5)
    })
}

/// The colour between four pixels.
fn between(page: &RgbImage, x: f32, y: f32) -> Rgb<u8> {
    let last = (page.width().saturating_sub(1), page.height().saturating_sub(1));
    let (x, y) = (x.clamp(0.0, last.0 as f32), y.clamp(0.0, last.1 as f32));
    let (left, top) = (x as u32, y as u32);
    let (right, bottom) = ((left + 1).min(last.0), (top + 1).min(last.1));
    let (across, down) = (x - left as f32, y - top as f32);
    let pixel = |x, y| page.get_pixel(x, y).0.map(f32::from);
    let corners = [
        pixel(left, top),
        pixel(right, top),
        pixel(left, bottom),
        pixel(right, bottom),
    ];
    let mut colour = [0; 3];
    for (channel, value) in colour.iter_mut().enumerate() {
        let [a, b, c, d] = corners.map(|corner| corner[channel]);
        let upper = a + (b - a) * across;
        let lower = c + (d - c) * across;
        *value = (upper + (lower - upper) * down).round() as u8;
    }
    Rgb(colour)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_reads_downwards_comes_out_upright() {
        // Dark at the upper end, light at the lower one.
        let page = RgbImage::from_fn(100, 200, |_, y| Rgb([if y < 100 { 0 } else { 255 }; 3]));
        let down = Quad::upright(40.0, 20.0, 60.0, 180.0).turned(1);
        let image = line_image(&page, &down).unwrap();
        assert_eq!(image.dimensions(), (384, HEIGHT));
        assert!(image.get_pixel(100, 24).0[0] < 10 && image.get_pixel(300, 24).0[0] > 245);
    }

    #[test]
    fn boxes_outside_the_page_give_no_panic() {
        let page = RgbImage::new(10, 10);
        for quad in [
            Quad::upright(20.0, 20.0, 40.0, 30.0),
            Quad::upright(-5.0, -5.0, 3.0, 3.0),
            Quad::upright(3.0, 3.0, 3.0, 3.0),
            Quad([(0.0, 5.0), (5.0, 0.0), (15.0, 9.0), (9.0, 15.0)]),
        ] {
            let image = line_image(&page, &quad);
            assert!(image.is_none_or(|image| image.height() == HEIGHT));
        }
    }
}
