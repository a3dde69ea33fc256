use async_trait::async_trait;
use clap::Args;
use parkhang_core::domain::{JobKey, StageName, TaskId};
use parkhang_state::{AtStage, ListedPhase, TaskQuery};
use serde::Serialize;
use utoipa::ToSchema;

use super::DeadLetter;
use crate::admin::command::{Access, Answer, Command, Verb};
use crate::admin::jobs::find;
use crate::admin::text::{page, table};
use crate::admin::{Admin, Refusal};

/// List the volumes of a job that failed for good, a page at a time. `job errors` counts them by cause.
#[derive(Debug, Args)]
pub struct List {
    #[arg(value_name = "JOB")]
    job: JobKey,
    /// Only volumes that failed at this stage.
    #[arg(long, value_name = "STAGE")]
    stage: Option<StageName>,
    /// The page behind this one: `next` of the answer before.
    #[arg(long, value_name = "TASK")]
    after: Option<i64>,
    /// Volumes of a page.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
}

/// A page of dead letters.
#[derive(Debug, Serialize, ToSchema)]
pub struct DeadLetters {
    dead: Vec<DeadLetter>,
    /// To be given as `after` for the next page, if there is one.
    next: Option<i64>,
}

#[async_trait]
impl Command for List {
    const NAME: [&'static str; 2] = ["dead", "list"];
    const ACCESS: Access = Access::Read;
    const VERB: Verb = Verb::Get;
    const PATH: &'static str = "/jobs/{job}/dead";
    type Answer = DeadLetters;

    async fn run(self, admin: &Admin) -> Result<DeadLetters, Refusal> {
        let job = find(admin, &self.job).await?;
        let query = TaskQuery {
            phase: Some(ListedPhase::Failed),
            stage: self.stage.map(AtStage::Next),
            after: self.after.map(TaskId),
            limit: self.limit,
        };
        let page = admin.store.task_page(&job, &query).await?;
        Ok(DeadLetters {
            dead: page.tasks.iter().map(DeadLetter::of).collect(),
            next: page.next.map(|task| task.0),
        })
    }
}

impl Answer for DeadLetters {
    fn text(&self) -> String {
        if self.dead.is_empty() {
            return "no volume has failed for good".to_owned();
        }
        let header = ["volume", "stage", "kind", "error", "tries", "lost"];
        let rows = self.dead.iter().map(|dead| {
            [
                dead.volume.clone(),
                dead.stage.clone(),
                dead.category.clone(),
                dead.error.clone(),
                dead.attempts.to_string(),
                dead.interruptions.to_string(),
            ]
        });
        page(table(header, rows, 4), self.next)
    }
}
