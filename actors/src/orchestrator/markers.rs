//! Markers of finished volumes, for jobs of a layout that has them, whichever source their work came from. A marker cannot be
//! written in the transaction that finishes the volume, and whoever writes it after the commit may die between the two. So the
//! state store keeps for each finished volume whether its end is marked, and a marker that is missing, for whatever reason, is
//! written by a later round. Nothing waits for markers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use chrono::Utc;
use futures::{StreamExt, stream};
use tracing::warn;

use parkhang_core::domain::{
    ErrorCategory, Generation, Job, Position, StageName, StageRun, StageRunStatus, Task, TaskId,
};
use parkhang_state::{StateError, StateStore};
use parkhang_store::artifact::{ArtifactLayout, VolumeDone, VolumeEnd, VolumeFailed};
use parkhang_store::storage::{ArtifactStore, StorageError};

/// Volumes of one query.
const BATCH: usize = 200;
/// Volumes whose markers are written at once.
const WRITES: usize = 16;
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LAST_RETRY: Duration = Duration::from_secs(300);

/// Reason why markers are left to a later round.
#[derive(Debug, thiserror::Error)]
pub enum MarkerError {
    /// The state store cannot be read or written.
    #[error(transparent)]
    State(#[from] StateError),
    /// The artifact store refused a marker.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// A marker has no JSON form.
    #[error("a marker cannot be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
}

impl MarkerError {
    /// True if it is likely to meet the next volume too.
    fn is_outage(&self) -> bool {
        match self {
            Self::State(_) => true,
            Self::Storage(error) => error.category() == ErrorCategory::Network,
            Self::Json(_) => false,
        }
    }
}

/// Writes the markers that are due, and notes that they are written. Repeating it, or doing it in two processes at once,
/// writes the same files. A volume whose markers cannot be written holds up no other.
///
/// # Errors
///
/// When some markers are still due.
pub async fn write_markers(store: &dyn StateStore, artifacts: &dyn ArtifactStore) -> Result<(), MarkerError> {
    let mut failure = None;
    let mut after = None;
    loop {
        // Behind those that were tried in this round: what failed among them is still due, and would be all that is ever tried.
        let due = store.volumes_to_mark(after, BATCH).await?;
        let Some((last, _)) = due.last() else {
            return failure.map_or(Ok(()), Err);
        };
        after = Some(last.id);
        let ends: Vec<Result<(TaskId, Generation), MarkerError>> = stream::iter(due)
            .map(|(task, job)| async move {
                mark(store, artifacts, &task, &job).await?;
                Ok((task.id, task.generation))
            })
            .buffer_unordered(WRITES)
            .collect()
            .await;
        let mut marked = Vec::with_capacity(ends.len());
        for end in ends {
            match end {
                Ok(end) => marked.push(end),
                Err(error) => failure = Some(error),
            }
        }
        store.volumes_marked(&marked).await?;
        // Where nothing at all can be written, the other volumes are not tried one by one.
        if marked.is_empty()
            && let Some(error) = failure.take_if(|error| error.is_outage())
        {
            return Err(error);
        }
    }
}

/// Writes the marker of a volume, and removes the one that contradicts it: a rerun may have failed what was done, or done what
/// had failed.
async fn mark(
    store: &dyn StateStore,
    artifacts: &dyn ArtifactStore,
    task: &Task,
    job: &Job,
) -> Result<(), MarkerError> {
    let layout = ArtifactLayout::of(&job.config, &job.key).volume(&task.volume);
    let Some(markers) = layout.markers() else {
        return Ok(());
    };
    let end = end_of(store, task, job).await?;
    // In this order there is a marker at any moment, though for a moment there may be two.
    artifacts.put(end.key(&markers), end.json()?).await?;
    end.clear_other(&markers, artifacts).await?;
    Ok(())
}

async fn end_of(store: &dyn StateStore, task: &Task, job: &Job) -> Result<VolumeEnd, StateError> {
    let runs = store.stage_runs(task.id).await?;
    let ended_at = runs.iter().filter_map(|run| run.ended_at).max();
    if task.position != Position::Done {
        return Ok(VolumeEnd::Failed(VolumeFailed {
            job: job.key.clone(),
            volume_id: task.volume.clone(),
            error: task.last_error.clone(),
            attempts: task.attempts,
            interruptions: task.interruptions,
            failed_at: ended_at.unwrap_or_else(Utc::now),
        }));
    }
    Ok(VolumeEnd::Done(VolumeDone {
        job: job.key.clone(),
        volume_id: task.volume.clone(),
        results: store.volume_results(task.id).await?,
        took_ms: took_ms(&runs),
        attempts: task.attempts,
        done_at: task.done_at.or(ended_at).unwrap_or_else(Utc::now),
        build: env!("CARGO_PKG_VERSION").to_owned(),
        // Volumes may be added to such a job.
        volumes_sha256: None,
    }))
}

/// Milliseconds that each stage took when it last succeeded.
fn took_ms(runs: &[StageRun]) -> BTreeMap<StageName, f32> {
    let mut took = BTreeMap::new();
    for run in runs {
        if run.status == StageRunStatus::Done
            && let Some(ended_at) = run.ended_at
        {
            let milliseconds =
                (ended_at - run.started_at).num_microseconds().unwrap_or(i64::MAX) as f32 / 1000.0;
            took.insert(run.fence.stage.clone(), milliseconds);
        }
    }
    took
}

/// Rounds of one orchestrator: one at a time, and another one after it if a volume was finished meanwhile.
#[derive(Debug)]
pub(super) struct MarkerRounds {
    store: Arc<dyn StateStore>,
    /// Store for the markers; `None` writes none.
    artifacts: Option<Arc<dyn ArtifactStore>>,
    under_way: bool,
    again: bool,
    retry_delay: Duration,
}

/// Next step after a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AfterRound {
    /// Nothing, until a volume is finished.
    Rest,
    /// Another round at once, as a volume was finished meanwhile.
    Again,
    /// Another round after a delay, as this one failed.
    Retry(Duration),
}

impl MarkerRounds {
    pub(super) fn new(store: Arc<dyn StateStore>, artifacts: Option<Arc<dyn ArtifactStore>>) -> Self {
        Self {
            store,
            artifacts,
            under_way: false,
            again: false,
            retry_delay: FIRST_RETRY,
        }
    }

    /// The round to run now, if there is to be one; its result goes to [`ended`](Self::ended).
    pub(super) fn begin(&mut self) -> Option<impl Future<Output = Result<(), MarkerError>> + Send + 'static> {
        let artifacts = self.artifacts.clone()?;
        if self.under_way {
            self.again = true;
            return None;
        }
        (self.under_way, self.again) = (true, false);
        let store = self.store.clone();
        Some(async move { write_markers(&*store, &*artifacts).await })
    }

    pub(super) fn ended(&mut self, result: Result<(), MarkerError>) -> AfterRound {
        self.under_way = false;
        match result {
            Ok(()) => {
                self.retry_delay = FIRST_RETRY;
                if self.again {
                    AfterRound::Again
                } else {
                    AfterRound::Rest
                }
            }
            Err(error) => {
                let delay = self.retry_delay;
                warn!(%error, retry_in = ?delay, "cannot write the markers of finished volumes now");
                self.retry_delay = (delay * 2).min(LAST_RETRY);
                // The retry also finds the volumes that were finished during this round.
                AfterRound::Retry(delay)
            }
        }
    }
}

#[cfg(test)]
mod tests;
