//! Searchable PDF. Scans of a volume become a PDF of pictures with their text as an invisible layer; a volume that is a PDF keeps its file
//! as it is, and the layer is added to it.

mod original;
mod pictures;

use std::fs::File;
use std::path::Path;

use anyhow::{Context, Result};
use parkhang_store::storage::ArtifactStore;

use super::document::VolumeDocument;
use super::results::StoredVolume;
pub use original::OriginalError;

/// Writes the PDF of a volume.
///
/// # Errors
///
/// [`OriginalError`] if the volume is a PDF that cannot have a layer; or if the artifact store cannot be reached, or the file cannot be
/// written.
pub(super) async fn write_pdf(
    store: &dyn ArtifactStore,
    stored: &StoredVolume,
    document: &VolumeDocument,
    path: &Path,
) -> Result<()> {
    let original = original::find(stored, document).await?;
    // Half a PDF would look like a damaged one, so it gets its name when it is whole.
    let unfinished = path.with_extension("pdf.part");
    let writing = || format!("cannot write {}", unfinished.display());
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    let file = File::create(&unfinished).with_context(writing)?;
    let written = match original {
        Some(original) => original::write_layer(store, stored, document, original, file).await,
        None => pictures::write_book(store, stored, document, file).await,
    };
    if let Err(error) = written {
        // The file is of no use, and that it cannot be removed says less than the reason why it is none.
        let _ = std::fs::remove_file(&unfinished);
        return if error.is::<OriginalError>() {
            Err(error)
        } else {
            Err(error).with_context(writing)
        };
    }
    std::fs::rename(&unfinished, path).with_context(|| format!("cannot write {}", path.display()))
}
