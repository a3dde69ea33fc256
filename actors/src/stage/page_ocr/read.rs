//! Reading of a page's picture by the engines that know its scripts.

use std::sync::Arc;

use image::{DynamicImage, RgbImage};
use parkhang_models::page::decode::{DecodeLimits, DecodedPage};
use parkhang_pdf::PixelMap;
use parkhang_words::{InferenceError, Orienting, PrintModels, ReadOptions, Turn};
use tracing::warn;

use super::super::compute;
use super::super::page_stage::VolumeRun;
use super::super::scans::in_points;
use super::PageOcr;
use super::choice::{may_be_tibetan, surer};
use super::lines::{Engine, ReadLine, ReadWord, confidence, is_tibetan};
use parkhang_core::domain::{ErrorCategory, StageError};
use parkhang_store::artifact::PageTextRow;
use parkhang_store::pages::Scan;

/// Confidence below which a word is left out.
const LEAST_CONFIDENCE: f32 = 0.5;
/// Confidence below which a page may lie otherwise than was thought.
const UNSURE: f32 = 0.75;
/// Share of Tibetan letters in a page's own text that makes it a page of Tibetan, in part at least.
const TIBETAN_SHARE: f32 = 0.02;

/// The lines of a page, in pixels of its upright picture.
struct Reading {
    turn: Turn,
    lines: Vec<ReadLine>,
}

/// The picture of a page.
pub(super) struct Picture {
    pub page: Arc<DecodedPage>,
    /// Place of its pixels on the displayed page of a PDF; `None` for an image file.
    pub map: Option<PixelMap>,
}

impl PageOcr {
    /// Decodes or renders a page.
    ///
    /// # Errors
    ///
    /// When the page has no picture.
    pub(super) async fn picture(
        &self,
        run: &VolumeRun,
        row: &PageTextRow,
        scan: Scan,
    ) -> Result<Picture, StageError> {
        let pixels = compute(&self.cpu, run, move |cancelled| {
            scan.pixels(&DecodeLimits::default(), &|| cancelled.is_cancelled())
                .map_err(|error| (error.category(), error.to_string()))
        })
        .await?;
        for warning in &pixels.page.warnings {
            warn!(volume = %run.volume(), page = row.source_name, %warning, "the scan was decoded with a warning");
        }
        Ok(Picture {
            page: Arc::new(pixels.page),
            map: pixels.map,
        })
    }

    /// Reads the picture of a page. Boxes are in points of the page as it is displayed.
    ///
    /// # Errors
    ///
    /// When a network gives no answer.
    pub(super) async fn read(
        &self,
        run: &VolumeRun,
        row: &PageTextRow,
        picture: Picture,
    ) -> Result<Vec<ReadLine>, StageError> {
        let Picture { page, map } = picture;
        let size = (page.gray.width() as f32, page.gray.height() as f32);
        let Reading { turn, lines } = self.read_upright(run, row, page).await?;
        let to_points = |bounds| in_points(turn.bounds_as_they_lie(bounds, size), map);
        Ok(lines.into_iter().map(|line| line.mapped(to_points)).collect())
    }

    async fn read_upright(
        &self,
        run: &VolumeRun,
        row: &PageTextRow,
        page: Arc<DecodedPage>,
    ) -> Result<Reading, StageError> {
        let print = self.read_print(run, page.clone(), Orienting::Auto).await?;
        if !may_be_tibetan(&print.lines, is_tibetan_layer(row)) {
            return Ok(with_sure_words(print.turn, print.lines));
        }
        let tibetan = self.read_tibetan(run, page.clone(), &print).await?;
        // The engine for Tibetan may find that the page lies otherwise than the other one took it.
        let print = if tibetan.turn == print.turn {
            print
        } else {
            self.read_print(run, page, Orienting::Fixed(tibetan.turn)).await?
        };
        Ok(with_sure_words(print.turn, surer(print.lines, tibetan.lines)))
    }

