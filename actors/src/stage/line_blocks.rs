//! The stage `line_blocks`: the blocks of a volume whose lines were read, so that it becomes a document without being read again. The
//! rules are those of Tibetan pages. Boxes are in pixels of the scan.

use std::collections::HashMap;

use async_trait::async_trait;
use parkhang_documents::{ScanLine, tibetan_blocks};
use parkhang_models::line_detection::PageGeometry;
use parkhang_models::recognition::ewts::to_unicode_exact;
use serde_json::Map;

use super::compute;
use super::info::StageInfo;
use super::page_geometry::{bounds_on_scan, page_geometry};
use super::page_stage::{PageStage, PlannedPage, VolumeRun};
use super::table::{StageDefinition, StageModels};
use crate::runner::CpuPool;
use parkhang_core::domain::{ErrorCategory, Hardware, StageError, StageName, TextEncoding, Unfit};
use parkhang_store::artifact::{
    ArtifactRow, BlockRow, Digest, ImageName, LineDetectionRow, LineImageRow, OcrResultRow, TableSchema,
    read_table, read_texts,
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
        let (store, layout) = (run.store.as_ref(), &run.layout);
        let artifact_error = |error| run.artifact_error(&error);
        let (pages_key, lines_key) = (layout.line_detection(), layout.line_images());
        let pages = read_table::<LineDetectionRow>(store, &pages_key).await;
        let pages = pages.map_err(artifact_error)?.rows;
        let cut = read_table::<LineImageRow>(store, &lines_key).await;
        let cut = cut.map_err(artifact_error)?.rows;
        let texts = read_texts(store, layout).await.map_err(artifact_error)?;
        let cut: HashMap<&str, &LineImageRow> =
            cut.iter().map(|line| (line.line_guid.as_str(), line)).collect();
        let mut by_page: HashMap<&str, Vec<&OcrResultRow>> = HashMap::new();
        for text in &texts.rows {
            by_page.entry(&text.image_name).or_default().push(text);
        }
        let mut planned = Vec::with_capacity(pages.len());
        for page in &pages {
            // A page that failed before has no fingerprint there.
            let Some(made_of) = texts.provenance.pages.get(&page.image_name) else {
                continue;
            };
            let input_error = |error: &dyn std::fmt::Display| run.error(ErrorCategory::Input, error);
            let to_scan = page_geometry(page).map_err(|error| input_error(&error))?;
            let mut rows = by_page.remove(page.image_name.as_str()).unwrap_or_default();
            // The table need not be in the order of the lines.
            rows.sort_by_key(|row| row.line_index);
            let lines = rows.into_iter().filter_map(|row| {
                let line = cut.get(row.line_guid.as_str()).copied();
                placed(row, line, &to_scan)
            });
            planned.push(PlannedPage {
                name: ImageName::new(page.image_name.as_str()).map_err(|error| input_error(&error))?,
                index: u32::try_from(page.page_index).unwrap_or(0),
                input_path: page.source_name.clone(),
                input_hash: Digest::of_parts([made_of.digest()]),
                cost: 1.0,
                input: PageOfLines {
                    image_name: page.image_name.clone(),
                    page_index: page.page_index,
                    lines: lines.collect(),
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
fn placed(row: &OcrResultRow, line: Option<&LineImageRow>, to_scan: &PageGeometry) -> Option<PlacedLine> {
    Some(PlacedLine {
        text: match row.encoding {
            TextEncoding::Unicode => row.text.clone(),
            TextEncoding::Wylie => to_unicode_exact(&row.text),
        },
        bounds: bounds_on_scan(row, line, to_scan)?,
    })
}
