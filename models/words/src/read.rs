//! A page, read as a whole: turned upright, searched for text, cut into line images, read and put in order.

use std::borrow::Cow;

use image::{RgbImage, imageops};
use parkhang_cv::turn::Turn;
use serde::{Deserialize, Serialize};

use crate::crop::{HEIGHT, line_image};
use crate::decode::{STRIDE, characters, words};
use crate::detection;
use crate::inference::{Frame, ImageBatch, InferenceError};
use crate::ink::Ink;
use crate::models::PrintModels;
use crate::order::{PlacedLine, order_of_lines};
use crate::page_orientation;
use crate::quad::Quad;

/// Settings of reading.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReadOptions {
    /// Long side of the page as the detector sees it, in pixels.
    pub long_side: u32,
    /// Confidence that a word has at least.
    pub min_confidence: f32,
    pub orientation: Orienting,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self {
            long_side: 1280,
            min_confidence: 0.5,
            orientation: Orienting::Auto,
        }
    }
}

/// Way to find out which way up a page is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Orienting {
    /// By the classifier; where it is unsure, by reading.
    Auto,
    Fixed(Turn),
}

/// What a page says.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PageReading {
    pub turn: Turn,
    /// In reading order.
    pub lines: Vec<Line>,
}

impl PageReading {
    /// Mean confidence of the characters; 1 for a page without any.
    fn confidence(&self) -> f32 {
        let (mut sum, mut count) = (0.0, 0.0);
        for word in self.lines.iter().flat_map(|line| &line.words) {
            let length = word.text.chars().count() as f32;
            sum += length * word.confidence;
            count += length;
        }
        if count > 0.0 { sum / count } else { 1.0 }
    }
}

/// Sum of the confidences of all characters above that of a guess: readings of the same boxes compare by it.
fn surety<'a>(lines: impl IntoIterator<Item = &'a Line>) -> f32 {
    let words = lines.into_iter().flat_map(|line| &line.words);
    words
        .map(|word| word.text.chars().count() as f32 * (word.confidence - 0.5))
        .sum()
}

/// A line of text, or a part of one that stands by itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// In reading order.
    pub words: Vec<Word>,
    /// The words, with the spaces that were read.
    pub text: String,
    /// Box of the detector, on the page that was given.
    pub quad: Quad,
    /// Mean confidence of the words by their characters.
    pub confidence: f32,
}

/// A word: what stands between spaces, or one ideograph.
#[derive(Debug, Clone, PartialEq)]
pub struct Word {
    pub text: String,
    /// Its place on the page that was given.
    pub quad: Quad,
    /// Mean probability of its characters.
    pub confidence: f32,
    /// A space was read before it.
    pub space_before: bool,
}

/// Probability from which the classifier is believed.
const SURE: f32 = 0.5;
/// Probability from which a turn is tried where the classifier is not sure.
const POSSIBLE: f32 = 0.15;
/// Mean confidence of a page below which it may be upside down whatever the classifier says.
const DOUBTFUL: f32 = 0.75;

/// Reads a page. A page without text has no lines.
///
/// # Errors
/// [`InferenceError`] of a network.
pub fn read(
    page: &RgbImage,
    models: &PrintModels,
    options: &ReadOptions,
) -> Result<PageReading, InferenceError> {
    if page.width() == 0 || page.height() == 0 {
        return Ok(PageReading::default());
    }
    let turn = match options.orientation {
        Orienting::Fixed(turn) => return Found::on(page, turn, models, options)?.read(page, models, options),
        Orienting::Auto => turns(page, models)?,
    };
    let (first, others) = turn;
    let found = Found::on(page, first, models, options)?;
    let mut best = found.read(page, models, options)?;
    if best.lines.is_empty() {
        return Ok(best);
    }
    let doubtful = best.confidence() < DOUBTFUL;
    for (turn, possible) in others {
        if (possible || doubtful) && found.may_lie_otherwise(turn, models, options)? {
            let other = Found::on(page, turn, models, options)?.read(page, models, options)?;
            if surety(&other.lines) > surety(&best.lines) {
                best = other;
            }
        }
    }
    Ok(best)
}

