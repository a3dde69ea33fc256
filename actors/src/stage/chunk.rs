//! The stage `chunk`: the texts of a document that are embedded and searched. A chunk may be of several pages, so that all of a volume
//! are made in its plan; a page is given those that begin on it, and they are what its result depends on.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use parkhang_documents::{Chunk, ChunkLimits, DocumentPage, chunks, language, parts};
use parkhang_embeddings::SentencePiece;
use serde_json::{Map, Value, json};

use super::compute;
use super::info::StageInfo;
use super::page_stage::{PageStage, PlannedPage, VolumeRun};
use super::registry::StageServices;
use super::table::{ModelKind, StageDefinition, StageModels};
use crate::runner::CpuPool;
use parkhang_core::domain::{ErrorCategory, Hardware, JobConfig, StageError, StageName, Unfit};
use parkhang_core::policy::percentile::percentile;
use parkhang_store::artifact::{
    ArtifactRow, BlockRow, ChunkBox, ChunkRow, Digest, ImageName, ModelRef, TableSchema, blocks_key,
    cfg_hash, read_table,
};

pub(super) const STAGE: StageDefinition = StageDefinition {
    name: "chunk",
    hardware: Hardware::Cpu,
    models: StageModels::All(&[ModelKind::Tokenizer]),
    settings,
    reads: &[&[BlockRow::TABLE]],
    writes: &[TableSchema::of::<ChunkRow>()],
    build: |services| Ok(services.paged(STAGE, Chunker::new(services)?)),
};

fn settings(config: &JobConfig) -> Map<String, Value> {
    let keys = [
        ("chunk_max_tokens", config.chunk_max_tokens),
        ("chunk_min_tokens", config.chunk_min_tokens),
        ("chunk_overlap", config.chunk_overlap),
    ];
    keys.into_iter()
        .map(|(key, value)| (key.to_owned(), json!(value)))
        .collect()
}

/// The stage that makes chunks of blocks.
#[derive(Debug)]
pub(crate) struct Chunker {
    cpu: CpuPool,
    tokenizer: Arc<SentencePiece>,
    model: ModelRef,
}

impl Chunker {
    fn new(services: &StageServices) -> std::io::Result<Self> {
        let tokenizer = services.models.tokenizer()?;
        Ok(Self {
            cpu: services.cpu.clone(),
            tokenizer: tokenizer.pieces.clone(),
            model: tokenizer.model.clone(),
        })
    }
}

#[async_trait]
impl StageInfo for Chunker {
    fn name(&self) -> StageName {
        STAGE.name()
    }

    fn hardware(&self) -> Hardware {
        STAGE.hardware
    }

    fn models(&self) -> Vec<ModelRef> {
        vec![self.model.clone()]
    }

    async fn check(&self) -> Result<(), Unfit> {
        super::check_threads(&self.cpu)
    }
}

#[async_trait]
impl PageStage for Chunker {
    /// The chunks that begin on the page.
    type Input = Vec<ChunkRow>;
    type Fetched = ();
    type Row = ChunkRow;

    const VERSION: u32 = 2;

    fn image_name(row: &ChunkRow) -> &str {
        &row.image_name
    }

    fn record(&self, _: &PlannedPage<Vec<ChunkRow>>, rows: &[ChunkRow]) -> Map<String, Value> {
        let tokens: Vec<f64> = rows.iter().map(|row| f64::from(row.tokens)).collect();
        let of_all = |share| (!tokens.is_empty()).then(|| percentile(&tokens, share));
        Map::from_iter([
            ("chunk_count".to_owned(), rows.len().into()),
            ("tokens_p50".to_owned(), of_all(50.0).into()),
            ("tokens_p95".to_owned(), of_all(95.0).into()),
            (
                "chunks_format".to_owned(),
                format!("{}/{}", ChunkRow::TABLE, ChunkRow::VERSION).into(),
            ),
        ])
    }

    fn image_path(_: &ChunkRow) -> Option<&str> {
        None
    }

