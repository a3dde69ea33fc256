//! `job priority` and `job limits`: the keys of a job that may change while it runs.

use std::collections::BTreeMap;

use async_trait::async_trait;
use clap::Args;
use parkhang_core::domain::{ADJUSTABLE, Adjustment, Job, JobKey};
use parkhang_state::StateStore;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::{JobSummary, find};
use crate::admin::command::{Access, Answer, Command, Verb};
use crate::admin::{Admin, Refusal};

/// Change the priority of a job.
///
/// Free slots go to the jobs of the highest priority first; jobs of equal priority share them. Running stages are not stopped.
#[derive(Debug, Args)]
pub struct Priority {
    /// Name of the job.
    #[arg(value_name = "NAME")]
    job: JobKey,
    /// New priority; higher goes first, and it may be negative.
    #[arg(value_name = "N", allow_negative_numbers = true)]
    priority: i32,
}

#[async_trait]
impl Command for Priority {
    const NAME: [&'static str; 2] = ["job", "priority"];
    const ACCESS: Access = Access::Operate;
    const VERB: Verb = Verb::Post;
    const PATH: &'static str = "/jobs/{job}/priority";
    type Answer = JobSummary;

    async fn run(self, admin: &Admin) -> Result<JobSummary, Refusal> {
        let job = adjust(admin, &self.job, &[format!("priority={}", self.priority)]).await?;
        JobSummary::of(admin, &job).await
    }
}

/// Show or change the limits of a job, also while it runs.
///
/// Limits bound what the job takes of the cluster and how often it retries; they change no result. A new value holds from the next
/// assignment on. Example: `job limits press max_running=4`.
#[derive(Debug, Args)]
pub struct Limits {
    /// Name of the job.
    #[arg(value_name = "NAME")]
    job: JobKey,
    /// Limits to change, such as max_running=4 or retries=5; `docs/config.md` lists all. Without any, the limits in force are shown.
    #[arg(value_name = "KEY=VALUE")]
    limits: Vec<String>,
}

/// Limits in force, by their keys in the job's configuration.
#[derive(Debug, Serialize, ToSchema)]
pub struct InForce {
    #[serde(flatten)]
    #[schema(value_type = BTreeMap<String, Value>)]
    limits: BTreeMap<&'static str, Value>,
}

#[async_trait]
impl Command for Limits {
    const NAME: [&'static str; 2] = ["job", "limits"];
    const ACCESS: Access = Access::Operate;
    const VERB: Verb = Verb::Patch;
    const PATH: &'static str = "/jobs/{job}/limits";
    type Answer = InForce;

    async fn run(self, admin: &Admin) -> Result<InForce, Refusal> {
        let job = if self.limits.is_empty() {
            find(admin, &self.job).await?
        } else {
            adjust(admin, &self.job, &self.limits).await?
        };
        let config = serde_json::to_value(&job.config).map_err(anyhow::Error::from)?;
        let limits = ADJUSTABLE
            .iter()
            .filter_map(|key| Some((*key, config.get(key)?.clone())));
        Ok(InForce {
            limits: limits.collect(),
        })
    }
}

impl Answer for InForce {
    fn text(&self) -> String {
        let lines: Vec<String> = self
            .limits
            .iter()
            .map(|(key, value)| format!("{key} = {value}"))
            .collect();
        lines.join("\n")
    }
}

async fn adjust(admin: &Admin, key: &JobKey, pairs: &[String]) -> Result<Job, Refusal> {
    let adjustment = Adjustment::new(pairs)?;
    let job = find(admin, key).await?;
    Ok(admin.store.adjust_job(job.id, &adjustment).await?)
}
