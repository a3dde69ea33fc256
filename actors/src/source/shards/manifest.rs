//! What a job is, and how it is divided: written once, by whoever makes the job.

use std::collections::HashSet;
use std::num::NonZeroUsize;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::ShardError;
use crate::artifact::{Digest, ShardLayout};
use crate::domain::{Job, JobConfig, JobId, JobKey, JobStatus, NewJob, Pipeline, VolumeId};
use crate::storage::{ArtifactStore, PutOutcome};

/// `job.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobManifest {
    pub job: JobKey,
    /// Name of the operation.
    pub op: String,
    pub pipeline: Pipeline,
    pub params: JobConfig,
    pub created_at: DateTime<Utc>,
    pub shards: u32,
    pub volumes: usize,
    /// Of the names of all volumes in their order.
    pub volumes_sha256: Digest,
}

/// A line of a shard.
#[derive(Debug, Serialize, Deserialize)]
struct ShardLine {
    volume_id: VolumeId,
}

impl JobManifest {
    /// Writes a job's shards and then the job. Shards of an attempt that did not come so far are replaced.
    pub async fn create(
        store: &dyn ArtifactStore,
        job: &NewJob,
        shard_size: NonZeroUsize,
        now: DateTime<Utc>,
    ) -> Result<Self, ShardError> {
        let key = job.key.clone().ok_or(ShardError::Unnamed)?;
        let layout = ShardLayout::new(&key);
        if store.head(&layout.job()).await?.is_some() {
            return Err(ShardError::Exists(key));
        }
        let mut seen = HashSet::new();
        let volumes: Vec<&VolumeId> = job.volumes.iter().filter(|volume| seen.insert(*volume)).collect();
        let mut shards = 0;
        for volumes in volumes.chunks(shard_size.get()) {
            let shard = layout.shard(shards);
            let mut text = Vec::new();
            for volume in volumes {
                let line = ShardLine {
                    volume_id: (*volume).clone(),
                };
                text.extend(json(&line)?);
                text.push(b'\n');
            }
            store.put(&shard, text.into()).await?;
            shards += 1;
        }
        let names: Vec<String> = volumes.iter().map(|volume| format!("{volume}\n")).collect();
        let manifest = Self {
            job: key.clone(),
            op: job.operation.clone(),
            pipeline: job.pipeline.clone(),
            params: job.config.clone(),
            created_at: now,
            shards,
            volumes: volumes.len(),
            volumes_sha256: Digest::of(names.concat().as_bytes()),
        };
        match store.put_if_absent(&layout.job(), json(&manifest)?).await? {
            PutOutcome::Created => Ok(manifest),
            PutOutcome::Exists => Err(ShardError::Exists(key)),
        }
    }

    pub async fn read(store: &dyn ArtifactStore, job: &JobKey) -> Result<Self, ShardError> {
        let key = ShardLayout::new(job).job();
        if store.head(&key).await?.is_none() {
            return Err(ShardError::NoSuchJob(job.clone()));
        }
        let bytes = store.get(&key).await?;
        serde_json::from_slice(&bytes).map_err(|error| ShardError::damaged(&key, error))
    }

    /// The volumes of a shard, in its order.
    pub async fn volumes(&self, store: &dyn ArtifactStore, shard: u32) -> Result<Vec<VolumeId>, ShardError> {
        let key = ShardLayout::new(&self.job).shard(shard);
        let bytes = store.get(&key).await?;
        let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines
            .map(|line| {
                let line: ShardLine =
                    serde_json::from_slice(line).map_err(|error| ShardError::damaged(&key, error))?;
                Ok(line.volume_id)
            })
            .collect()
    }

    /// The job as the policies know jobs. It runs as long as there is a manifest.
    pub(super) fn to_job(&self, id: JobId) -> Job {
        Job {
            id,
            key: self.job.clone(),
            operation: self.op.clone(),
            pipeline: self.pipeline.clone(),
            config: self.params.clone(),
            status: JobStatus::Running,
            created_at: self.created_at,
            finished_at: None,
        }
    }
}

/// `value` as JSON.
pub(super) fn json(value: &impl Serialize) -> Result<Bytes, ShardError> {
    let bytes = serde_json::to_vec(value).map_err(ShardError::Unwritable)?;
    Ok(bytes.into())
}
