//! Text of a page, from the answer of an engine.

use parkhang_answers::chat::ChatAnswer;
use parkhang_answers::vision::{Bounds, VisionLine, VisionPage};
use serde_json::Value;

use super::error::Failure;

/// Text of a page.
#[derive(Debug, Clone, PartialEq)]
pub enum PageText {
    /// Lines with their places, in pixels of the picture.
    Lines(Vec<EngineLine>),
    /// Text whose lines have no places.
    Plain(String),
}

#[derive(Debug, Clone, PartialEq)]
pub struct EngineLine {
    pub text: String,
    pub confidence: Option<f32>,
    /// Left, top, right and bottom edge; the last two are beyond the last pixel.
    pub bounds: [i32; 4],
    pub words: Vec<EngineWord>,
}

/// Word with the space behind it.
#[derive(Debug, Clone, PartialEq)]
pub struct EngineWord {
    pub text: String,
    pub confidence: Option<f32>,
    pub left: i32,
    pub right: i32,
}

pub(super) fn of_chat(answer: &Value, most_repetition: f64) -> Result<PageText, Failure> {
    let read = ChatAnswer::of(answer).and_then(|read| read.checked(most_repetition));
    match read {
        Ok(read) => Ok(PageText::Plain(read.text)),
        Err(error) => Err(Failure::Answer(error, Box::new(answer.clone()))),
    }
}

/// The lines of a response, or its text where one of them has no place.
pub(super) fn of_vision(response: &Value) -> PageText {
    let page = VisionPage::of(response);
    let has_text = !page.text.trim().is_empty();
    let lines: Option<Vec<EngineLine>> = page.lines.into_iter().map(line).collect();
    match lines {
        Some(lines) if !lines.is_empty() || !has_text => PageText::Lines(lines),
        _ => PageText::Plain(page.text),
    }
}

fn line(line: VisionLine) -> Option<EngineLine> {
    let around = line.bounds?;
    let words = line.words.into_iter().map(|word| {
        let bounds = word.bounds.unwrap_or(around);
        EngineWord {
            text: word.text,
            confidence: word.confidence,
            left: bounds.left.floor() as i32,
            right: bounds.right.ceil() as i32,
        }
    });
    Some(EngineLine {
        text: line.text,
        confidence: line.confidence,
        words: words.collect(),
        bounds: pixels(around),
    })
}

fn pixels(bounds: Bounds) -> [i32; 4] {
    [
        bounds.left.floor() as i32,
        bounds.top.floor() as i32,
        bounds.right.ceil() as i32,
        bounds.bottom.ceil() as i32,
    ]
}
