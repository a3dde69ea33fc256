//! Shape by which a line is cut: its contour, made level where it is not.

use std::borrow::Cow;

use super::level::Levelling;
use super::{ExtractionConfig, TextLine};
use crate::page::geometry::{Point, Rect, bounding_rect};

/// Heights of a levelled line up to which the margin around it follows the box of the line as it lies: hands that reach far beyond a thin middle
/// are read better with more of a margin, and what is bent strongly with less. Chosen among five from 1 to 3, by pages that no recogniser was
/// trained on.
const MOST_OF_BOX: f64 = 1.5;

/// Shape by which a line is cut.
#[derive(Debug)]
pub(super) struct Shape<'a> {
    pub(super) contour: Cow<'a, [Point]>,
    /// Box around the contour.
    pub(super) bounds: Rect,
    /// Height that the margin follows, in pixels.
    pub(super) height: i32,
    /// Levelling that the contour went through; `None` for a line that is cut as it lies.
    pub(super) levelling: Option<Levelling>,
}

impl<'a> Shape<'a> {
    pub(super) fn of(line: &'a TextLine, config: &ExtractionConfig) -> Self {
        let as_it_lies = line.bounding_box;
        let levelling = config.level_lines.then(|| line.course.levelling()).flatten();
        let Some(levelling) = levelling else {
            return Self {
                contour: Cow::Borrowed(&line.contour),
                bounds: as_it_lies,
                height: as_it_lies.height,
                levelling: None,
            };
        };
        let contour = levelling.levelled(&line.contour);
        let bounds = bounding_rect(&contour);
        let most = (MOST_OF_BOX * f64::from(bounds.height)) as i32;
        Self {
            contour: Cow::Owned(contour),
            bounds,
            height: as_it_lies.height.min(most).max(bounds.height),
            levelling: Some(levelling),
        }
    }
}
