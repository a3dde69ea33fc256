//! `node shards status`.

use std::process::ExitCode;

use anyhow::Result;
use parkhang_actors::source::{ShardState, ShardSurvey};
use parkhang_core::domain::{JobKey, JobStatus};
use parkhang_store::storage::ArtifactStore;
use serde_json::json;

use super::StatusArgs;
use crate::config::Loaded;
use crate::storage::artifacts;
use crate::terminal::shown;
use crate::words::pluralize;

/// Runs the command; the exit status is 1 if a volume has failed or its state cannot be read.
pub async fn run(arguments: StatusArgs) -> Result<ExitCode> {
    let loaded = Loaded::read(&arguments.job.config)?.validated()?;
    let store = artifacts(&loaded).await?;
    let job = JobKey::new(arguments.job.name)?;
    let mut survey = ShardSurvey::of(store.as_ref(), &job).await?;
    // A survey reads many objects, so one that is over already is not repeated.
    if arguments.wait && !is_over(&survey) {
        let every = loaded.config.source.poll;
        survey = finished(store.as_ref(), &job, every).await?;
    }
    if arguments.job.json {
        print_json(&survey);
    } else {
        print(&survey);
    }
    Ok(
        if survey.failed().next().is_some() || !survey.unreadable.is_empty() {
            ExitCode::FAILURE
        } else {
            ExitCode::SUCCESS
        },
    )
}

/// Returns whether `--wait` is over. For a cancelled job it does not wait for the stages that still run.
fn is_over(survey: &ShardSurvey) -> bool {
    survey.is_finished() || survey.ordered == JobStatus::Cancelled
}

/// Waits for the end, and prints the progress whenever it has changed.
async fn finished(
    store: &dyn ArtifactStore,
    job: &JobKey,
    every: std::time::Duration,
) -> Result<ShardSurvey> {
    let mut reported = String::new();
    let mut ticks = tokio::time::interval(every);
    loop {
        ticks.tick().await;
        let survey = ShardSurvey::of(store, job).await?;
        if is_over(&survey) {
            return Ok(survey);
        }
        let line = headline(&survey);
        // A look every few seconds for hours would otherwise fill the terminal with one line.
        if line != reported {
            eprintln!("{line}");
            reported = line;
        }
    }
}

fn finished_shards(survey: &ShardSurvey) -> usize {
    let is_finished = |shard: &&ShardState| matches!(shard, ShardState::Finished(_));
    survey.shards.iter().filter(is_finished).count()
}

fn headline(survey: &ShardSurvey) -> String {
    let ordered = match survey.ordered {
        JobStatus::Running => String::new(),
        ordered => format!(" ({})", ordered.as_str()),
    };
    format!(
        "job {}{ordered}: {} of {} finished",
        survey.manifest.job,
        finished_shards(survey),
        pluralize(survey.shards.len(), "shard")
    )
}

fn print_json(survey: &ShardSurvey) {
    let failed = survey.failed().map(|(volume, error)| {
        let error = error.as_ref().map(|error| &error.message);
        json!({ "volume": volume.to_string(), "error": error })
    });
    let described = json!({
        "job": survey.manifest.job.as_str(),
        "status": survey.ordered.as_str(),
        "finished": survey.is_finished(),
        "shards": { "finished": finished_shards(survey), "all": survey.shards.len() },
        "volumes": survey.by_state(),
        "failed": failed.collect::<Vec<_>>(),
        "unreadable": survey.unreadable.iter().map(ToString::to_string).collect::<Vec<_>>(),
    });
    println!("{described:#}");
}

fn print(survey: &ShardSurvey) {
    println!("{}", headline(survey));
    for (state, count) in survey.by_state() {
        println!("{count:>8}  {state}");
    }
    for (volume, error) in survey.failed() {
        let reason = error.as_ref().map(|error| error.message.as_str());
        println!("{volume}: {}", shown(reason.unwrap_or("no reason recorded")));
    }
    for error in &survey.unreadable {
        println!("{}", shown(&error.to_string()));
    }
}
