//! Words of pages with their boxes as JSON, one file a page, as web viewers read them.

use std::path::PathBuf;

use anyhow::Result;

use super::words::VolumeWords;

/// Writes a file for each page of a volume below `folder`, and returns the folder.
///
/// # Errors
///
/// If a file cannot be written.
pub fn write_boxes(words: &VolumeWords, folder: PathBuf) -> Result<PathBuf> {
    for boxes in words.pages() {
        let path = folder.join(format!("page_{}.json", boxes.number()));
        super::write(&path, &boxes.to_json()?)?;
    }
    Ok(folder)
}
