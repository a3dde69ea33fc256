//! Reading of pages by a service in the place of a recogniser.
//!
//! The service gets the straightened page. Where its lines have places, these are the lines of the page; where it has text alone, that is
//! divided among our own lines by what our recogniser reads there. An answer is kept beside the table before anything is made of it, so
//! that it is paid for once: whoever does the page again finds it there, unless the picture or the settings of the service are others.

use bytes::Bytes;
use parkhang_answers::align::{Alignment, align};
use serde_json::Value;
use tracing::warn;
use uuid::Uuid;

use super::info::StageInfo;
use super::line_extraction::LINE_NAMESPACE;
use super::ocr::{Ocr, PageImages, PageLines, fetch_images, with_depth};
use super::page_stage::{PlannedPage, VolumeRun};
use crate::engines::{Engine, EngineError, EngineLine, PageText, request_about};
use crate::runner::off_the_clock;
use crate::telemetry::at_step;
use parkhang_core::domain::{ErrorCategory, PageStep, StageError, TextEncoding, Usage};
use parkhang_store::artifact::{Digest, KeptAnswer, LineImageRow, OcrResultRow, Segment};
use parkhang_store::storage::{ArtifactKey, StorageError};

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
        if input.picture.is_empty() || (input.rows.is_empty() && !engine.has_places()) {
            return Ok(PageImages {
                page: None,
                lines: Vec::new(),
            });
        }
        let key = ArtifactKey::new(input.picture.as_str())
            .map_err(|error| run.error(ErrorCategory::Input, error))?;
        let page = run
            .store
            .get(&key)
            .await
            .map_err(|error| run.storage_error(&error))?;
        let lines = match engine.has_places() {
            true => Vec::new(),
            false => fetch_images(run, &input.rows).await?,
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
        lines: Vec<Bytes>,
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
        let key = run.layout.answer(&page.name);
        let of_operation = request_about(engine.model().digest, page.input_hash);
        let answer = match kept(run, &key, [request, of_operation]).await? {
            Some(answer) => answer,
            None => {
                let service = engine.model().name.as_str();
                at_step(PageStep::Asking);
                off_the_clock(run.may_spend(service)).await?;
                let mut usage = Usage::default();
                let answer = off_the_clock(engine.read(&picture, &mut usage)).await;
                let charge = run
                    .context
                    .account
                    .charge(service, usage, engine.prices(), &run.halt);
                let kept = async {
                    let kept = keep(run, &key, request, engine, &answer).await;
                    at_step(PageStep::Asking);
                    kept
                };
                let (kept, ()) = tokio::join!(kept, off_the_clock(charge));
                kept?;
                answer.map_err(|error| failed(run, error))?
            }
        };
        match engine.text(&answer).map_err(|error| failed(run, error))? {
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
        lines: Vec<Bytes>,
    ) -> Result<Vec<OcrResultRow>, StageError> {
        let PageLines { reader, rows, .. } = &page.input;
        if rows.is_empty() && !text.trim().is_empty() {
            return Err(run.error(
                ErrorCategory::Input,
                "the page has no lines that the text could stand on",
            ));
        }
        let lines = match lines.is_empty() {
            true => fetch_images(run, rows).await?,
            false => lines,
        };
        let reader = self.reader(*reader, run)?;
        let known = self.read_page(run, reader, with_depth(rows, lines)).await?;
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

/// The error for a page. A service that is away ends the run, and is not charged to a page.
fn failed(run: &VolumeRun, error: EngineError) -> StageError {
    match error {
        EngineError::Away { category, .. } => run.service_away(category, error),
        EngineError::Page { category, .. } => run.error(category, error),
    }
}

/// The answer that an earlier run has kept, if it is one to any of these requests, which are about the same page.
async fn kept(
    run: &VolumeRun,
    key: &ArtifactKey,
    requests: [Digest; 2],
) -> Result<Option<Value>, StageError> {
    if run.config().force {
        return Ok(None);
    }
    let packed = match off_the_clock(run.store.get(key)).await {
        Ok(packed) => packed,
        Err(StorageError::NotFound { .. }) => return Ok(None),
        Err(error) => return Err(run.storage_error(&error)),
    };
    let kept = match KeptAnswer::unpack(&packed) {
        Ok(kept) => kept,
        Err(error) => {
            warn!(%key, %error, "ignoring a damaged answer; the service is asked again");
            return Ok(None);
        }
    };
    let is_good = requests.contains(&kept.request) && kept.error.is_none();
    Ok(is_good.then_some(kept.answer))
}

/// Keeps an answer, also one that is no text of the page.
async fn keep(
    run: &VolumeRun,
    key: &ArtifactKey,
    request: Digest,
    engine: &Engine,
    answer: &Result<Value, EngineError>,
) -> Result<(), StageError> {
    let (answer, error) = match answer {
        Ok(answer) => (answer, None),
        Err(
            error @ EngineError::Page {
                answer: Some(answer), ..
            },
        ) => (&**answer, Some(error.to_string())),
        // Nothing came that was paid for.
        Err(_) => return Ok(()),
    };
    let kept = KeptAnswer {
        request,
        service: engine.model().name.clone(),
        error,
        answer: answer.clone(),
    };
    let packed = kept
        .pack()
        .map_err(|error| run.error(ErrorCategory::Runtime, error))?;
    at_step(PageStep::Storing);
    off_the_clock(run.store.put(key, packed))
        .await
        .map_err(|error| run.storage_error(&error))
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
        text: line.text,
        encoding: TextEncoding::Unicode,
        page_index: row.page_index,
        confidence: None,
        // A text alone says nothing about places within the line.
        segments: Vec::new(),
        outline: None,
        alignment: Some(line.score),
    };
    lines.map(row).collect()
}
