//! `job list`: all jobs.

use async_trait::async_trait;
use clap::Args;
use serde::Serialize;
use utoipa::ToSchema;

use super::JobSummary;
use crate::admin::command::{Access, Answer, Command, Verb};
use crate::admin::text::table;
use crate::admin::{Admin, Refusal};

/// List all jobs with their progress.
#[derive(Debug, Args)]
pub struct List {
    /// List only the newest N jobs.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Jobs {
    /// Jobs, the oldest first.
    jobs: Vec<JobSummary>,
}

#[async_trait]
impl Command for List {
    const NAME: [&'static str; 2] = ["job", "list"];
    const ACCESS: Access = Access::Read;
    const VERB: Verb = Verb::Get;
    const PATH: &'static str = "/jobs";
    type Answer = Jobs;

    async fn run(self, admin: &Admin) -> Result<Jobs, Refusal> {
        let mut jobs = JobSummary::of_all(admin).await?;
        if let Some(limit) = self.limit {
            let older = jobs
                .len()
                .saturating_sub(usize::try_from(limit).unwrap_or(usize::MAX));
            jobs.drain(..older);
        }
        Ok(Jobs { jobs })
    }
}

impl Answer for Jobs {
    fn text(&self) -> String {
        let header = [
            "job", "status", "priority", "volumes", "running", "done", "failed", "spent",
        ];
        let rows = self.jobs.iter().map(|job| {
            [
                job.job.clone(),
                job.status_text(),
                job.priority.to_string(),
                job.volumes.to_string(),
                job.running.to_string(),
                job.done.to_string(),
                job.failed.to_string(),
                job.spent_text()
                    .unwrap_or_default()
                    .trim_start_matches("spent ")
                    .to_owned(),
            ]
        });
        table(header, rows, 2)
    }
}
