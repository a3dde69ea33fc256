//! Recognisers of the stage `ocr`, each with the thread that runs its network.

use image::{GrayImage, Luma};
use parkhang_models::algorithms::Algorithms;
use parkhang_models::inference::LineBatch;
use parkhang_models::recognition::charset::Encoding;
use parkhang_models::recognition::ctc::{BeamSearch, Decoder};
use parkhang_models::recognition::line_image::{BatchLimits, LineImage, PreparedLine, Preprocessing};
use parkhang_models::recognition::read::ReadOptions;

use super::DEVICE_INBOX;
use super::registry::{Recogniser, StageServices};
use crate::inference::{Inference, LineRecognition};
use parkhang_core::domain::{self, JobConfig, TextEncoding};

/// Default of `pyctcdecode`, with which the programs of the first generation decode.
const GEN1_TOKEN_MIN_LOG_PROB: f32 = -5.0;

/// Pixels of lines in one forward pass.
const MAX_LINE_PIXELS: usize = 64 * 16_384;

/// A recogniser and the thread that runs its network.
#[derive(Debug)]
pub(crate) struct Reader {
    pub recognition: Inference<LineRecognition>,
    pub recogniser: Recogniser,
}

impl Reader {
    pub(super) fn new(recogniser: &Recogniser, services: &StageServices) -> std::io::Result<Self> {
        let recognition = LineRecognition {
            network: recogniser.network.clone(),
            max_pixels: MAX_LINE_PIXELS,
            probe: ordinary_line(recogniser.preprocessing),
        };
        let memory = services.device_memory(&recogniser.model);
        Ok(Self {
            recognition: Inference::start("recognition", recognition, memory, DEVICE_INBOX)?,
            recogniser: recogniser.clone(),
        })
    }

    pub(super) fn options(&self, config: &JobConfig) -> ReadOptions {
        let language = self.recogniser.language.clone().filter(|_| config.language_model);
        ReadOptions {
            preprocessing: self.recogniser.preprocessing.with_algorithms(config.generation),
            decoder: match config.decoder {
                domain::Decoder::Greedy => Decoder::Greedy,
                domain::Decoder::Beam => Decoder::BeamSearch(BeamSearch {
                    width: config.beam_width,
                    token_min_log_prob: match (&language, config.generation) {
                        // More letters stay in the search, as the language model decides better than a frame that is nearly sure.
                        (Some(_), _) => -6.0,
                        (None, Algorithms::Gen1) => GEN1_TOKEN_MIN_LOG_PROB,
                        (None, Algorithms::Gen2) => BeamSearch::default().token_min_log_prob,
                    },
                    ..BeamSearch::default()
                }),
            },
            language,
            encoding: match config.encoding {
                TextEncoding::Unicode => Encoding::Unicode,
                TextEncoding::Wylie => Encoding::Wylie,
            },
            batch: BatchLimits::default(),
        }
    }
}

/// A line of ordinary length as the recogniser gets it: a bar of ink on paper.
fn ordinary_line(preprocessing: Preprocessing) -> LineBatch {
    const SIZE: (u32, u32) = (800, 64);
    let image = GrayImage::from_fn(SIZE.0, SIZE.1, |x, y| {
        let has_ink = (50..750).contains(&x) && (24..40).contains(&y);
        Luma([if has_ink { 0 } else { 255 }])
    });
    let line = LineImage {
        image: &image,
        bilevel: true,
    };
    let lines: Vec<PreparedLine> = preprocessing.prepare(&line).into_iter().collect();
    let batches = preprocessing.batch(&lines, BatchLimits::default());
    let empty = LineBatch {
        height: 0,
        width: 0,
        line_widths: Vec::new(),
        values: Vec::new(),
    };
    batches.into_iter().next().map_or(empty, |(batch, _)| batch)
}
