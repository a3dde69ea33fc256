//! Words of pages with their boxes as JSON, one file a page, as web viewers read them.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use parkhang_store::artifact::{PageBoxes, PageTextRow, WordRow};

use super::words::VolumeWords;

/// Writes a file for each page of a volume below `folder`.
///
/// # Errors
///
/// If a file cannot be written.
pub fn write_boxes(words: &VolumeWords, folder: &Path) -> Result<PathBuf> {
    for boxes in words.pages() {
        let path = folder.join(format!("page_{}.json", boxes.number()));
        super::write(&path, &boxes.to_json()?)?;
    }
    Ok(folder.to_owned())
}
