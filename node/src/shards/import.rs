//! `node shards import`.

use std::process::ExitCode;

use anyhow::{Result, bail, ensure};
use chrono::Utc;
use parkhang_actors::source::{JobManifest, ShardOrder};
use parkhang_core::domain::{JobKey, JobStatus, NewJob};
use parkhang_state::StateStore;
use serde_json::json;

use super::ImportArgs;
use crate::config::Loaded;
use crate::database::database_for_command;
use crate::storage::artifacts;
use crate::words::pluralize;

/// Creates a job in the database from one in the artifact store. It keeps its name, and with it the keys of its artifacts.
pub async fn run(arguments: ImportArgs) -> Result<ExitCode> {
    let loaded = Loaded::read(&arguments.job.config)?.validated()?;
    let store = artifacts(&loaded).await?;
    let store = store.as_ref();
    // The job is looked for in the store before a database is opened, which this command could be the first
    // to make.
    let manifest = JobManifest::read(store, &JobKey::new(arguments.job.name)?).await?;
    let key = &manifest.job;
    let database = database_for_command(&loaded, true).await?;
    ensure!(
        database.store.job(key).await?.is_none(),
        "job {key} is in the database already"
    );
    let mut volumes = Vec::with_capacity(manifest.volumes);
    for shard in 0..manifest.shards {
        volumes.extend(manifest.volumes(store, shard).await?);
    }
    // A list that lost entries would silently leave volumes out of the job.
    if volumes.len() != manifest.volumes {
        bail!(
            "job {key} has {} by its job.json, and {} in its shards",
            pluralize(manifest.volumes, "volume"),
            volumes.len()
        );
    }
    // A finished or cancelled job has nothing more to hand out, and need not be paused.
    let is_finished = manifest.finished_shards(store).await? >= manifest.shards as usize;
    // The old job is paused before the new one exists: if this process dies in between, no volume is worked on twice.
    let paused = !is_finished && manifest.ordered(store).await? != JobStatus::Cancelled;
    if paused {
        manifest.order(store, ShardOrder::Pause, Utc::now()).await?;
    }
    let new = NewJob {
        key: Some(key.clone()),
        operation: manifest.op.clone(),
        pipeline: manifest.pipeline.clone(),
        config: manifest.params.clone(),
        volumes,
        standing: false,
    };
    let chunk = usize::try_from(arguments.chunk_size).unwrap_or(usize::MAX);
    let job = database
        .store
        .create_job_in_chunks(&new, chunk, Utc::now())
        .await?;
    if arguments.job.json {
        let imported = json!({
            "job": job.key.as_str(),
            "volumes": manifest.volumes,
            "shards": manifest.shards,
            "shards_paused": paused,
        });
        println!("{imported:#}");
    } else {
        let in_storage = if paused {
            "; the job in the artifact store is paused"
        } else {
            ""
        };
        println!(
            "{}: {} of {}{in_storage}",
            job.key,
            pluralize(manifest.volumes, "volume"),
            pluralize(manifest.shards, "shard")
        );
    }
    Ok(ExitCode::SUCCESS)
}
