//! `node shards`: jobs that live in the artifact store, without a database.

use std::process::ExitCode;

use anyhow::Result;
use chrono::Utc;
use clap::{Args, Subcommand};
use parkhang_actors::domain::{JobKey, NewJob, VolumeId};
use parkhang_actors::source::{JobManifest, ShardSize, ShardState, ShardSurvey};
use parkhang_actors::stage::ocr_pipeline;
use serde_json::json;

use crate::config::{ConfigArgs, Loaded};
use crate::storage::{artifacts, volumes};

#[derive(Debug, Subcommand)]
pub enum ShardsCommand {
    /// Write the manifests of a job over the volumes that there are, or those named. Nodes with `--source shards` that were told of the job
    /// begin at once.
    Create(CreateArgs),
    /// Say how far a job is.
    Status(StatusArgs),
}

#[derive(Debug, Args)]
pub struct CreateArgs {
    /// Name of the job, part of every key.
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Volumes in a shard: what one node takes upon itself at a time.
    #[arg(long, value_name = "N", default_value = "100")]
    pub size: ShardSize,
    /// Only this volume (W-I); may be repeated.
    #[arg(long, value_name = "VOLUME")]
    pub volume: Vec<VolumeId>,
    #[command(flatten)]
    pub config: ConfigArgs,
}

#[derive(Debug, Args)]
pub struct StatusArgs {
    #[arg(value_name = "NAME")]
    pub name: String,
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub config: ConfigArgs,
}

pub async fn run(command: ShardsCommand) -> Result<ExitCode> {
    match command {
        ShardsCommand::Create(arguments) => create(arguments).await,
        ShardsCommand::Status(arguments) => status(arguments).await,
    }
}

async fn create(arguments: CreateArgs) -> Result<ExitCode> {
    let loaded = Loaded::read(&arguments.config)?.validated()?;
    let job = NewJob {
        key: Some(JobKey::new(arguments.name)?),
        operation: "ocr".to_owned(),
        pipeline: ocr_pipeline(),
        config: loaded.config.job.clone(),
        volumes: volumes(&loaded.config.pages, &arguments.volume).await?,
    };
    let store = artifacts(&loaded).await?;
    let manifest = JobManifest::create(store.as_ref(), &job, arguments.size, Utc::now()).await?;
    println!(
        "{}: {} volumes in {} shards",
        manifest.job, manifest.volumes, manifest.shards
    );
    Ok(ExitCode::SUCCESS)
}

/// Exit status 1 where a volume has failed.
async fn status(arguments: StatusArgs) -> Result<ExitCode> {
    let loaded = Loaded::read(&arguments.config)?.validated()?;
    let store = artifacts(&loaded).await?;
    let survey = ShardSurvey::of(store.as_ref(), &JobKey::new(arguments.name)?).await?;
    let is_finished = |shard: &&ShardState| matches!(shard, ShardState::Finished(_));
    let finished = survey.shards.iter().filter(is_finished).count();
    if arguments.json {
        let failed = survey.failed().map(|(volume, error)| {
            let error = error.as_ref().map(|error| &error.message);
            json!({ "volume": volume.to_string(), "error": error })
        });
        let described = json!({
            "job": survey.manifest.job.as_str(),
            "finished": survey.is_finished(),
            "shards": { "finished": finished, "all": survey.shards.len() },
            "volumes": survey.by_state(),
            "failed": failed.collect::<Vec<_>>(),
        });
        println!("{described:#}");
    } else {
        println!(
            "job {}: {finished} of {} shards finished",
            survey.manifest.job,
            survey.shards.len()
        );
        for (state, count) in survey.by_state() {
            println!("{count:>8}  {state}");
        }
        for (volume, error) in survey.failed() {
            let reason = error.as_ref().map(|error| error.message.as_str());
            println!("{volume}: {}", reason.unwrap_or("no reason recorded"));
        }
    }
    Ok(match survey.failed().next() {
        Some(_) => ExitCode::FAILURE,
        None => ExitCode::SUCCESS,
    })
}
