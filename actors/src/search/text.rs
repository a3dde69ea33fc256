//! Text of a volume as it is searched, from the tables of whichever pipeline has read it.

use std::collections::{BTreeMap, HashMap};

use parkhang_core::domain::{StageName, TextEncoding, VolumeId};
use parkhang_documents::{Role, language};
use parkhang_models::recognition::ewts;
use parkhang_search::{ChunkText, PageText, VolumeText};
use parkhang_store::artifact::{
    ArtifactError, BlockRow, ChunkRow, LineDetectionRow, OcrResultRow, PageTextRow, Provenance, VectorRow,
    VolumeLayout, WordRow, blocks_key, failed_pages, line_text, read_table, texts_key,
};
use parkhang_store::storage::ArtifactStore;

/// Language whose texts have no direction of meaning.
const TIBETAN: &str = "bo";

/// Reads the text of a volume; `None` if it has none yet. `stages` are those whose failed pages count. Pages and lines are numbered as exports
/// and the viewer number them: a page that failed has a number and no lines.
///
/// # Errors
///
/// [`ArtifactError`] if a table is damaged, or the store cannot be reached.
pub async fn volume_text(
    store: &dyn ArtifactStore,
    layout: &VolumeLayout,
    volume: &VolumeId,
    stages: &[StageName],
) -> Result<Option<VolumeText>, ArtifactError> {
    let pages = if store.head(&layout.words()).await?.is_some() {
        of_words(store, layout).await?
    } else if let Some(texts) = texts_key(store, layout).await? {
        let texts = read_table::<OcrResultRow>(store, &texts).await?.rows;
        of_lines(store, layout, texts).await?
    } else {
        return Ok(None);
    };
    let mut pages: BTreeMap<i32, PageText> = pages;
    for (_, failed) in failed_pages(store, layout, stages).await? {
        pages.entry(failed.page_index).or_insert_with(|| PageText {
            name: failed.image_name,
            ..PageText::default()
        });
    }
    if let Some(blocks) = blocks_key(store, layout).await? {
        for block in read_table::<BlockRow>(store, &blocks).await?.rows {
            let is_heading = matches!(block.role, Role::Title | Role::Heading);
            if let Some(page) = pages.get_mut(&block.page_index).filter(|_| is_heading) {
                page.headings.push(block.text);
            }
        }
    }
    let numbers: HashMap<i32, u32> = pages.keys().copied().zip(1..).collect();
    let (chunks, model) = chunks(store, layout, &numbers).await?;
    let numbered = pages
        .into_values()
        .zip(1..)
        .map(|(page, number)| PageText { number, ..page });
    Ok(Some(VolumeText {
        volume: volume.to_string(),
        pages: numbered.collect(),
        chunks,
        model,
    }))
}

/// The chunks of a volume that is a document, with their vectors where it was embedded, and what identifies the model of these.
async fn chunks(
    store: &dyn ArtifactStore,
    layout: &VolumeLayout,
    numbers: &HashMap<i32, u32>,
) -> Result<(Vec<ChunkText>, String), ArtifactError> {
    let mut model = String::new();
    if store.head(&layout.chunks()).await?.is_none() {
        return Ok((Vec::new(), model));
    }
    let rows = read_table::<ChunkRow>(store, &layout.chunks()).await?.rows;
    let mut vectors: HashMap<(i32, i32), VectorRow> = HashMap::new();
    if store.head(&layout.vectors()).await?.is_some() {
        let embedded = read_table::<VectorRow>(store, &layout.vectors()).await?;
        model = model_of(&embedded.provenance);
        let rows = embedded.rows.into_iter();
        vectors = rows.map(|row| ((row.page_index, row.chunk), row)).collect();
    }
    let chunk = |row: ChunkRow| {
        let vectors = vectors.remove(&(row.page_index, row.chunk));
        let (mut dense, terms) = vectors.map_or_else(Default::default, |vectors| {
            let terms = vectors.indices.into_iter().zip(vectors.values);
            (vectors.dense, terms.collect())
        });
        // The model knows no Tibetan, and all texts of it are alike to it.
        if row.lang.as_deref() == Some(TIBETAN) {
            dense.clear();
        }
        // The page of a chunk that was made before is gone where it failed the last time.
        Some(ChunkText {
            page: *numbers.get(&row.page_index)?,
            language: row.lang.unwrap_or_default(),
            text: row.text,
            dense,
            terms,
        })
    };
    Ok((rows.into_iter().filter_map(chunk).collect(), model))
}

/// Identifies the model whose vectors can be compared with those of a table.
fn model_of(provenance: &Provenance) -> String {
    match &provenance.service {
        Some(service) => format!("{} {}", service.name, service.model),
        None => provenance
            .models
            .first()
            .map(|model| model.digest.to_string())
            .unwrap_or_default(),
    }
}

async fn of_words(
    store: &dyn ArtifactStore,
    layout: &VolumeLayout,
) -> Result<BTreeMap<i32, PageText>, ArtifactError> {
    let pages = read_table::<PageTextRow>(store, &layout.page_text()).await?.rows;
    let words = read_table::<WordRow>(store, &layout.words()).await?;
    let by_page = words.rows.chunk_by(|one, next| one.page_index == next.page_index);
    let by_page: HashMap<i32, &[WordRow]> = by_page
        .filter_map(|words| Some((words.first()?.page_index, words)))
        .collect();
    // A page that could not be read has no words, and is not a page without words.
    let read = pages
        .into_iter()
        .filter(|page| words.provenance.pages.contains_key(&page.image_name));
    let page = |page: PageTextRow| {
        let words = by_page.get(&page.page_index).copied().unwrap_or_default();
        let lines = words
            .chunk_by(|one, next| one.line == next.line)
            .map(line_text)
            .collect();
        (page.page_index, page_of(page.image_name, lines))
    };
    Ok(read.map(page).collect())
}

async fn of_lines(
    store: &dyn ArtifactStore,
    layout: &VolumeLayout,
    mut texts: Vec<OcrResultRow>,
) -> Result<BTreeMap<i32, PageText>, ArtifactError> {
    let pages = read_table::<LineDetectionRow>(store, &layout.line_detection())
        .await?
        .rows;
    // The table need not be in the order of the lines.
    texts.sort_by_key(|row| row.line_index);
    let mut by_page: HashMap<String, Vec<String>> = HashMap::new();
    for row in texts {
        let text = match row.encoding {
            TextEncoding::Unicode => row.text,
            TextEncoding::Wylie => ewts::to_unicode_exact(&row.text),
        };
        by_page.entry(row.image_name).or_default().push(text);
    }
    let page = |page: LineDetectionRow| {
        let lines = by_page.remove(&page.image_name).unwrap_or_default();
        (page.page_index, page_of(page.image_name, lines))
    };
    Ok(pages.into_iter().map(page).collect())
}

fn page_of(name: String, lines: Vec<String>) -> PageText {
    PageText {
        name,
        language: language(&lines.join("\n")).unwrap_or_default().to_owned(),
        lines,
        ..PageText::default()
    }
}
