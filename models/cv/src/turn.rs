//! Quarter turns of pages.

use std::ops::Sub;

use image::{ImageBuffer, Pixel, imageops};
use serde::{Deserialize, Serialize};

use crate::geometry::{Point, last_pixel};

/// Turn of the content of a page, clockwise.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Turn {
    #[default]
    Upright,
    Quarter,
    Half,
    ThreeQuarters,
}

impl Turn {
    /// In the order of the classifier's answers.
    pub const ALL: [Self; 4] = [Self::Upright, Self::Quarter, Self::Half, Self::ThreeQuarters];

    /// Degrees clockwise.
    pub fn degrees(self) -> u16 {
        match self {
            Self::Upright => 0,
            Self::Quarter => 90,
            Self::Half => 180,
            Self::ThreeQuarters => 270,
        }
    }

    /// The turn of so many degrees clockwise; `None` for what is no multiple of 90 below 360.
    pub fn from_degrees(degrees: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|turn| turn.degrees() == degrees)
    }

    /// The turn by which the content is upside down where it is upright by this one.
    #[must_use]
    pub fn opposite(self) -> Self {
        match self {
            Self::Upright => Self::Half,
            Self::Quarter => Self::ThreeQuarters,
            Self::Half => Self::Upright,
            Self::ThreeQuarters => Self::Quarter,
        }
    }

    /// The turn that a page which was turned by this one is turned back by.
    #[must_use]
    pub fn back(self) -> Self {
        match self {
            Self::Upright => Self::Upright,
            Self::Quarter => Self::ThreeQuarters,
            Self::Half => Self::Half,
            Self::ThreeQuarters => Self::Quarter,
        }
    }

    /// A box of the page with its content upright, as left, top, right and bottom, on the page as it lies, whose width and height are
    /// `size`.
    pub fn bounds_as_they_lie(self, [x0, y0, x1, y1]: [f32; 4], (width, height): (f32, f32)) -> [f32; 4] {
        match self {
            Self::Upright => [x0, y0, x1, y1],
            Self::Quarter => [width - y1, x0, width - y0, x1],
            Self::Half => [width - x1, height - y1, width - x0, height - y0],
            Self::ThreeQuarters => [y0, height - x1, y1, height - x0],
        }
    }

    /// Width and height of the page with its content upright, of a page of this width and height.
    pub fn upright_size<T>(self, (width, height): (T, T)) -> (T, T) {
        match self {
            Self::Upright | Self::Half => (width, height),
            Self::Quarter | Self::ThreeQuarters => (height, width),
        }
    }

    /// The page with its content upright; `None` where it is.
    pub fn undone<P: Pixel + 'static>(
        self,
        page: &ImageBuffer<P, Vec<P::Subpixel>>,
    ) -> Option<ImageBuffer<P, Vec<P::Subpixel>>> {
        match self {
            Self::Upright => None,
            Self::Quarter => Some(imageops::rotate270(page)),
            Self::Half => Some(imageops::rotate180(page)),
            Self::ThreeQuarters => Some(imageops::rotate90(page)),
        }
    }

    /// Pixel of the page with its content upright that shows this pixel of the page that was given, whose width and height are `size`.
    pub fn upright_pixel(self, pixel: Point, size: (u32, u32)) -> Point {
        self.back().pixel_as_it_lies(pixel, self.upright_size(size))
    }

    /// Pixel of the page that was given, whose width and height are `size`, that shows this pixel of the page with its content upright.
    pub fn pixel_as_it_lies(self, pixel: Point, size: (u32, u32)) -> Point {
        let last = last_pixel(size);
        let (x, y) = self.redone((pixel.x, pixel.y), (last.x, last.y));
        Point::new(x, y)
    }

    /// Place on the page that was given of a place on the page with its content upright. The size is that of the page that was given, or
    /// for places that are indexes of pixels the place of its last pixel.
    pub fn redone<T: Sub<Output = T>>(self, (x, y): (T, T), (width, height): (T, T)) -> (T, T) {
        match self {
            Self::Upright => (x, y),
            Self::Quarter => (width - y, x),
            Self::Half => (width - x, height - y),
            Self::ThreeQuarters => (y, height - x),
        }
    }
}

#[cfg(test)]
mod tests {
    use image::RgbImage;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_box_of_the_upright_page_shows_the_same_pixels(
            (width, height) in (1_u32..20, 1_u32..20), place in any::<(u32, u32)>(), turn in prop::sample::select(&Turn::ALL[..]),
        ) {
            let (x, y) = (place.0 % width, place.1 % height);
            let mut page = RgbImage::new(width, height);
            page.put_pixel(x, y, image::Rgb([1; 3]));
            let upright = turn.undone(&page).unwrap_or_else(|| page.clone());
            prop_assert_eq!(upright.dimensions(), turn.upright_size((width, height)));
            let (u, v, _) = upright.enumerate_pixels().find(|(_, _, pixel)| pixel.0[0] == 1).unwrap();
            let (u, v) = (u as f32, v as f32);
            let size = (width as f32, height as f32);
            let lies = turn.bounds_as_they_lie([u, v, u + 1.0, v + 1.0], size);
            let (x, y) = (x as f32, y as f32);
            prop_assert_eq!(lies, [x, y, x + 1.0, y + 1.0]);
            let again = turn.back().bounds_as_they_lie(lies, turn.upright_size(size));
            prop_assert_eq!(again, [u, v, u + 1.0, v + 1.0]);
        }
    }

    #[test]
    fn a_place_is_found_again_on_the_turned_page() {
        let page = RgbImage::from_fn(5, 3, |x, y| image::Rgb([x as u8, y as u8, 0]));
        for turn in Turn::ALL {
            let upright = turn.undone(&page).unwrap_or_else(|| page.clone());
            for (x, y, pixel) in upright.enumerate_pixels() {
                let place = turn.redone((x as f32 + 0.5, y as f32 + 0.5), (5.0, 3.0));
                let [column, row, _] = pixel.0;
                assert_eq!(place, (f32::from(column) + 0.5, f32::from(row) + 0.5), "{turn:?}");
                let (pixel, shown) = (
                    Point::new(i32::from(column), i32::from(row)),
                    Point::new(x as i32, y as i32),
                );
                assert_eq!(turn.pixel_as_it_lies(shown, (5, 3)), pixel, "{turn:?}");
                assert_eq!(turn.upright_pixel(pixel, (5, 3)), shown, "{turn:?}");
            }
            assert_eq!(Turn::from_degrees(turn.degrees()), Some(turn));
        }
        assert_eq!(Turn::from_degrees(45), None);
    }
}
