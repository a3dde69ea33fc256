//! The stage `doctags`: the blocks of pages whose words are known, in reading order and with their roles, and the cells of their tables.
//! Networks of the node find them, or a service that the job names: a model that sees a page and writes it in DocTags.
//! Networks look at the picture of each page, also of one whose words are those of its file: which part of a page is a table or a
//! figure is to be seen, and not to be read.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use image::DynamicImage;
use parkhang_documents::{Block, Page, PageLayout, PageWord, blocks, turn_of};
use parkhang_models::page::decode::DecodeLimits;
use parkhang_words::{InferenceError, LayoutModels, page_layout};
use serde_json::{Map, Value};
use tracing::warn;

use super::info::StageInfo;
use super::page_stage::{PageStage, PlannedPage, VolumeRun};
use super::registry::StageServices;
use super::scans::{in_pixels, in_points};
use super::service;
use super::table::{ModelKind, SCANS, StageDefinition, StageModels};
use super::{DEVICE_INBOX, compute};
use crate::engines::{Converter, Engine};
use crate::inference::{DeviceStatus, LayoutThreads};
use crate::runner::{CancelFlag, CpuPool};
use parkhang_core::domain::{ErrorCategory, Hardware, StageError, StageName, Unfit, Usage};
use parkhang_store::artifact::{
    ArtifactRow, BlockRow, Digest, ImageName, ModelRef, PageTextRow, ServiceRef, TableSchema, TextVerdict,
    WordRow, read_table,
};
use parkhang_store::pages::{PageRef, PageSource, PageSourceError, Scan, ScanPixels};

pub(super) const STAGE: StageDefinition = StageDefinition {
    name: "doctags",
    hardware: Hardware::Gpu,
    models: StageModels::Choice(ModelKind::Layout),
    settings: |_| Map::new(),
    reads: &[&[SCANS, PageTextRow::TABLE, WordRow::TABLE]],
    writes: &[TableSchema::of::<BlockRow>()],
    build: |services| Ok(services.paged(STAGE, Doctags::new(services)?)),
};

/// The stage that makes blocks of words.
#[derive(Debug)]
pub(crate) struct Doctags {
    pages: Arc<dyn PageSource>,
    cpu: CpuPool,
    threads: LayoutThreads,
    /// The networks, on their threads.
    networks: LayoutModels,
    model: ModelRef,
    /// Services that write pages in DocTags.
    converters: Vec<Converter>,
}

/// A page with its words, and who finds its blocks.
#[derive(Debug)]
pub(crate) struct PageOfWords {
    converter: Option<Converter>,
    row: PageTextRow,
    words: Arc<[WordRow]>,
    scan: PageRef,
}

impl Doctags {
    fn new(services: &StageServices) -> std::io::Result<Self> {
        let layout = services.models.layout()?;
        let memory = services.device_memory(&layout.model);
        let threads = LayoutThreads::start(&layout.networks, &memory, DEVICE_INBOX)?;
        Ok(Self {
            pages: services.pages.clone(),
            cpu: services.cpu.clone(),
            networks: threads.networks(&layout.networks),
            threads,
            model: layout.model.clone(),
            converters: services
                .models
                .engines
                .iter()
                .filter_map(Engine::converter)
                .collect(),
        })
    }

    /// The blocks that the networks find.
    async fn find(
        &self,
        run: &VolumeRun,
        page: &PlannedPage<PageOfWords>,
        scan: Scan,
    ) -> Result<Vec<Block>, StageError> {
        let PageOfWords { row, words, .. } = &page.input;
        let (size, words) = ([row.width, row.height], words.clone());
        let networks = self.networks.clone();
        let decode = decoder(run, row);
        let found = compute(&self.cpu, run, move |cancelled| {
            let pixels = decode(scan, cancelled)?;
            let words: Vec<PageWord<'_>> = words.iter().map(page_word).collect();
            let turn = turn_of(&words);
            let gray = pixels.page.gray;
            let extent = (gray.width() as f32, gray.height() as f32);
            let upright = turn.undone(&gray).unwrap_or(gray);
            let picture = DynamicImage::ImageLuma8(upright).into_rgb8();
            let upright_extent = turn.upright_size(extent);
            let boxes = words.iter().map(|word| {
                let in_pixels = in_pixels(word.bounds, pixels.map);
                turn.back().bounds_as_they_lie(in_pixels, upright_extent)
            });
            let boxes: Vec<[f32; 4]> = boxes.collect();
            let layout = page_layout(&picture, &boxes, &networks).map(|layout| {
                layout.mapped(|bounds| in_points(turn.bounds_as_they_lie(bounds, extent), pixels.map))
            });
            Ok(layout.map(|layout: PageLayout| {
                blocks(&Page {
                    size,
                    words,
                    turn,
                    layout,
                })
            }))
        })
        .await?;
        found.map_err(|error| match error {
            InferenceError::Device(_) => run.out_of_order(error),
            error => run.error(ErrorCategory::Runtime, error),
        })
    }

