//! Readings of a volume by the archive's own programs.

use std::collections::HashMap;

use super::readings::ReadingsError;
use crate::stage::read_volume::ReadLine;
use parkhang_core::domain::{ArchiveReading, Input, TextEncoding, VolumeId};
use parkhang_store::artifact::{ArchiveLayout, OcrResultRow, read_archive_texts};
use parkhang_store::storage::ArtifactStore;

/// Reads the texts of a volume's pages, by the file names of their scans. Of several versions of the volume the one counts that knows the most of
/// the pages `scans`.
///
/// # Errors
///
/// [`ReadingsError::Unread`] where the archive has not read the volume yet; else when a table cannot be read.
pub(super) async fn read_archive(
    store: &dyn ArtifactStore,
    volume: &VolumeId,
    reading: ArchiveReading,
    scans: &[&str],
) -> Result<HashMap<String, String>, ReadingsError> {
    let folder = ArchiveLayout::versions(reading, volume);
    let tables = store
        .list(&folder)
        .await?
        .into_iter()
        .map(|(key, _)| key)
        .filter(|key| ArchiveLayout::is_table(reading, key));
    let mut best: Option<(usize, HashMap<String, String>)> = None;
    for key in tables {
        let texts = read_archive_texts(store, reading, &key).await?;
        let known = scans.iter().filter(|scan| texts.contains_key(**scan)).count();
        if best.as_ref().is_none_or(|(most, _)| known > *most) {
            best = Some((known, texts));
        }
    }
    let (_, texts) = best.ok_or_else(|| ReadingsError::Unread {
        input: Input::Archive(reading),
        volume: volume.clone(),
    })?;
    Ok(texts)
}

/// Lines of a page's text, without places and confidences.
pub(super) fn lines_of(text: &str, image_name: &str, page_index: i32) -> Vec<ReadLine> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let line = |(line_index, text): (i32, &str)| ReadLine {
        row: OcrResultRow {
            image_name: image_name.to_owned(),
            line_index,
            line_guid: line_index.to_string(),
            text: text.to_owned(),
            encoding: TextEncoding::Unicode,
            page_index,
            confidence: None,
            segments: Vec::new(),
            outline: None,
            alignment: None,
            perplexity: None,
            sources: None,
            ink_y: None,
            ink_h: None,
        },
        bounds: None,
    };
    (0..).zip(lines).map(line).collect()
}