    async fn plan(&self, run: &VolumeRun) -> Result<Vec<PlannedPage<Vec<ChunkRow>>>, StageError> {
        let key = blocks_key(run.store.as_ref(), &run.layout).await;
        let key = key.map_err(|error| run.storage_error(&error))?;
        let key = key.unwrap_or_else(|| run.layout.blocks());
        let blocks = read_table::<BlockRow>(run.store.as_ref(), &key)
            .await
            .map_err(|error| run.artifact_error(&error))?;
        let config = run.config();
        let limits = ChunkLimits::new(
            config.chunk_max_tokens,
            config.chunk_min_tokens,
            config.chunk_overlap,
        )
        .map_err(|error| run.error(ErrorCategory::Config, error))?;
        let tokenizer = self.tokenizer.clone();
        let pages = compute(&self.cpu, run, move |_| {
            let tokens = |text: &str| tokenizer.tokens(text);
            pages_of_chunks(blocks.rows, limits, &tokens).map_err(|error| (ErrorCategory::Input, error))
        })
        .await?;
        pages
            .into_iter()
            .map(|(index, page)| {
                let failed = |error: &dyn std::fmt::Display| run.error(ErrorCategory::Input, error);
                Ok(PlannedPage {
                    name: ImageName::new(page.image_name.as_str()).map_err(|error| failed(&error))?,
                    index: u32::try_from(index).unwrap_or(0),
                    input_path: key.to_string(),
                    input_hash: hash(&page.chunks).map_err(|error| failed(&error))?,
                    cost: 1.0,
                    input: page.chunks,
                })
            })
            .collect()
    }

    async fn fetch(&self, _: &VolumeRun, _: &PlannedPage<Vec<ChunkRow>>) -> Result<(), StageError> {
        Ok(())
    }

    async fn process(
        &self,
        _: &VolumeRun,
        page: &PlannedPage<Vec<ChunkRow>>,
        (): (),
    ) -> Result<Vec<ChunkRow>, StageError> {
        Ok(page.input.clone())
    }
}

/// Page with the chunks that begin on it.
#[derive(Debug)]
struct ChunkedPage {
    image_name: String,
    chunks: Vec<ChunkRow>,
}

/// The pages of blocks by their places in the volume, each with the chunks that begin on it.
fn pages_of_chunks(
    rows: Vec<BlockRow>,
    limits: ChunkLimits,
    tokens: &parkhang_documents::Tokens<'_>,
) -> Result<BTreeMap<i32, ChunkedPage>, String> {
    let mut documents: BTreeMap<i32, DocumentPage> = BTreeMap::new();
    let mut pages: BTreeMap<i32, ChunkedPage> = BTreeMap::new();
    for row in rows {
        let (index, page, place) = (row.page_index, row.page, row.block_index);
        pages.entry(index).or_insert_with(|| ChunkedPage {
            image_name: row.image_name.clone(),
            chunks: Vec::new(),
        });
        let document = documents.entry(index).or_insert_with(|| DocumentPage {
            number: u32::try_from(page).unwrap_or(0),
            ..DocumentPage::default()
        });
        let block = row
            .into_block()
            .map_err(|error| format!("block {place} of page {page}: {error}"))?;
        document.blocks.push(block);
    }
    let documents: Vec<DocumentPage> = documents.into_values().collect();
    for chunk in chunks(&parts(&documents), limits, tokens) {
        let index = number_of(chunk.page()).saturating_sub(1);
        if let Some(page) = pages.get_mut(&index) {
            // Numbered by page: one more chunk on a page changes no other page.
            let number = number_of(u32::try_from(page.chunks.len()).unwrap_or(u32::MAX));
            page.chunks
                .push(chunk_row(&page.image_name, index, number, chunk));
        }
    }
    Ok(pages)
}

fn chunk_row(image_name: &str, page_index: i32, number: i32, chunk: Chunk) -> ChunkRow {
    let boxes = chunk.places.iter().map(|place| ChunkBox {
        page: number_of(place.page),
        bounds: place.bounds,
    });
    let boxes: Vec<ChunkBox> = boxes.collect();
    let mut pages: Vec<i32> = boxes.iter().map(|part| part.page).collect();
    pages.sort_unstable();
    pages.dedup();
    ChunkRow {
        image_name: image_name.to_owned(),
        page_index,
        page: page_index.saturating_add(1),
        chunk: number,
        lang: language(&chunk.text).map(str::to_owned),
        tokens: i32::try_from(chunk.tokens).unwrap_or(i32::MAX),
        text: chunk.text,
        kind: chunk.kind,
        headings: chunk.headings,
        pages,
        boxes,
    }
}

