//! `node shards list`.

use std::process::ExitCode;

use anyhow::Result;
use futures::{StreamExt, TryStreamExt, stream};
use parkhang_actors::source::{JobManifest, ShardError};
use parkhang_core::domain::JobStatus;
use parkhang_store::storage::ArtifactStore;
use serde_json::json;

use super::ListArgs;
use crate::config::Loaded;
use crate::storage::artifacts;
use crate::terminal::shown;

/// Jobs read concurrently.
const LOOKS: usize = 8;

/// Job with the progress of its shards.
struct Line {
    manifest: JobManifest,
    ordered: JobStatus,
    finished: usize,
}

impl Line {
    async fn of(store: &dyn ArtifactStore, manifest: JobManifest) -> Result<Self, ShardError> {
        Ok(Self {
            ordered: manifest.ordered(store).await?,
            finished: manifest.finished_shards(store).await?,
            manifest,
        })
    }

    /// Status as ordered, or `finished`.
    fn status(&self) -> &'static str {
        match self.ordered {
            // Nobody writes an end of the whole job: it is finished with its last shard.
            JobStatus::Running if self.finished >= self.manifest.shards as usize => "finished",
            ordered => ordered.as_str(),
        }
    }
}

/// Runs the command; the exit status is 1 if the manifest of a job cannot be read.
pub async fn run(arguments: ListArgs) -> Result<ExitCode> {
    let loaded = Loaded::read(&arguments.config)?.validated()?;
    let store = artifacts(&loaded).await?;
    let store = store.as_ref();
    let (mut manifests, mut unreadable) = (Vec::new(), Vec::new());
    for job in JobManifest::list(store).await? {
        match job {
            Ok(manifest) => manifests.push(manifest),
            // One damaged manifest must not hide the other jobs; the exit status reports it.
            Err(error) => unreadable.push(error.to_string()),
        }
    }
    let lines: Vec<Line> = stream::iter(manifests)
        .map(|manifest| Line::of(store, manifest))
        .buffered(LOOKS)
        .try_collect()
        .await?;
    if arguments.json {
        let jobs = lines.iter().map(|line| {
            json!({
                "job": line.manifest.job.as_str(),
                "status": line.status(),
                "created_at": line.manifest.created_at,
                "shards": { "finished": line.finished, "all": line.manifest.shards },
                "volumes": line.manifest.volumes,
            })
        });
        let described = json!({ "jobs": jobs.collect::<Vec<_>>(), "unreadable": unreadable });
        println!("{described:#}");
    } else {
        let header = ["job", "status", "created", "volumes", "shards", "finished"];
        let rows = lines.iter().map(|line| {
            [
                line.manifest.job.to_string(),
                line.status().to_owned(),
                line.manifest.created_at.format("%F %H:%M").to_string(),
                line.manifest.volumes.to_string(),
                line.manifest.shards.to_string(),
                line.finished.to_string(),
            ]
        });
        println!("{}", crate::admin::text_table(header, rows, 3));
        for error in &unreadable {
            println!("{}", shown(&error.to_string()));
        }
    }
    Ok(if unreadable.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
