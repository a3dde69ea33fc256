//! Line images as a recogniser sees them.
//!
//! A network reads well only what looks like its training data, so preparation belongs to the model: [`Preprocessing`] is a
//! part of `model.json`, and each of its kinds is a file here that follows the program which prepared the training data.
//! Ink maps ([`ink`]) are this project's: the distance of strokes and the contrast of a scan are evened out, at any width. The
//! two of BDRC's put a line onto a canvas of one size, as their networks need.
//!
//! A prepared line remembers which columns of the image its frames show, because preparation cuts, pads and scales, and
//! tokens are placed on the page at the end. Batches ([`BatchLimits`]) group lines of similar width, so that little of a
//! batch is padding.

mod batch;
mod bdrc;
mod bdrc_gen1;
mod ink;
mod strokes;

use std::num::NonZeroU16;
use std::ops::Range;

use image::GrayImage;
use serde::{Deserialize, Serialize};

pub use batch::BatchLimits;

use crate::algorithms::Algorithms;

/// A line cut from a page.
#[derive(Debug, Clone, Copy)]
pub struct LineImage<'a> {
    /// Pixels of the line; ink is dark.
    pub image: &'a GrayImage,
    /// `true` for a scan that has only black and white, so that its contrast must not be stretched.
    pub bilevel: bool,
}

/// Preparation of line images as it was when a recogniser was trained; `model.json` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Preprocessing {
    /// The second generation of BDRC's pipelines: the line fitted into a white canvas of fixed size and binarised,
    /// paper 1 and ink -1.
    BdrcGen2 {
        width: u32,
        height: u32,
        /// `true` puts a white square as high as the line before and after it.
        #[serde(default = "yes")]
        pre_pad: bool,
    },
    /// The first generation of BDRC's programs: the line fitted into the middle of a black canvas of fixed size and
    /// binarised, paper 1 and ink -1. What the network answers for the canvas beside the line is decoded as well.
    BdrcGen1 {
        width: u32,
        height: u32,
        /// `true` puts a white square as high as the line before and after it: the desktop application does, while
        /// `ocr-inference` does not.
        #[serde(default)]
        pre_pad: bool,
    },
    /// An ink map of fixed height and free width: paper 0, ink 1, contrast stretched unless the scan is bilevel.
    Ink {
        height: u32,
        /// Columns between two strokes, if lines are stretched until their strokes are that far apart.
        #[serde(default)]
        stroke_pitch: Option<NonZeroU16>,
    },
}

fn yes() -> bool {
    true
}

/// A line image ready for the network.
#[derive(Debug, Clone, PartialEq)]
pub struct PreparedLine {
    pub height: usize,
    /// Columns that the network has to see.
    pub width: usize,
    /// `height * width` values, row-major, in the range that the model was trained on.
    pub values: Vec<f32>,
    /// Columns before the line itself.
    pub left_pad: usize,
    /// Columns of the line itself.
    pub content_width: usize,
    /// Part of the line image that they show, in its columns: all of it, or all but blank paper beside the ink.
    pub shown: Range<u32>,
    /// Rows of the line image from the first ink to the last; absent for preprocessing that does not look for ink.
    pub inked: Option<Range<u32>>,
}

impl PreparedLine {
    /// Range of the `frames` of the network that belong to the line itself: at least one, if there is any.
    pub fn content_frames(&self, frames: usize) -> Range<usize> {
        if self.content_width == self.width || frames == 0 {
            return 0..frames;
        }
        let start = frames * self.left_pad / self.width;
        let end = frames * (self.left_pad + self.content_width) / self.width;
        // Rounding may leave a very short line no frame of its own.
        let start = start.min(frames - 1);
        start..end.clamp(start + 1, frames)
    }
}

impl Preprocessing {
    /// Prepares one line; `None` for an image without pixels.
    pub fn prepare(&self, line: &LineImage<'_>) -> Option<PreparedLine> {
        if line.image.width() == 0 || line.image.height() == 0 {
            return None;
        }
        Some(match *self {
            Self::BdrcGen2 {
                width,
                height,
                pre_pad,
            } => bdrc::prepare(line.image, width, height, pre_pad),
            Self::BdrcGen1 {
                width,
                height,
                pre_pad,
            } => bdrc_gen1::prepare(line.image, width, height, pre_pad),
            Self::Ink { height, stroke_pitch } => ink::prepare(line, height, stroke_pitch),
        })
    }

