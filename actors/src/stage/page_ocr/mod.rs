//! The stage `page_ocr`: the words of pages, with their boxes. Where the text that a page's file holds is to be trusted it is taken as it
//! is; of all other pages the picture is read. A sample of the texts that seem to be trusted (`sample`) is compared with the picture
//! (`look`), and a page whose text is another one is read too.
//!
//! Two engines read, one for print of most scripts and one for Tibetan, and neither knows the script of the other. The engine for print
//! reads every page first. Where it is not sure, or the page's own text has Tibetan letters, the other reads the page too, and of each
//! line the reading of the surer one stays (`choice`). Both see the page upright: how far its content is turned is told by a
//! network, and by which turn is read most surely.

mod choice;
mod ink;
mod lines;
mod look;
mod read;
mod sample;
mod tibetan;

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use parkhang_words::PrintModels;
use serde_json::{Map, Value, json};
use tracing::{info, warn};

use self::lines::{Engine, ReadLine};
use self::sample::looked_at;
use self::tibetan::TibetanReader;
use super::info::StageInfo;
use super::page_stage::{PageStage, PlannedPage, VolumeRun};
use super::registry::StageServices;
use super::table::{ModelKind, SCANS, StageDefinition, StageModels};
use super::{DEVICE_INBOX, line_detection, line_extraction, ocr};
use crate::inference::{DeviceStatus, PrintThreads};
use crate::runner::{CpuPool, off_the_clock};
use crate::telemetry::at_step;
use parkhang_core::domain::{
    ErrorCategory, Hardware, JobConfig, PageStep, ReadPages, StageError, StageName, Unfit,
};
use parkhang_store::artifact::{
    ArtifactRow, Digest, ImageName, ModelRef, PageBoxes, PageTextRow, TableSchema, TextVerdict, WordRow,
    WordSource, read_table,
};
use parkhang_store::pages::{PageRef, PageSource, Scan};

pub(super) const STAGE: StageDefinition = StageDefinition {
    name: "page_ocr",
    hardware: Hardware::Gpu,
    models: StageModels::All(&[ModelKind::Segmenter, ModelKind::Recogniser, ModelKind::Print]),
    settings,
    reads: &[&[SCANS, PageTextRow::TABLE]],
    writes: &[TableSchema::of::<WordRow>()],
    build: |services| Ok(services.paged(STAGE, PageOcr::new(services)?)),
};

/// Cost of a page that is read, and of one whose picture is looked at, in that of one whose text is taken.
const COST_OF_READING: f64 = 1000.0;
const COST_OF_LOOKING: f64 = 100.0;

/// The stage that gives pages their words.
#[derive(Debug)]
pub(crate) struct PageOcr {
    pages: Arc<dyn PageSource>,
    cpu: CpuPool,
    threads: PrintThreads,
    /// The networks for print, on their threads.
    print: PrintModels,
    model: ModelRef,
    tibetan: TibetanReader,
}

/// A page, and what is to be done with it.
#[derive(Debug)]
pub(crate) struct PageToRead {
    row: PageTextRow,
    work: Work,
}

/// Way to the words of a page.
#[derive(Debug)]
enum Work {
    /// Its own text is taken.
    Take,
    /// Its own text is taken, unless a look at its picture contradicts it.
    Look(PageRef),
    Read(PageRef),
}

impl Work {
    fn scan(&self) -> Option<&PageRef> {
        match self {
            Self::Take => None,
            Self::Look(scan) | Self::Read(scan) => Some(scan),
        }
    }

    fn cost(&self) -> f64 {
        match self {
            Self::Take => 1.0,
            Self::Look(_) => COST_OF_LOOKING,
            Self::Read(_) => COST_OF_READING,
        }
    }
}

impl PageOcr {
    fn new(services: &StageServices) -> std::io::Result<Self> {
        let print = services.models.print()?;
        let memory = services.device_memory(&print.model);
        let threads = PrintThreads::start(&print.networks, &memory, DEVICE_INBOX)?;
        Ok(Self {
            pages: services.pages.clone(),
            cpu: services.cpu.clone(),
            print: threads.networks(&print.networks),
            threads,
            model: print.model.clone(),
            tibetan: TibetanReader::new(services)?,
        })
    }
}

#[async_trait]
impl StageInfo for PageOcr {
    fn name(&self) -> StageName {
        STAGE.name()
    }

    fn hardware(&self) -> Hardware {
        STAGE.hardware
    }

    fn models(&self) -> Vec<ModelRef> {
        let mut models = vec![self.model.clone()];
        models.extend(self.tibetan.models());
        models
    }

    fn device(&self) -> Option<DeviceStatus> {
        Some(self.threads.status())
    }

    fn renew(&self) -> std::io::Result<()> {
        self.threads.renew()?;
        self.tibetan.renew()
    }

    async fn check(&self) -> Result<(), Unfit> {
        let broken = |error: parkhang_words::InferenceError| Unfit::Device(error.to_string());
        self.threads.check().await.map_err(broken)?;
        self.tibetan.check().await
    }
}

