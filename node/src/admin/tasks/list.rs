//! `tasks list`: the volumes of a job, page by page.

use async_trait::async_trait;
use clap::Args;
use parkhang_core::domain::{JobKey, StageName, TaskId};
use parkhang_state::{AtStage, TaskQuery};
use serde::Serialize;
use utoipa::ToSchema;

use super::{State, TaskLine};
use crate::admin::command::{Access, Answer, Command, Verb};
use crate::admin::jobs::find;
use crate::admin::orders::node_meant;
use crate::admin::text::{page, table};
use crate::admin::{Admin, Refusal};

/// List the volumes of a job, page by page.
#[derive(Debug, Args)]
pub struct List {
    /// Name of the job.
    #[arg(value_name = "JOB")]
    job: JobKey,
    /// Only volumes in this state.
    #[arg(long, value_enum)]
    state: Option<State>,
    /// Only volumes that wait for this stage, run it, or failed at it.
    #[arg(long, value_name = "STAGE")]
    stage: Option<StageName>,
    /// Only volumes of which this node runs or has run a stage: its name, or a unique prefix of it.
    #[arg(long, value_name = "NODE")]
    worker: Option<String>,
    /// Continue where an earlier list stopped: `next` of its answer.
    #[arg(long, value_name = "TASK")]
    after: Option<i64>,
    /// Largest number of volumes to list.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
}

/// Page of a list of volumes.
#[derive(Debug, Serialize, ToSchema)]
pub struct Tasks {
    tasks: Vec<TaskLine>,
    /// Value of `after` for the next page, if there is one.
    next: Option<i64>,
}

#[async_trait]
impl Command for List {
    const NAME: [&'static str; 2] = ["tasks", "list"];
    const ACCESS: Access = Access::Read;
    const VERB: Verb = Verb::Get;
    const PATH: &'static str = "/jobs/{job}/tasks";
    type Answer = Tasks;

    async fn run(self, admin: &Admin) -> Result<Tasks, Refusal> {
        let job = find(admin, &self.job).await?;
        let query = TaskQuery {
            phase: self.state.map(Into::into),
            stage: self.stage.map(AtStage::Next),
            after: self.after.map(TaskId),
            limit: self.limit,
        };
        let page = match &self.worker {
            Some(name) => {
                let node = node_meant(admin, name).await?;
                admin.store.tasks_of_node(&job, &node, &query).await?
            }
            None => admin.store.list_tasks(&job, &query).await?,
        };
        Ok(Tasks {
            tasks: page.tasks.iter().map(|task| TaskLine::of(task, &job)).collect(),
            next: page.next.map(|task| task.0),
        })
    }
}

impl Answer for Tasks {
    fn text(&self) -> String {
        let header = ["volume", "state", "worker", "error", "failures", "lost"];
        let rows = self.tasks.iter().map(|task| {
            [
                task.volume.clone(),
                task.words.clone(),
                task.worker.clone().unwrap_or_default(),
                task.error.clone().unwrap_or_default(),
                task.attempts.to_string(),
                task.interruptions.to_string(),
            ]
        });
        page(table(header, rows, 4), self.next)
    }
}
