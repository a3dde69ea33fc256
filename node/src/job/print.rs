use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::Result;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};
use parkhang_actors::domain::TaskStatus;
use parkhang_actors::policy::task_state::TaskState;
use serde::Serialize;

use super::commands::{JobDetails, JobSummary, RerunAnswer, TaskDetails};
use crate::words::counted;

pub(super) fn json(answer: &impl Serialize) -> Result<ExitCode> {
    println!("{}", serde_json::to_string_pretty(answer)?);
    Ok(ExitCode::SUCCESS)
}

/// What became of a job that something was done to.
pub(super) fn outcome(after: &JobSummary, as_json: bool) -> Result<ExitCode> {
    if as_json {
        return json(after);
    }
    let running = match (after.running, after.finished_at) {
        (0, _) | (_, Some(_)) => String::new(),
        (stages, None) => format!(", {stages} running"),
    };
    println!(
        "{}: {}, priority {}{running}",
        after.job,
        after.status.as_str(),
        after.priority
    );
    Ok(ExitCode::SUCCESS)
}

pub(super) fn table(jobs: &[JobSummary]) {
    let mut table = Table::new();
    table.load_preset(UTF8_FULL_CONDENSED);
    table.set_header([
        "job", "status", "priority", "volumes", "running", "done", "failed",
    ]);
    for job in jobs {
        table.add_row([
            job.job.to_string(),
            job.status.as_str().to_owned(),
            job.priority.to_string(),
            job.volumes.to_string(),
            job.running.to_string(),
            job.done.to_string(),
            job.failed.to_string(),
        ]);
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    println!("{table}");
}

pub(super) fn details(details: &JobDetails) {
    let job = &details.summary.job;
    println!("job {job}: {}", details.summary.status.as_str());
    for (state, count) in by_state(&details.tasks) {
        println!("{count:>8}  {state}");
    }
    for task in details
        .tasks
        .iter()
        .filter(|task| task.status == TaskStatus::Failed)
    {
        let reason = task.error.as_deref().unwrap_or("no reason recorded");
        let place = match task.state {
            TaskState::Failed | TaskState::Quarantined => format!(" at {}", task.stage),
            _ => String::new(),
        };
        println!("{}: {}{place}: {reason}", task.volume, task.state);
    }
    for obstacle in &details.obstacles {
        println!("{}", obstacle.advice(job));
    }
}

pub(super) fn rerun(answer: &RerunAnswer, dry_run: bool) {
    if dry_run {
        for volume in &answer.volumes {
            println!("{volume}");
        }
    }
    let verb = match (dry_run, answer.volumes.len()) {
        (true, _) => "would go",
        (false, 1) => "goes",
        (false, _) => "go",
    };
    let volumes = counted(answer.volumes.len(), "volume");
    println!("{volumes} {verb} back to {}", answer.from);
    match answer.not_reached.len() {
        0 => {}
        1 => println!("1 has not come that far and will run it anyway"),
        many => println!("{many} have not come that far and will run it anyway"),
    }
}

/// How many tasks are in each state.
fn by_state(tasks: &[TaskDetails]) -> BTreeMap<&TaskState, usize> {
    let mut counts = BTreeMap::new();
    for task in tasks {
        *counts.entry(&task.state).or_default() += 1;
    }
    counts
}