/// Reads the lines that stand in these boxes of a page, all of their words, however unsure; `None` for a box that holds none.
///
/// # Errors
/// [`InferenceError`] of the recogniser.
pub fn read_lines(
    page: &RgbImage,
    boxes: &[Quad],
    models: &PrintModels,
) -> Result<Vec<Option<Line>>, InferenceError> {
    recognize(page, boxes, models, 0.0)
}

/// The likeliest turn of a page, and the others with whether they are to be tried.
type Turns = (Turn, Vec<(Turn, bool)>);

fn turns(page: &RgbImage, models: &PrintModels) -> Result<Turns, InferenceError> {
    let answers = models
        .orientation
        .probabilities(&page_orientation::picture(page))?;
    let probabilities = answers.first().copied().unwrap_or_default();
    let mut ranked: Vec<(Turn, f32)> = Turn::ALL.into_iter().zip(probabilities).collect();
    ranked.sort_by(|one, other| other.1.total_cmp(&one.1));
    let sure = ranked
        .first()
        .is_some_and(|&(_, probability)| probability >= SURE);
    let mut ranked = ranked
        .into_iter()
        .map(|(turn, probability)| (turn, !sure && probability >= POSSIBLE));
    let first = ranked.next().map_or(Turn::Upright, |(turn, _)| turn);
    Ok((first, ranked.collect()))
}

/// Ratio of the lengths of boxes that lie across and of those that stand from which the lines of a page lie across.
const ACROSS: f32 = 4.0;
/// Boxes that are read to see whether a page is upside down.
const SAMPLE: usize = 12;

/// The text that was found on a page, turned upright.
struct Found<'a> {
    turn: Turn,
    upright: Cow<'a, RgbImage>,
    boxes: Vec<Quad>,
}

impl<'a> Found<'a> {
    fn on(
        page: &'a RgbImage,
        turn: Turn,
        models: &PrintModels,
        options: &ReadOptions,
    ) -> Result<Self, InferenceError> {
        let upright = turn.undone(page).map_or(Cow::Borrowed(page), Cow::Owned);
        let input = detection::input(&upright, options.long_side);
        let probabilities = models.detector.probabilities(&input)?;
        let boxes = detection::boxes(
            &probabilities,
            (input.width as u32, input.height as u32),
            upright.dimensions(),
        );
        let boxes = boxes.iter().map(|text| text.quad).collect();
        Ok(Self { turn, upright, boxes })
    }

    /// Reads all boxes; `page` is the page as it was given.
    fn read(
        &self,
        page: &RgbImage,
        models: &PrintModels,
        options: &ReadOptions,
    ) -> Result<PageReading, InferenceError> {
        let lines = recognize(&self.upright, &self.boxes, models, options.min_confidence)?;
        let mut lines: Vec<Line> = lines.into_iter().flatten().collect();
        let places: Vec<PlacedLine> = lines
            .iter()
            .map(|line| PlacedLine {
                quad: line.quad,
                words: line.words.iter().map(|word| word.quad).collect(),
            })
            .collect();
        let (width, height) = page.dimensions();
        let size = (width as f32, height as f32);
        let back = |quad: Quad| quad.map(|place| self.turn.redone(place, size));
        let mut ordered = Vec::with_capacity(lines.len());
        for place in order_of_lines(&places) {
            let mut line = std::mem::replace(&mut lines[place], Line::empty());
            line.quad = back(line.quad);
            for word in &mut line.words {
                word.quad = back(word.quad);
            }
            ordered.push(line);
        }
        Ok(PageReading {
            turn: self.turn,
            lines: ordered,
        })
    }

    /// Decides whether it is worth while to read the page in another turn: lines that lie across do so upside down as well but in
    /// no other turn, and then some of them read more surely.
    fn may_lie_otherwise(
        &self,
        turn: Turn,
        models: &PrintModels,
        options: &ReadOptions,
    ) -> Result<bool, InferenceError> {
        let quads = || self.boxes.iter().copied();
        let mut across: Vec<Quad> = quads()
            .filter(|quad| quad.width() > TALL * quad.height())
            .collect();
        let length: f32 = across.iter().map(Quad::width).sum();
        let standing = quads().filter(|quad| quad.height() > TALL * quad.width());
        let length_standing: f32 = standing.map(|quad| quad.height()).sum();
        if length <= ACROSS * length_standing {
            return Ok(true);
        }
        if turn != self.turn.opposite() {
            return Ok(false);
        }
        across.sort_by(|one, other| other.width().total_cmp(&one.width()));
        across.truncate(SAMPLE);
        let surety_turned = |quarters: usize| {
            let boxes: Vec<Quad> = across.iter().map(|quad| quad.turned(quarters)).collect();
            let lines = recognize(&self.upright, &boxes, models, options.min_confidence)?;
            Ok::<f32, InferenceError>(surety(lines.iter().flatten()))
        };
        Ok(surety_turned(2)? > surety_turned(0)?)
    }
}

