//! Manifest of a job and its division into shards: written once, when the job is made.

use std::collections::HashSet;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use futures::{StreamExt, stream};
use serde::{Deserialize, Serialize};

use super::control::ordered;
use super::place::MAX_SHARDS;
use super::{InvalidShardSize, ShardError, ShardSize};
use parkhang_core::domain::{Job, JobConfig, JobId, JobKey, JobStatus, NewJob, Pipeline, VolumeId};
use parkhang_store::artifact::{Digest, ShardLayout};
use parkhang_store::storage::{ArtifactStore, PutOutcome};

/// Manifests read at once.
const READS: usize = 16;

/// Content of `job.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobManifest {
    /// Key of the job.
    pub job: JobKey,
    /// Name of the operation.
    pub op: String,
    /// Stages of the job, in order.
    pub pipeline: Pipeline,
    /// Configuration of the job.
    pub params: JobConfig,
    /// Time at which the job was made.
    pub created_at: DateTime<Utc>,
    /// Number of shards.
    pub shards: u32,
    /// Number of volumes in all shards.
    pub volumes: usize,
    /// Digest of the names of all volumes in their order.
    pub volumes_sha256: Digest,
    /// Digests of the objects of the shards, in their order. A job that was made before there were any has none.
    #[serde(default)]
    pub shards_sha256: Vec<Digest>,
}

/// A line of a shard.
#[derive(Debug, Serialize, Deserialize)]
struct ShardLine {
    volume_id: VolumeId,
}

impl JobManifest {
    /// Writes a job's shards and then its manifest, which makes the job exist. Shards of an attempt that died before are
    /// replaced, and so are those of another process that makes a job of this name at the same time: of the two one has made the job, and
    /// [`volumes`](Self::volumes) tells if a shard is the other's.
    ///
    /// # Errors
    ///
    /// [`ShardError::Unnamed`], [`ShardError::Exists`], [`ShardError::TooManyShards`], and when the store cannot be written.
    pub async fn create(
        store: &dyn ArtifactStore,
        job: &NewJob,
        size: ShardSize,
        now: DateTime<Utc>,
    ) -> Result<Self, ShardError> {
        let key = job.key.clone().ok_or(ShardError::Unnamed)?;
        let layout = ShardLayout::new(&key);
        // Looked up first, so that the shards of a job that exists are not replaced.
        if store.head(&layout.job()).await?.is_some() {
            return Err(ShardError::Exists(key));
        }
        // A volume named twice would be two tasks that write the same artifacts.
        let mut seen = HashSet::new();
        let volumes: Vec<&VolumeId> = job.volumes.iter().filter(|volume| seen.insert(*volume)).collect();
        let shards = volumes.len().div_ceil(size.get());
        if shards > MAX_SHARDS as usize {
            return Err(ShardError::TooManyShards(shards));
        }
        let mut shards = 0;
        let mut shards_sha256 = Vec::new();
        for volumes in volumes.chunks(size.get()) {
            let shard = layout.shard(shards);
            let mut text = Vec::new();
            for volume in volumes {
                let line = ShardLine {
                    volume_id: (*volume).clone(),
                };
                text.extend(json(&line)?);
                text.push(b'\n');
            }
            shards_sha256.push(Digest::of(&text));
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
            shards_sha256,
        };
        // Last, as nodes take a job up once this object is there, and its shards must be there by then.
        match store.put_if_absent(&layout.job(), json(&manifest)?).await? {
            PutOutcome::Created => Ok(manifest),
            PutOutcome::Exists => Err(ShardError::Exists(key)),
        }
    }

    /// Reads the manifest of a job.
    ///
    /// # Errors
    ///
    /// [`ShardError::NoSuchJob`], [`ShardError::Damaged`], and when the store cannot be read.
    pub async fn read(store: &dyn ArtifactStore, job: &JobKey) -> Result<Self, ShardError> {
        let key = ShardLayout::new(job).job();
        if store.head(&key).await?.is_none() {
            return Err(ShardError::NoSuchJob(job.clone()));
        }
        let bytes = store.get(&key).await?;
        let manifest: Self =
            serde_json::from_slice(&bytes).map_err(|error| ShardError::damaged(&key, error))?;
        if manifest.shards > MAX_SHARDS {
            let too_many = ShardError::TooManyShards(manifest.shards as usize);
            return Err(ShardError::damaged(&key, too_many));
        }
        Ok(manifest)
    }

