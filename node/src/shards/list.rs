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

/// Jobs looked at at once.
const LOOKS: usize = 8;

/// A job and how far its shards are.
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

    /// As was ordered, or that there is nothing left to do.
    fn status(&self) -> &'static str {
        match self.ordered {
            JobStatus::Running if self.finished >= self.manifest.shards as usize => "finished",
            ordered => ordered.as_str(),
        }
    }
}

/// Exit status 1 where a job cannot be told of.
pub async fn run(arguments: ListArgs) -> Result<ExitCode> {
    let loaded = Loaded::read(&arguments.config)?.validated()?;
    let store = artifacts(&loaded).await?;
    let store = store.as_ref();
    let (mut manifests, mut unreadable) = (Vec::new(), Vec::new());
    for job in JobManifest::list(store).await? {
        match job {
            Ok(manifest) => manifests.push(manifest),
            Err(error) => unreadable.push(error.to_string()),
        }
    }
    let looks = stream::iter(manifests).map(|manifest| Line::of(store, manifest));
    let lines: Vec<Line> = looks.buffered(LOOKS).try_collect().await?;
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
            println!("{error}");
        }
    }
    Ok(match unreadable.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}
