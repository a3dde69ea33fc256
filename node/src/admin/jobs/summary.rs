//! Summary of a job, which several commands answer with.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use parkhang_core::domain::{Job, JobId, Position, TaskStatus};
use parkhang_state::{JobTaskCount, StateStore};
use serde::Serialize;
use utoipa::ToSchema;

use crate::admin::command::Answer;
use crate::admin::{Admin, Refusal};

/// Summary of a job.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct JobSummary {
    pub job: String,
    /// created, running, paused, completed, failed or cancelled
    pub status: &'static str,
    /// True if it goes on when its volumes are done, until it is closed.
    pub standing: bool,
    pub priority: i32,
    /// Largest number of volumes that run at the same time; 0 is no limit.
    pub max_running: usize,
    /// Models that the job names, as STAGE=NAME; a stage that is not listed uses whatever its node has loaded.
    pub models: Vec<String>,
    pub created_at: DateTime<Utc>,
    pub finished_at: Option<DateTime<Utc>>,
    pub volumes: u64,
    pub done: u64,
    /// Volumes that failed for good.
    pub failed: u64,
    pub running: u64,
}

impl JobSummary {
    pub fn new(job: &Job, counts: &[JobTaskCount]) -> Self {
        let count = |wanted: &dyn Fn(&JobTaskCount) -> bool| -> u64 {
            counts
                .iter()
                .filter(|count| wanted(count))
                .map(|count| count.tasks)
                .sum()
        };
        Self {
            job: job.key.to_string(),
            status: job.status.as_str(),
            standing: job.standing,
            priority: job.config.priority,
            max_running: job.config.max_running,
            models: job.config.models.iter().map(ToString::to_string).collect(),
            created_at: job.created_at,
            finished_at: job.finished_at,
            volumes: count(&|_| true),
            done: count(&|count| count.position == Position::Done),
            failed: count(&|count| count.terminal),
            running: count(&|count| count.status == TaskStatus::Running),
        }
    }

    /// The status in words.
    pub fn status_text(&self) -> String {
        let standing = if self.standing { ", standing" } else { "" };
        format!("{}{standing}", self.status)
    }

    pub async fn of(admin: &Admin, job: &Job) -> Result<Self, Refusal> {
        let counts = admin.store.job_task_counts(Some(job.id)).await?;
        Ok(Self::new(job, &counts))
    }

    /// Summaries of all jobs, the oldest first.
    pub async fn of_all(admin: &Admin) -> Result<Vec<Self>, Refusal> {
        let jobs = admin.store.jobs().await?;
        let counts = counts_by_job(admin).await?;
        let counts_of = |job: &Job| counts.get(&job.id).map_or(&[][..], Vec::as_slice);
        Ok(jobs.iter().map(|job| Self::new(job, counts_of(job))).collect())
    }
}

/// Counts of the tasks of all jobs that have any.
pub async fn counts_by_job(admin: &Admin) -> Result<BTreeMap<JobId, Vec<JobTaskCount>>, Refusal> {
    Ok(by_job(admin.store.job_task_counts(None).await?))
}

pub fn by_job(all: Vec<JobTaskCount>) -> BTreeMap<JobId, Vec<JobTaskCount>> {
    let mut counts: BTreeMap<JobId, Vec<JobTaskCount>> = BTreeMap::new();
    for count in all {
        counts.entry(count.job).or_default().push(count);
    }
    counts
}

/// Answer to a command that changed a job: its state afterwards.
impl Answer for JobSummary {
    fn text(&self) -> String {
        let running = match (self.running, self.finished_at) {
            // A job that was cancelled may still have stages that stop, but its end is what matters.
            (0, _) | (_, Some(_)) => String::new(),
            (stages, None) => format!(", {stages} running"),
        };
        format!(
            "{}: {}, priority {}{running}",
            self.job,
            self.status_text(),
            self.priority
        )
    }
}
