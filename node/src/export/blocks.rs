//! Blocks of volumes of the pipeline `documents`, as documents.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use parkhang_documents::{Block, DocumentPage, Table, doctags, html, markdown};
use parkhang_store::artifact::{BlockRow, PageTextRow, VolumeLayout, read_table};
use parkhang_store::storage::ArtifactStore;

use super::arguments::Format;

/// The blocks of a volume, page by page.
#[derive(Debug)]
pub struct VolumeBlocks {
    /// In the order of their numbers.
    pages: Vec<DocumentPage>,
}

impl VolumeBlocks {
    /// Loads the blocks of a volume; `None` if it has none, as it went through another pipeline or has not come so far.
    ///
    /// # Errors
    ///
    /// If a table is missing or damaged, or the store cannot be reached.
    pub async fn load(store: &dyn ArtifactStore, layout: &VolumeLayout) -> Result<Option<Self>> {
        if store.head(&layout.blocks()).await?.is_none() {
            return Ok(None);
        }
        let pages = read_table::<PageTextRow>(store, &layout.page_text()).await?.rows;
        let mut by_page: BTreeMap<i32, DocumentPage> = pages
            .iter()
            .map(|page| {
                let number = u32::try_from(page.page_index).map_or(1, |index| index.saturating_add(1));
                let page_of_blocks = DocumentPage {
                    number,
                    size: [page.width, page.height],
                    blocks: Vec::new(),
                };
                (page.page_index, page_of_blocks)
            })
            .collect();
        for row in read_table::<BlockRow>(store, &layout.blocks()).await?.rows {
            if let Some(page) = by_page.get_mut(&row.page_index) {
                page.blocks.push(block(row));
            }
        }
        Ok(Some(Self {
            pages: by_page.into_values().collect(),
        }))
    }

    /// The page of a number, from 1.
    pub fn page(&self, number: u32) -> Option<&DocumentPage> {
        self.pages.iter().find(|page| page.number == number)
    }

    /// Writes the volume as one file below `target`, and returns it. `format` is one of those of documents.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn write(&self, name: &str, format: Format, target: &Path) -> Result<PathBuf> {
        let (folder, extension, text) = match format {
            Format::Doctags => ("doctags", "doctags", doctags(&self.pages)),
            Format::Markdown => ("markdown", "md", markdown(&self.pages)),
            _ => ("document", "html", html(name, &self.pages)),
        };
        let path = target.join(folder).join(format!("{name}.{extension}"));
        super::write(&path, text.as_bytes())?;
        Ok(path)
    }
}

/// Loads the blocks of a volume that is to be written as a document.
///
/// # Errors
///
/// If it has none, a table is damaged, or the store cannot be reached.
pub async fn blocks_of(store: &dyn ArtifactStore, layout: &VolumeLayout, name: &str) -> Result<VolumeBlocks> {
    let blocks = VolumeBlocks::load(store, layout).await?;
    blocks.with_context(|| {
        format!("{name} has no blocks: the pipeline documents makes them (--pipeline documents)")
    })
}

fn block(row: BlockRow) -> Block {
    let (rows, columns) = row.cells.iter().fold((0, 0), |(rows, columns), cell| {
        (
            rows.max(cell.row + cell.row_span),
            columns.max(cell.column + cell.column_span),
        )
    });
    Block {
        role: row.role,
        bounds: [row.bbox_x0, row.bbox_y0, row.bbox_x1, row.bbox_y1],
        lines: row.text.lines().map(str::to_owned).collect(),
        words: Vec::new(),
        size: row.size,
        table: (!row.cells.is_empty()).then_some(Table {
            rows,
            columns,
            cells: row.cells,
        }),
    }
}