#[async_trait]
impl PageStage for PageOcr {
    type Input = PageToRead;
    /// The scan of a page that has to be read or looked at.
    type Fetched = Option<Scan>;
    type Row = WordRow;

    const VERSION: u32 = 6;

    fn model_settings(&self, config: &JobConfig) -> Map<String, Value> {
        self.tibetan.model_settings(config)
    }

    fn image_name(row: &WordRow) -> &str {
        &row.image_name
    }

    fn image_path(_: &WordRow) -> Option<&str> {
        None
    }

    async fn plan(&self, run: &VolumeRun) -> Result<Vec<PlannedPage<PageToRead>>, StageError> {
        let table = read_table::<PageTextRow>(run.store.as_ref(), &run.layout.page_text())
            .await
            .map_err(|error| run.artifact_error(&error))?;
        let JobConfig {
            read_pages, verify, ..
        } = *run.config();
        let is_read = |row: &PageTextRow| is_read(row, read_pages);
        let looked_at = looked_at(run.volume(), &table.rows, read_pages, verify);
        let mut scans = HashMap::new();
        // Where no page has to be read, nothing is asked of the source, which may have lost the volume since.
        if table.rows.iter().any(is_read) {
            let listed = run.scans(&self.pages)?.pages(run.volume()).await;
            let listed = listed.map_err(|error| run.source_error(&error))?;
            scans.extend(listed.into_iter().map(|page| (page.name.clone(), page)));
        }
        let mut planned = Vec::with_capacity(table.rows.len());
        for (place, row) in table.rows.into_iter().enumerate() {
            let name = ImageName::new(row.image_name.as_str())
                .map_err(|error| run.error(ErrorCategory::Input, error))?;
            // A page that failed there has no fingerprint, and nothing is known of it.
            let Some(made_of) = table.provenance.pages.get(&row.image_name) else {
                continue;
            };
            let mut scan = || {
                let unlisted = || PageRef::named(row.source_name.as_str());
                // The source says by itself that a page which it no longer lists is not there.
                scans.remove(&row.source_name).unwrap_or_else(unlisted)
            };
            let made_of = made_of.digest();
            let (work, input_hash) = if is_read(&row) {
                (Work::Read(scan()), Digest::of_parts([made_of]))
            } else if looked_at.contains(&place) {
                // The sample depends on the other pages of the volume, too.
                let look = Digest::of(b"look");
                (Work::Look(scan()), Digest::of_parts([made_of, look]))
            } else {
                (Work::Take, Digest::of_parts([made_of]))
            };
            planned.push(PlannedPage {
                name,
                index: u32::try_from(row.page_index).unwrap_or(0),
                input_path: row.source_name.clone(),
                input_hash,
                cost: work.cost(),
                input: PageToRead { row, work },
            });
        }
        Ok(planned)
    }

    async fn fetch(
        &self,
        run: &VolumeRun,
        page: &PlannedPage<PageToRead>,
    ) -> Result<Option<Scan>, StageError> {
        let Some(scan) = page.input.work.scan() else {
            return Ok(None);
        };
        let read = run.scans(&self.pages)?.read(run.volume(), scan).await;
        let read = read.map_err(|error| run.source_error(&error));
        unless_missed(run, &page.input, read.map(Some))
    }

    async fn process(
        &self,
        run: &VolumeRun,
        page: &PlannedPage<PageToRead>,
        scan: Option<Scan>,
    ) -> Result<Vec<WordRow>, StageError> {
        let PageToRead { row, work } = &page.input;
        let lines = match scan {
            Some(scan) => self.lines(run, &page.input, scan).await?,
            None => None,
        };
        let words = match lines {
            Some(lines) => rows_of_reading(row, lines, matches!(work, Work::Look(_))),
            None => rows_of_layer(row),
        };
        if let Some(key) = run.layout.page_boxes(page.index.saturating_add(1)) {
            let boxes = PageBoxes {
                page: row,
                words: &words,
            };
            let json = boxes.to_json();
            let json = json.map_err(|error| run.error(ErrorCategory::Runtime, error))?;
            at_step(PageStep::Storing);
            off_the_clock(run.store.put(&key, json))
                .await
                .map_err(|error| run.storage_error(&error))?;
        }
        Ok(words)
    }
}

impl PageOcr {
    /// The lines of a page that is read; `None` for one whose own text stands after a look.
    async fn lines(
        &self,
        run: &VolumeRun,
        page: &PageToRead,
        scan: Scan,
    ) -> Result<Option<Vec<ReadLine>>, StageError> {
        let row = &page.row;
        let picture = self.picture(run, row, scan).await;
        let Some(picture) = unless_missed(run, page, picture.map(Some))? else {
            return Ok(None);
        };
        if matches!(page.work, Work::Look(_)) {
            if !self.contradicts(run, row, &picture).await? {
                return Ok(None);
            }
            info!(volume = %run.volume(), page = row.source_name, "the picture contradicts the text of the page, and is read");
        }
        self.read(run, row, picture).await.map(Some)
    }
}

