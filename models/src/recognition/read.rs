//! Line images to text: preprocessing, network, decoder and spelling together.

use std::ops::Range;
use std::sync::Arc;

use super::charset::{Charset, Encoding};
use super::ctc::{Decoder, Decoding, log_softmax};
use super::ewts;
use super::language::LanguageModel;
use super::line_image::{BatchLimits, LineImage, PreparedLine, Preprocessing};
use super::normalize::canonical_order;
use super::syllable::{FrameToPixel, Syllable, segments};
use crate::inference::{InferenceError, Logits, Recognizer};

/// Settings of reading.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadOptions {
    pub preprocessing: Preprocessing,
    pub decoder: Decoder,
    pub language: Option<Arc<LanguageModel>>,
    /// Spelling of the text in the end, whatever the charset writes.
    pub encoding: Encoding,
    pub batch: BatchLimits,
}

/// Text of one line. A line image without pixels has no text and confidence 0.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LineText {
    /// Text without white space at its ends.
    pub text: String,
    /// Confidence, as in [`Decoding::confidence`].
    pub confidence: f32,
    /// Spelled one by one; where the charset and the text differ in encoding, a sign may look different at the joints.
    pub syllables: Vec<Syllable>,
    /// Rows of the line image from the first ink to the last, where the preprocessing looked for it.
    pub inked: Option<Range<u32>>,
}

/// Reads lines; the answers are in the order of the input.
///
/// # Errors
/// Those of the network; [`InferenceError`] also if it answers something that is not one row of scores per class of `charset`
/// for each line.
pub fn read_lines(
    lines: &[LineImage<'_>],
    recognizer: &dyn Recognizer,
    charset: &Charset,
    options: &ReadOptions,
) -> Result<Vec<LineText>, InferenceError> {
    let (places, prepared): (Vec<usize>, Vec<PreparedLine>) = lines
        .iter()
        .enumerate()
        .filter_map(|(place, line)| Some((place, options.preprocessing.prepare(line)?)))
        .unzip();
    let mut texts = vec![LineText::default(); lines.len()];
    for (batch, indices) in options.preprocessing.batch(&prepared, options.batch) {
        let answers = recognizer.logits(&batch)?;
        if answers.len() != indices.len() {
            return Err(InferenceError::Shape {
                expected: format!("{} lines", indices.len()),
                actual: answers.len(),
            });
        }
        for (index, logits) in indices.into_iter().zip(answers) {
            let place = places[index];
            texts[place] = read_logits(logits, &prepared[index], charset, options)?;
        }
    }
    Ok(texts)
}

/// Decodes the scores of one line.
///
/// # Errors
/// [`InferenceError`] if they are not one row of scores per class of `charset`, or not numbers.
pub fn read_logits(
    logits: Logits,
    line: &PreparedLine,
    charset: &Charset,
    options: &ReadOptions,
) -> Result<LineText, InferenceError> {
    charset
        .check_classes(logits.classes)
        .map_err(|error| InferenceError::Failed(error.to_string()))?;
    let log_probs = log_softmax(logits)?;
    let content = line.content_frames(log_probs.frames());
    let decoded = options.preprocessing.decoded_frames(line, log_probs.frames());
    let scale = FrameToPixel {
        // Decoding counts frames from the first one that it sees, which may lie before the line.
        frames: content.start - decoded.start..content.end - decoded.start,
        columns: line.shown.clone(),
    };
    let decoding = options
        .decoder
        .decode(&log_probs.crop(decoded), charset, options.language.as_deref());
    let (text, syllables) = spell(&decoding, charset, &scale, options.encoding);
    Ok(LineText {
        text,
        confidence: decoding.confidence,
        syllables,
        inked: line.inked.clone(),
    })
}

/// Text and syllables of a line in the spelling that is asked for.
fn spell(
    decoding: &Decoding,
    charset: &Charset,
    scale: &FrameToPixel,
    target: Encoding,
) -> (String, Vec<Syllable>) {
    let convert = |text: &str| respell(text, charset.encoding(), target);
    let mut syllables = segments(decoding, charset, scale);
    for syllable in &mut syllables {
        syllable.text = convert(&syllable.text);
    }
    // The text is converted whole and not put together of syllables: a stack can be spelled otherwise
    // beside its neighbour.
    (convert(&decoding.text).trim().to_owned(), syllables)
}

/// Converts what a charset writes into the spelling that is asked for.
fn respell(text: &str, from: Encoding, to: Encoding) -> String {
    match (from, to) {
        (Encoding::Unicode, Encoding::Unicode) => canonical_order(text),
        (Encoding::Unicode, Encoding::Wylie) => ewts::to_wylie(&canonical_order(text)),
        (Encoding::Wylie, Encoding::Wylie) => standard_wylie(text),
        (Encoding::Wylie, Encoding::Unicode) => {
            // Networks write the Wylie they were trained on. The repairs that are meant for people would read
            // some of its capitals as slips.
            canonical_order(&ewts::to_unicode_exact(&standard_wylie(text)))
        }
    }
}

/// Undoes the letters that Wylie charsets use for what EWTS spells otherwise.
fn standard_wylie(text: &str) -> String {
    let mut wylie = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '§' => wylie.push(' '),
            'ä' => wylie.push_str(r"\u0f09"),
            'ö' => wylie.push_str(r"\u0f13"),
            'ü' => wylie.push_str(r"\u0f12"),
            '}' => wylie.push('H'),
            other => wylie.push(other),
        }
    }
    wylie
}

#[cfg(test)]
mod tests;
