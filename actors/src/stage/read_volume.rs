//! A volume whose lines were read: its pages, with the places of their lines on the scans.

use std::collections::HashMap;

use parkhang_models::line_detection::{DegenerateDewarp, PageGeometry};

use super::page_geometry::{bounds_on_scan, page_geometry};
use parkhang_store::artifact::{
    ArtifactError, Digest, LineDetectionRow, LineImageRow, OcrResultRow, VolumeLayout, read_table,
};
use parkhang_store::storage::{ArtifactKey, ArtifactStore};

/// Line with its text.
#[derive(Debug, Clone)]
pub(super) struct ReadLine {
    pub row: OcrResultRow,
    /// Left, top, right and bottom in pixels of the scan; `None` where it has no place.
    pub bounds: Option<[f32; 4]>,
}

/// Page whose lines were found.
#[derive(Debug)]
pub(super) struct ReadPage {
    pub row: LineDetectionRow,
    /// Way to the scan.
    pub geometry: Result<PageGeometry, DegenerateDewarp>,
    /// Digest of what its texts are made of; `None` for a page that failed before it had any.
    pub made_of: Option<Digest>,
    /// Lines in reading order.
    pub lines: Vec<ReadLine>,
}

/// Reads the pages of a volume in the order of their table, with the texts under this key.
///
/// # Errors
///
/// When a table is not there or cannot be read.
pub(super) async fn read_volume(
    store: &dyn ArtifactStore,
    layout: &VolumeLayout,
    texts: &ArtifactKey,
) -> Result<Vec<ReadPage>, ArtifactError> {
    let pages = read_table::<LineDetectionRow>(store, &layout.line_detection())
        .await?
        .rows;
    let cut = read_table::<LineImageRow>(store, &layout.line_images())
        .await?
        .rows;
    let texts = read_table::<OcrResultRow>(store, texts).await?;
    let cut: HashMap<&str, &LineImageRow> = cut.iter().map(|line| (line.line_guid.as_str(), line)).collect();
    let mut by_page: HashMap<String, Vec<OcrResultRow>> = HashMap::new();
    for row in texts.rows {
        by_page.entry(row.image_name.clone()).or_default().push(row);
    }
    let page = |row: LineDetectionRow| {
        let geometry = page_geometry(&row);
        let mut rows = by_page.remove(&row.image_name).unwrap_or_default();
        // The table need not be in the order of the lines.
        rows.sort_by_key(|row| row.line_index);
        let line = |row: OcrResultRow| ReadLine {
            bounds: geometry.as_ref().ok().and_then(|to_scan| {
                let line = cut.get(row.line_guid.as_str()).copied();
                bounds_on_scan(&row, line, to_scan)
            }),
            row,
        };
        let lines = rows.into_iter().map(line).collect();
        let made_of = texts.provenance.pages.get(&row.image_name);
        ReadPage {
            made_of: made_of.map(|made_of| made_of.digest()),
            row,
            geometry,
            lines,
        }
    };
    Ok(pages.into_iter().map(page).collect())
}