    /// Width and height of the images, if all have the same.
    pub fn canvas(&self) -> Option<(usize, usize)> {
        match *self {
            Self::BdrcGen1 { width, height, .. } | Self::BdrcGen2 { width, height, .. } => {
                Some((width as usize, height as usize))
            }
            Self::Ink { .. } => None,
        }
    }

    /// This preparation for a model of BDRC's that is used with the algorithms of another generation. Ink maps belong to no
    /// generation and stay.
    #[must_use]
    pub fn with_algorithms(self, algorithms: Algorithms) -> Self {
        match (self, algorithms) {
            (Self::BdrcGen2 { width, height, .. }, Algorithms::Gen1) => Self::BdrcGen1 {
                width,
                height,
                pre_pad: false,
            },
            _ => self,
        }
    }

    /// Range of the frames of a line that are decoded.
    pub fn decoded_frames(&self, line: &PreparedLine, frames: usize) -> Range<usize> {
        match self {
            Self::BdrcGen1 { .. } => 0..frames,
            Self::BdrcGen2 { .. } | Self::Ink { .. } => line.content_frames(frames),
        }
    }

    /// The value of blank paper.
    pub fn paper(&self) -> f32 {
        match self {
            Self::BdrcGen1 { .. } | Self::BdrcGen2 { .. } => 1.0,
            Self::Ink { .. } => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(width: usize, left_pad: usize, content_width: usize) -> PreparedLine {
        PreparedLine {
            height: 0,
            width,
            values: Vec::new(),
            left_pad,
            content_width,
            shown: 0..0,
            inked: None,
        }
    }

    #[test]
    fn frames_of_the_padding_are_left_out() {
        assert_eq!(line(3200, 99, 1811).content_frames(800), 24..477);
        assert_eq!(line(3200, 0, 3200).content_frames(800), 0..800);
        assert_eq!(line(3200, 99, 0).content_frames(800), 24..25);
        assert_eq!(line(3200, 3199, 1).content_frames(1), 0..1);
        assert_eq!(line(3200, 99, 12).content_frames(0), 0..0);
    }

    #[test]
    fn model_json_names_the_preprocessing() {
        let named: Preprocessing = serde_json::from_str(r#"{"kind":"ink","height":64}"#).unwrap();
        assert_eq!(
            named,
            Preprocessing::Ink {
                height: 64,
                stroke_pitch: None
            }
        );
        let named: Preprocessing =
            serde_json::from_str(r#"{"kind":"bdrc_gen2","width":3200,"height":100}"#).unwrap();
        assert_eq!(
            named,
            Preprocessing::BdrcGen2 {
                width: 3200,
                height: 100,
                pre_pad: true
            }
        );
    }

    #[test]
    fn a_model_of_bdrc_follows_the_generation_and_an_ink_map_does_not() {
        let gen2 = Preprocessing::BdrcGen2 {
            width: 3200,
            height: 100,
            pre_pad: true,
        };
        let gen1 = Preprocessing::BdrcGen1 {
            width: 3200,
            height: 100,
            pre_pad: false,
        };
        assert_eq!(gen2.with_algorithms(Algorithms::Gen1), gen1);
        assert_eq!(gen2.with_algorithms(Algorithms::Gen2), gen2);
        let ink = Preprocessing::Ink {
            height: 64,
            stroke_pitch: None,
        };
        assert_eq!(ink.with_algorithms(Algorithms::Gen1), ink);
        let half = line(3200, 1600, 800);
        assert_eq!(gen1.decoded_frames(&half, 800), 0..800);
        assert_eq!(gen2.decoded_frames(&half, 800), 400..600);
    }

    #[test]
    fn an_empty_image_is_no_line() {
        let empty = GrayImage::new(0, 7);
        assert_eq!(
            Preprocessing::Ink {
                height: 64,
                stroke_pitch: None
            }
            .prepare(&LineImage {
                image: &empty,
                bilevel: false
            }),
            None
        );
    }
}
