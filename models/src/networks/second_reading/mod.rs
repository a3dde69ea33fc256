//! Two recognisers in a row: a small network reads every line, and a larger one reads again the parts of which the small one is in
//! doubt.
//!
//! Most of a print is read by the small network as well as by any, and costs what it costs; the larger one takes its time where there
//! is something to gain. A line is rarely unsure as a whole: networks that see few frames on either side of one read a part of it nearly
//! as they read it in its line, so parts are read again and not lines. Both networks write the same classes, and were trained on the
//! same batches, so that their frames fit to each other and whoever decodes does not see which of them answered.

mod doubt;
mod span;

use std::ops::Range;
use std::sync::Arc;

use self::doubt::frames_in_doubt;
use self::span::{Span, spans};
use crate::inference::{InferenceError, LineBatch, Logits, Recognizer};
use crate::recognition::charset::BLANK;

/// Share of the second network in the scores of what both have read. The scores are logarithms of probabilities up to a constant, so a
/// letter that one network excludes stays excluded. On lines and pages that neither was trained on, shares of 0.5 to 0.8 give 2 to 4 %
/// fewer errors than 1 does.
const SHARE: f32 = 0.7;

/// A [`Recognizer`] that asks `second` about the parts of lines of which `first` is in doubt.
#[derive(Debug)]
pub(crate) struct SecondReading<R, S> {
    pub(crate) first: Arc<R>,
    pub(crate) second: Arc<S>,
    /// Doubt of a frame from which on it is read again, 0 (all frames) to 1, see [`frames_in_doubt`].
    pub(crate) doubt: f32,
    /// Pixels of line width per frame of either network.
    pub(crate) stride: usize,
}

impl<R: Recognizer, S: Recognizer> Recognizer for SecondReading<R, S> {
    fn logits(&self, lines: &LineBatch) -> Result<Vec<Logits>, InferenceError> {
        let mut answers = self.first.logits(lines)?;
        let mut parts: Vec<(usize, Span)> = Vec::new();
        for (line, answer) in answers.iter().enumerate() {
            let in_doubt = frames_in_doubt(answer, self.doubt);
            parts.extend(
                spans(&in_doubt, answer.frames)
                    .into_iter()
                    .map(|span| (line, span)),
            );
        }
        parts.sort_by_key(|(_, span)| batch_frames(span));
        for of_one_width in parts.chunk_by(|(_, a), (_, b)| batch_frames(a) == batch_frames(b)) {
            let width = (batch_frames(&of_one_width[0].1) * self.stride).min(lines.width);
            // No more pixels at once than the lines have, as these fitted the device.
            let at_once = (lines.line_widths.len() * lines.width / width).max(1);
            for together in of_one_width.chunks(at_once) {
                for ((line, span), again) in together.iter().zip(self.read_again(lines, together, width)?) {
                    mix(&mut answers[*line], span, &again)?;
                }
            }
        }
        Ok(answers)
    }
}

impl<R, S: Recognizer> SecondReading<R, S> {
    /// Answers of the second network to these parts of lines, in their order, from a batch of this width in pixels.
    fn read_again(
        &self,
        lines: &LineBatch,
        parts: &[(usize, Span)],
        width: usize,
    ) -> Result<Vec<Logits>, InferenceError> {
        let columns: Vec<(usize, Range<usize>)> = parts
            .iter()
            .map(|(line, span)| {
                // The last frame may show less of the line than a whole stride.
                let end = (span.seen.end * self.stride).min(lines.line_widths[*line]);
                (*line, span.seen.start * self.stride..end)
            })
            .collect();
        let again = self.second.logits(&lines.crop(&columns, width))?;
        if again.len() != parts.len() {
            return Err(InferenceError::Shape {
                expected: format!("{} lines", parts.len()),
                actual: again.len(),
            });
        }
        Ok(again)
    }
}

/// Frames of a batch that holds the span: two widths in each octave, so that few batches hold all parts, and none is filled up with much
/// that is nothing. It depends on nothing but the span: what a GPU answers for a part then does not depend on the parts beside it. A
/// batch is no wider than the lines are.
fn batch_frames(span: &Span) -> usize {
    let octave = span.seen.len().next_power_of_two();
    let between = octave / 4 * 3;
    if span.seen.len() <= between {
        between
    } else {
        octave
    }
}

/// Mixes the scores that the second network has for a part of a line into the first one's.
fn mix(first: &mut Logits, span: &Span, again: &Logits) -> Result<(), InferenceError> {
    let classes = first.classes;
    if (again.frames, again.classes) != (span.seen.len(), classes) {
        return Err(InferenceError::Shape {
            expected: format!("{} frames x {classes} classes", span.seen.len()),
            actual: again.values.len(),
        });
    }
    let frame_of = |frame: usize| again.frame(frame - span.seen.start);
    let parted = span.parted(|frame| is_blank(first.frame(frame)) && is_blank(frame_of(frame)));
    let from = (parted.start - span.seen.start) * classes;
    let mixed = &mut first.values[parted.start * classes..parted.end * classes];
    for (score, other) in mixed.iter_mut().zip(&again.values[from..]) {
        *score += SHARE * (other - *score);
    }
    Ok(())
}

/// Returns whether no class has a higher score than the blank.
fn is_blank(scores: &[f32]) -> bool {
    scores.iter().all(|&score| score <= scores[BLANK])
}

#[cfg(test)]
mod tests;
