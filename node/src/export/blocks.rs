//! Blocks of volumes of the pipeline `documents`, as documents.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use parkhang_actors::stage::StageTable;
use parkhang_documents::{Block, DocumentPage, Role, doctags, html, markdown, tei};
use parkhang_store::artifact::{
    BlockRow, LineDetectionRow, PageTextRow, VolumeLayout, blocks_key, failed_pages, read_table,
};
use parkhang_store::storage::ArtifactStore;

use super::corrections::{CorrectedVolume, blocks_of_lines, correct_blocks};

/// Form of a document as one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DocumentForm {
    Doctags,
    Markdown,
    Html,
    Tei,
}

/// A volume has no blocks, or no chunks.
#[derive(Debug, thiserror::Error)]
#[error(
    "no {0} yet: the pipeline documents makes them (--pipeline documents), and of Tibetan scans the pipeline ocr_documents"
)]
pub struct NotMade(pub &'static str);

/// The blocks of a volume, page by page.
#[derive(Debug)]
pub struct VolumeBlocks {
    /// In the order of their numbers.
    pages: Vec<DocumentPage>,
    untaken: usize,
}

impl VolumeBlocks {
    /// Loads the blocks of a volume with the corrections of people; `None` if it has none, as it went through another pipeline or has not come so far. A page that could
    /// not be read has a block that says so.
    ///
    /// # Errors
    ///
    /// If a table is missing or damaged, or the store cannot be reached.
    pub async fn load(
        store: &dyn ArtifactStore,
        layout: &VolumeLayout,
        corrected: &CorrectedVolume,
    ) -> Result<Option<Self>> {
        let Some(key) = blocks_key(store, layout).await? else {
            return Ok(None);
        };
        let mut by_page = empty_pages(store, layout).await?;
        for row in read_table::<BlockRow>(store, &key).await?.rows {
            let (number, index) = (row.page, row.block_index);
            let Some(page) = by_page.get_mut(&row.page_index) else {
                bail!("block {index} of page {number} is of a page that is not there");
            };
            let block = row
                .into_block()
                .with_context(|| format!("block {index} of page {number}"))?;
            page.blocks.push(block);
        }
        let is_of_lines = key == layout.line_blocks();
        let untaken = correct(&mut by_page, corrected, is_of_lines);
        let failed = failed_pages(store, layout, &StageTable::built_in().names()).await?;
        for (_, failure) in failed {
            let page = by_page
                .entry(failure.page_index)
                .or_insert_with(|| empty_page(failure.page_index, [0.0; 2], failure.image_name.clone()));
            if page.blocks.is_empty() {
                let mark = format!("[{}: {}]", failure.image_name, failure.message);
                page.blocks.push(mark_of(mark, page.size));
            }
        }
        Ok(Some(Self {
            pages: by_page.into_values().collect(),
            untaken,
        }))
    }

    /// Number of corrected lines that the blocks have as they were read.
    pub fn untaken(&self) -> usize {
        self.untaken
    }

    /// The page of a number, from 1.
    pub fn page(&self, number: u32) -> Option<&DocumentPage> {
        let place = self.pages.binary_search_by_key(&number, |page| page.number);
        self.pages.get(place.ok()?)
    }

    /// Writes the volume as one file below `target`, and returns it.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn write(&self, name: &str, form: DocumentForm, target: &Path) -> Result<PathBuf> {
        let (folder, extension, text) = match form {
            DocumentForm::Doctags => ("doctags", "doctags", doctags(&self.pages)),
            DocumentForm::Markdown => ("markdown", "md", markdown(&self.pages)),
            DocumentForm::Tei => ("tei", "xml", tei(name, &self.pages)),
            DocumentForm::Html => ("document", "html", html(name, &self.pages)),
        };
        let path = target.join(folder).join(format!("{name}.{extension}"));
        super::write(&path, text.as_bytes())?;
        Ok(path)
    }
}

/// Puts the corrections of people into the blocks of pages; returns how many lines were not found there.
fn correct(
    blocks: &mut BTreeMap<i32, DocumentPage>,
    corrected: &CorrectedVolume,
    is_of_lines: bool,
) -> usize {
    let pages = corrected.read.pages.iter().zip(&corrected.document.pages);
    let edited = pages.filter(|(read, _)| corrected.pages.contains_key(&read.image_name));
    let mut untaken = 0;
    for (read, now) in edited {
        let page = blocks.values_mut().find(|page| page.image == read.source_name);
        match page {
            Some(page) if is_of_lines => page.blocks = blocks_of_lines(now),
            Some(page) => untaken += correct_blocks(page, read, now),
            // The stage has not come so far.
            None => {}
        }
    }
    untaken
}

/// The pages of a volume by their places, without blocks.
async fn empty_pages(
    store: &dyn ArtifactStore,
    layout: &VolumeLayout,
) -> Result<BTreeMap<i32, DocumentPage>> {
    let mut pages = BTreeMap::new();
    if store.head(&layout.page_text()).await?.is_some() {
        for page in read_table::<PageTextRow>(store, &layout.page_text()).await?.rows {
            let size = [page.width, page.height];
            pages.insert(
                page.page_index,
                empty_page(page.page_index, size, page.source_name),
            );
        }
        return Ok(pages);
    }
    for page in read_table::<LineDetectionRow>(store, &layout.line_detection())
        .await?
        .rows
    {
        let size = [page.image_width as f32, page.image_height as f32];
        pages.insert(
            page.page_index,
            empty_page(page.page_index, size, page.source_name),
        );
    }
    Ok(pages)
}

fn empty_page(index: i32, size: [f32; 2], image: String) -> DocumentPage {
    DocumentPage {
        number: u32::try_from(index).map_or(1, |index| index.saturating_add(1)),
        size,
        image,
        blocks: Vec::new(),
    }
}

/// The block of a page that could not be read.
fn mark_of(mark: String, [width, height]: [f32; 2]) -> Block {
    Block {
        role: Role::Text,
        bounds: [0.0, 0.0, width, height],
        lines: vec![mark],
        words: Vec::new(),
        size: 0.0,
        table: None,
    }
}
