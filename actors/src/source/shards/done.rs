//! Markers of finished volumes and shards, for people and other tools to read. Nothing is decided by the markers of volumes,
//! which only some layouts have; the marker of a shard tells nodes that they need not look into it.

use std::collections::BTreeMap;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::ShardError;
use super::record::TaskRecord;
use parkhang_core::domain::{Job, Position, StageError, Task, TaskStatus, VolumeId};
use parkhang_store::artifact::{ArtifactLayout, Digest, VolumeDone, VolumeEnd, VolumeFailed};
use parkhang_store::storage::ArtifactKey;

/// The marker of a volume that `record` has finished; `None` in layouts without markers.
pub(super) fn volume_marker(
    job: &Job,
    volumes_sha256: Digest,
    record: &TaskRecord,
) -> Result<Option<(ArtifactKey, Bytes)>, ShardError> {
    let task = &record.task;
    let layout = ArtifactLayout::of(&job.config, &job.key).volume(&task.volume);
    let Some(markers) = layout.markers() else {
        return Ok(None);
    };
    let end = match task.position {
        Position::Done => VolumeEnd::Done(VolumeDone {
            job: job.key.clone(),
            volume_id: task.volume.clone(),
            results: record.results.clone(),
            took_ms: record.took_ms.clone(),
            attempts: task.attempts,
            done_at: record.at,
            build: env!("CARGO_PKG_VERSION").to_owned(),
            volumes_sha256: Some(volumes_sha256),
        }),
        Position::Pending | Position::At(_) => VolumeEnd::Failed(VolumeFailed {
            job: job.key.clone(),
            volume_id: task.volume.clone(),
            error: task.last_error.clone(),
            attempts: task.attempts,
            interruptions: task.interruptions,
            failed_at: record.at,
        }),
    };
    let marker = end.json().map_err(ShardError::Unwritable)?;
    Ok(Some((end.key(&markers).clone(), marker)))
}

/// A finished shard: `shard_done/shard-00000.done.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ShardDone {
    /// Volumes of the shard.
    pub volumes: usize,
    /// Volumes that went through all their stages.
    pub done: usize,
    /// Volumes that failed for good, each with its last error.
    pub failed: BTreeMap<VolumeId, Option<StageError>>,
    /// Time at which the shard was finished.
    pub finished_at: DateTime<Utc>,
    /// Process that wrote the marker.
    pub worker: String,
}

impl ShardDone {
    pub(super) fn of(tasks: &[Task], worker: &str, now: DateTime<Utc>) -> Self {
        let failed: BTreeMap<_, _> = tasks
            .iter()
            .filter(|task| task.status == TaskStatus::Failed)
            .map(|task| (task.volume.clone(), task.last_error.clone()))
            .collect();
        Self {
            volumes: tasks.len(),
            done: tasks.len() - failed.len(),
            failed,
            finished_at: now,
            worker: worker.to_owned(),
        }
    }
}
