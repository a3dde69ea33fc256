//! `tasks requeue`: takes a volume away from its node.

use async_trait::async_trait;
use chrono::Utc;
use clap::Args;
use parkhang_core::domain::{JobKey, TaskStatus, VolumeId};
use parkhang_core::policy::transition::Event;
use parkhang_state::{Change, Expected, Outcome, StateStore};

use super::{TaskLine, find};
use crate::admin::command::{Access, Command, Verb};
use crate::admin::{Admin, Refusal};

/// Take a volume away from the node that works on it, so that another starts the stage again. No try is charged.
///
/// The node learns of it with its next heartbeat. What it writes until then is fenced off and changes nothing.
#[derive(Debug, Args)]
pub struct Requeue {
    /// Name of the job.
    #[arg(value_name = "JOB")]
    job: JobKey,
    /// Volume, as W-I.
    #[arg(value_name = "VOLUME")]
    volume: VolumeId,
}

#[async_trait]
impl Command for Requeue {
    const NAME: [&'static str; 2] = ["tasks", "requeue"];
    const ACCESS: Access = Access::Operate;
    const VERB: Verb = Verb::Post;
    const PATH: &'static str = "/jobs/{job}/tasks/{volume}/requeue";
    type Answer = TaskLine;

    async fn run(self, admin: &Admin) -> Result<TaskLine, Refusal> {
        let (job, task) = find(admin, &self.job, &self.volume).await?;
        if task.status != TaskStatus::Running {
            return Err(Refusal::Conflict(format!("no node works on {}", task.volume)));
        }
        // Fenced by the lease that was read: if the stage has ended meanwhile, nothing is taken back.
        let release = Change::new(Expected::of(&task), Event::Released);
        let outcome = admin.store.commit(&[release], Utc::now()).await?.pop();
        match outcome.and_then(Outcome::applied) {
            Some(task) => Ok(TaskLine::of(&task, &job)),
            None => Err(Refusal::Conflict(format!(
                "{} has changed meanwhile; tasks show says how it stands now",
                task.volume
            ))),
        }
    }
}
