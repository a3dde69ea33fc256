//! `node job`: jobs of a cluster, through its database. The orchestrator hears of every change from there.

mod args;
mod commands;
mod obstacles;
mod print;
mod stats;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use chrono::TimeDelta;
use parkhang_actors::domain::{JobKey, JobStatus, NewJob};
use parkhang_actors::policy::job_action::JobAction;
use parkhang_actors::stage::ocr_pipeline;
use parkhang_actors::state::PostgresStore;

use self::args::{
    CancelArgs, CreateArgs, JobArgs, LimitsArgs, ListArgs, PriorityArgs, RerunArgs, StatusArgs,
};
use crate::config::{ConfigArgs, Loaded};
use crate::role::{Database, database, patience};
use crate::storage::volumes;
use crate::words::counted;

pub use self::args::JobCommand;

pub async fn run(command: JobCommand) -> Result<ExitCode> {
    match command {
        JobCommand::Create(arguments) => create(arguments).await,
        JobCommand::List(arguments) => list(arguments).await,
        JobCommand::Status(arguments) => status(arguments).await,
        JobCommand::Pause(arguments) => act(arguments, JobAction::Pause).await,
        JobCommand::Resume(arguments) => act(arguments, JobAction::Resume).await,
        JobCommand::Cancel(arguments) => cancel(arguments).await,
        JobCommand::Priority(arguments) => priority(arguments).await,
        JobCommand::Limits(arguments) => limits(arguments).await,
        JobCommand::Rerun(arguments) => rerun(arguments).await,
        JobCommand::Stats(arguments) => stats::run(arguments).await,
    }
}

async fn open(config: &ConfigArgs) -> Result<Database> {
    let loaded = Loaded::read(config)?.validated()?;
    database(&loaded).await
}

/// For a job that is waited for to get on, before a look at what may be in its way,
const FIRST_LOOK: Duration = Duration::from_secs(5);
/// and between two looks: each reads all tasks.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

async fn create(arguments: CreateArgs) -> Result<ExitCode> {
    let loaded = Loaded::read(&arguments.settings())?.validated()?;
    let volumes = volumes(&loaded.config.pages, arguments.volumes.named()?).await?;
    let new = NewJob {
        key: Some(arguments.name),
        operation: "ocr".to_owned(),
        pipeline: ocr_pipeline(),
        config: loaded.config.job.clone(),
        volumes,
    };
    let database = database(&loaded).await?;
    let created = commands::create(&database.store, &new).await?;
    if arguments.json {
        return print::json(&created);
    }
    println!("{}: {}", created.job, counted(created.volumes, "volume"));
    Ok(ExitCode::SUCCESS)
}

async fn list(arguments: ListArgs) -> Result<ExitCode> {
    let database = open(&arguments.config).await?;
    let jobs = commands::list(&database.store).await?;
    if arguments.json {
        return print::json(&jobs);
    }
    print::table(&jobs);
    Ok(ExitCode::SUCCESS)
}

async fn status(arguments: StatusArgs) -> Result<ExitCode> {
    let loaded = Loaded::read(&arguments.config)?.validated()?;
    let database = database(&loaded).await?;
    let patience = patience(loaded.config.cluster.heartbeat);
    let (store, name) = (&database.store, &arguments.name);
    if arguments.wait {
        wait_for_end(store, name, patience).await?;
    }
    let details = commands::status(store, name, patience).await?;
    let status = details.summary.status;
    if arguments.json {
        print::json(&details)?;
    } else {
        print::details(&details);
    }
    Ok(match status {
        JobStatus::Failed | JobStatus::Cancelled => ExitCode::FAILURE,
        _ => ExitCode::SUCCESS,
    })
}

/// Returns when the job has ended and holds no lease any more. Says meanwhile what is in its way, once each.
async fn wait_for_end(store: &PostgresStore, name: &JobKey, patience: TimeDelta) -> Result<()> {
    let mut changes = store.job_changes().await?;
    let (mut told, mut pause) = (Vec::new(), FIRST_LOOK);
    while commands::find(store, name).await?.finished_at.is_none() {
        let silence = async {
            tokio::time::sleep(pause).await;
            commands::status(store, name, patience).await
        };
        tokio::select! {
            change = changes.next() => change?,
            details = silence => {
                let found = details?.obstacles;
                for obstacle in found.iter().filter(|obstacle| !told.contains(*obstacle)) {
                    eprintln!("{}", obstacle.advice(name));
                }
                (told, pause) = (found, LOOK_AGAIN);
            }
        }
    }
    Ok(())
}

async fn act(arguments: JobArgs, action: JobAction) -> Result<ExitCode> {
    let database = open(&arguments.config).await?;
    let after = commands::act(&database.store, &arguments.name, action).await?;
    print::outcome(&after, arguments.json)
}

async fn cancel(arguments: CancelArgs) -> Result<ExitCode> {
    let JobArgs { name, config, json } = arguments.job;
    let loaded = Loaded::read(&config)?.validated()?;
    let database = database(&loaded).await?;
    let mut after = commands::act(&database.store, &name, JobAction::Cancel).await?;
    if arguments.wait {
        let patience = patience(loaded.config.cluster.heartbeat);
        wait_for_end(&database.store, &name, patience).await?;
        after = commands::summary(&database.store, &name).await?;
    }
    print::outcome(&after, json)
}

async fn priority(arguments: PriorityArgs) -> Result<ExitCode> {
    let JobArgs { name, config, json } = arguments.job;
    let database = open(&config).await?;
    let pairs = [format!("priority={}", arguments.priority)];
    let after = commands::adjust(&database.store, &name, &pairs).await?;
    print::outcome(&after, json)
}

async fn limits(arguments: LimitsArgs) -> Result<ExitCode> {
    let JobArgs { name, config, json } = arguments.job;
    let database = open(&config).await?;
    if !arguments.limits.is_empty() {
        commands::adjust(&database.store, &name, &arguments.limits).await?;
    }
    let limits = commands::limits(&database.store, &name).await?;
    if json {
        return print::json(&limits);
    }
    for (key, value) in limits {
        println!("{key} = {value}");
    }
    Ok(ExitCode::SUCCESS)
}

async fn rerun(arguments: RerunArgs) -> Result<ExitCode> {
    let database = open(&arguments.job.config).await?;
    let store = &database.store;
    let (name, rerun) = (&arguments.job.name, arguments.rerun());
    let answer = match arguments.dry_run {
        true => commands::rerun_plan(store, name, &rerun).await?,
        false => commands::rerun(store, name, &rerun).await?,
    };
    if arguments.job.json {
        print::json(&answer)?;
    } else {
        print::rerun(&answer, arguments.dry_run);
    }
    Ok(ExitCode::SUCCESS)
}
