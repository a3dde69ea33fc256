//! `node shards`: jobs that are kept in the artifact store, without a database.
//!
//! Where only a bucket is available, nodes take work from objects in it: a job is a manifest and lists of volumes, and the state of a volume is a
//! chain of numbered objects, each created only if it is absent, which every object store can do. These commands write and read
//! such objects and need neither a database nor an orchestrator; who holds what is decided by `source`, and nothing here may change
//! the state of a volume.

mod import;
mod list;
mod status;

use std::process::ExitCode;

use anyhow::{Result, bail};
use chrono::Utc;
use clap::{Args, Subcommand};
use parkhang_actors::source::{JobManifest, ShardOrder, ShardSize};
use parkhang_actors::stage::OCR;
use parkhang_core::domain::{JobKey, NewJob};
use serde_json::json;

use crate::admin::models_pair;
use crate::config::{ConfigArgs, Loaded};
use crate::storage::{VolumeArgs, artifacts, volumes};
use crate::words::pluralize;

#[derive(Debug, Subcommand)]
pub enum ShardsCommand {
    /// Create a job over all volumes, or those named.
    ///
    /// Nodes with `--source shards` and the name of the job start to work on it at once.
    Create(CreateArgs),
    /// List the jobs in the artifact store with their progress.
    List(ListArgs),
    /// Show the progress of a job; the exit status is 1 if a volume failed or its state cannot be read.
    Status(StatusArgs),
    /// Pause a job: no further stage of it is started, and stages that run continue to their end.
    Pause(JobArgs),
    /// Resume a paused job.
    Resume(JobArgs),
    /// Cancel a job for good; stages that run stop at their next checkpoints.
    Cancel(JobArgs),
    /// Create a job in the database from one in the artifact store, with all its volumes.
    ///
    /// Pages that were read already are kept. The job in the artifact store is paused, so that no volume is worked on twice.
    Import(ImportArgs),
}

#[derive(Debug, Args)]
pub struct CreateArgs {
    /// Name of the job, part of every key.
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Number of volumes in a shard, which one node takes at a time; at most 1048576.
    #[arg(long, value_name = "N", default_value = "100")]
    pub size: ShardSize,
    #[command(flatten)]
    pub volumes: VolumeArgs,
    /// Run this pipeline, which is built in or named in the configuration (pipeline.NAME); `docs/stages.md` lists them.
    #[arg(long, visible_alias = "op", value_name = "NAME", default_value = OCR)]
    pub pipeline: String,
    /// Use this model, and only nodes that have loaded it: NAME of a recogniser, or STAGE=NAME; sets job.models. May be
    /// repeated.
    #[arg(long, value_name = "MODEL")]
    pub model: Vec<String>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub config: ConfigArgs,
}

#[derive(Debug, Args)]
pub struct JobArgs {
    /// Name of the job.
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub config: ConfigArgs,
}

#[derive(Debug, Args)]
pub struct ListArgs {
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub config: ConfigArgs,
}

#[derive(Debug, Args)]
pub struct StatusArgs {
    #[command(flatten)]
    pub job: JobArgs,
    /// Wait until the job is finished or cancelled, with a look every source.poll.
    #[arg(long)]
    pub wait: bool,
}

#[derive(Debug, Args)]
pub struct ImportArgs {
    #[command(flatten)]
    pub job: JobArgs,
    /// Number of volumes written in one transaction. The job starts when all are written.
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
    let table = loaded.config.stage_table();
    let pipeline = loaded.config.pipelines(&table)?.get(&arguments.pipeline)?.clone();
    if let Some(stage) = pipeline
        .stages()
        .iter()
        .find(|stage| table.is_external(stage.as_str()))
    {
        bail!("a service does {stage}, and gets its work from an orchestrator, which shards have none of");
    }
    let config = loaded.config.job.clone();
    let config = config.with_overrides(models.iter().map(String::as_str))?;
    if !config.budget.is_zero() {
        bail!("job.budget: shards have no database that counts what is spent");
    }
    let job = NewJob {
        key: Some(JobKey::new(arguments.name)?),
        pipeline,
        operation: arguments.pipeline,
        config,
        volumes: volumes(&loaded.config.pages, arguments.volumes.named()?).await?,
        standing: false,
    };
    let store = artifacts(&loaded).await?;
    let manifest = JobManifest::create(store.as_ref(), &job, arguments.size, Utc::now()).await?;
    let JobManifest {
        job, volumes, shards, ..
    } = &manifest;
    if arguments.json {
        let created = json!({ "job": job.as_str(), "volumes": volumes, "shards": shards });
        println!("{created:#}");
    } else {
        println!(
            "{job}: {} in {}",
            pluralize(*volumes, "volume"),
            pluralize(*shards, "shard")
        );
    }
    Ok(ExitCode::SUCCESS)
}

async fn order(arguments: JobArgs, order: ShardOrder) -> Result<ExitCode> {
    let loaded = Loaded::read(&arguments.config)?.validated()?;
    let store = artifacts(&loaded).await?;
    let manifest = JobManifest::read(store.as_ref(), &JobKey::new(arguments.name)?).await?;
    let status = manifest.order(store.as_ref(), order, Utc::now()).await?;
    if arguments.json {
        println!(
            "{:#}",
            json!({ "job": manifest.job.as_str(), "status": status.as_str() })
        );
    } else {
        println!("{}: {}", manifest.job, status.as_str());
    }
    Ok(ExitCode::SUCCESS)
}
