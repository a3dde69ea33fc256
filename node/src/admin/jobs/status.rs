//! `job status`: progress and obstacles of a job, and waiting for its end.

use std::time::Duration;

use async_trait::async_trait;
use chrono::Utc;
use clap::Args;
use parkhang_core::domain::{Job, JobKey, JobStatus, TaskStatus};
use parkhang_state::{JobTaskCount, StateStore};
use serde::Serialize;
use utoipa::ToSchema;

use super::obstacles::{Hands, Obstacle, obstacles};
use super::tally::{StageTally, tallies};
use super::{JobSummary, find};
use crate::admin::command::{Access, Answer, Command, Verb};
use crate::admin::{Admin, Refusal};
use crate::words::counted;

/// Time without a change after which `--wait` first looks for obstacles.
const FIRST_LOOK: Duration = Duration::from_secs(5);
/// Time between two such looks.
const LOOK_AGAIN: Duration = Duration::from_secs(30);
/// Number of causes of failures shown.
const CAUSES: u32 = 10;

/// Show the progress of a job; the exit status is 1 if it failed or was cancelled.
///
/// The answer has the volumes by stage, the estimated time left, the causes of failures, and what keeps the job from making progress.
#[derive(Debug, Args)]
pub struct Status {
    /// Name of the job.
    #[arg(value_name = "NAME")]
    job: JobKey,
    /// Wait until the job has ended.
    #[arg(long)]
    wait: bool,
}

/// Progress of a job.
#[derive(Debug, Serialize, ToSchema)]
pub struct JobDetails {
    #[serde(flatten)]
    summary: JobSummary,
    /// Stages in the order of the pipeline.
    stages: Vec<StageTally>,
    /// Seconds left at the throughput of the last ten minutes; absent while there is none.
    eta_s: Option<f64>,
    /// Conditions that keep it from making progress, each with what to do about it.
    obstacles: Vec<String>,
    /// Causes of failed volumes, the most frequent first.
    failures: Vec<String>,
    /// Pages of finished volumes that could not be read and were left out.
    failed_pages: u64,
    /// Some of the volumes of these pages.
    volumes_with_failed_pages: Vec<String>,
}

#[async_trait]
impl Command for Status {
    const NAME: [&'static str; 2] = ["job", "status"];
    const ACCESS: Access = Access::Read;
    const VERB: Verb = Verb::Get;
    const PATH: &'static str = "/jobs/{job}";
    const LOCAL: &'static [&'static str] = &["wait"];
    type Answer = JobDetails;

    async fn run(self, admin: &Admin) -> Result<JobDetails, Refusal> {
        if self.wait {
            wait_for_end(admin, &self.job).await?;
        }
        let job = find(admin, &self.job).await?;
        let counts = admin.store.job_task_counts(Some(job.id)).await?;
        let summary = JobSummary::new(&job, &counts);
        // Grouping errors is a query of its own, which most jobs do not need.
        let failures = if counts.iter().any(|count| count.status == TaskStatus::Failed) {
            admin.store.error_groups(&job, CAUSES).await?
        } else {
            Vec::new()
        };
        let left_out = admin.store.failed_pages(job.id).await?;
        let obstacles = in_the_way(admin, &job, &counts).await?;
        Ok(JobDetails {
            stages: tallies(&job.pipeline, &counts),
            eta_s: eta(admin, &job, &summary).await?,
            obstacles: obstacles
                .iter()
                .map(|obstacle| obstacle.advice(&job.key))
                .collect(),
            failures: failures
                .iter()
                .map(|group| {
                    let volumes = group.volumes.join(", ");
                    let more = if group.tasks > group.volumes.len() as u64 {
                        ", ..."
                    } else {
                        ""
                    };
                    format!(
                        "{} at {}: {} ({volumes}{more})",
                        group.tasks, group.stage, group.message
                    )
                })
                .collect(),
            failed_pages: left_out.pages,
            volumes_with_failed_pages: left_out.volumes,
            summary,
        })
    }
}

/// Estimates the seconds left from the volumes that are left and the rate at which the last stage finished some lately.
async fn eta(admin: &Admin, job: &Job, summary: &JobSummary) -> Result<Option<f64>, Refusal> {
    let left = summary.volumes.saturating_sub(summary.done + summary.failed);
    if job.status != JobStatus::Running || left == 0 {
        return Ok(None);
    }
    let paces = admin.store.recent_paces(Some(job.id), Utc::now()).await?;
    let last = job.pipeline.stages().last();
    Ok(paces
        .iter()
        .find(|pace| Some(&pace.stage) == last)
        .filter(|pace| pace.runs_a_second > 0.0)
        .map(|pace| left as f64 / pace.runs_a_second))
}