    /// Reads the page as print, with all words, however unsure.
    async fn read_print(
        &self,
        run: &VolumeRun,
        page: Arc<DecodedPage>,
        orientation: Orienting,
    ) -> Result<Reading, StageError> {
        let options = ReadOptions {
            min_confidence: 0.0,
            orientation,
            ..ReadOptions::default()
        };
        let (width, height) = (page.gray.width() as f32, page.gray.height() as f32);
        let reading = self
            .ask_print(run, page, move |picture, networks| {
                parkhang_words::read(picture, networks, &options)
            })
            .await?;
        // Words come as they lie on the page; the upright picture is the page turned back.
        let (back, upright_size) = (reading.turn.back(), reading.turn.upright_size((width, height)));
        let to_upright = |bounds| back.bounds_as_they_lie(bounds, upright_size);
        let lines = reading.lines.into_iter().map(|line| {
            let words = line.words.into_iter().map(|word| ReadWord {
                bounds: word.quad.bounds(),
                text: word.text,
                confidence: word.confidence,
            });
            ReadLine {
                words: words.collect(),
                bounds: line.quad.bounds(),
                confidence: line.confidence,
                engine: Engine::Print,
            }
        });
        Ok(Reading {
            turn: reading.turn,
            lines: lines.map(|line| line.mapped(to_upright)).collect(),
        })
    }

    /// Asks the networks for print about a page.
    ///
    /// # Errors
    ///
    /// When a network gives no answer.
    pub(super) async fn ask_print<T: Send + 'static>(
        &self,
        run: &VolumeRun,
        page: Arc<DecodedPage>,
        question: impl FnOnce(&RgbImage, &PrintModels) -> Result<T, InferenceError> + Send + 'static,
    ) -> Result<T, StageError> {
        let networks = self.print.clone();
        let answer = compute(&self.cpu, run, move |_| {
            let picture = DynamicImage::ImageLuma8(page.gray.clone()).into_rgb8();
            Ok(question(&picture, &networks))
        })
        .await?;
        answer.map_err(|error| match error {
            InferenceError::Device(_) => run.out_of_order(error),
            error => run.error(ErrorCategory::Runtime, error),
        })
    }

    /// Reads the page as Tibetan: turned as the engine for print took it, or, where neither engine is sure of that, as this one reads it
    /// most surely.
    async fn read_tibetan(
        &self,
        run: &VolumeRun,
        page: Arc<DecodedPage>,
        print: &Reading,
    ) -> Result<Reading, StageError> {
        let mut best = self.read_turned(run, page.clone(), print.turn).await?;
        if confidence(&print.lines) >= UNSURE || confidence(&best.lines) >= UNSURE {
            return Ok(best);
        }
        for turn in Turn::ALL.into_iter().filter(|turn| *turn != print.turn) {
            let other = self.read_turned(run, page.clone(), turn).await?;
            if confidence(&other.lines) > confidence(&best.lines) {
                best = other;
            }
        }
        Ok(best)
    }

    async fn read_turned(
        &self,
        run: &VolumeRun,
        page: Arc<DecodedPage>,
        turn: Turn,
    ) -> Result<Reading, StageError> {
        let page = if turn == Turn::Upright {
            page
        } else {
            let turned = compute(&self.cpu, run, move |_| Ok(page.upright(turn)));
            Arc::new(turned.await?)
        };
        Ok(Reading {
            turn,
            lines: self.tibetan.read(run, page).await?,
        })
    }
}

/// The reading with its sure words alone.
fn with_sure_words(turn: Turn, mut lines: Vec<ReadLine>) -> Reading {
    for line in &mut lines {
        line.words.retain(|word| word.confidence >= LEAST_CONFIDENCE);
    }
    lines.retain(|line| !line.words.is_empty());
    Reading { turn, lines }
}

/// True for a page whose own text has Tibetan letters, right or wrong.
fn is_tibetan_layer(row: &PageTextRow) -> bool {
    let letters = || row.words.iter().flat_map(|word| word.text.chars());
    let tibetan = letters().filter(|letter| is_tibetan(*letter)).count();
    tibetan as f32 > TIBETAN_SHARE * letters().count() as f32
}
