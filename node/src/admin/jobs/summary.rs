//! Summary of a job, which several commands answer with.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use parkhang_core::domain::{Amount, Job, JobId, Position, Spending, TaskStatus};
use parkhang_state::{JobTaskCount, StateStore};
use serde::Serialize;
use utoipa::ToSchema;

use crate::admin::command::Answer;
use crate::admin::{Admin, Refusal};
use crate::words::pluralize;

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
    /// Cost of what it has asked of services.
    #[schema(value_type = String)]
    pub spent: Amount,
    /// Amount at which it is paused; 0.00 is none.
    #[schema(value_type = String)]
    pub budget: Amount,
    /// Word for the currency of both.
    pub currency: String,
}

impl JobSummary {
    /// `spending` is that of the job, and may be that of others too.
    pub fn new(admin: &Admin, job: &Job, counts: &[JobTaskCount], spending: &[Spending]) -> Self {
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
            spent: Spending::total(spending.iter().filter(|spending| spending.job == job.id)),
            budget: job.config.budget,
            currency: admin.loaded.config.costs.currency.clone(),
        }
    }

    /// The status in words.
    pub fn status_text(&self) -> String {
        let standing = if self.standing { ", standing" } else { "" };
        format!("{}{standing}", self.status)
    }

    /// Spending in words; `None` where nothing was spent and there is no budget.
    pub fn spent_text(&self) -> Option<String> {
        let of = match self.budget.is_zero() {
            true if self.spent.is_zero() => return None,
            true => String::new(),
            false => format!(" of {}", self.budget),
        };
        Some(
            format!("spent {}{of} {}", self.spent, self.currency)
                .trim_end()
                .to_owned(),
        )
    }

    pub async fn of(admin: &Admin, job: &Job) -> Result<Self, Refusal> {
        let counts = admin.store.job_task_counts(Some(job.id)).await?;
        let spending = admin.store.spending(Some(job.id)).await?;
        Ok(Self::new(admin, job, &counts, &spending))
    }

    /// Summaries of all jobs, the oldest first.
    pub async fn of_all(admin: &Admin) -> Result<Vec<Self>, Refusal> {
        let jobs = admin.store.jobs().await?;
        let counts = counts_by_job(admin).await?;
        let spending = admin.store.spending(None).await?;
        let counts_of = |job: &Job| counts.get(&job.id).map_or(&[][..], Vec::as_slice);
        let summary = |job| Self::new(admin, job, counts_of(job), &spending);
        Ok(jobs.iter().map(summary).collect())
    }
}

/// Use that a job has made of a service.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ServiceSpending {
    pub service: String,
    /// Submits, or pages.
    pub calls: u64,
    pub input_tokens: u64,
    pub output_tokens: u64,
    #[schema(value_type = String)]
    pub cost: Amount,
}

impl From<Spending> for ServiceSpending {
    fn from(spending: Spending) -> Self {
        Self {
            service: spending.service,
            calls: spending.usage.calls,
            input_tokens: spending.usage.input_tokens,
            output_tokens: spending.usage.output_tokens,
            cost: spending.cost,
        }
    }
}

impl ServiceSpending {
    /// The use in words, such as `vision: 12 calls, 0.018`.
    pub fn line(&self) -> String {
        let calls = pluralize(self.calls, "call");
        let tokens = match (self.input_tokens, self.output_tokens) {
            (0, 0) => String::new(),
            (input, output) => format!(", {input} tokens in, {output} out"),
        };
        format!("{}: {calls}{tokens}, {}", self.service, self.cost)
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
