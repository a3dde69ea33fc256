//! The stage `ocr`: reads the text of line images.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use parkhang_models::recognition::legibility::legible;
use parkhang_models::recognition::read::LineText;
use parkhang_models::recognition::syllable::Syllable;
use serde_json::{Map, Value, json};

use super::info::StageInfo;
use super::line_pictures::{LinePictures, line_pictures};
use super::ocr_operations::take_over;
use super::ocr_reader::Reader;
use super::page_stage::{PageStage, PlannedPage, VolumeRun};
use super::quality::text_score;
use super::registry::StageServices;
use super::table::{ModelKind, StageDefinition, StageModels};
use crate::engines::Engine;
use crate::inference::DeviceStatus;
use crate::runner::CpuPool;
use parkhang_core::domain::{
    Artifacts, ErrorCategory, Hardware, JobConfig, StageError, StageName, TextEncoding, Unfit,
};
use parkhang_store::artifact::{
    ArtifactRow, ImageName, LineDetectionRow, LineImageRow, ModelRef, OcrResultRow, Segment, ServiceRef,
    TableSchema, read_table,
};
use parkhang_store::pages::PageSource;

pub(super) const STAGE: StageDefinition = StageDefinition {
    name: "ocr",
    hardware: Hardware::Gpu,
    models: StageModels::Choice(ModelKind::Recogniser),
    settings,
    reads: &[&[LineDetectionRow::TABLE, LineImageRow::TABLE]],
    writes: &[TableSchema::of::<OcrResultRow>()],
    build: |services| Ok(services.paged(STAGE, Ocr::new(services)?)),
};

/// The stage that reads lines.
#[derive(Debug)]
pub(crate) struct Ocr {
    /// Scans, for jobs that keep no pictures.
    pub pages: Arc<dyn PageSource>,
    pub cpu: CpuPool,
    /// The recognisers of the node, at least one.
    pub readers: Vec<Reader>,
    /// Services that jobs may name instead.
    pub engines: Vec<Engine>,
}

/// The lines of a page, and who reads them.
#[derive(Debug)]
pub(crate) struct PageLines {
    /// Index of the recogniser of the volume.
    pub(super) reader: usize,
    /// Service that reads the page as a whole; its text is compared with that of the recogniser where it has no places.
    pub(super) engine: Option<Engine>,
    /// Key of the straightened page.
    pub(super) picture: String,
    /// Row of the page, of which its lines are cut anew where the job keeps no pictures; `None` where it does.
    pub(super) found: Option<Arc<LineDetectionRow>>,
    pub(super) rows: Vec<LineImageRow>,
}

/// Images of a page.
#[derive(Debug)]
pub(crate) struct PageImages {
    /// The straightened page, where a service reads it.
    pub(super) page: Option<Bytes>,
    /// Its lines, where the recogniser reads them; `None` where only a service may want them.
    pub(super) lines: Option<LinePictures>,
}

impl Ocr {
    pub(super) fn new(services: &StageServices) -> std::io::Result<Self> {
        let recognisers = services.models.recognisers.iter();
        let readers = recognisers.map(|recogniser| Reader::new(recogniser, services));
        Ok(Self {
            pages: services.pages.clone(),
            cpu: services.cpu.clone(),
            readers: readers.collect::<Result<_, _>>()?,
            engines: services.models.engines.clone(),
        })
    }

    pub(super) fn reader(&self, place: usize, run: &VolumeRun) -> Result<&Reader, StageError> {
        self.readers
            .get(place)
            .ok_or_else(|| run.error(ErrorCategory::Config, "there is no recogniser"))
    }

    /// Indices of the readers that the job leaves a choice of: those that it names, or all.
    pub(super) fn candidates(&self, config: &JobConfig) -> Vec<usize> {
        let stage = self.name();
        // A service that is named beside it takes nothing away from the choice.
        let is_engine = |name: &str| self.engines.iter().any(|engine| engine.model().name == name);
        let named: Vec<&str> = config.models.of(&stage).filter(|name| !is_engine(name)).collect();
        self.readers
            .iter()
            .enumerate()
            .filter(|(_, reader)| named.is_empty() || named.contains(&reader.recogniser.model.name.as_str()))
            .map(|(place, _)| place)
            .collect()
    }
}

