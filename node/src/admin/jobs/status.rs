//! `job status`: progress and obstacles of a job, and waiting for its end.

use std::time::Duration;

use async_trait::async_trait;
use chrono::Utc;
use clap::Args;
use parkhang_core::domain::{Job, JobKey, JobStatus, QueuePurpose, QueueRecord, Spending, TaskStatus};
use parkhang_core::policy::diagnosis::{ClusterFacts, Reason, of_job};
use parkhang_state::{JobTaskCount, StateStore};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::counts::{StageCounts, tallies, waiting_stages};
use super::{JobSummary, ServiceSpending, find};
use crate::admin::command::{Access, Answer, Command, Verb};
use crate::admin::diagnosis::{cluster_facts, in_lines};
use crate::admin::queues::{alarms, queue_looks};
use crate::admin::wait::Wait;
use crate::admin::{Admin, Refusal};
use crate::words::pluralize;

/// Causes of failures that are shown.
const CAUSES: u32 = 10;

/// Show the progress of a job; the exit status is 1 if it failed or was cancelled.
///
/// The answer has the volumes by stage, the estimated time left, the causes of failures, and what keeps the job from making progress.
#[derive(Debug, Args)]
pub struct Status {
    /// Name of the job.
    #[arg(value_name = "NAME")]
    job: JobKey,
}

/// Waiting for a job.
pub const UNTIL_ENDED: Wait = Wait {
    flag: "wait",
    help: "Return when the job has ended",
    ask: ["job", "status"],
    arguments: |given| {
        let job = given.get("job").map(|job| ("job".to_owned(), job.clone()));
        job.into_iter().collect()
    },
    // The time of the end and not the status: a cancelled job still has stages that stop at their next
    // checkpoint.
    is_over: |_, now| !now["finished_at"].is_null(),
    progress,
    answers: true,
};

/// Progress of the job and what is in its way, for somebody who waits all the same.
fn progress(now: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let volumes = pluralize(now["volumes"].as_u64().unwrap_or_default(), "volume");
    let mut lines = vec![format!("{}: {} of {volumes}", text(&now["job"]), now["done"])];
    lines.extend(now["obstacles"].as_array().into_iter().flatten().map(text));
    // A paused job may never end, which somebody who waits must learn.
    if now["status"] == JobStatus::Paused.as_str() {
        lines.push("this goes on waiting until somebody resumes the job".to_owned());
    }
    if now["standing"] == true {
        lines.push("this goes on waiting until somebody closes the job".to_owned());
    }
    lines
}

/// Progress of a job.
#[derive(Debug, Serialize, ToSchema)]
pub struct JobDetails {
    #[serde(flatten)]
    summary: JobSummary,
    /// Stages in the order of the pipeline.
    stages: Vec<StageCounts>,
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
    /// What was asked of services.
    spending: Vec<ServiceSpending>,
}

