use std::collections::BTreeSet;

use async_trait::async_trait;
use clap::Args;
use parkhang_core::domain::{JobKey, StageRunStatus, VolumeId};
use parkhang_state::StateStore;
use serde::Serialize;
use utoipa::ToSchema;

use super::{DeadLetter, find};
use crate::admin::command::{Access, Answer, Command, Verb};
use crate::admin::tasks::Run;
use crate::admin::{Admin, Refusal};
use crate::words::counted;

/// Show what is known of a volume that failed for good: the tries that failed, and the nodes that it cost.
#[derive(Debug, Args)]
pub struct Show {
    #[arg(value_name = "JOB")]
    job: JobKey,
    #[arg(value_name = "VOLUME")]
    volume: VolumeId,
}

/// A dead letter with its evidence.
#[derive(Debug, Serialize, ToSchema)]
pub struct Evidence {
    #[serde(flatten)]
    dead: DeadLetter,
    /// The page at which it failed, if it was one.
    item: Option<String>,
    /// Tries that failed or were cut short, the first one first.
    runs: Vec<Run>,
    /// Who ran those that were cut short.
    lost_workers: Vec<String>,
}

#[async_trait]
impl Command for Show {
    const NAME: [&'static str; 2] = ["dead", "show"];
    const ACCESS: Access = Access::Read;
    const VERB: Verb = Verb::Get;
    const PATH: &'static str = "/jobs/{job}/dead/{volume}";
    type Answer = Evidence;

    async fn run(self, admin: &Admin) -> Result<Evidence, Refusal> {
        let (_, task) = find(admin, &self.job, &self.volume).await?;
        let runs = admin.store.stage_runs(task.id).await?;
        let lost = runs
            .iter()
            .filter(|run| run.status == StageRunStatus::Interrupted);
        let lost: BTreeSet<String> = lost.map(|run| run.worker.to_string()).collect();
        let item = task.last_error.as_ref().and_then(|error| error.item_id.clone());
        let ill = runs
            .into_iter()
            .filter(|run| matches!(run.status, StageRunStatus::Failed | StageRunStatus::Interrupted));
        Ok(Evidence {
            dead: DeadLetter::of(&task),
            item,
            runs: ill.map(Run::from).collect(),
            lost_workers: lost.into_iter().collect(),
        })
    }
}

impl Answer for Evidence {
    fn text(&self) -> String {
        let dead = &self.dead;
        let item = self
            .item
            .as_ref()
            .map_or(String::new(), |item| format!(" at {item}"));
        let mut lines = vec![format!(
            "{}: {} failed for good{item}: {} ({})",
            dead.volume, dead.stage, dead.error, dead.category
        )];
        lines.extend(self.runs.iter().map(Run::in_a_line));
        if !self.lost_workers.is_empty() {
            lines.push(format!(
                "{} lost while they worked on it: {}",
                counted(self.lost_workers.len(), "worker"),
                self.lost_workers.join(", ")
            ));
        }
        lines.join("\n")
    }
}
