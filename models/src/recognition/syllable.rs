//! Syllables of a line, with their place and their confidence.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::charset::{Charset, Encoding};
use super::ctc::{DecodedToken, Decoding};

/// A syllable with the punctuation around it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Syllable {
    pub text: String,
    /// First column of its frames in the line image.
    pub x_start: u32,
    /// One past their last column.
    pub x_end: u32,
    /// Geometric mean of its tokens' probabilities; from 0 to 1, never NaN.
    pub confidence: f32,
}

/// Map that spreads the frames of a line evenly over columns of its image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrameToPixel {
    /// Frames that show the line; others are before or after it.
    pub frames: Range<usize>,
    /// Part of the line image that they show, in its columns.
    pub columns: Range<u32>,
}

impl FrameToPixel {
    /// Column where a frame starts, rounded down: the first before the line, the end after it.
    pub fn column(&self, frame: usize) -> u32 {
        let Range { start, end } = self.columns;
        if frame >= self.frames.end {
            return end;
        }
        let within = frame.saturating_sub(self.frames.start) as u64;
        // Less than the number of columns, hence no loss.
        start + (within * u64::from(end - start) / self.frames.len().max(1) as u64) as u32
    }
}

/// Splits a decoded line after its delimiters: tsheg, shad and their kin, brackets, spaces. Delimiters stay with the
/// syllable before them, those at the start of the line with the first one. The texts joined are the line's text.
pub fn segments(decoding: &Decoding, charset: &Charset, scale: &FrameToPixel) -> Vec<Syllable> {
    let mut syllables = Vec::new();
    let mut rest = decoding.tokens.as_slice();
    while !rest.is_empty() {
        let (syllable, tail) = rest.split_at(syllable_length(rest, charset));
        syllables.extend(build(syllable, charset, scale));
        rest = tail;
    }
    syllables
}

/// Number of tokens up to the next syllable.
fn syllable_length(tokens: &[DecodedToken], charset: &Charset) -> usize {
    let is_delimiter = |c: char| is_delimiter(c, charset.encoding());
    let (mut has_letter, mut ended) = (false, false);
    for (index, token) in tokens.iter().enumerate() {
        let label = charset.label(token.class);
        // Labels are whole stacks in some charsets and may hold a delimiter beside letters, so both ends are
        // looked at.
        let starts_with_letter = label.starts_with(|c| !is_delimiter(c));
        if ended && starts_with_letter {
            return index;
        }
        has_letter |= label.contains(|c| !is_delimiter(c));
        ended = has_letter && label.ends_with(is_delimiter);
    }
    tokens.len()
}

fn is_delimiter(c: char, encoding: Encoding) -> bool {
    match encoding {
        Encoding::Unicode => "་༌ །༴ཿ࿒༼༽࿙࿚༔".contains(c),
        // The same signs as charsets spell them, and double shad.
        Encoding::Wylie => "§* /=}():_".contains(c),
    }
}

fn build(tokens: &[DecodedToken], charset: &Charset, scale: &FrameToPixel) -> Option<Syllable> {
    let (first, last) = (tokens.first()?, tokens.last()?);
    // A mean of logarithms is the logarithm of a geometric mean, so that a long syllable is not less sure for
    // its length.
    let log_prob = tokens.iter().map(|token| f64::from(token.log_prob)).sum::<f64>() / tokens.len() as f64;
    Some(Syllable {
        text: tokens.iter().map(|token| charset.label(token.class)).collect(),
        x_start: scale.column(first.start_frame),
        x_end: scale.column(last.end_frame),
        confidence: log_prob.exp().min(1.0) as f32,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recognition::ctc::{LogProbs, greedy};

    fn charset() -> Charset {
        Charset::new(["ཀ", "ཁ", "་", "།", " ", "བདེ་"]).unwrap()
    }

    /// Reads classes that stand two frames each, with a blank between them.
    fn decoding(classes: &[usize]) -> Decoding {
        let shown = classes.iter().flat_map(|&class| [class, class, 0]);
        let values = shown
            .flat_map(|shown| {
                (0..7).map(move |class| if class == shown { -0.1 * shown as f32 } else { -9.0 })
            })
            .collect();
        greedy(&LogProbs::new(classes.len() * 3, 7, values).unwrap(), &charset())
    }

    fn texts(classes: &[usize]) -> Vec<String> {
        let decoding = decoding(classes);
        let scale = FrameToPixel {
            frames: 0..decoding.frames,
            columns: 0..100,
        };
        segments(&decoding, &charset(), &scale)
            .into_iter()
            .map(|syllable| syllable.text)
            .collect()
    }

    #[test]
    fn delimiters_end_a_syllable_and_stay_with_it() {
        assert_eq!(texts(&[1, 3, 2, 4, 5, 4, 1]), ["ཀ་", "ཁ། །", "ཀ"]);
        assert_eq!(texts(&[4, 4, 1, 3, 2]), ["།།ཀ་", "ཁ"]);
        assert_eq!(texts(&[4, 5, 4]), ["། །"]);
        assert_eq!(texts(&[1, 6, 3, 1]), ["ཀབདེ་་", "ཀ"]);
        assert_eq!(texts(&[]), Vec::<String>::new());
    }

    #[test]
    fn columns_cover_the_frames_of_the_tokens() {
        let decoding = decoding(&[1, 3, 2]);
        let syllables = segments(
            &decoding,
            &charset(),
            &FrameToPixel {
                frames: 0..9,
                columns: 0..90,
            },
        );
        let spans: Vec<_> = syllables
            .iter()
            .map(|syllable| (syllable.x_start, syllable.x_end))
            .collect();
        assert_eq!(spans, [(0, 50), (60, 80)]);
        assert!((syllables[0].confidence - (-0.2_f32).exp()).abs() < 1e-6);
        assert!((syllables[1].confidence - (-0.2_f32).exp()).abs() < 1e-6);
    }

    #[test]
    fn a_line_without_frames_has_no_columns_to_divide_by() {
        assert_eq!(
            FrameToPixel {
                frames: 0..0,
                columns: 0..7
            }
            .column(0),
            7
        );
        assert_eq!(
            FrameToPixel {
                frames: 0..57,
                columns: 0..319
            }
            .column(56),
            313
        );
    }
}