async fn in_the_way(admin: &Admin, job: &Job, counts: &[JobTaskCount]) -> Result<Vec<Obstacle>, Refusal> {
    let now = Utc::now();
    let led = admin.store.leader().await?.is_some();
    let nodes = admin.store.nodes().await?;
    Ok(obstacles(job, counts, Hands::new(admin, led, &nodes), now))
}

/// Waits until the job has ended and holds no lease any more. Reports obstacles on standard error meanwhile, each once.
pub async fn wait_for_end(admin: &Admin, key: &JobKey) -> Result<(), Refusal> {
    let mut changes = admin.store.job_changes().await?;
    let (mut told, mut pause) = (Vec::new(), FIRST_LOOK);
    loop {
        let job = find(admin, key).await?;
        if job.finished_at.is_some() {
            return Ok(());
        }
        // Each change of the job restarts this wait: obstacles are looked for only while nothing happens.
        let silence = async {
            tokio::time::sleep(pause).await;
            let counts = admin.store.job_task_counts(Some(job.id)).await?;
            let found = in_the_way(admin, &job, &counts).await?;
            Ok::<_, Refusal>((counts, found))
        };
        tokio::select! {
            change = changes.next() => change?,
            found = silence => {
                let (counts, found) = found?;
                let summary = JobSummary::new(&job, &counts);
                eprintln!("{}: {} of {}", summary.job, summary.done, counted(summary.volumes, "volume"));
                for obstacle in found.iter().filter(|obstacle| !told.contains(*obstacle)) {
                    eprintln!("{}", told_to_waiter(obstacle, key));
                }
                (told, pause) = (found, LOOK_AGAIN);
            }
        }
    }
}

/// Describes an obstacle to a user who goes on waiting.
fn told_to_waiter(obstacle: &Obstacle, job: &JobKey) -> String {
    let advice = obstacle.advice(job);
    match obstacle {
        Obstacle::Paused => format!("{advice}; this command waits until then"),
        Obstacle::NoLeader
        | Obstacle::NoNode { .. }
        | Obstacle::NoModel { .. }
        | Obstacle::MixedModels { .. } => advice,
    }
}

impl Answer for JobDetails {
    fn text(&self) -> String {
        let mut lines = vec![format!("job {}: {}", self.summary.job, self.summary.status)];
        if !self.summary.models.is_empty() {
            let tense = match self.summary.finished_at {
                Some(_) => "asked to be read with",
                None => "to be read with",
            };
            lines.push(format!("{tense} {}", self.summary.models.join(", ")));
        }
        let mut add = |number: u64, words: String| {
            if number > 0 {
                lines.push(format!("{number:>8}  {words}"));
            }
        };
        for stage in &self.stages {
            let name = &stage.stage;
            add(stage.waiting, format!("waiting for {name}"));
            add(stage.retrying, format!("waiting to retry {name}"));
            add(stage.running, format!("{name} running"));
            add(stage.failed, format!("failed at {name}"));
        }
        add(self.summary.done, "done".to_owned());
        if let Some(seconds) = self.eta_s {
            let rounded = Duration::from_secs(seconds.round() as u64);
            lines.push(format!("about {} to go", humantime::format_duration(rounded)));
        }
        if self.failed_pages > 0 {
            let (pages, volumes) = (
                counted(self.failed_pages, "page"),
                self.volumes_with_failed_pages.join(", "),
            );
            lines.push(format!(
                "{pages} could not be read and left out: {volumes}; `node pages failed {}` says why",
                self.summary.job
            ));
        }
        lines.extend(self.failures.iter().cloned());
        lines.extend(self.obstacles.iter().cloned());
        lines.join("\n")
    }

    fn failed(&self) -> bool {
        matches!(self.summary.status, "failed" | "cancelled")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_waits_for_a_paused_job_is_told_that_it_goes_on_waiting() {
        assert_eq!(
            told_to_waiter(&Obstacle::Paused, &"press".parse().unwrap()),
            "the job is paused; `node job resume press` lets it go on; this command waits until then"
        );
    }
}
