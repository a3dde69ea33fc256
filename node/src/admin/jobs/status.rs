use std::time::Duration;

use async_trait::async_trait;
use chrono::Utc;
use clap::Args;
use parkhang_core::domain::{Job, JobKey, JobStatus, TaskStatus};
use parkhang_core::policy::diagnosis::{Reason, of_job};
use parkhang_state::{JobTaskCount, StateStore};
use serde::Serialize;
use utoipa::ToSchema;

use super::tally::{StageTally, tallies, waiting_stages};
use super::{JobSummary, find};
use crate::admin::command::{Access, Answer, Command, Verb};
use crate::admin::diagnosis::{cluster_facts, in_lines};
use crate::admin::{Admin, Refusal};
use crate::words::counted;

/// Before a look at what may be in the way of a job that is waited for,
const FIRST_LOOK: Duration = Duration::from_secs(5);
/// and between two looks.
const LOOK_AGAIN: Duration = Duration::from_secs(30);
/// Causes of failures that are shown.
const CAUSES: u32 = 10;

/// Say how far a job is; exit status 1 if it failed or was cancelled.
#[derive(Debug, Args)]
pub struct Status {
    #[arg(value_name = "NAME")]
    job: JobKey,
    /// Return when the job has ended.
    #[arg(long)]
    wait: bool,
}

/// How far a job is.
#[derive(Debug, Serialize, ToSchema)]
pub struct JobDetails {
    #[serde(flatten)]
    summary: JobSummary,
    /// In the order of the pipeline.
    stages: Vec<StageTally>,
    /// Seconds until it is done at the pace of the last ten minutes; absent while it has none.
    eta_s: Option<f64>,
    /// What keeps it from getting on, and what to do about it.
    obstacles: Vec<String>,
    /// Why volumes failed, the most frequent cause first.
    failures: Vec<String>,
    /// Pages of finished volumes that could not be read and were left out.
    failed_pages: u64,
    /// Some of the volumes that they are of.
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
        let failures = match counts.iter().any(|count| count.status == TaskStatus::Failed) {
            true => admin.store.error_groups(&job, CAUSES).await?,
            false => Vec::new(),
        };
        let left_out = admin.store.failed_pages(job.id).await?;
        let reasons = reasons(admin, &job, &counts).await?;
        Ok(JobDetails {
            stages: tallies(&job.pipeline, &counts),
            eta_s: eta(admin, &job, &summary).await?,
            obstacles: in_lines(&reasons, &job.key, Utc::now()),
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

/// Volumes that are left, by how many were finished lately.
async fn eta(admin: &Admin, job: &Job, summary: &JobSummary) -> Result<Option<f64>, Refusal> {
    let left = summary.volumes.saturating_sub(summary.done + summary.failed);
    if job.status != JobStatus::Running || left == 0 {
        return Ok(None);
    }
    let paces = admin.store.recent_paces(Some(job.id), Utc::now()).await?;
    let last = job.pipeline.stages().last();
    let pace = paces.iter().find(|pace| Some(&pace.stage) == last);
    Ok(pace
        .filter(|pace| pace.runs_a_second > 0.0)
        .map(|pace| left as f64 / pace.runs_a_second))
}

/// Reasons that keep the job's volumes from going on.
async fn reasons(admin: &Admin, job: &Job, counts: &[JobTaskCount]) -> Result<Vec<Reason>, Refusal> {
    let cluster = cluster_facts(&admin.store, admin.loaded.config.cluster.heartbeat).await?;
    Ok(of_job(job, &waiting_stages(&job.pipeline, counts), &cluster))
}

/// Returns when the job has ended and holds no lease any more. Says meanwhile what is in its way, once each.
pub async fn wait_for_end(admin: &Admin, key: &JobKey) -> Result<(), Refusal> {
    let mut changes = admin.store.job_changes().await?;
    let (mut told, mut pause): (Vec<String>, Duration) = (Vec::new(), FIRST_LOOK);
    loop {
        let job = find(admin, key).await?;
        if job.finished_at.is_some() {
            return Ok(());
        }
        let silence = async {
            tokio::time::sleep(pause).await;
            let counts = admin.store.job_task_counts(Some(job.id)).await?;
            let reasons = reasons(admin, &job, &counts).await?;
            Ok::<_, Refusal>((counts, lines_for_waiter(&reasons, key)))
        };
        tokio::select! {
            change = changes.next() => change?,
            found = silence => {
                let (counts, lines) = found?;
                let summary = JobSummary::new(&job, &counts);
                eprintln!("{}: {} of {}", summary.job, summary.done, counted(summary.volumes, "volume"));
                for line in lines.iter().filter(|line| !told.contains(*line)) {
                    eprintln!("{line}");
                }
                (told, pause) = (lines, LOOK_AGAIN);
            }
        }
    }
}

/// Lines for somebody who waits for the end of the job all the same.
fn lines_for_waiter(reasons: &[Reason], job: &JobKey) -> Vec<String> {
    let mut lines = in_lines(reasons, job, Utc::now());
    // A job that is paused has no other reason.
    if matches!(reasons, [Reason::Job { .. }]) {
        for line in &mut lines {
            line.push_str("; this goes on waiting until somebody does that");
        }
    }
    lines
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
        let paused = Reason::Job {
            status: JobStatus::Paused,
        };
        assert_eq!(
            lines_for_waiter(&[paused], &"press".parse().unwrap()),
            [
                "the job is paused; `node job resume press` lets it go on; this goes on waiting until somebody does that"
            ]
        );
    }
}