/// The answer about a page that has to be read. One that is only looked at needs no picture: without one, nothing contradicts its text.
fn unless_missed<T>(
    run: &VolumeRun,
    page: &PageToRead,
    answer: Result<Option<T>, StageError>,
) -> Result<Option<T>, StageError> {
    use ErrorCategory::{Config, Input, Timeout};
    match (answer, &page.work) {
        (Err(error), Work::Look(_)) if matches!(error.category, Input | Config | Timeout) => {
            let row = &page.row;
            warn!(volume = %run.volume(), page = row.source_name, %error, "the text of the page was not compared with its picture");
            Ok(None)
        }
        (answer, _) => answer,
    }
}

/// Decides whether the picture of a page is read.
fn is_read(row: &PageTextRow, pages: ReadPages) -> bool {
    match pages {
        ReadPages::All => true,
        ReadPages::Broken => row.verdict.needs_reading(),
        ReadPages::Empty => row.words.is_empty() && row.verdict != TextVerdict::Blank,
    }
}

/// Rows of the words that the file of a page holds.
fn rows_of_layer(page: &PageTextRow) -> Vec<WordRow> {
    let words = page.words.iter().zip(0..);
    words
        .map(|(word, index)| {
            let [x0, y0, x1, y1] = word.bounds;
            WordRow {
                image_name: page.image_name.clone(),
                page_index: page.page_index,
                page: page.page_index.saturating_add(1),
                word_index: index,
                text: word.text.clone(),
                bbox_x0: x0,
                bbox_y0: y0,
                bbox_x1: x1,
                bbox_y1: y1,
                confidence: None,
                line: word.line,
                source: WordSource::TextLayer,
                engine: String::new(),
                contradicted: Some(false),
            }
        })
        .collect()
}

/// Rows of the words of lines that were read, whose boxes are in points.
fn rows_of_reading(page: &PageTextRow, lines: Vec<ReadLine>, contradicted: bool) -> Vec<WordRow> {
    let words = lines.into_iter().zip(0..).flat_map(|(line, number)| {
        line.words
            .into_iter()
            .map(move |word| (word, line.engine, number))
    });
    words
        .zip(0..)
        .map(|((word, engine, line), index)| {
            let [x0, y0, x1, y1] = word.bounds;
            WordRow {
                image_name: page.image_name.clone(),
                page_index: page.page_index,
                page: page.page_index.saturating_add(1),
                word_index: index,
                text: word.text,
                bbox_x0: x0,
                bbox_y0: y0,
                bbox_x1: x1,
                bbox_y1: y1,
                confidence: Some(word.confidence),
                line,
                source: WordSource::Ocr,
                engine: Engine::as_str(engine).to_owned(),
                contradicted: Some(contradicted),
            }
        })
        .collect()
}

/// The keys of a job's configuration that decide its words: those of the stages of `ocr`, whose engine reads Tibetan, and the choice of
/// pages that are read and looked at.
fn settings(config: &JobConfig) -> Map<String, Value> {
    let mut settings = line_detection::settings(config);
    settings.extend(line_extraction::settings(config));
    settings.extend(ocr::settings(config));
    settings.insert("read_pages".to_owned(), json!(config.read_pages));
    settings.insert("verify".to_owned(), json!(config.verify));
    settings
}

#[cfg(test)]
mod tests {
    use super::*;
    use parkhang_store::artifact::LayerWord;

    pub(super) fn page(verdict: TextVerdict, words: &[&str]) -> PageTextRow {
        PageTextRow {
            image_name: "page_2".to_owned(),
            page_index: 1,
            source_name: "page_2".to_owned(),
            width: 100.0,
            height: 200.0,
            rotation: 0,
            dpi: 72.0,
            verdict,
            score: 0.5,
            reason: String::new(),
            words: words
                .iter()
                .map(|text| LayerWord {
                    text: (*text).to_owned(),
                    bounds: [1.0, 2.0, 3.0, 4.0],
                    line: 7,
                })
                .collect(),
            picture_share: None,
        }
    }

    #[test]
    fn the_job_says_which_pages_are_read() {
        use TextVerdict::{Blank, Broken, Good, None};
        for (verdict, words, broken, empty) in [
            (Good, &["word"][..], false, false),
            (Good, &[], false, true),
            (Broken, &["w#rd"], true, false),
            (None, &[], true, true),
            (Blank, &[], false, false),
        ] {
            let page = page(verdict, words);
            assert_eq!(is_read(&page, ReadPages::Broken), broken, "{verdict:?} {words:?}");
            assert_eq!(is_read(&page, ReadPages::Empty), empty, "{verdict:?} {words:?}");
            assert!(is_read(&page, ReadPages::All));
        }
    }

    #[test]
    fn words_of_a_page_are_counted_through_and_keep_their_lines() {
        let page = page(TextVerdict::Good, &["a", "b"]);
        let rows = rows_of_layer(&page);
        let places: Vec<_> = rows
            .iter()
            .map(|row| (row.page, row.word_index, row.line, row.source, row.confidence))
            .collect();
        let layer = WordSource::TextLayer;
        assert_eq!(places, [(2, 0, 7, layer, None), (2, 1, 7, layer, None)]);
    }
}
