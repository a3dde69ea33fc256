//! Reading of pages by a service in the place of a recogniser.
//!
//! The service gets the straightened page. Where its lines have places, these are the lines of the page; where it has text alone, that is
//! divided among our own lines by what our recogniser reads there.

use bytes::Bytes;
use parkhang_answers::align::{Alignment, align};
use tracing::warn;
use uuid::Uuid;

use super::info::StageInfo;
use super::line_extraction::LINE_NAMESPACE;
use super::line_pictures::{LinePictures, line_pictures, straightened_page};
use super::ocr::{Ocr, PageImages, PageLines};
use super::page_stage::{PlannedPage, VolumeRun};
use super::quality::text_score;
use super::service;
use crate::engines::{Engine, EngineLine, PageText, request_about};
use parkhang_core::domain::{ErrorCategory, StageError, TextEncoding, Usage};
use parkhang_store::artifact::{Digest, LineImageRow, OcrResultRow, Segment};
use parkhang_store::storage::ArtifactKey;

impl Ocr {
    /// The service that the job names for the stage, if it names one.
    ///
    /// # Errors
    ///
    /// When it names two, or wants another spelling than services give.
    pub(super) fn engine(&self, run: &VolumeRun) -> Result<Option<Engine>, StageError> {
        let (config, stage) = (run.config(), self.name());
        let refused = |message: &str| run.error(ErrorCategory::Config, message);
        let engine = |name: &str| self.engines.iter().find(|engine| engine.model().name == name);
        let mut named = config.models.of(&stage).filter_map(engine);
        match (named.next(), named.next()) {
            (_, Some(_)) => Err(refused("the job names two services for the stage")),
            (Some(_), None) if config.encoding == TextEncoding::Wylie => {
                Err(refused("services read Unicode: encoding=wylie is not for them"))
            }
            (engine, None) => Ok(engine.cloned()),
        }
    }

    /// The images of a page that a service reads. A page without lines of ours is not sent where its text would have no places: a language
    /// model finds text on blank paper, too.
    pub(super) async fn fetch_page(
        &self,
        run: &VolumeRun,
        engine: &Engine,
        input: &PageLines,
    ) -> Result<PageImages, StageError> {
        // A page that could not be straightened stands blank.
        let is_blank = match &input.found {
            Some(found) => found.rotated_width == 0,
            None => input.picture.is_empty(),
        };
        if is_blank || (input.rows.is_empty() && !engine.has_places()) {
            return Ok(PageImages {
                page: None,
                lines: None,
            });
        }
        let page = match &input.found {
            Some(found) => straightened_page(run, &self.pages, &self.cpu, found).await?,
            None => stored_page(run, &input.picture).await?,
        };
        let lines = match engine.has_places() {
            true => None,
            false => Some(line_pictures(run, &self.pages, input, &input.rows).await?),
        };
        Ok(PageImages {
            page: Some(page),
            lines,
        })
    }

    pub(super) async fn read_by_service(
        &self,
        run: &VolumeRun,
        engine: &Engine,
        page: &PlannedPage<PageLines>,
        picture: Bytes,
        lines: Option<LinePictures>,
    ) -> Result<Vec<OcrResultRow>, StageError> {
        let sending = engine.clone();
        let (picture, request) = super::compute(&self.cpu, run, move |_| {
            let picture = sending
                .picture(&picture)
                .map_err(|reason| (ErrorCategory::Input, reason))?;
            let request = Digest::of_parts([sending.model().digest, Digest::of(&picture)]);
            Ok((picture, request))
        })
        .await?;
        let of_operation = request_about(engine.model().digest, page.input_hash);
        let ask = async {
            let mut usage = Usage::default();
            let answer = engine.read(&picture, &mut usage).await;
            (answer, usage)
        };
        let answer = service::answer(run, engine, &page.name, &[request, of_operation], ask).await?;
        match engine
            .text(&answer)
            .map_err(|error| service::failed(run, error))?
        {
            PageText::Lines(lines) => Ok(rows_with_places(run, page, engine, &lines)),
            PageText::Plain(text) => self.rows_of_text(run, page, text, lines).await,
        }
    }