#[async_trait]
impl StageInfo for Ocr {
    fn name(&self) -> StageName {
        STAGE.name()
    }

    fn hardware(&self) -> Hardware {
        STAGE.hardware
    }

    fn models(&self) -> Vec<ModelRef> {
        let readers = self.readers.iter().map(|reader| &reader.recogniser.model);
        readers
            .chain(self.engines.iter().map(Engine::model))
            .cloned()
            .collect()
    }

    fn device(&self) -> Option<DeviceStatus> {
        self.readers.first().map(|reader| reader.recognition.status())
    }

    fn renew(&self) -> std::io::Result<()> {
        self.readers
            .iter()
            .try_for_each(|reader| reader.recognition.renew())
    }

    async fn check(&self) -> Result<(), Unfit> {
        super::check_threads(&self.cpu)?;
        for reader in &self.readers {
            super::check_device(&reader.recognition).await?;
        }
        Ok(())
    }
}

#[async_trait]
impl PageStage for Ocr {
    type Input = PageLines;
    type Fetched = PageImages;
    type Row = OcrResultRow;

    const VERSION: u32 = 4;

    fn model_settings(&self, config: &JobConfig) -> Map<String, Value> {
        let heads: Vec<&str> = self
            .candidates(config)
            .into_iter()
            .filter_map(|place| self.readers.get(place))
            .map(|reader| reader.recogniser.head.as_str())
            .collect();
        Map::from_iter([("head".to_owned(), json!(heads.join(",")))])
    }

    fn models_of(&self, planned: &[PlannedPage<PageLines>]) -> Vec<ModelRef> {
        let Some(PageLines { reader, engine, .. }) = planned.first().map(|page| &page.input) else {
            return self.models();
        };
        let reader = self
            .readers
            .get(*reader)
            .map(|reader| reader.recogniser.model.clone());
        match engine {
            Some(engine) if engine.has_places() => vec![engine.model().clone()],
            Some(engine) => std::iter::once(engine.model().clone()).chain(reader).collect(),
            None => reader.map_or_else(|| self.models(), |reader| vec![reader]),
        }
    }

    async fn service_of(&self, planned: &[PlannedPage<PageLines>]) -> Option<ServiceRef> {
        let engine = planned.first()?.input.engine.as_ref()?;
        Some(engine.served().await)
    }

    fn image_name(row: &OcrResultRow) -> &str {
        &row.image_name
    }

    fn image_path(_: &OcrResultRow) -> Option<&str> {
        None
    }

    async fn plan(&self, run: &VolumeRun) -> Result<Vec<PlannedPage<PageLines>>, StageError> {
        let artifact_error = |error| run.artifact_error(&error);
        let pages = read_table::<LineDetectionRow>(run.store.as_ref(), &run.layout.line_detection())
            .await
            .map_err(artifact_error)?;
        let lines = read_table::<LineImageRow>(run.store.as_ref(), &run.layout.line_images())
            .await
            .map_err(artifact_error)?;
        let mut by_page: std::collections::HashMap<String, Vec<LineImageRow>> =
            std::collections::HashMap::new();
        for row in lines.rows {
            by_page.entry(row.image_name.clone()).or_default().push(row);
        }
        let engine = self.engine(run)?;
        let mut planned = Vec::new();
        for page in pages.rows {
            // A page on which line_extraction failed has no fingerprint there, and nothing to read here.
            let Some(made_of) = lines.provenance.pages.get(&page.image_name) else {
                continue;
            };
            let input_hash = made_of.digest();
            let name = ImageName::new(page.image_name.as_str())
                .map_err(|error| run.error(ErrorCategory::Input, error))?;
            let mut rows = by_page.remove(&page.image_name).unwrap_or_default();
            rows.sort_by_key(|row| row.line_index);
            let cost = rows.iter().map(|row| f64::from(row.image_width)).sum();
            planned.push(PlannedPage {
                name,
                index: u32::try_from(page.page_index).unwrap_or(0),
                input_path: run.layout.line_images().as_str().to_owned(),
                input_hash,
                cost,
                input: PageLines {
                    reader: 0,
                    engine: engine.clone(),
                    picture: page.rotated_image_path.clone(),
                    found: (run.config().artifacts == Artifacts::Tables).then(|| {
                        let rot_mask = Vec::new();
                        Arc::new(LineDetectionRow { rot_mask, ..page })
                    }),
                    rows,
                },
            });
        }
        // Chosen once for the volume, whose table names the model that made it.
        let chosen = self.choose(run, &planned).await?;
        for page in &mut planned {
            page.input.reader = chosen;
        }
        if let Some(engine) = &engine {
            take_over(run, engine, &planned).await?;
        }
        Ok(planned)
    }