fn number_of(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// Hash of chunks: of all that a row has, so that a page whose chunks are the same is not made again.
fn hash(chunks: &[ChunkRow]) -> Result<Digest, serde_json::Error> {
    let rows = chunks.iter().map(|row| {
        let boxes = row.boxes.iter().map(|part| json!([part.page, part.bounds]));
        json!([
            row.chunk,
            row.text,
            row.tokens,
            row.lang,
            row.kind.as_str(),
            row.headings,
            boxes.collect::<Value>()
        ])
    });
    cfg_hash(&rows.collect::<Value>())
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;
    use parkhang_documents::Role;

    fn letters(text: &str) -> Vec<Range<usize>> {
        let letters = text.char_indices().filter(|(_, letter)| !letter.is_whitespace());
        letters
            .map(|(place, letter)| place..place + letter.len_utf8())
            .collect()
    }

    fn row(page: i32, block_index: i32, role: Role, text: &str) -> BlockRow {
        BlockRow {
            image_name: format!("page_{page}"),
            page_index: page - 1,
            page,
            block_index,
            role,
            text: text.to_owned(),
            bbox_x0: 10.0,
            bbox_y0: 20.0 * block_index as f32,
            bbox_x1: 90.0,
            bbox_y1: 20.0 * block_index as f32 + 9.0,
            size: 9.0,
            cells: Vec::new(),
        }
    }

    fn pages(last_words: &str, second_note: &str) -> BTreeMap<i32, ChunkedPage> {
        let rows = vec![
            row(1, 0, Role::Heading, "1 One"),
            row(1, 1, Role::Text, "A section that stands on the first page."),
            row(1, 2, Role::Heading, "2 Two"),
            row(1, 3, Role::Text, "A sentence that is not"),
            row(2, 0, Role::Text, last_words),
            row(2, 1, Role::Footnote, second_note),
            row(3, 0, Role::Heading, "3 Three"),
            row(3, 1, Role::Text, "A section that stands on the last page."),
            row(4, 0, Role::Footer, "4"),
        ];
        let limits = ChunkLimits::new(64, 8, 0).unwrap();
        pages_of_chunks(rows, limits, &letters).unwrap()
    }

    #[test]
    fn a_page_has_the_chunks_that_begin_on_it() {
        let pages = pages("at its end.", "1 A note.");
        let numbers: Vec<Vec<i32>> = pages
            .values()
            .map(|page| page.chunks.iter().map(|row| row.chunk).collect())
            .collect();
        assert_eq!(numbers, [vec![0, 1], vec![], vec![0], vec![]]);
        let second = &pages[&0].chunks[1];
        assert_eq!(
            second.text,
            "2 Two\nA sentence that is not at its end.\n1 A note."
        );
        assert_eq!((second.image_name.as_str(), second.page), ("page_1", 1));
        assert_eq!(second.pages, [1, 2]);
        assert_eq!(second.headings, ["2 Two"]);
        assert_eq!(second.boxes.len(), 4);
        assert_eq!(
            second.boxes[2],
            ChunkBox {
                page: 2,
                bounds: [10.0, 0.0, 90.0, 9.0]
            }
        );
    }

    #[test]
    fn a_page_depends_on_those_that_its_chunks_are_of_and_on_no_other() {
        let hashes = |pages: BTreeMap<i32, ChunkedPage>| -> Vec<Digest> {
            pages.values().map(|page| hash(&page.chunks).unwrap()).collect()
        };
        let before = hashes(pages("at its end.", "1 A note."));
        assert_eq!(hashes(pages("at its end.", "1 A note.")), before);
        let after = hashes(pages("at its close.", "1 A note."));
        let same: Vec<bool> = before
            .iter()
            .zip(&after)
            .map(|(before, after)| before == after)
            .collect();
        assert_eq!(same, [false, true, true, true]);
    }

    #[test]
    fn one_more_chunk_on_a_page_changes_no_other_page() {
        let long = "It goes on for so many words that they are more than a chunk may have. ".repeat(4);
        let (before, after) = (pages("at its end.", "1 A note."), pages(&long, "1 A note."));
        assert!(after[&0].chunks.len() + after[&1].chunks.len() > 2);
        assert_eq!(
            hash(&after[&2].chunks).unwrap(),
            hash(&before[&2].chunks).unwrap()
        );
    }

    #[test]
    fn cells_that_are_no_table_are_named() {
        let cell = parkhang_documents::Cell {
            row: 0,
            column: 0,
            row_span: 0,
            column_span: 1,
            is_header: false,
            bounds: [0.0; 4],
            text: String::new(),
        };
        let table = BlockRow {
            cells: vec![cell],
            ..row(7, 3, Role::Table, "")
        };
        let refused = pages_of_chunks(vec![table], ChunkLimits::new(64, 8, 0).unwrap(), &letters);
        assert_eq!(
            refused.unwrap_err(),
            "block 3 of page 7: a cell spans no row or no column"
        );
    }
}
