//! One text made of several readings of the same page.
//!
//! Readings differ in their lines as well as in their letters: another engine cuts a page elsewhere, merges two lines or has no places
//! at all. So the work has three parts, each a pure function. [`Skeleton`] finds the lines of the page and gives each of
//! them what every reading has there, by place where there are places and by the letters where there are none. [`Network`] aligns the
//! readings of one line syllable by syllable. [`combine`] decides, for a line or for each of its syllables, whom to
//! believe, by the probabilities that [`Trust`] makes of confidences; these are learnt from a truth where there is one.
//!
//! After J. G. Fiscus, "A post-processing system to yield reduced word error rates: Recognizer Output Voting Error Reduction (ROVER)",
//! 1997. Other than there, the votes of independent readings are combined as the odds that all who say the same are wrong.

mod decide;
mod learn;
mod network;
mod skeleton;
mod syllables;
mod trust;

pub use decide::{Combined, How, Piece, combine};
pub use learn::{Lesson, learn};
pub use network::{Network, Slot};
pub use skeleton::{Place, Skeleton, SkeletonLine};
pub use syllables::{Syllable, syllables};
pub use trust::Trust;

/// Box of a line, in pixels of the page on which all readings of it were made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    pub left: f32,
    pub top: f32,
    pub right: f32,
    pub bottom: f32,
}

/// Line as one reading has it.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    pub syllables: Vec<Syllable>,
    /// Place on the page; absent where the reading has text alone.
    pub bounds: Option<Bounds>,
    /// Mean log-probability of a letter of the line by a language model, for [`How::Best`]; absent where none was asked.
    pub plausibility: Option<f32>,
}

impl Line {
    /// Letters of the line.
    pub fn text(&self) -> String {
        self.syllables
            .iter()
            .map(|syllable| syllable.text.as_str())
            .collect()
    }
}

/// Reading of a page by one system: its lines in reading order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Reading {
    pub lines: Vec<Line>,
}

impl Reading {
    /// A reading without places and confidences, a line for each that is not blank.
    pub fn of_text(text: &str) -> Self {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let line = |line| Line {
            syllables: syllables(line),
            bounds: None,
            plausibility: None,
        };
        Self {
            lines: lines.map(line).collect(),
        }
    }
}
