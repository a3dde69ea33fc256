//! Pages whose content lies turned.

use image::GrayImage;
use image::imageops::{rotate90, rotate180, rotate270};
use parkhang_words::Turn;

use super::lines::Bounds;

/// The picture of a page whose content is turned clockwise by `turn`, with its content upright.
pub(super) fn upright(page: &GrayImage, turn: Turn) -> GrayImage {
    match turn {
        Turn::Upright => page.clone(),
        Turn::Quarter => rotate270(page),
        Turn::Half => rotate180(page),
        Turn::ThreeQuarters => rotate90(page),
    }
}

/// A box of the upright picture on the page as it lies, whose width and height are `page`.
pub(super) fn as_it_lies([x0, y0, x1, y1]: Bounds, turn: Turn, (width, height): (f32, f32)) -> Bounds {
    match turn {
        Turn::Upright => [x0, y0, x1, y1],
        Turn::Quarter => [width - y1, x0, width - y0, x1],
        Turn::Half => [width - x1, height - y1, width - x0, height - y0],
        Turn::ThreeQuarters => [y0, height - x1, y1, height - x0],
    }
}

#[cfg(test)]
mod tests {
    use image::Luma;
    use proptest::prelude::*;

    use super::*;

    const TURNS: [Turn; 4] = [Turn::Upright, Turn::Quarter, Turn::Half, Turn::ThreeQuarters];

    proptest! {
        #[test]
        fn a_box_of_the_upright_picture_shows_the_same_pixels(
            (width, height) in (1_u32..20, 1_u32..20), place in any::<(u32, u32)>(), turn in prop::sample::select(&TURNS[..]),
        ) {
            let (x, y) = (place.0 % width, place.1 % height);
            let mut page = GrayImage::from_pixel(width, height, Luma([255]));
            page.put_pixel(x, y, Luma([0]));
            let upright = upright(&page, turn);
            let (u, v, _) = upright.enumerate_pixels().find(|(_, _, pixel)| pixel.0[0] == 0).unwrap();
            let (u, v) = (u as f32, v as f32);
            let back = as_it_lies([u, v, u + 1.0, v + 1.0], turn, (width as f32, height as f32));
            let (x, y) = (x as f32, y as f32);
            prop_assert_eq!(back, [x, y, x + 1.0, y + 1.0]);
        }
    }

    #[test]
    fn content_that_is_turned_clockwise_is_turned_back() {
        // What is at the right of content that was turned clockwise was at its top.
        let page = GrayImage::from_raw(2, 1, vec![9, 1]).unwrap();
        let upright = upright(&page, Turn::Quarter);
        assert_eq!(
            (upright.dimensions(), upright.as_raw().as_slice()),
            ((1, 2), &[1, 9][..])
        );
    }
}
