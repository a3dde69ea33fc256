//! Comparison of the answers of the shipped networks on a device with those on the processor: a line and a tile that are part of
//! the program go through both.

use std::sync::Arc;

use parkhang_kernels::Precision;
use parkhang_kernels::device::ComputeDevice;

use crate::inference::{InferenceError, LineBatch, Logits, Recognizer, Segmenter, TileBatch};
use crate::line_detection::TileGrid;
use crate::page::threshold::adaptive_gaussian;
use crate::recognition::charset::Charset;
use crate::recognition::ctc::{greedy, log_softmax};
use crate::recognition::line_image::{BatchLimits, LineImage, PreparedLine, Preprocessing};
use crate::weights::{WeightsError, load_recognizer, load_segmenter, shipped};

/// A line of the Tibetan Classics Critical Edition collection (Apache 2.0).
const LINE: &[u8] = include_bytes!("../tests/fixtures/lines/TCCG_010_001.png");
/// A part of a rendered page.
const TILE: &[u8] = include_bytes!("../tests/fixtures/rendered-tile/page.png");
/// The value of a pixel with ink in a tile.
const INK: f32 = 0.0;
const BINARISE_BLOCK: u32 = 31;
const BINARISE_C: i32 = 15;

/// Distance from 0 and 1 within which a network is sure of a probability, and its score before the sigmoid is lost in rounding.
const SURE: f32 = 1e-3;

/// The shipped networks on a device, and what they are asked.
#[derive(Debug)]
pub struct SelfTest {
    segmenter: Arc<dyn Segmenter>,
    recognizer: Arc<dyn Recognizer>,
    charset: Charset,
    preprocessing: Preprocessing,
    line: PreparedLine,
    tile: TileBatch,
}

/// Answers of the networks.
#[derive(Debug, Clone, PartialEq)]
pub struct Answers {
    probabilities: Vec<f32>,
    logits: Logits,
    /// The line as the best class of each frame spells it.
    pub text: String,
}

/// Difference of the answers of a device from those of the processor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Comparison {
    /// Largest difference of two scores before sigmoid or softmax; NaN if there is one among them.
    pub logit_difference: f32,
    pub text_equal: bool,
}

impl Comparison {
    /// Largest difference that different kernels and orders of summing up explain, and that rounding to eight bits does.
    pub fn tolerance(precision: Precision) -> f32 {
        match precision {
            Precision::Full => 1e-3,
            // Scores reach down to -33, and those of the least likely letters are the least exact: 1.7 was seen.
            Precision::Int8 => 3.0,
        }
    }

    /// Returns whether a device that computes with this precision may differ so much. Rounding to eight bits may turn a letter
    /// over that was all but tied with another.
    pub fn passes(&self, precision: Precision) -> bool {
        let text_passes = self.text_equal || precision == Precision::Int8;
        text_passes && self.logit_difference <= Self::tolerance(precision)
    }
}

impl SelfTest {
    /// Loads the shipped networks.
    ///
    /// # Errors
    /// Those of the bundles, which are part of the program.
    pub fn load(device: &ComputeDevice) -> Result<Self, WeightsError> {
        let (segmenter, recogniser) = (shipped::line_segmenter()?, shipped::recogniser()?);
        let model = recogniser.recognition()?;
        let head = model.preferred_head().unwrap_or_default();
        let charset = Charset::new(recogniser.symbols(head)?)
            .map_err(|error| recogniser.invalid("charset", error.to_string()))?;
        let preprocessing = model.preprocessing;
        let segmenter = load_segmenter(&segmenter, device)?;
        Ok(Self {
            recognizer: load_recognizer(&recogniser, device, head)?,
            line: sample_line(preprocessing),
            tile: sample_tile(segmenter.tile_size()),
            segmenter,
            charset,
            preprocessing,
        })
    }

    /// Asks the networks once.
    ///
    /// # Errors
    /// What the device reports, or that it did not answer what was asked.
    pub fn answers(&self) -> Result<Answers, InferenceError> {
        let probabilities = self.segmenter.line_probabilities(&self.tile)?;
        let logits = self.recognizer.logits(&self.lines(1))?.into_iter().next();
        let logits = logits.ok_or_else(|| InferenceError::Failed("no answer for the line".to_owned()))?;
        self.charset
            .check_classes(logits.classes)
            .map_err(|error| InferenceError::Failed(error.to_string()))?;
        let text = greedy(&log_softmax(logits.clone())?, &self.charset).text;
        Ok(Answers {
            probabilities,
            logits,
            text,
        })
    }

    /// Reads the line `count` times in one batch.
    ///
    /// # Errors
    /// What the device reports.
    pub fn read_lines(&self, count: usize) -> Result<(), InferenceError> {
        self.recognizer.logits(&self.lines(count)).map(drop)
    }

    /// Finds the lines of the tile `count` times in one batch.
    ///
    /// # Errors
    /// What the device reports.
    pub fn segment_tiles(&self, count: usize) -> Result<(), InferenceError> {
        let tiles = TileBatch {
            size: self.tile.size,
            count,
            values: self.tile.values.repeat(count),
        };
        self.segmenter.line_probabilities(&tiles).map(drop)
    }

