//! `tasks retry`: sends one volume back to a stage.

use async_trait::async_trait;
use chrono::Utc;
use clap::Args;
use glob::Pattern;
use parkhang_core::domain::{JobKey, Position, StageName, VolumeId};
use parkhang_core::policy::rerun::{Rerun, TaskFilter};
use parkhang_state::StateStore;
use serde::Serialize;
use utoipa::ToSchema;

use super::{TaskLine, find};
use crate::admin::command::{Access, Answer, Command, Verb};
use crate::admin::{Admin, Refusal};

/// Try a volume again from its current stage, with the full number of tries.
///
/// Pages whose results are still valid are kept, unless --force is given.
#[derive(Debug, Args)]
pub struct Retry {
    /// Name of the job.
    #[arg(value_name = "JOB")]
    job: JobKey,
    /// Volume, as W-I.
    #[arg(value_name = "VOLUME")]
    volume: VolumeId,
    /// Start with this stage instead.
    #[arg(long, value_name = "STAGE")]
    from: Option<StageName>,
    /// Recompute pages whose results are still valid.
    #[arg(long)]
    force: bool,
}

/// State of a volume that is tried again.
#[derive(Debug, Serialize, ToSchema)]
pub struct Retried {
    #[serde(flatten)]
    task: TaskLine,
    /// True if pages whose results are still valid are recomputed.
    force: bool,
}

#[async_trait]
impl Command for Retry {
    const NAME: [&'static str; 2] = ["tasks", "retry"];
    const ACCESS: Access = Access::Operate;
    const VERB: Verb = Verb::Post;
    const PATH: &'static str = "/jobs/{job}/tasks/{volume}/retry";
    type Answer = Retried;

    async fn run(self, admin: &Admin) -> Result<Retried, Refusal> {
        let (job, task) = find(admin, &self.job, &self.volume).await?;
        let tasks = TaskFilter {
            volumes: vec![exactly(&task.volume)],
            ..TaskFilter::default()
        };
        let rerun = match (self.from, &task.position) {
            (Some(from), _) => Rerun {
                tasks,
                from,
                force: self.force,
            },
            (None, Position::At(stage)) => Rerun {
                force: self.force,
                ..Rerun::where_they_stand(stage.clone(), tasks)
            },
            (None, Position::Pending) => {
                return Err(Refusal::Conflict(format!(
                    "{} has not been started yet",
                    task.volume
                )));
            }
            (None, Position::Done) => {
                return Err(Refusal::Conflict(format!(
                    "{} is done; --from says what to do again",
                    task.volume
                )));
            }
        };
        let result = admin
            .store
            .rerun(job.id, &rerun, Utc::now())
            .await
            .map_err(|error| Refusal::about(&format!("job {}", job.key), error))?;
        // The volume may have moved on between the two reads, or stands before the named stage; the rerun
        // selects neither.
        if result.tasks.number == 0 {
            let message = format!("{} has not come as far as {}", task.volume, rerun.from);
            return Err(Refusal::Conflict(message));
        }
        // Read again, because the rerun changed the task, and the job too if it had ended.
        let (job, task) = find(admin, &self.job, &self.volume).await?;
        Ok(Retried {
            task: TaskLine::of(&task, &job),
            force: self.force,
        })
    }
}

impl Answer for Retried {
    fn text(&self) -> String {
        let task = self.task.text();
        if self.force {
            task
        } else {
            format!("{task}; pages whose results are still valid are kept (--force recomputes them)")
        }
    }
}

fn exactly(volume: &VolumeId) -> Pattern {
    // Escaped text is always a valid pattern; were it not, the empty default matches no volume at all.
    let escaped = Pattern::escape(&volume.to_string());
    Pattern::new(&escaped).unwrap_or_default()
}
