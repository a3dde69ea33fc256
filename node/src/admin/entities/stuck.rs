use async_trait::async_trait;
use clap::Args;
use serde::Serialize;
use utoipa::ToSchema;

use super::table;
use crate::admin::command::{Access, Answer, Command, Verb};
use crate::admin::text::table as text_table;
use crate::admin::{Admin, Refusal};

/// Jobs that were taken back, by stage.
#[derive(Debug, Serialize, ToSchema)]
pub struct TakenBack {
    entity: String,
    stages: Vec<TakenBackAt>,
}

/// Jobs of a stage that were taken back.
#[derive(Debug, Serialize, ToSchema)]
pub struct TakenBackAt {
    stage: String,
    /// Rows that are queued again.
    queued: u64,
    /// Rows that have no retry left.
    failed: u64,
}

impl Answer for TakenBack {
    fn text(&self) -> String {
        let rows = self
            .stages
            .iter()
            .map(|at| [at.stage.clone(), at.queued.to_string(), at.failed.to_string()]);
        text_table(["stage", "queued again", "failed"], rows, 1)
    }
}

/// Take back the jobs that have no end for longer than their stage's stuck_timeout: their rows are queued again, or have failed where no
/// retry is left. A node with the role entity does so by itself.
#[derive(Debug, Args)]
pub struct Stuck {
    /// Entity, a section [entity.NAME] of the configuration.
    #[arg(value_name = "ENTITY")]
    entity: String,
}

#[async_trait]
impl Command for Stuck {
    const NAME: [&'static str; 2] = ["entities", "stuck"];
    const ACCESS: Access = Access::Operate;
    const VERB: Verb = Verb::Post;
    const PATH: &'static str = "/entities/{entity}/stuck";
    type Answer = TakenBack;

    async fn run(self, admin: &Admin) -> Result<TakenBack, Refusal> {
        let table = table(admin, &self.entity).await?;
        let mut stages = Vec::new();
        for stage in table.pipeline().stages() {
            let reset = table.reset_stuck(stage).await?;
            stages.push(TakenBackAt {
                stage: stage.name.to_string(),
                queued: reset.queued,
                failed: reset.failed,
            });
        }
        Ok(TakenBack {
            entity: self.entity,
            stages,
        })
    }
}
