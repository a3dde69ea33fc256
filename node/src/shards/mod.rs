//! `node shards`: jobs that live in the artifact store, without a database.

mod import;
mod list;
mod status;

use std::process::ExitCode;

use anyhow::Result;
use chrono::Utc;
use clap::{Args, Subcommand};
use parkhang_actors::source::{JobManifest, ShardOrder, ShardSize};
use parkhang_actors::stage::{OCR, StageTable};
use parkhang_core::domain::{JobKey, NewJob};
use serde_json::json;

use crate::admin::models_pair;
use crate::config::{ConfigArgs, Loaded};
use crate::storage::{VolumeArgs, artifacts, volumes};
use crate::words::counted;

#[derive(Debug, Subcommand)]
pub enum ShardsCommand {
    /// Write the manifests of a job over the volumes that there are, or those named. Nodes with `--source shards` that were told of the job
    /// begin at once.
    Create(CreateArgs),
    /// List the jobs in the storage, and how many of their shards are finished.
    List(ListArgs),
    /// Say how far a job is; exit status 1 if a volume failed or cannot be told of.
    Status(StatusArgs),
    /// Begin nothing more of a job; stages that run go on to their end.
    Pause(JobArgs),
    /// Go on with a job that was paused.
    Resume(JobArgs),
    /// End a job for good: stages that run stop at their next checkpoints.
    Cancel(JobArgs),
    /// Make a job of the database from one in the storage, over all its volumes.
    ///
    /// What was read already stands and is taken over page by page. The job in the storage is paused, so that nothing is worked on twice.
    Import(ImportArgs),
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
    /// Run this pipeline, which is built in or named in the configuration (pipeline.NAME); `docs/stages.md` has those there are.
    #[arg(long, visible_alias = "op", value_name = "NAME", default_value = OCR)]
    pub pipeline: String,
    /// Read with this model, and only on nodes that have loaded it: NAME of one that reads lines, or STAGE=NAME; short for
    /// job.models. May be repeated.
    #[arg(long, value_name = "MODEL")]
    pub model: Vec<String>,
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

#[derive(Debug, Args)]
pub struct ListArgs {
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub config: ConfigArgs,
}

#[derive(Debug, Args)]
pub struct StatusArgs {
    #[command(flatten)]
    pub job: JobArgs,
    /// Look again every source.poll until the job is finished or cancelled.
    #[arg(long)]
    pub wait: bool,
}

#[derive(Debug, Args)]
pub struct ImportArgs {
    #[command(flatten)]
    pub job: JobArgs,
    /// Volumes that are written at once. The job begins when the last of them are written.
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub chunk_size: u32,
}

pub async fn run(command: ShardsCommand) -> Result<ExitCode> {
    match command {
        ShardsCommand::Create(arguments) => create(arguments).await,
        ShardsCommand::List(arguments) => list::run(arguments).await,
        ShardsCommand::Status(arguments) => status::run(arguments).await,
        ShardsCommand::Import(arguments) => import::run(arguments).await,
        ShardsCommand::Pause(arguments) => order(arguments, ShardOrder::Pause).await,
        ShardsCommand::Resume(arguments) => order(arguments, ShardOrder::Resume).await,
        ShardsCommand::Cancel(arguments) => order(arguments, ShardOrder::Cancel).await,
    }
}

async fn create(arguments: CreateArgs) -> Result<ExitCode> {
    let loaded = Loaded::read(&arguments.config)?.validated()?;
    let models = models_pair(&arguments.model);
    let pipelines = loaded.config.pipelines(&StageTable::built_in())?;
    let job = NewJob {
        key: Some(JobKey::new(arguments.name)?),
        pipeline: pipelines.get(&arguments.pipeline)?.clone(),
        operation: arguments.pipeline,
        config: loaded
            .config
            .job
            .clone()
            .with_overrides(models.iter().map(String::as_str))?,
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
