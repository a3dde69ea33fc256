//! `node shards`: jobs that live in the artifact store, without a database.

use std::process::ExitCode;

use anyhow::Result;
use chrono::Utc;
use clap::{Args, Subcommand};
use parkhang_actors::domain::{JobKey, JobStatus, NewJob};
use parkhang_actors::source::{JobManifest, ShardOrder, ShardSize, ShardState, ShardSurvey};
use parkhang_actors::stage::ocr_pipeline;
use serde_json::json;

use crate::config::{ConfigArgs, Loaded};
use crate::storage::{VolumeArgs, artifacts, volumes};
use crate::words::counted;

#[derive(Debug, Subcommand)]
pub enum ShardsCommand {
    /// Write the manifests of a job over the volumes that there are, or those named. Nodes with `--source shards` that were told of the job
    /// begin at once.
    Create(CreateArgs),
    /// Say how far a job is.
    Status(JobArgs),
    /// Begin nothing more of a job; stages that run go on to their end.
    Pause(JobArgs),
    /// Go on with a job that was paused.
    Resume(JobArgs),
    /// End a job for good: stages that run stop at their next checkpoints.
    Cancel(JobArgs),
}

#[derive(Debug, Args)]
pub struct CreateArgs {
    /// Name of the job, part of every key.
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Volumes in a shard: what one node takes upon itself at a time, at most 1048576.
    #[arg(long, value_name = "N", default_value = "100")]
    pub size: ShardSize,
    #[command(flatten)]
    pub volumes: VolumeArgs,
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub config: ConfigArgs,
}

#[derive(Debug, Args)]
pub struct JobArgs {
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
        ShardsCommand::Pause(arguments) => order(arguments, ShardOrder::Pause).await,
        ShardsCommand::Resume(arguments) => order(arguments, ShardOrder::Resume).await,
        ShardsCommand::Cancel(arguments) => order(arguments, ShardOrder::Cancel).await,
    }
}

async fn create(arguments: CreateArgs) -> Result<ExitCode> {
    let loaded = Loaded::read(&arguments.config)?.validated()?;
    let job = NewJob {
        key: Some(JobKey::new(arguments.name)?),
        operation: "ocr".to_owned(),
        pipeline: ocr_pipeline(),
        config: loaded.config.job.clone(),
        volumes: volumes(&loaded.config.pages, arguments.volumes.named()?).await?,
    };
    let store = artifacts(&loaded).await?;
    let manifest = JobManifest::create(store.as_ref(), &job, arguments.size, Utc::now()).await?;
    let JobManifest {
        job, volumes, shards, ..
    } = &manifest;
    match arguments.json {
        true => {
            let created = json!({ "job": job.as_str(), "volumes": volumes, "shards": shards });
            println!("{created:#}");
        }
        false => println!(
            "{job}: {} in {}",
            counted(*volumes, "volume"),
            counted(*shards, "shard")
        ),
    }
    Ok(ExitCode::SUCCESS)
}

async fn order(arguments: JobArgs, order: ShardOrder) -> Result<ExitCode> {
    let loaded = Loaded::read(&arguments.config)?.validated()?;
    let store = artifacts(&loaded).await?;
    let manifest = JobManifest::read(store.as_ref(), &JobKey::new(arguments.name)?).await?;
    let status = manifest.order(store.as_ref(), order, Utc::now()).await?;
    match arguments.json {
        true => println!(
            "{:#}",
            json!({ "job": manifest.job.as_str(), "status": status.as_str() })
        ),
        false => println!("{}: {}", manifest.job, status.as_str()),
    }
    Ok(ExitCode::SUCCESS)
}

/// Exit status 1 where a volume has failed, or cannot be told of.
async fn status(arguments: JobArgs) -> Result<ExitCode> {
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
            "status": survey.ordered.as_str(),
            "finished": survey.is_finished(),
            "shards": { "finished": finished, "all": survey.shards.len() },
            "volumes": survey.by_state(),
            "failed": failed.collect::<Vec<_>>(),
            "unreadable": survey.unreadable.iter().map(ToString::to_string).collect::<Vec<_>>(),
        });
        println!("{described:#}");
    } else {
        println!(
            "job {}{}: {finished} of {} finished",
            survey.manifest.job,
            match survey.ordered {
                JobStatus::Running => String::new(),
                ordered => format!(" ({})", ordered.as_str()),
            },
            counted(survey.shards.len(), "shard")
        );
        for (state, count) in survey.by_state() {
            println!("{count:>8}  {state}");
        }
        for (volume, error) in survey.failed() {
            let reason = error.as_ref().map(|error| error.message.as_str());
            println!("{volume}: {}", reason.unwrap_or("no reason recorded"));
        }
        for error in &survey.unreadable {
            println!("{error}");
        }
    }
    Ok(
        match survey.failed().next().is_some() || !survey.unreadable.is_empty() {
            true => ExitCode::FAILURE,
            false => ExitCode::SUCCESS,
        },
    )
}