    /// The blocks that a service tells.
    async fn ask(
        &self,
        run: &VolumeRun,
        converter: &Converter,
        page: &PlannedPage<PageOfWords>,
        scan: Scan,
    ) -> Result<Vec<Block>, StageError> {
        let PageOfWords { row, words, .. } = &page.input;
        // A language model finds text on blank paper, too.
        if row.verdict == TextVerdict::Blank {
            return Ok(Vec::new());
        }
        let (sending, seen) = (converter.clone(), words.clone());
        let decode = decoder(run, row);
        let (picture, request) = compute(&self.cpu, run, move |cancelled| {
            let gray = decode(scan, cancelled)?.page.gray;
            let words: Vec<PageWord<'_>> = seen.iter().map(page_word).collect();
            let upright = turn_of(&words).undone(&gray).unwrap_or(gray);
            let picture = sending.picture(upright);
            let picture = picture.map_err(|reason| (ErrorCategory::Input, reason))?;
            let request = Digest::of_parts([sending.engine().model().digest, Digest::of(&picture)]);
            Ok((picture, request))
        })
        .await?;
        let ask = async {
            let mut usage = Usage::default();
            let answer = converter.convert(&picture, &mut usage).await;
            (answer, usage)
        };
        let answer = service::answer(run, converter.engine(), &page.name, &[request], ask).await?;
        let (size, words) = ([row.width, row.height], words.clone());
        let reading = converter.clone();
        let blocks = compute(&self.cpu, run, move |_| {
            let words: Vec<PageWord<'_>> = words.iter().map(page_word).collect();
            let page = Page {
                size,
                turn: turn_of(&words),
                words,
                layout: PageLayout::default(),
            };
            Ok(reading.blocks(&answer, &page))
        })
        .await?;
        blocks.map_err(|error| service::failed(run, error))
    }
}

#[async_trait]
impl StageInfo for Doctags {
    fn name(&self) -> StageName {
        STAGE.name()
    }

    fn hardware(&self) -> Hardware {
        STAGE.hardware
    }

    fn models(&self) -> Vec<ModelRef> {
        let services = self.converters.iter().map(|converter| converter.engine().model());
        std::iter::once(&self.model).chain(services).cloned().collect()
    }

    fn device(&self) -> Option<DeviceStatus> {
        Some(self.threads.status())
    }

    fn renew(&self) -> std::io::Result<()> {
        self.threads.renew()
    }

    async fn check(&self) -> Result<(), Unfit> {
        let broken = |error: InferenceError| Unfit::Device(error.to_string());
        self.threads.check().await.map_err(broken)
    }
}

#[async_trait]
impl PageStage for Doctags {
    type Input = PageOfWords;
    type Fetched = Scan;
    type Row = BlockRow;

    const VERSION: u32 = 3;

    fn image_name(row: &BlockRow) -> &str {
        &row.image_name
    }

    fn models_of(&self, planned: &[PlannedPage<PageOfWords>]) -> Vec<ModelRef> {
        let converter = planned.first().and_then(|page| page.input.converter.as_ref());
        vec![
            converter
                .map_or(&self.model, |converter| converter.engine().model())
                .clone(),
        ]
    }

    async fn service_of(&self, planned: &[PlannedPage<PageOfWords>]) -> Option<ServiceRef> {
        let converter = planned.first()?.input.converter.as_ref()?;
        Some(converter.engine().served().await)
    }

    fn record(&self, page: &PlannedPage<PageOfWords>, _: &[BlockRow]) -> Map<String, Value> {
        let (engine, model) = match &page.input.converter {
            None => ("local", self.model.name.as_str()),
            Some(converter) => (converter.engine().model().name.as_str(), converter.model()),
        };
        Map::from_iter([
            ("parse_engine".to_owned(), engine.into()),
            ("model_name".to_owned(), model.into()),
        ])
    }