    fn lines(&self, count: usize) -> LineBatch {
        let limits = BatchLimits {
            lines: count,
            pixels: usize::MAX,
        };
        let lines = vec![self.line.clone(); count];
        let batches = self.preprocessing.batch(&lines, limits);
        // Equal lines are of one width, and so in one batch.
        let mut batch = batches.into_iter().next().map_or(
            LineBatch {
                height: 0,
                width: 0,
                line_widths: Vec::new(),
                values: Vec::new(),
            },
            |(batch, _)| batch,
        );
        // A processor does not see the padding of a line, a GPU does: here it is part of the line.
        batch.line_widths.fill(batch.width);
        batch
    }
}

impl Answers {
    /// Compares these answers with those of the processor.
    pub fn compare(&self, reference: &Self) -> Comparison {
        let scores = |answers: &Self| -> Vec<f32> {
            let before_sigmoid = answers.probabilities.iter().map(|p| {
                // Scores are compared before the sigmoid, which flattens every difference where the network
                // is sure.
                let p = p.clamp(SURE, 1.0 - SURE);
                (p / (1.0 - p)).ln()
            });
            before_sigmoid
                .chain(answers.logits.values.iter().copied())
                .collect()
        };
        let (ours, theirs) = (scores(self), scores(reference));
        let logit_difference = if ours.len() == theirs.len() {
            ours.iter()
                .zip(&theirs)
                .map(|(a, b)| (a - b).abs())
                // NaN is worse than any number, and `max` would pass over it.
                .max_by(f32::total_cmp)
                .unwrap_or(0.0)
        } else {
            f32::INFINITY
        };
        Comparison {
            logit_difference,
            text_equal: self.text == reference.text,
        }
    }
}

#[expect(
    clippy::expect_used,
    reason = "the images are part of the program, and a test reads them"
)]
fn sample(png: &[u8]) -> image::GrayImage {
    image::load_from_memory(png)
        .expect("a sample image is compiled in")
        .into_luma8()
}

#[expect(clippy::expect_used, reason = "the image has pixels, as a test shows")]
fn sample_line(preprocessing: Preprocessing) -> PreparedLine {
    let image = sample(LINE);
    let line = LineImage {
        image: &image,
        bilevel: true,
    };
    preprocessing.prepare(&line).expect("the sample line has pixels")
}

/// The part of the rendered page that fits into one tile. A processor leaves out paper after the last ink, a GPU does not: here
/// the last pixel is ink.
fn sample_tile(side: usize) -> TileBatch {
    let page = sample(TILE);
    let side = side as u32;
    let part = image::imageops::crop_imm(&page, 0, 0, side.min(page.width()), side.min(page.height()));
    let binary = adaptive_gaussian(&part.to_image(), BINARISE_BLOCK, BINARISE_C);
    let mut tile = TileGrid::new(binary.width(), binary.height(), side as usize).cut(&binary);
    if let Some(last) = tile.values.last_mut() {
        *last = INK;
    }
    tile
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use super::*;
    use parkhang_kernels::device::DeviceSpec;

    fn processor_with(precision: Precision) -> SelfTest {
        let spec = DeviceSpec {
            precision,
            ..DeviceSpec::cpu(NonZeroUsize::MIN)
        };
        SelfTest::load(&ComputeDevice::open(&spec).unwrap()).unwrap()
    }

    fn processor() -> SelfTest {
        processor_with(Precision::Full)
    }

    #[test]
    fn whole_numbers_read_the_same() {
        let reference = processor().answers().unwrap();
        let answers = processor_with(Precision::Int8).answers().unwrap();
        let comparison = answers.compare(&reference);
        assert!(comparison.passes(Precision::Int8), "{comparison:?}");
    }

    #[test]
    fn the_processor_agrees_with_itself_and_reads_the_line() {
        let test = processor();
        let answers = test.answers().unwrap();
        assert!(answers.text.chars().count() > 40, "{}", answers.text);
        assert!(answers.probabilities.iter().any(|&p| p > 0.9));
        assert!(answers.probabilities.iter().any(|&p| p < 0.1));
        let comparison = answers.compare(&test.answers().unwrap());
        assert_eq!(
            comparison,
            Comparison {
                logit_difference: 0.0,
                text_equal: true
            }
        );
        test.read_lines(3).unwrap();
        test.segment_tiles(2).unwrap();
    }

    #[test]
    fn every_device_is_asked_the_same() {
        let test = processor();
        let lines = test.lines(2);
        assert_eq!(lines.line_widths, [lines.width; 2]);
        assert!(lines.width >= test.line.width);
        assert_eq!(test.tile.count, 1);
        assert_eq!(test.tile.values.last(), Some(&INK));
        let paper = test.tile.values.iter().filter(|&&value| value != INK).count();
        assert!(paper > test.tile.values.len() / 2);
    }

    #[test]
    fn other_answers_do_not_pass() {
        let reference = processor().answers().unwrap();
        let passes = |change: fn(&mut Answers)| {
            let mut answers = reference.clone();
            change(&mut answers);
            answers.compare(&reference).passes(Precision::Full)
        };
        assert!(passes(|_| {}));
        assert!(passes(|answers| answers.logits.values[7] += 5e-4));
        assert!(!passes(|answers| answers.logits.values[7] += 2e-3));
        assert!(!passes(|answers| answers.logits.values[7] = f32::NAN));
        assert!(!passes(|answers| answers.probabilities.fill(0.5)));
        assert!(!passes(|answers| answers.probabilities.truncate(9)));
        assert!(!passes(|answers| answers.text.push('ཀ')));
    }
}
