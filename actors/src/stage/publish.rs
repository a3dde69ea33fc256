//! End of a stage run over a volume: the final tables are written, then the checkpoints are deleted.

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::json;

use super::checkpoint::Finished;
use super::fenced;
use super::ledger::FoundTables;
use super::page_stage::VolumeRun;
use parkhang_core::domain::StageError;
use parkhang_core::failpoint::Failpoint;
use parkhang_store::artifact::{ArtifactRow, Provenance, read_table};
use parkhang_store::storage::{ArtifactKey, ObjectMeta};

/// Parts that are deleted at once.
const DELETIONS: usize = 16;

/// What became of the tables of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Published {
    /// They are there.
    Yes,
    /// Another run has written some of them since this one began. Those stay.
    Overtaken,
}

/// Writes the final artifacts: images and errors first, the table last, as readers take a table that is there for a finished
/// stage.
///
/// # Errors
///
/// When something cannot be written.
pub(super) async fn publish<R: ArtifactRow + Sync>(
    run: &VolumeRun,
    finished: Finished<R>,
    provenance: &Provenance,
    found: &FoundTables,
) -> Result<Published, StageError> {
    let mut provenance = provenance.clone();
    // A page that failed is not named, or the next run of the stage would take it for done.
    provenance.pages.retain(|page, _| finished.pages.contains(page));
    run.store
        .sync(&run.layout.stage_folder(&run.stage))
        .await
        .map_err(|error| run.storage_error(&error))?;
    Failpoint::ImagesFlushed.hit_in(run.volume(), &run.stage);
    let errors = run.layout.errors(&run.stage);
    if !fenced::put(run, &errors, finished.errors, &provenance, &found.errors).await? {
        return Ok(Published::Overtaken);
    }
    Failpoint::ErrorsWritten.hit_in(run.volume(), &run.stage);
    let table = run.table::<R>();
    if !fenced::put(run, &table, finished.rows, &provenance, &found.table).await? {
        return Ok(Published::Overtaken);
    }
    Failpoint::TableWritten.hit_in(run.volume(), &run.stage);
    Ok(Published::Yes)
}

/// Writes a file beside the final table that says what the table was made from, where the job wants that. To be called once the
/// table is there, also if an earlier run wrote it: that run may have died before this step, or may not have been asked for it.
///
/// # Errors
///
/// When the file cannot be written.
pub(super) async fn note_fingerprint<R: ArtifactRow>(
    run: &VolumeRun,
    provenance: &Provenance,
) -> Result<(), StageError> {
    if !run.config().fingerprint_files {
        return Ok(());
    }
    let key = run.layout.fingerprint_file(&run.table::<R>());
    let noted = json!({
        "input_sha256": provenance.input_hash,
        "cfg_hash": provenance.config_hash,
    });
    run.store
        .put(&key, Bytes::from(noted.to_string()))
        .await
        .map_err(|error| run.storage_error(&error))
}

/// Deletes the checkpoints whose pages the final table has. A node that was frozen goes on with a stage that it has lost: another one may
/// have published it and deleted the checkpoints meanwhile, and no run of the stage would follow that takes over what is written then. To
/// be called after the last checkpoint of a run, so that either this or the run that publishes sees it.
///
/// # Errors
///
/// When some are still there.
pub(super) async fn drop_superseded_parts<R: ArtifactRow>(run: &VolumeRun) -> Result<(), StageError> {
    // A run that was killed may still be saving one.
    run.context.writes.close();
    run.context.writes.wait().await;
    let store = run.store.as_ref();
    let parts = parts(run).await?;
    if parts.is_empty() {
        return Ok(());
    }
    // The next run goes on from the parts if the table is absent or damaged.
    let Ok(table) = read_table::<R>(store, &run.table::<R>()).await else {
        return Ok(());
    };
    let published = table.provenance.pages;
    for (part, _) in parts {
        let Ok(saved) = read_table::<R>(store, &part).await else {
            continue;
        };
        let mut pages = saved.provenance.pages.iter();
        if pages.all(|(page, fingerprint)| published.get(page) == Some(fingerprint)) {
            store
                .delete(&part)
                .await
                .map_err(|error| run.storage_error(&error))?;
        }
    }
    Ok(())
}

/// Deletes the checkpoints, but for those of later leases. To be called once the final table is there, also if an earlier run wrote it and
/// died before this step.
///
/// # Errors
///
/// When some are still there.
pub(super) async fn drop_parts(run: &VolumeRun) -> Result<(), StageError> {
    let (store, fence) = (run.store.as_ref(), &run.assignment().fence);
    let mut parts = parts(run).await?;
    parts.retain(|(part, _)| run.layout.is_up_to(fence, part));
    stream::iter(parts)
        .map(Ok)
        .try_for_each_concurrent(DELETIONS, |(part, _)| async move {
            store.delete(&part).await?;
            Failpoint::PartDeleted.hit_in(run.volume(), &run.stage);
            Ok(())
        })
        .await
        .map_err(|error| run.storage_error(&error))
}

/// Lists the checkpoints.
async fn parts(run: &VolumeRun) -> Result<Vec<(ArtifactKey, ObjectMeta)>, StageError> {
    let folder = run.layout.parts_folder(&run.stage);
    let listed = run.store.list(&folder).await;
    listed.map_err(|error| run.storage_error(&error))
}

#[cfg(test)]
mod tests;
