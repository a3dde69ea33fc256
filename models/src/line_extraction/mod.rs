//! Ordered line images out of line contours: joining the parts of a line, reading order, and cutting with a margin that
//! adapts to the page. This room does not know how contours were found nor what reads the images.
//!
//! It is apart from detection because the two run as different stages with tables between them: contours and straightened
//! pages are stored, and lines can be cut anew with other settings and without a network. Hence it takes a page, contours
//! and nothing else, all in pixels of the straightened page.
//!
//! Order and cutting are apart from each other too. Lines are put in order from all contours of a page; each is then cut by
//! itself, from the page and one contour, so that lines are cut side by side and one that fails costs no other.

mod columns;
mod config;
mod cut;
#[cfg(test)]
mod gen1_golden;
#[cfg(test)]
mod golden;
mod level;
mod order;
mod outline;
#[cfg(test)]
mod page;
mod running_rows;
mod shape;

pub use config::{Background, ExtractionConfig, Trim};
pub use cut::{LineImage, LinePlace, cut_line, place_line};
pub use level::Levelling;
pub use order::{Rows, build_lines};
pub use outline::line_outline;

use level::Course;

use crate::page::geometry::{Contour, Point, Rect, bounding_rect};

/// One line of text on a page, in pixels of the image its contour was made for.
#[derive(Debug, Clone, PartialEq)]
pub struct TextLine {
    /// Place in reading order, from 0.
    pub index: usize,
    pub contour: Contour,
    pub bounding_box: Rect,
    /// Middle of the bounding box, rounded down.
    pub center: Point,
    course: Course,
}

impl TextLine {
    /// `None` for a contour without points.
    pub fn new(index: usize, contour: Contour) -> Option<Self> {
        let course = Course::of(&contour);
        Self::with_course(index, contour, course)
    }

    /// A line whose course was measured on something better than this contour.
    fn with_course(index: usize, contour: Contour, course: Course) -> Option<Self> {
        if contour.is_empty() {
            return None;
        }
        let bounding_box = bounding_rect(&contour);
        let center = Point::new(
            bounding_box.x + bounding_box.width / 2,
            bounding_box.y + bounding_box.height / 2,
        );
        Some(Self {
            index,
            contour,
            bounding_box,
            center,
            course,
        })
    }

    fn doubled_middle_x(&self) -> i64 {
        2 * i64::from(self.bounding_box.x) + i64::from(self.bounding_box.width)
    }

    fn doubled_middle_y(&self) -> i64 {
        2 * i64::from(self.bounding_box.y) + i64::from(self.bounding_box.height)
    }
}