    async fn fetch(&self, run: &VolumeRun, page: &PlannedPage<PageLines>) -> Result<PageImages, StageError> {
        let input = &page.input;
        Ok(match &input.engine {
            Some(engine) => self.fetch_page(run, engine, input).await?,
            None => PageImages {
                page: None,
                lines: Some(line_pictures(run, &self.pages, input, &input.rows).await?),
            },
        })
    }

    async fn process(
        &self,
        run: &VolumeRun,
        page: &PlannedPage<PageLines>,
        images: PageImages,
    ) -> Result<Vec<OcrResultRow>, StageError> {
        let PageLines { reader, rows, .. } = &page.input;
        if let (Some(engine), Some(picture)) = (&page.input.engine, images.page) {
            return self
                .read_by_service(run, engine, page, picture, images.lines)
                .await;
        }
        let reader = self.reader(*reader, run)?;
        let Some(lines) = images.lines else {
            return Ok(Vec::new());
        };
        let texts = self.read_page(run, reader, lines).await?;
        // What is read far less surely than the rest of its page is a smudge, or a caption in another script.
        let kept = legible(&texts, run.config().min_confidence);
        Ok(rows
            .iter()
            .zip(texts)
            .zip(kept)
            .filter_map(|(line, kept)| kept.then_some(line))
            .map(|(row, line)| text_row(row, line, run.config().encoding))
            .collect())
    }
}

/// Row of a line that was read.
fn text_row(row: &LineImageRow, line: LineText, encoding: TextEncoding) -> OcrResultRow {
    let pixels = |count: u32| i32::try_from(count).unwrap_or(i32::MAX);
    let segment = |syllable: Syllable| Segment {
        text: syllable.text,
        x: pixels(syllable.x_start),
        width: pixels(syllable.x_end.saturating_sub(syllable.x_start)),
        confidence: syllable.confidence,
    };
    let ink = line
        .inked
        .map(|rows| (pixels(rows.start), pixels(rows.end - rows.start)));
    let (ink_y, ink_h) = ink.unzip();
    OcrResultRow {
        image_name: row.image_name.clone(),
        line_index: row.line_index,
        line_guid: row.line_guid.clone(),
        perplexity: text_score(&line.text, encoding).perplexity(),
        text: line.text,
        encoding,
        page_index: row.page_index,
        confidence: Some(line.confidence),
        segments: line.syllables.into_iter().map(segment).collect(),
        outline: None,
        alignment: None,
        sources: None,
        ink_y,
        ink_h,
    }
}

/// The keys of a job's configuration that decide its text.
pub(super) fn settings(config: &JobConfig) -> Map<String, Value> {
    let keys = [
        ("encoding", json!(config.encoding)),
        ("decoder", json!(config.decoder)),
        ("beam_width", json!(config.beam_width)),
        ("language_model", json!(config.language_model)),
        ("min_confidence", json!(config.min_confidence)),
    ];
    super::of_generation(config, keys)
}
