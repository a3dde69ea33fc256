//! Words and pages as callers give them.

/// Word, or any other run of text that has one box.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Word<'a> {
    /// Text in Unicode, in reading order. Control characters are left out.
    pub text: &'a str,
    /// Left, top, right and bottom in points from the top left corner of the page as displayed. What lies beyond the page is moved to its
    /// edge.
    pub bbox: [f32; 4],
    /// Number of its line. Consecutive words with one number are one line.
    pub line: u32,
}

/// Rule for the spaces between the words of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spacing {
    /// The texts of the words hold all spaces of the line.
    Written,
    /// Spaces are inferred: words stand apart, but for neighbours in a script that is written without spaces, such as Chinese characters
    /// and Tibetan syllables, unless the gap between them is wide.
    Inferred,
}

/// Treatment of the text that a page has itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnText {
    /// It is found beside the layer.
    Kept,
    /// Programs that search or copy find spaces in its place; the page looks the same. Text within form XObjects, and in composite fonts that
    /// are not embedded, is kept.
    Blanked,
}

/// Size of a page as displayed, in points.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PageSize {
    pub width: f64,
    pub height: f64,
}
