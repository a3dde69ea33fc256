//! `job errors`: causes of failures, grouped by the database.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use clap::Args;
use parkhang_core::domain::JobKey;
use parkhang_state::ErrorGroup;
use serde::Serialize;
use utoipa::ToSchema;

use super::find;
use crate::admin::command::{Access, Answer, Command, Verb};
use crate::admin::text::table;
use crate::admin::{Admin, Refusal};

/// Show why volumes of a job failed, grouped by cause, the most frequent first.
#[derive(Debug, Args)]
pub struct Errors {
    /// Name of the job.
    #[arg(value_name = "NAME")]
    job: JobKey,
    /// Largest number of causes to show.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Causes {
    groups: Vec<Cause>,
}

/// Failures whose messages differ in numbers and names only.
#[derive(Debug, Serialize, ToSchema)]
pub struct Cause {
    stage: String,
    category: String,
    /// Text that they have in common, as `job rerun` takes it.
    cause: String,
    /// Message of one of them.
    message: String,
    tasks: u64,
    /// Number of volumes that are not tried again.
    terminal: u64,
    /// Some of the volumes.
    volumes: Vec<String>,
    last: Option<DateTime<Utc>>,
}

#[async_trait]
impl Command for Errors {
    const NAME: [&'static str; 2] = ["job", "errors"];
    const ACCESS: Access = Access::Read;
    const VERB: Verb = Verb::Get;
    const PATH: &'static str = "/jobs/{job}/errors";
    type Answer = Causes;

    async fn run(self, admin: &Admin) -> Result<Causes, Refusal> {
        let job = find(admin, &self.job).await?;
        let groups = admin.store.error_groups(&job, self.limit).await?;
        Ok(Causes {
            groups: groups.into_iter().map(Cause::from).collect(),
        })
    }
}

impl From<ErrorGroup> for Cause {
    fn from(group: ErrorGroup) -> Self {
        Self {
            stage: group.stage,
            category: group.category.as_str().to_owned(),
            cause: group.cause,
            message: group.message,
            tasks: group.tasks,
            terminal: group.terminal,
            volumes: group.volumes,
            last: group.last,
        }
    }
}

impl Answer for Causes {
    fn text(&self) -> String {
        if self.groups.is_empty() {
            return "no volume failed at its last try".to_owned();
        }
        let header = ["stage", "kind", "such as", "in", "volumes", "for good"];
        let rows = self.groups.iter().map(|group| {
            [
                group.stage.clone(),
                group.category.clone(),
                group.message.clone(),
                group.volumes.join("\n"),
                group.tasks.to_string(),
                group.terminal.to_string(),
            ]
        });
        table(header, rows, 4)
    }
}
