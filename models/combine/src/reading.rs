//! Readings of a page.

use crate::syllables::{Syllable, syllables};

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
    /// Mean log-probability of a letter of the line by a language model, for [`Combination::Best`]; absent where none was asked.
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
