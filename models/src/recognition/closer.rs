//! Lines that are read unsurely, read again by the middle rows of their images.
//!
//! The image of a line is cut with a margin for letters that reach far above and below its middle, as some hands have them. Where others do not,
//! and lines are close or bent, the margin holds parts of the neighbours, and the writing itself is small. Nobody knows before reading; so
//! what was read unsurely is read again with less of the margin, and the surer text is taken.

use std::ops::Range;

use super::line_image::Preprocessing;
use super::read::LineText;

/// Shares of the rows of a line image by which it is read again, one after the other. Four fifths and two thirds of the usual three heights
/// of a line were better than either alone; narrower, letters are cut.
const SHARES: [f64; 2] = [0.8, 2.0 / 3.0];
/// Least confidence of a line that is read once. With 0.9 real pages took half as long again, as the second network is asked about such lines, and
/// were read no better.
const SURE: f32 = 0.8;
/// Confidence by which another reading has to be surer.
const SURER: f32 = 0.02;

impl Preprocessing {
    /// Shares of the rows of a line image by which lines are read again while they are unsure, in the order to try them: none for networks that
    /// see lines as other programs prepare them.
    pub fn closer_shares(&self) -> &'static [f64] {
        match self {
            Self::Ink { .. } => &SHARES,
            Self::BdrcGen1 { .. } | Self::BdrcGen2 { .. } => &[],
        }
    }
}

/// Returns the middle rows, this share of them, of an image of so many.
pub fn middle_rows(height: u32, share: f64) -> Range<u32> {
    let rows = ((f64::from(height) * share).round() as u32).clamp(1.min(height), height);
    let first = (height - rows) / 2;
    first..first + rows
}

impl LineText {
    /// Returns whether the line ought to be read again.
    pub fn is_unsure(&self) -> bool {
        self.confidence < SURE
    }

    /// This text, or that of the middle rows of its image, `rows`, if it is surer.
    #[must_use]
    pub fn or_of_middle(self, text: Self, rows: &Range<u32>) -> Self {
        if text.confidence <= self.confidence + SURER {
            return self;
        }
        let inked = text.inked.map(|ink| ink.start + rows.start..ink.end + rows.start);
        Self { inked, ..text }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(text: &str, confidence: f32) -> LineText {
        LineText {
            text: text.to_owned(),
            confidence,
            inked: Some(2..9),
            ..LineText::default()
        }
    }

    #[test]
    fn the_surer_text_is_taken() {
        assert!(text("", 0.79).is_unsure() && !text("", 0.8).is_unsure());
        let rows = 5..25;
        let surer = text("ka", 0.5).or_of_middle(text("kha", 0.6), &rows);
        assert_eq!((surer.text.as_str(), surer.inked), ("kha", Some(7..14)));
        for confidence in [0.4, 0.51] {
            let first = text("ka", 0.5).or_of_middle(text("kha", confidence), &rows);
            assert_eq!(first, text("ka", 0.5));
        }
    }

    #[test]
    fn other_programs_read_once() {
        let theirs = Preprocessing::BdrcGen2 {
            width: 3200,
            height: 100,
            pre_pad: true,
        };
        assert!(theirs.closer_shares().is_empty());
    }

    proptest! {
        #[test]
        fn the_middle_is_inside(height in 0_u32..5000, share in 0.0..1.0f64) {
            let rows = middle_rows(height, share);
            prop_assert_eq!(rows.is_empty(), height == 0);
            prop_assert!(rows.end <= height);
            prop_assert!(rows.start.abs_diff(height - rows.end) <= 1);
        }
    }
}