    /// Lists the jobs of the store by name, each with its manifest or the error why that cannot be read. Jobs that are still being
    /// made are left out.
    ///
    /// # Errors
    ///
    /// When the store cannot be read.
    pub async fn list(store: &dyn ArtifactStore) -> Result<Vec<Result<Self, ShardError>>, ShardError> {
        let folders = store.folders(&ShardLayout::jobs_folder()).await?;
        let keys = folders.into_iter().filter_map(|name| JobKey::new(name).ok());
        let mut read = stream::iter(keys)
            .map(|key| async move { Self::read(store, &key).await })
            .buffered(READS);
        let mut jobs = Vec::new();
        while let Some(job) = read.next().await {
            match job {
                // The folder of a job whose shards are still being written.
                Err(ShardError::NoSuchJob(_)) => {}
                Err(error) if error.unreadable().is_none() => return Err(error),
                job => jobs.push(job),
            }
        }
        Ok(jobs)
    }

    /// Status of the job by the orders to its nodes: running, paused or cancelled.
    ///
    /// # Errors
    ///
    /// When the store cannot be read.
    pub async fn ordered(&self, store: &dyn ArtifactStore) -> Result<JobStatus, ShardError> {
        ordered(store, &self.job).await
    }

    /// Counts the shards in which nothing more will be tried.
    ///
    /// # Errors
    ///
    /// When the store cannot be read.
    pub async fn finished_shards(&self, store: &dyn ArtifactStore) -> Result<usize, ShardError> {
        let layout = ShardLayout::new(&self.job);
        Ok(store.list(&layout.done_folder()).await?.len())
    }

    /// Reads the volumes of a shard, in its order.
    ///
    /// # Errors
    ///
    /// [`ShardError::Damaged`], and when the store cannot be read.
    pub async fn volumes(&self, store: &dyn ArtifactStore, shard: u32) -> Result<Vec<VolumeId>, ShardError> {
        let key = ShardLayout::new(&self.job).shard(shard);
        let bytes = store.get(&key).await?;
        // Shards are written before `job.json`, of which only one is ever written. Of two processes that make a job of this name at once, one
        // may have written this shard after the other had made the job.
        let expected = usize::try_from(shard)
            .ok()
            .and_then(|shard| self.shards_sha256.get(shard));
        if expected.is_some_and(|expected| *expected != Digest::of(&bytes)) {
            return Err(ShardError::damaged(
                &key,
                "it is not the one that the job was made with; if two processes made the job at once, make it again under another name",
            ));
        }
        let volumes: Vec<VolumeId> = bytes
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
            .map(|line| serde_json::from_slice(line).map(|line: ShardLine| line.volume_id))
            .collect::<Result<_, _>>()
            .map_err(|error| ShardError::damaged(&key, error))?;
        if volumes.len() > ShardSize::MAX as usize {
            return Err(ShardError::damaged(&key, InvalidShardSize::of(volumes.len())));
        }
        Ok(volumes)
    }

    /// The job as the policies know jobs, running: pausing and cancelling is not part of the manifest.
    pub(super) fn to_job(&self, id: JobId) -> Job {
        Job {
            id,
            key: self.job.clone(),
            operation: self.op.clone(),
            pipeline: self.pipeline.clone(),
            config: self.params.clone(),
            status: JobStatus::Running,
            standing: false,
            created_at: self.created_at,
            finished_at: None,
        }
    }
}

/// Encodes `value` as JSON.
pub(super) fn json(value: &impl Serialize) -> Result<Bytes, ShardError> {
    let bytes = serde_json::to_vec(value).map_err(ShardError::Unwritable)?;
    Ok(bytes.into())
}
