//! Tables of a stage, fenced as its row in the database is: a run replaces what it found when it began, and nothing that was written since.
//! A worker that was frozen, or cut off from everything but the store, goes on with a stage that another one has by now, and neither may
//! write over the other without having seen it.

use super::page_stage::VolumeRun;
use parkhang_core::domain::StageError;
use parkhang_store::artifact::{ArtifactRow, Provenance, encoded_table};
use parkhang_store::storage::{ArtifactKey, MAX_OBJECT, PutOutcome, StorageError, VersionedObject};

/// Version of a table that a run has found when it began; `None` if there was none.
pub(super) type Found = Option<String>;

/// Looks for a table.
///
/// # Errors
///
/// When the store does not say.
pub(super) async fn find(run: &VolumeRun, key: &ArtifactKey) -> Result<Option<VersionedObject>, StageError> {
    match run.store.get_versioned(key, MAX_OBJECT).await {
        Ok(found) => Ok(Some(found)),
        Err(StorageError::NotFound { .. }) => Ok(None),
        Err(error) => Err(run.storage_error(&error)),
    }
}

/// Writes a table in the place of the one that the run has found. Returns false where there is another one by now, which stays.
///
/// # Errors
///
/// When the table cannot be written.
pub(super) async fn put<R: ArtifactRow>(
    run: &VolumeRun,
    key: &ArtifactKey,
    rows: Vec<R>,
    provenance: &Provenance,
    found: &Found,
) -> Result<bool, StageError> {
    let encoded = encoded_table(key, rows, provenance).await;
    let bytes = encoded.map_err(|error| run.artifact_error(&error))?;
    let put = run.store.replace(key, bytes, found.as_deref()).await;
    let put = put.map_err(|error| run.storage_error(&error))?;
    Ok(put == PutOutcome::Created)
}
