use super::columns::named_column;
use super::row::artifact_row;
use super::{ArtifactError, VolumeLayout, read_table};
use crate::storage::{ArtifactStore, StorageError};
use parkhang_core::domain::{ErrorCategory, StageName};

artifact_row! {
    /// Row of `errors.parquet`: a page that a stage gave up on.
    pub struct ErrorRow = "errors", version 1, batches of 512 {
        image_name: String,
        /// Position of the page in its volume, from 0.
        page_index: i32,
        category: ErrorCategory,
        message: String,
        /// Number of tries that the page had.
        attempts: i32,
    }
}

/// Reads the pages that stages could not do from their tables of errors; a stage that has not ended has no such table, and neither has
/// one that does not go page by page.
///
/// # Errors
///
/// [`ArtifactError`] if a table that is there cannot be read.
pub async fn failed_pages(
    store: &dyn ArtifactStore,
    layout: &VolumeLayout,
    stages: &[StageName],
) -> Result<Vec<(StageName, ErrorRow)>, ArtifactError> {
    let mut failed = Vec::new();
    for stage in stages {
        match read_table::<ErrorRow>(store, &layout.errors(stage)).await {
            Ok(errors) => failed.extend(errors.rows.into_iter().map(|row| (stage.clone(), row))),
            Err(ArtifactError::Storage(StorageError::NotFound { .. })) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(failed)
}

named_column!(ErrorCategory, "error category");
