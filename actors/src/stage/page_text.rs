//! The stage `page_text`: what the file of a page says of it, its size and the text that it holds beside its picture, and whether that
//! text is to be trusted. It costs milliseconds a page, and decides which pages `page_ocr` has to read.

use std::sync::Arc;

use async_trait::async_trait;
use parkhang_models::page::decode::probe_page;
use parkhang_pdf::{PageText as TextOfPage, Rect};
use serde_json::Map;

use super::info::StageInfo;
use super::page_stage::{PageStage, PlannedPage, VolumeRun};
use super::registry::StageServices;
use super::scans::{plan_scans, read_scan, version_of_scans};
use super::table::{SCANS, StageDefinition, StageModels};
use crate::runner::CpuPool;
use parkhang_core::domain::{ErrorCategory, Hardware, StageError, StageName, Unfit};
use parkhang_store::artifact::{LayerWord, PageTextRow, TableSchema, TextVerdict};
use parkhang_store::pages::{PageRef, PageSource, Scan};

pub(super) const STAGE: StageDefinition = StageDefinition {
    name: "page_text",
    hardware: Hardware::Cpu,
    models: StageModels::None,
    settings: |_| Map::new(),
    reads: &[&[SCANS]],
    writes: &[TableSchema::of::<PageTextRow>()],
    build: |services| Ok(services.paged(STAGE, PageText::new(services))),
};

/// Resolution of image files. An image file has no size but that in pixels which all its readers agree on, so a pixel counts as a point.
const IMAGE_DPI: f32 = 72.0;

/// The stage that takes the text out of the files of pages.
#[derive(Debug)]
pub(crate) struct PageText {
    pages: Arc<dyn PageSource>,
    cpu: CpuPool,
}

impl PageText {
    fn new(services: &StageServices) -> Self {
        Self {
            pages: services.pages.clone(),
            cpu: services.cpu.clone(),
        }
    }
}

#[async_trait]
impl StageInfo for PageText {
    fn name(&self) -> StageName {
        STAGE.name()
    }

    fn hardware(&self) -> Hardware {
        STAGE.hardware
    }

    async fn check(&self) -> Result<(), Unfit> {
        super::check_threads(&self.cpu)
    }
}

#[async_trait]
impl PageStage for PageText {
    type Input = PageRef;
    type Fetched = Scan;
    type Row = PageTextRow;

    const VERSION: u32 = 3;

    fn image_name(row: &PageTextRow) -> &str {
        &row.image_name
    }

    fn image_path(_: &PageTextRow) -> Option<&str> {
        None
    }

    async fn plan(&self, run: &VolumeRun) -> Result<Vec<PlannedPage<PageRef>>, StageError> {
        plan_scans(&self.pages, &self.cpu, run).await
    }

    fn volume_version(&self, pages: &[PlannedPage<PageRef>]) -> Option<String> {
        version_of_scans(pages)
    }

    async fn fetch(&self, run: &VolumeRun, page: &PlannedPage<PageRef>) -> Result<Scan, StageError> {
        read_scan(&self.pages, run, page).await
    }

    async fn process(
        &self,
        run: &VolumeRun,
        page: &PlannedPage<PageRef>,
        scan: Scan,
    ) -> Result<Vec<PageTextRow>, StageError> {
        let row = PageTextRow {
            image_name: page.name.as_str().to_owned(),
            page_index: i32::try_from(page.index).unwrap_or(i32::MAX),
            source_name: page.input.name.clone(),
            width: 0.0,
            height: 0.0,
            rotation: 0,
            dpi: IMAGE_DPI,
            verdict: TextVerdict::None,
            score: 0.0,
            reason: String::new(),
            words: Vec::new(),
            picture_share: None,
        };
        let row = super::compute(&self.cpu, run, move |_| fill(row, &scan)).await?;
        Ok(vec![row])
    }
}

/// Completes the row of a page by what its file says.
fn fill(row: PageTextRow, scan: &Scan) -> Result<PageTextRow, (ErrorCategory, String)> {
    if let Scan::Image(bytes) = scan {
        let header = probe_page(bytes).map_err(|error| (ErrorCategory::Input, error.to_string()))?;
        return Ok(PageTextRow {
            width: header.width as f32,
            height: header.height as f32,
            reason: "an image file holds no text".to_owned(),
            ..row
        });
    }
    let text = scan
        .text()
        .map_err(|error| (error.category(), error.to_string()))?;
    let text = text.ok_or_else(|| {
        (
            ErrorCategory::Input,
            "the page has neither text nor pixels".to_owned(),
        )
    })?;
    let TextOfPage {
        size,
        words,
        verdict,
        picture_share,
        ..
    } = text;
    Ok(PageTextRow {
        width: size.width,
        height: size.height,
        rotation: i32::from(size.rotation),
        dpi: parkhang_pdf::DEFAULT_DPI,
        verdict: verdict.kind.into(),
        score: verdict.score,
        reason: verdict.reason.to_string(),
        words: words
            .into_iter()
            .map(|word| {
                let Rect { x0, y0, x1, y1 } = word.bbox;
                LayerWord {
                    text: word.text,
                    bounds: [x0, y0, x1, y1],
                    line: i32::try_from(word.line).unwrap_or(i32::MAX),
                }
            })
            .collect(),
        picture_share: Some(picture_share),
        ..row
    })
}
