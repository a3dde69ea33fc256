use async_trait::async_trait;
use clap::Args;
use parkhang_core::domain::{EntityStatus, StageName};
use serde::Serialize;
use utoipa::ToSchema;

use super::{stage_or_first, table};
use crate::admin::command::{Access, Answer, Command, Verb};
use crate::admin::{Admin, Refusal};
use crate::words::pluralize;

/// Rows that a command has queued.
#[derive(Debug, Serialize, ToSchema)]
pub struct Queued {
    entity: String,
    /// Rows by the stage for which they are queued.
    stages: Vec<QueuedAt>,
}

/// Rows that are queued for a stage.
#[derive(Debug, Serialize, ToSchema)]
pub struct QueuedAt {
    stage: String,
    queued: u64,
}

impl Answer for Queued {
    fn text(&self) -> String {
        let line = |at: &QueuedAt| format!("{} queued for {}", pluralize(at.queued, "row"), at.stage);
        self.stages.iter().map(line).collect::<Vec<_>>().join("\n")
    }
}

/// Queue rows for their first stage; those that wait, or those that are named, whatever became of them. Rows that are under way stay so.
///
/// The same as setting the column STAGE_status to 'queued', with the columns of earlier tries cleared. Returns at once: workers go on.
#[derive(Debug, Args)]
pub struct Trigger {
    /// Entity, a section [entity.NAME] of the configuration.
    #[arg(value_name = "ENTITY")]
    entity: String,
    /// Id of a row; may be repeated. Without it, all rows of which the stage is pending.
    #[arg(long, value_name = "ID")]
    id: Vec<String>,
    /// Stage to begin with; by default the first.
    #[arg(long, value_name = "STAGE")]
    stage: Option<StageName>,
}

#[async_trait]
impl Command for Trigger {
    const NAME: [&'static str; 2] = ["entities", "trigger"];
    const ACCESS: Access = Access::Operate;
    const VERB: Verb = Verb::Post;
    const PATH: &'static str = "/entities/{entity}/trigger";
    type Answer = Queued;

    async fn run(self, admin: &Admin) -> Result<Queued, Refusal> {
        let table = table(admin, &self.entity).await?;
        let stage = &stage_or_first(table.pipeline(), self.stage.as_ref())?.name;
        let pending = &[EntityStatus::Pending][..];
        let ended = &[
            EntityStatus::Pending,
            EntityStatus::Completed,
            EntityStatus::Failed,
        ][..];
        let queued = match &self.id[..] {
            [] => table.queue(stage, pending, None).await?,
            ids => table.queue(stage, ended, Some(ids)).await?,
        };
        let stages = vec![QueuedAt {
            stage: stage.to_string(),
            queued,
        }];
        Ok(Queued {
            entity: self.entity,
            stages,
        })
    }
}

/// Queue rows again that have failed, with all their retries.
#[derive(Debug, Args)]
pub struct Retry {
    /// Entity, a section [entity.NAME] of the configuration.
    #[arg(value_name = "ENTITY")]
    entity: String,
    /// Id of a row; may be repeated. Without it, all rows that have failed.
    #[arg(long, value_name = "ID")]
    id: Vec<String>,
    /// Stage at which they have failed; by default any.
    #[arg(long, value_name = "STAGE")]
    stage: Option<StageName>,
}

#[async_trait]
impl Command for Retry {
    const NAME: [&'static str; 2] = ["entities", "retry"];
    const ACCESS: Access = Access::Operate;
    const VERB: Verb = Verb::Post;
    const PATH: &'static str = "/entities/{entity}/retry";
    type Answer = Queued;

    async fn run(self, admin: &Admin) -> Result<Queued, Refusal> {
        let table = table(admin, &self.entity).await?;
        let ids = (!self.id.is_empty()).then_some(&self.id[..]);
        let stages = match &self.stage {
            Some(_) => std::slice::from_ref(stage_or_first(table.pipeline(), self.stage.as_ref())?),
            None => table.pipeline().stages(),
        };
        let mut queued = Vec::new();
        for stage in stages {
            queued.push(QueuedAt {
                stage: stage.name.to_string(),
                queued: table.queue(&stage.name, &[EntityStatus::Failed], ids).await?,
            });
        }
        Ok(Queued {
            entity: self.entity,
            stages: queued,
        })
    }
}
