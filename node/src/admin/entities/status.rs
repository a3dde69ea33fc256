use async_trait::async_trait;
use clap::Args;
use parkhang_state::StageCounts;
use serde::Serialize;
use utoipa::ToSchema;

use super::table;
use crate::admin::command::{Access, Answer, Command, Verb};
use crate::admin::text::table as text_table;
use crate::admin::{Admin, Refusal};

/// Rows of a table, by stage and status.
#[derive(Debug, Serialize, ToSchema)]
pub struct Counts {
    entity: String,
    rows: u64,
    stages: Vec<OfStage>,
}

/// Rows of a table by the status of one stage.
#[derive(Debug, Serialize, ToSchema)]
pub struct OfStage {
    stage: String,
    pending: u64,
    queued: u64,
    started: u64,
    completed: u64,
    failed: u64,
}

impl Answer for Counts {
    fn text(&self) -> String {
        let rows = self.stages.iter().map(|counts| {
            let OfStage {
                stage,
                pending,
                queued,
                started,
                completed,
                failed,
            } = counts;
            let [pending, queued, started] = [pending, queued, started].map(u64::to_string);
            let [completed, failed] = [completed, failed].map(u64::to_string);
            [stage.clone(), pending, queued, started, completed, failed]
        });
        let header = ["stage", "pending", "queued", "started", "completed", "failed"];
        format!(
            "{} rows of {}\n{}",
            self.rows,
            self.entity,
            text_table(header, rows, 1)
        )
    }
}

/// Count the rows of a table by stage and status. Reads the whole table.
#[derive(Debug, Args)]
pub struct Status {
    /// Entity, a section [entity.NAME] of the configuration.
    #[arg(value_name = "ENTITY")]
    entity: String,
}

#[async_trait]
impl Command for Status {
    const NAME: [&'static str; 2] = ["entities", "status"];
    const ACCESS: Access = Access::Read;
    const VERB: Verb = Verb::Get;
    const PATH: &'static str = "/entities/{entity}/status";
    type Answer = Counts;

    async fn run(self, admin: &Admin) -> Result<Counts, Refusal> {
        let counts = table(admin, &self.entity).await?.counts().await?;
        let of_stage = |counts: StageCounts| OfStage {
            stage: counts.stage.to_string(),
            pending: counts.pending,
            queued: counts.queued,
            started: counts.started,
            completed: counts.completed,
            failed: counts.failed,
        };
        Ok(Counts {
            entity: self.entity,
            rows: counts.rows,
            stages: counts.stages.into_iter().map(of_stage).collect(),
        })
    }
}
