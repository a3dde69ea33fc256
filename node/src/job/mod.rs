//! `node job`: jobs of a cluster, through its database. The orchestrator hears of a new one from there.

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::{Context, Result};
use chrono::Utc;
use clap::{Args, Subcommand};
use parkhang_actors::domain::{Job, JobKey, JobStatus, NewJob, Task, TaskStatus, VolumeId};
use parkhang_actors::stage::ocr_pipeline;
use parkhang_actors::state::{PostgresStore, StateStore};
use serde_json::json;

use crate::config::{ConfigArgs, Loaded};
use crate::role::database;
use crate::storage::volumes;

/// Tries that a volume may fail.
const MAX_ATTEMPTS: i32 = 3;

#[derive(Debug, Subcommand)]
pub enum JobCommand {
    /// Make a job over the volumes of the scans (pages); it starts at once.
    Create(CreateArgs),
    /// Say how far a job is.
    Status(StatusArgs),
}

#[derive(Debug, Args)]
pub struct CreateArgs {
    /// Name of the job, part of every artifact key.
    #[arg(value_name = "NAME")]
    pub name: String,
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
    /// Return when the job has ended; exit status 1 if it failed.
    #[arg(long)]
    pub wait: bool,
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub config: ConfigArgs,
}

pub async fn run(command: JobCommand) -> Result<ExitCode> {
    match command {
        JobCommand::Create(arguments) => create(arguments).await,
        JobCommand::Status(arguments) => status(arguments).await,
    }
}

async fn create(arguments: CreateArgs) -> Result<ExitCode> {
    let loaded = Loaded::read(&arguments.config)?.validated()?;
    let volumes = volumes(&loaded.config.pages, &arguments.volume).await?;
    let job = NewJob {
        key: Some(JobKey::new(arguments.name)?),
        operation: "ocr".to_owned(),
        pipeline: ocr_pipeline(),
        config: loaded.config.job.clone(),
        max_attempts: MAX_ATTEMPTS,
        volumes,
    };
    let database = database(&loaded).await?;
    let created = database.store.create_job(&job, Utc::now()).await?;
    println!("{}: {} volumes", created.key, job.volumes.len());
    Ok(ExitCode::SUCCESS)
}

async fn status(arguments: StatusArgs) -> Result<ExitCode> {
    let loaded = Loaded::read(&arguments.config)?.validated()?;
    let database = database(&loaded).await?;
    let store = &database.store;
    let key = JobKey::new(arguments.name)?;
    let mut changes = store.job_changes().await?;
    let job = loop {
        let job = store
            .job(&key)
            .await?
            .with_context(|| format!("there is no job {key}"))?;
        if !arguments.wait || job.status.is_final() {
            break job;
        }
        changes.next().await?;
    };
    print(store, &job, arguments.json).await?;
    Ok(match job.status {
        JobStatus::Failed | JobStatus::Cancelled => ExitCode::FAILURE,
        _ => ExitCode::SUCCESS,
    })
}

async fn print(store: &PostgresStore, job: &Job, json: bool) -> Result<()> {
    let tasks = store.tasks(job.id).await?;
    if json {
        let described = tasks.iter().map(|task| {
            json!({
                "volume": task.volume.to_string(),
                "stage": task.position.as_str(),
                "status": task.status.as_str(),
                "attempts": task.attempts,
                "interruptions": task.interruptions,
                "worker": task.lease.as_ref().map(|lease| &lease.worker.0),
                "error": task.last_error.as_ref().map(|error| &error.message),
            })
        });
        let tasks: Vec<_> = described.collect();
        println!(
            "{:#}",
            json!({"job": job.key.as_str(), "status": job.status.as_str(), "tasks": tasks})
        );
        return Ok(());
    }
    println!("job {}: {}", job.key, job.status.as_str());
    for (state, count) in by_state(&tasks) {
        println!("{count:>8}  {state}");
    }
    for task in tasks.iter().filter(|task| task.status == TaskStatus::Failed) {
        let reason = task
            .last_error
            .as_ref()
            .map_or("no reason recorded", |error| error.message.as_str());
        println!("{}: {reason}", task.volume);
    }
    Ok(())
}

/// How many tasks are in each state, such as `ocr running`.
fn by_state(tasks: &[Task]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for task in tasks {
        let state = format!("{} {}", task.position.as_str(), task.status.as_str());
        *counts.entry(state).or_default() += 1;
    }
    counts
}
