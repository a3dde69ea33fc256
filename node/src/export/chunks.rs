//! JSON lines of the chunks of a document: one object for each.

use anyhow::Result;
use parkhang_store::artifact::{ChunkRow, read_table};
use parkhang_store::storage::ArtifactStore;
use serde::Serialize;

use super::blocks::NotMade;
use super::results::StoredVolume;

#[derive(Debug, Serialize)]
struct ChunkRecord<'a> {
    w_id: &'a str,
    i_id: &'a str,
    /// Number in the volume, from 0.
    chunk: usize,
    image: &'a str,
    page: i32,
    kind: &'a str,
    lang: Option<&'a str>,
    tokens: i32,
    headings: &'a [String],
    text: &'a str,
    pages: &'a [i32],
    boxes: Vec<BoxRecord>,
}

#[derive(Debug, Serialize)]
struct BoxRecord {
    page: i32,
    bbox: [f32; 4],
}

/// Returns the records of a volume, one a line.
pub async fn json_lines(store: &dyn ArtifactStore, volume: &StoredVolume) -> Result<String> {
    let key = volume.layout.chunks();
    if store.head(&key).await?.is_none() {
        return Err(NotMade("chunks").into());
    }
    let mut text = String::new();
    for (number, row) in read_table::<ChunkRow>(store, &key).await?.rows.iter().enumerate() {
        let boxes = row.boxes.iter().map(|part| BoxRecord {
            page: part.page,
            bbox: part.bounds,
        });
        let record = ChunkRecord {
            w_id: volume.volume.w_id(),
            i_id: volume.volume.i_id(),
            chunk: number,
            image: &row.image_name,
            page: row.page,
            kind: row.kind.as_str(),
            lang: row.lang.as_deref(),
            tokens: row.tokens,
            headings: &row.headings,
            text: &row.text,
            pages: &row.pages,
            boxes: boxes.collect(),
        };
        text.push_str(&serde_json::to_string(&record)?);
        text.push('\n');
    }
    Ok(text)
}
