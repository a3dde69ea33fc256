//! Reading of the lines of a page: preparation, network and decoding, and again by less of their images for those that are read unsurely.

use std::borrow::Cow;
use std::sync::Arc;

use image::{GrayImage, imageops};
use parkhang_models::inference::LineBatch;
use parkhang_models::recognition::closer::middle_rows;
use parkhang_models::recognition::line_image::{LineImage, PreparedLine};
use parkhang_models::recognition::read::{LineText, ReadOptions, read_logits};

use super::compute;
use super::line_pictures::LinePictures;
use super::ocr::Ocr;
use super::ocr_reader::Reader;
use super::page_stage::VolumeRun;
use parkhang_core::domain::{ErrorCategory, StageError};

/// Pictures of lines, each with whether its page came as one bit per pixel.
pub(super) type Lines = Arc<Vec<(GrayImage, bool)>>;

/// Some of the lines of a page as they go through the network together.
#[derive(Debug, Clone)]
struct Reading {
    lines: Lines,
    /// Indices of the lines to be read.
    wanted: Vec<usize>,
    /// Share of the rows of each picture, in its middle, that are read.
    share: f64,
}

/// Lines prepared: the batches for the network and what is needed to read its answer.
struct Prepared {
    /// The lines without their pixels, which are in the batches, each with its index among those wanted. A picture without pixels is not here.
    lines: Vec<(usize, PreparedLine)>,
    /// The batches, each with the indices of its lines in `lines`.
    batches: Vec<(LineBatch, Vec<usize>)>,
}

impl Reading {
    fn prepare(&self, options: &ReadOptions) -> Prepared {
        let prepare = |line: &usize| {
            let (image, bilevel) = self.lines.get(*line)?;
            let rows = middle_rows(image.height(), self.share);
            let image = if rows.len() == image.height() as usize {
                Cow::Borrowed(image)
            } else {
                let rows = imageops::crop_imm(image, 0, rows.start, image.width(), rows.end - rows.start);
                Cow::Owned(rows.to_image())
            };
            options.preprocessing.prepare(&LineImage {
                image: &image,
                bilevel: *bilevel,
            })
        };
        let prepared = self.wanted.iter().map(prepare).enumerate();
        let (places, mut lines): (Vec<usize>, Vec<PreparedLine>) =
            prepared.filter_map(|(place, line)| Some((place, line?))).unzip();
        let batches = options.preprocessing.batch(&lines, options.batch);
        for line in &mut lines {
            line.values = Vec::new();
        }
        Prepared {
            lines: places.into_iter().zip(lines).collect(),
            batches,
        }
    }
}

impl Ocr {
    /// Reads pictures of lines with one of the readers. One in which no line can be found gives an empty text.
    pub(super) async fn read_page(
        &self,
        run: &VolumeRun,
        reader: &Reader,
        pictures: LinePictures,
    ) -> Result<Vec<LineText>, StageError> {
        let lines = compute(&self.cpu, run, move |cancelled| {
            pictures.decoded(&|| cancelled.is_cancelled())
        })
        .await?;
        self.read_lines(run, reader, Arc::new(lines)).await
    }

    /// Reads pictures that are decoded, like [`read_page`](Self::read_page).
    pub(super) async fn read_lines(
        &self,
        run: &VolumeRun,
        reader: &Reader,
        lines: Lines,
    ) -> Result<Vec<LineText>, StageError> {
        let options = Arc::new(reader.options(run.config()));
        let whole = Reading {
            wanted: (0..lines.len()).collect(),
            share: 1.0,
            lines: lines.clone(),
        };
        let mut texts = self.read(run, reader, &options, whole).await?;
        for share in options.preprocessing.closer_shares() {
            let unsure = texts.iter().enumerate().filter(|(_, text)| text.is_unsure());
            let wanted: Vec<usize> = unsure.map(|(line, _)| line).collect();
            if wanted.is_empty() {
                break;
            }
            let middles = Reading {
                lines: lines.clone(),
                wanted: wanted.clone(),
                share: *share,
            };
            let again = self.read(run, reader, &options, middles).await?;
            for (line, text) in wanted.into_iter().zip(again) {
                let rows = middle_rows(lines[line].0.height(), *share);
                texts[line] = std::mem::take(&mut texts[line]).or_of_middle(text, &rows);
            }
        }
        Ok(texts)
    }

    /// Reads lines once: a text for each of those wanted.
    async fn read(
        &self,
        run: &VolumeRun,
        reader: &Reader,
        options: &Arc<ReadOptions>,
        reading: Reading,
    ) -> Result<Vec<LineText>, StageError> {
        let wanted = reading.wanted.len();
        let how = options.clone();
        let Prepared { lines, batches } = compute(&self.cpu, run, move |_| Ok(reading.prepare(&how))).await?;
        // One batch after the other: the pages in work at once are what fills the device.
        let mut answers = Vec::with_capacity(batches.len());
        for (batch, indices) in batches {
            answers.push((run.infer(&reader.recognition, batch).await?, indices));
        }
        let (charset, options) = (reader.recogniser.charset.clone(), options.clone());
        compute(&self.cpu, run, move |_| {
            let mut texts = vec![LineText::default(); wanted];
            let answers = answers
                .into_iter()
                .flat_map(|(logits, indices)| indices.into_iter().zip(logits));
            for (index, logits) in answers {
                let (place, line) = &lines[index];
                texts[*place] = read_logits(logits, line, &charset, &options)
                    .map_err(|error| (ErrorCategory::Runtime, error.to_string()))?;
            }
            Ok(texts)
        })
        .await
    }
}