    fn image_path(_: &BlockRow) -> Option<&str> {
        None
    }

    async fn plan(&self, run: &VolumeRun) -> Result<Vec<PlannedPage<PageOfWords>>, StageError> {
        let converter = service::named(
            &self.converters,
            Converter::engine,
            &self.model,
            run.config(),
            &self.name(),
        )
        .map_err(|message| run.error(ErrorCategory::Config, message))?;
        let artifact_error = |error| run.artifact_error(&error);
        let store = run.store.as_ref();
        let pages = read_table::<PageTextRow>(store, &run.layout.page_text())
            .await
            .map_err(artifact_error)?;
        let words = read_table::<WordRow>(store, &run.layout.words())
            .await
            .map_err(artifact_error)?;
        let source_error = |error: PageSourceError| run.source_error(&error);
        let listed = run.scans(&self.pages)?.pages(run.volume()).await;
        let mut scans: HashMap<String, PageRef> = listed
            .map_err(source_error)?
            .into_iter()
            .map(|page| (page.name.clone(), page))
            .collect();
        let same_page = |one: &WordRow, other: &WordRow| one.page_index == other.page_index;
        let mut by_page: HashMap<i32, Arc<[WordRow]>> = words
            .rows
            .chunk_by(same_page)
            .map(|words| (words[0].page_index, words.into()))
            .collect();
        let mut planned = Vec::with_capacity(pages.rows.len());
        for row in pages.rows {
            // A page that failed before has no fingerprint there.
            let Some(made_of) = words.provenance.pages.get(&row.image_name) else {
                continue;
            };
            let unlisted = || PageRef::named(row.source_name.as_str());
            // The source says by itself that a page which it no longer lists is not there.
            let scan = scans.remove(&row.source_name).unwrap_or_else(unlisted);
            planned.push(PlannedPage {
                name: ImageName::new(row.image_name.as_str())
                    .map_err(|error| run.error(ErrorCategory::Input, error))?,
                index: u32::try_from(row.page_index).unwrap_or(0),
                input_path: row.source_name.clone(),
                input_hash: Digest::of_parts([made_of.digest()]),
                cost: 1.0,
                input: PageOfWords {
                    converter: converter.cloned(),
                    words: by_page.remove(&row.page_index).unwrap_or_default(),
                    row,
                    scan,
                },
            });
        }
        Ok(planned)
    }

    async fn fetch(&self, run: &VolumeRun, page: &PlannedPage<PageOfWords>) -> Result<Scan, StageError> {
        let read = run.scans(&self.pages)?.read(run.volume(), &page.input.scan).await;
        read.map_err(|error| run.source_error(&error))
    }

    async fn process(
        &self,
        run: &VolumeRun,
        page: &PlannedPage<PageOfWords>,
        scan: Scan,
    ) -> Result<Vec<BlockRow>, StageError> {
        let row = &page.input.row;
        let found = match &page.input.converter {
            None => self.find(run, page, scan).await?,
            Some(converter) => self.ask(run, converter, page, scan).await?,
        };
        Ok(found
            .into_iter()
            .zip(0..)
            .map(|(block, index)| BlockRow::new(&row.image_name, row.page_index, index, block))
            .collect())
    }
}

/// Decoder of the scan of a page, which logs what is wrong with it.
fn decoder(
    run: &VolumeRun,
    row: &PageTextRow,
) -> impl FnOnce(Scan, &CancelFlag) -> Result<ScanPixels, (ErrorCategory, String)> + Send + use<> {
    let (volume, name) = (run.volume().clone(), row.source_name.clone());
    move |scan, cancelled| {
        let pixels = scan
            .pixels(&DecodeLimits::default(), &|| cancelled.is_cancelled())
            .map_err(|error| (error.category(), error.to_string()))?;
        for warning in &pixels.page.warnings {
            warn!(%volume, page = name, %warning, "the scan was decoded with a warning");
        }
        Ok(pixels)
    }
}

fn page_word(row: &WordRow) -> PageWord<'_> {
    PageWord {
        text: &row.text,
        bounds: [row.bbox_x0, row.bbox_y0, row.bbox_x1, row.bbox_y1],
        line: row.line,
    }
}
