//! The text of a volume, whichever stage has had the last word about it.

use super::{ArtifactError, OcrResultRow, Table, VolumeLayout, read_table};
use crate::storage::{ArtifactKey, ArtifactStore, StorageError};

/// Key of the table of texts: the corrected one where there is one, else that which was read or combined; `None` where there is neither.
///
/// # Errors
///
/// [`StorageError`] if the store cannot be reached.
pub async fn texts_key(
    store: &dyn ArtifactStore,
    layout: &VolumeLayout,
) -> Result<Option<ArtifactKey>, StorageError> {
    for key in [layout.clean_results(), layout.ocr_results()] {
        if store.head(&key).await?.is_some() {
            return Ok(Some(key));
        }
    }
    Ok(None)
}

/// Reads the table of texts.
///
/// # Errors
///
/// [`ArtifactError`] if there is none, or it is damaged.
pub async fn read_texts(
    store: &dyn ArtifactStore,
    layout: &VolumeLayout,
) -> Result<Table<OcrResultRow>, ArtifactError> {
    let key = texts_key(store, layout).await?;
    read_table(store, &key.unwrap_or_else(|| layout.ocr_results())).await
}