impl Line {
    fn empty() -> Self {
        Self {
            words: Vec::new(),
            text: String::new(),
            quad: Quad::upright(0.0, 0.0, 0.0, 0.0),
            confidence: 0.0,
        }
    }
}

/// A line image that is to be read.
struct View {
    /// Number of the box.
    number: usize,
    quad: Quad,
    image: RgbImage,
}

/// Ratio of height to width from which a box may read downwards or upwards.
const TALL: f32 = 1.5;
/// Ratio from which it cannot read across.
const TALLEST: f32 = 3.0;

/// The directions in which a box may be read.
fn directions(quad: Quad) -> Vec<Quad> {
    let ratio = quad.height() / quad.width().max(1.0);
    if ratio < TALL {
        return vec![quad];
    }
    let mut directions = vec![quad.turned(1), quad.turned(3)];
    if ratio < TALLEST {
        directions.insert(0, quad);
    }
    directions
}

/// The line that each box holds, if it holds one.
fn recognize(
    page: &RgbImage,
    boxes: &[Quad],
    models: &PrintModels,
    min_confidence: f32,
) -> Result<Vec<Option<Line>>, InferenceError> {
    let mut views = Vec::new();
    for (number, quad) in boxes.iter().enumerate() {
        for quad in directions(*quad) {
            if let Some(image) = line_image(page, &quad) {
                views.push(View { number, quad, image });
            }
        }
    }
    let frames = frames_of(&views, models)?;
    let mut best: Vec<Option<Line>> = vec![None; boxes.len()];
    for (view, frames) in views.iter().zip(frames) {
        let Some(line) = line_of(view, &frames, models, min_confidence) else {
            continue;
        };
        let held = &mut best[view.number];
        if held.as_ref().is_none_or(|held| line.confidence > held.confidence) {
            *held = Some(line);
        }
    }
    Ok(best)
}

/// Width to a multiple of which line images are padded. Attention sees the padding, so there is little of it.
const BUCKET: usize = 32;
/// Least width of the recogniser's input.
const LEAST_WIDTH: usize = 64;
/// Width of a piece of a longer line.
const PIECE: usize = 2048;
/// Line images that are given to the recogniser at once.
const TOGETHER: usize = 16;

/// Part of a line image that is read by itself.
struct Piece {
    /// Number of the view.
    view: usize,
    /// First column in the line image, a multiple of the frames' width.
    start: usize,
    end: usize,
    /// Width with padding.
    bucket: usize,
}

/// The frames of each view.
fn frames_of(views: &[View], models: &PrintModels) -> Result<Vec<Vec<Frame>>, InferenceError> {
    let mut pieces = Vec::new();
    for (view, seen) in views.iter().enumerate() {
        for (start, end) in cuts(&seen.image) {
            pieces.push(Piece {
                view,
                start,
                end,
                bucket: (end - start).next_multiple_of(BUCKET).max(LEAST_WIDTH),
            });
        }
    }
    let mut order: Vec<usize> = (0..pieces.len()).collect();
    order.sort_by_key(|&piece| pieces[piece].bucket);
    let mut by_piece: Vec<Vec<Frame>> = vec![Vec::new(); pieces.len()];
    for bucket in order.chunk_by(|&one, &other| pieces[one].bucket == pieces[other].bucket) {
        for batch in bucket.chunks(TOGETHER) {
            let images = batch.iter().map(|&piece| {
                let piece = &pieces[piece];
                (&views[piece.view].image, piece)
            });
            let answers = models.recognizer.frames(&line_batch(images.collect()))?;
            for (&piece, mut frames) in batch.iter().zip(answers) {
                // What lies in the padding is of no piece.
                frames.truncate((pieces[piece].end - pieces[piece].start).div_ceil(STRIDE));
                by_piece[piece] = frames;
            }
        }
    }
    let mut by_view = vec![Vec::new(); views.len()];
    for (piece, frames) in pieces.iter().zip(by_piece) {
        by_view[piece.view].extend(frames);
    }
    Ok(by_view)
}

