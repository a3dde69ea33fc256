//! Words of a page.

use crate::geometry::Bounds;

/// A word of a page.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PageWord<'p> {
    pub text: &'p str,
    /// Left, top, right and bottom in points.
    pub bounds: Bounds,
    /// Number of its line on the page: words of one number that follow each other stand in one row.
    pub line: i32,
}
