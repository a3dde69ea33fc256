//! Quarter turns of pages.

use image::{RgbImage, imageops};
use serde::{Deserialize, Serialize};

use crate::quad::Position;

/// How far the content of a page is turned clockwise.
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
    pub(crate) fn opposite(self) -> Self {
        match self {
            Self::Upright => Self::Half,
            Self::Quarter => Self::ThreeQuarters,
            Self::Half => Self::Upright,
            Self::ThreeQuarters => Self::Quarter,
        }
    }

    /// The page with its content upright; `None` where it is.
    pub(crate) fn undone(self, page: &RgbImage) -> Option<RgbImage> {
        match self {
            Self::Upright => None,
            Self::Quarter => Some(imageops::rotate270(page)),
            Self::Half => Some(imageops::rotate180(page)),
            Self::ThreeQuarters => Some(imageops::rotate90(page)),
        }
    }

    /// Place on the page that was given of a place on the page with its content upright. `size` is that of the page that was given.
    pub(crate) fn redone(self, (x, y): Position, size: (u32, u32)) -> Position {
        let (width, height) = (size.0 as f32, size.1 as f32);
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
    use super::*;

    #[test]
    fn a_place_is_found_again_on_the_turned_page() {
        let page = RgbImage::from_fn(5, 3, |x, y| image::Rgb([x as u8, y as u8, 0]));
        for turn in Turn::ALL {
            let upright = turn.undone(&page).unwrap_or_else(|| page.clone());
            for (x, y, pixel) in upright.enumerate_pixels() {
                let place = turn.redone((x as f32 + 0.5, y as f32 + 0.5), page.dimensions());
                let [column, row, _] = pixel.0;
                assert_eq!(place, (f32::from(column) + 0.5, f32::from(row) + 0.5), "{turn:?}");
            }
            assert_eq!(Turn::from_degrees(turn.degrees()), Some(turn));
        }
        assert_eq!(Turn::from_degrees(45), None);
    }
}