/// Parts of a line image that are not too long: cut where there is no ink near the place, at the width of a frame.
fn cuts(image: &RgbImage) -> Vec<(usize, usize)> {
    let width = image.width() as usize;
    if width <= PIECE + PIECE / 2 {
        return vec![(0, width)];
    }
    let ink = Ink::of(image);
    let mut cuts = Vec::new();
    let mut start = 0;
    while width - start > PIECE + PIECE / 2 {
        let near = start + PIECE - PIECE / 8..start + PIECE;
        let place = match ink.widest_gap(near.clone()) {
            Some(gap) => (gap.start + gap.end) / 2,
            None => ink.thinnest(near).unwrap_or(start + PIECE),
        };
        // To the nearest frame, so that the frames of the pieces follow each other.
        let end = (place + STRIDE / 2) / STRIDE * STRIDE;
        cuts.push((start, end));
        start = end;
    }
    cuts.push((start, width));
    cuts
}

/// Pieces of one bucket as the recogniser takes them: from -1 to 1, padded with 0.
fn line_batch(images: Vec<(&RgbImage, &Piece)>) -> ImageBatch {
    let width = images.first().map_or(0, |(_, piece)| piece.bucket);
    let mut values = Vec::with_capacity(images.len() * 3 * HEIGHT as usize * width);
    for (image, piece) in &images {
        let columns = (piece.end - piece.start) as u32;
        let part = imageops::crop_imm(*image, piece.start as u32, 0, columns, HEIGHT).to_image();
        let (pixels, _) = part.as_raw().as_chunks::<3>();
        for channel in [2, 1, 0] {
            for row in pixels.chunks_exact(columns as usize) {
                values.extend(row.iter().map(|pixel| f32::from(pixel[channel]) / 127.5 - 1.0));
                values.resize(values.len() + width - columns as usize, 0.0);
            }
        }
    }
    ImageBatch {
        count: images.len(),
        height: HEIGHT as usize,
        width,
        values,
    }
}

/// Rows above and below the ink of a line that are of its words: fonts are higher than their letters.
const MARGIN: f32 = 1.5;

/// The line that the frames of a view say; `None` where that is nothing, or a guess.
fn line_of(view: &View, frames: &[Frame], models: &PrintModels, min_confidence: f32) -> Option<Line> {
    let characters = characters(frames, &models.charset);
    let ink = Ink::of(&view.image);
    let width = view.image.width().max(1) as f32;
    let rows = ink.body().map_or([0.0, 1.0], |body| {
        [body.start as f32 - MARGIN, body.end as f32 + MARGIN]
            .map(|row| (row / HEIGHT as f32).clamp(0.0, 1.0))
    });
    let words: Vec<Word> = words(&characters, &ink)
        .into_iter()
        .filter(|word| word.confidence >= min_confidence)
        .map(|word| Word {
            quad: view.quad.part(
                [word.columns.start as f32 / width, word.columns.end as f32 / width],
                rows,
            ),
            text: word.text,
            confidence: word.confidence,
            space_before: word.space_before,
        })
        .collect();
    let mut text = String::new();
    let (mut sum, mut count) = (0.0, 0.0);
    for word in &words {
        if word.space_before && !text.is_empty() {
            text.push(' ');
        }
        text.push_str(&word.text);
        let length = word.text.chars().count() as f32;
        sum += length * word.confidence;
        count += length;
    }
    if words.is_empty() || is_junk(&text, &view.quad) {
        return None;
    }
    Some(Line {
        words,
        text,
        quad: view.quad,
        confidence: sum / count,
    })
}

/// Returns whether a line is what bars and rules of drawings look like.
fn is_junk(text: &str, quad: &Quad) -> bool {
    let mut characters = text.chars();
    let (Some(only), None) = (characters.next(), characters.next()) else {
        return text
            .chars()
            .all(|character| matches!(character, '_' | '-' | '—' | '|' | '■' | '█' | '▌'));
    };
    let tall = quad.height() > quad.width();
    !only.is_alphanumeric() && (tall || matches!(only, '_' | '■' | '█' | '▌' | '▁' | '-' | '—'))
}
