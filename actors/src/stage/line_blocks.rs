//! The stage `line_blocks`: the blocks of a volume whose lines were read, so that it becomes a document without being read again. The
//! rules are those of Tibetan pages. Boxes are in pixels of the scan.

use async_trait::async_trait;
use parkhang_documents::{ScanLine, tibetan_blocks};
use parkhang_models::recognition::ewts::to_unicode_exact;
use serde_json::Map;

use super::compute;
use super::info::StageInfo;
use super::page_stage::{PageStage, PlannedPage, VolumeRun};
use super::read_volume::{ReadLine, read_volume};
use super::table::{StageDefinition, StageModels};
use crate::runner::CpuPool;
use parkhang_core::domain::{ErrorCategory, Hardware, StageError, StageName, TextEncoding, Unfit};
use parkhang_store::artifact::{
    ArtifactRow, BlockRow, Digest, ImageName, LineDetectionRow, LineImageRow, OcrResultRow, TableSchema,
    texts_key,
};

pub(super) const STAGE: StageDefinition = StageDefinition {
    name: "line_blocks",
    hardware: Hardware::Cpu,
    models: StageModels::None,
    settings: |_| Map::new(),
    reads: &[&[LineDetectionRow::TABLE, LineImageRow::TABLE, OcrResultRow::TABLE]],
    writes: &[TableSchema::of::<BlockRow>()],
    build: |services| {
        let cpu = services.cpu.clone();
        Ok(services.paged(STAGE, LineBlocks { cpu }))
    },
};

/// The stage that makes blocks of lines.
#[derive(Debug)]
pub(crate) struct LineBlocks {
    cpu: CpuPool,
}

/// A page with its lines in reading order.
#[derive(Debug, Clone)]
pub(crate) struct PageOfLines {
    image_name: String,
    page_index: i32,
    lines: Vec<PlacedLine>,
}

#[derive(Debug, Clone, PartialEq)]
struct PlacedLine {
    text: String,
    /// Left, top, right and bottom in pixels of the scan.
    bounds: [f32; 4],
}

#[async_trait]
impl StageInfo for LineBlocks {
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
impl PageStage for LineBlocks {
    type Input = PageOfLines;
    type Fetched = ();
    type Row = BlockRow;

    const VERSION: u32 = 1;

    fn image_name(row: &BlockRow) -> &str {
        &row.image_name
    }

    fn image_path(_: &BlockRow) -> Option<&str> {
        None
    }

    async fn plan(&self, run: &VolumeRun) -> Result<Vec<PlannedPage<PageOfLines>>, StageError> {
        let texts = texts_key(run.store.as_ref(), &run.layout).await;
        let texts = texts.map_err(|error| run.storage_error(&error))?;
        let texts = texts.unwrap_or_else(|| run.layout.ocr_results());
        let pages = read_volume(run.store.as_ref(), &run.layout, &texts).await;
        let pages = pages.map_err(|error| run.artifact_error(&error))?;
        let mut planned = Vec::with_capacity(pages.len());
        for page in pages {
            // A page that failed before has no fingerprint there.
            let Some(made_of) = page.made_of else {
                continue;
            };
            let input_error = |error: &dyn std::fmt::Display| run.error(ErrorCategory::Input, error);
            page.geometry.map_err(|error| input_error(&error))?;
            planned.push(PlannedPage {
                name: ImageName::new(page.row.image_name.as_str()).map_err(|error| input_error(&error))?,
                index: u32::try_from(page.row.page_index).unwrap_or(0),
                input_path: page.row.source_name,
                input_hash: Digest::of_parts([made_of]),
                cost: 1.0,
                input: PageOfLines {
                    image_name: page.row.image_name,
                    page_index: page.row.page_index,
                    lines: page.lines.into_iter().filter_map(placed).collect(),
                },
            });
        }
        Ok(planned)
    }

    async fn fetch(&self, _: &VolumeRun, _: &PlannedPage<PageOfLines>) -> Result<(), StageError> {
        Ok(())
    }

    async fn process(
        &self,
        run: &VolumeRun,
        page: &PlannedPage<PageOfLines>,
        (): (),
    ) -> Result<Vec<BlockRow>, StageError> {
        let page = page.input.clone();
        compute(&self.cpu, run, move |_| Ok(blocks_of(&page))).await
    }
}

fn blocks_of(page: &PageOfLines) -> Vec<BlockRow> {
    let lines = page.lines.iter().map(|line| ScanLine {
        text: &line.text,
        bounds: line.bounds,
    });
    let blocks = tibetan_blocks(&lines.collect::<Vec<_>>()).into_iter().zip(0..);
    blocks
        .map(|(block, index)| BlockRow::new(&page.image_name, page.page_index, index, block))
        .collect()
}

/// The line of a text on its scan, if it has a place there.
fn placed(line: ReadLine) -> Option<PlacedLine> {
    Some(PlacedLine {
        text: match line.row.encoding {
            TextEncoding::Unicode => line.row.text,
            TextEncoding::Wylie => to_unicode_exact(&line.row.text),
        },
        bounds: line.bounds?,
    })
}