#[async_trait]
impl Command for Status {
    const NAME: [&'static str; 2] = ["job", "status"];
    const ACCESS: Access = Access::Read;
    const VERB: Verb = Verb::Get;
    const PATH: &'static str = "/jobs/{job}";
    const WAIT: Option<Wait> = Some(UNTIL_ENDED);
    type Answer = JobDetails;

    async fn run(self, admin: &Admin) -> Result<JobDetails, Refusal> {
        let job = find(admin, &self.job).await?;
        let counts = admin.store.job_task_counts(Some(job.id)).await?;
        let spending = admin.store.spending(Some(job.id)).await?;
        let summary = JobSummary::new(admin, &job, &counts, &spending);
        // Grouping errors is a query of its own, which most jobs do not need.
        let failures = if counts.iter().any(|count| count.status == TaskStatus::Failed) {
            admin.store.error_groups(&job, CAUSES).await?
        } else {
            Vec::new()
        };
        let left_out = admin.store.failed_pages(job.id).await?;
        let reasons = reasons(admin, &job, &counts, &spending).await?;
        let mut obstacles = in_lines(&reasons, &job.key, &admin.stages, Utc::now());
        obstacles.extend(queue_alarms(admin, &job, &counts).await?);
        Ok(JobDetails {
            stages: tallies(&job.pipeline, &counts),
            eta_s: eta(admin, &job, &summary).await?,
            obstacles,
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
            spending: spending.into_iter().map(ServiceSpending::from).collect(),
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
        // No pace yet is no estimate; dividing by it would be an infinite one.
        .filter(|pace| pace.runs_a_second > 0.0)
        .map(|pace| left as f64 / pace.runs_a_second))
}

/// Alarms about the queues of stages that volumes of the job wait for, and about the queue whose messages ask for its volumes.
async fn queue_alarms(admin: &Admin, job: &Job, counts: &[JobTaskCount]) -> Result<Vec<String>, Refusal> {
    if job.status != JobStatus::Running {
        return Ok(Vec::new());
    }
    let waiting = waiting_stages(&job.pipeline, counts);
    let looks = queue_looks(admin).await?;
    let concerns = |look: &&QueueRecord| match &look.purpose {
        QueuePurpose::Stage(stage) => waiting.contains(stage),
        QueuePurpose::StandingJob(key) => *key == job.key,
    };
    let looks = looks.iter().filter(concerns);
    let config = &admin.loaded.config.source.sqs;
    Ok(looks.flat_map(|look| alarms(look, config, Utc::now())).collect())
}

/// Reasons that keep the job's volumes from going on.
async fn reasons(
    admin: &Admin,
    job: &Job,
    counts: &[JobTaskCount],
    spending: &[Spending],
) -> Result<Vec<Reason>, Refusal> {
    let cluster = ClusterFacts {
        spending: spending.to_vec(),
        ..cluster_facts(&admin.store, &admin.loaded.config).await?
    };
    Ok(of_job(job, &waiting_stages(&job.pipeline, counts), &cluster))
}

impl Answer for JobDetails {
    fn text(&self) -> String {
        let mut lines = vec![format!(
            "job {}: {}",
            self.summary.job,
            self.summary.status_text()
        )];
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
        lines.extend(self.summary.spent_text());
        lines.extend(self.spending.iter().map(ServiceSpending::line));
        if let Some(seconds) = self.eta_s {
            let rounded = Duration::from_secs(seconds.round() as u64);
            lines.push(format!("about {} to go", humantime::format_duration(rounded)));
        }
        if self.failed_pages > 0 {
            let (pages, volumes) = (
                pluralize(self.failed_pages, "page"),
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
    use parkhang_actors::stage::StageTable;
    use serde_json::json;

    use super::*;

    #[test]
    fn whoever_waits_for_a_standing_job_is_told_that_it_goes_on_waiting() {
        let now = json!({ "job": "press", "status": "running", "standing": true, "done": 3, "volumes": 3 });
        assert_eq!(
            progress(&now),
            [
                "press: 3 of 3 volumes",
                "this goes on waiting until somebody closes the job"
            ]
        );
    }

    #[test]
    fn whoever_waits_for_a_paused_job_is_told_that_it_goes_on_waiting() {
        let paused = Reason::Job {
            status: JobStatus::Paused,
        };
        let obstacle = in_lines(
            &[paused],
            &"press".parse().unwrap(),
            &StageTable::built_in(),
            Utc::now(),
        );
        let now =
            json!({ "job": "press", "status": "paused", "done": 1, "volumes": 3, "obstacles": obstacle });
        assert_eq!(
            progress(&now),
            [
                "press: 1 of 3 volumes",
                "the job is paused; `node job resume press` lets it go on",
                "this goes on waiting until somebody resumes the job"
            ]
        );
        assert!(!(UNTIL_ENDED.is_over)(&Value::Null, &now));
    }
}