    /// Rows of a text without places, divided among the lines of the page.
    async fn rows_of_text(
        &self,
        run: &VolumeRun,
        page: &PlannedPage<PageLines>,
        text: String,
        lines: Option<LinePictures>,
    ) -> Result<Vec<OcrResultRow>, StageError> {
        let PageLines { reader, rows, .. } = &page.input;
        if rows.is_empty() && !text.trim().is_empty() {
            return Err(run.error(
                ErrorCategory::Input,
                "the page has no lines that the text could stand on",
            ));
        }
        let lines = match lines {
            Some(lines) => lines,
            None => line_pictures(run, &self.pages, &page.input, rows).await?,
        };
        let reader = self.reader(*reader, run)?;
        let known = self.read_page(run, reader, lines).await?;
        let known: Vec<String> = known.into_iter().map(|line| line.text).collect();
        let alignment = super::compute(&self.cpu, run, move |_| {
            align(&text, &known).map_err(|error| (ErrorCategory::Input, error.to_string()))
        })
        .await?;
        if alignment.is_poor() {
            let (page, score) = (page.name.as_str(), alignment.score);
            warn!(volume = %run.volume(), page, score, "the text of the service fits the lines of the page poorly");
        }
        Ok(aligned_rows(rows, alignment))
    }
}

async fn stored_page(run: &VolumeRun, picture: &str) -> Result<Bytes, StageError> {
    let key = ArtifactKey::new(picture).map_err(|error| run.error(ErrorCategory::Input, error))?;
    let read = run.store.get(&key).await;
    read.map_err(|error| run.storage_error(&error))
}

/// Rows of lines that have places of their own. Their picture is the straightened page.
fn rows_with_places(
    run: &VolumeRun,
    page: &PlannedPage<PageLines>,
    engine: &Engine,
    lines: &[EngineLine],
) -> Vec<OcrResultRow> {
    let row = |(index, line): (usize, &EngineLine)| {
        let identity = format!(
            "{}/{}/{}/{}/{index}",
            run.volume(),
            page.name,
            page.input_hash,
            engine.model().digest
        );
        let [left, top, right, bottom] = line.bounds;
        // The last pixels of the box, as outlines go through pixels.
        let (right, bottom) = ((right - 1).max(left), (bottom - 1).max(top));
        let segments = line.words.iter().map(|word| Segment {
            text: word.text.clone(),
            x: word.left - left,
            width: (word.right - word.left).max(1),
            confidence: word.confidence.or(line.confidence).unwrap_or(0.0),
        });
        // The places of words are of use with a confidence only.
        let is_sure = line.confidence.is_some();
        OcrResultRow {
            image_name: page.name.as_str().to_owned(),
            line_index: i32::try_from(index).unwrap_or(i32::MAX),
            line_guid: Uuid::new_v5(&LINE_NAMESPACE, identity.as_bytes()).to_string(),
            text: line.text.clone(),
            encoding: TextEncoding::Unicode,
            page_index: i32::try_from(page.index).unwrap_or(i32::MAX),
            confidence: line.confidence,
            segments: segments.filter(|_| is_sure).collect(),
            outline: Some(vec![[left, top], [right, top], [right, bottom], [left, bottom]]),
            alignment: None,
            sources: None,
            ink_y: None,
            ink_h: None,
            perplexity: text_score(&line.text, TextEncoding::Unicode).perplexity(),
        }
    };
    lines.iter().enumerate().map(row).collect()
}

/// Rows of the lines that got a text.
fn aligned_rows(rows: &[LineImageRow], alignment: Alignment) -> Vec<OcrResultRow> {
    let lines = rows.iter().zip(alignment.lines);
    let lines = lines.filter(|(_, line)| !line.text.is_empty());
    let row = |(row, line): (&LineImageRow, parkhang_answers::align::AlignedLine)| OcrResultRow {
        image_name: row.image_name.clone(),
        line_index: row.line_index,
        line_guid: row.line_guid.clone(),
        perplexity: text_score(&line.text, TextEncoding::Unicode).perplexity(),
        text: line.text,
        encoding: TextEncoding::Unicode,
        page_index: row.page_index,
        confidence: None,
        // A text alone says nothing about places within the line.
        segments: Vec::new(),
        outline: None,
        alignment: Some(line.score),
        sources: None,
        ink_y: None,
        ink_h: None,
    };
    lines.map(row).collect()
}
