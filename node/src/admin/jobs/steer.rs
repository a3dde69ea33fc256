//! `job pause`, `job resume`, `job close` and `job cancel`.

use async_trait::async_trait;
use clap::Args;
use parkhang_core::domain::JobKey;
use parkhang_core::policy::job_action::JobAction;
use parkhang_core::policy::spending::paused_for;
use parkhang_state::StateStore;

use super::status::UNTIL_ENDED;
use super::{JobSummary, find};
use crate::admin::command::{Access, Command, Verb};
use crate::admin::wait::Wait;
use crate::admin::{Admin, Refusal};

/// Pause a job: no further stage of it is started.
///
/// Stages that run continue to their end, since stopping them would lose what they have not saved yet. `job resume` undoes it.
#[derive(Debug, Args)]
pub struct Pause {
    /// Name of the job.
    #[arg(value_name = "NAME")]
    job: JobKey,
}

#[async_trait]
impl Command for Pause {
    const NAME: [&'static str; 2] = ["job", "pause"];
    const ACCESS: Access = Access::Operate;
    const VERB: Verb = Verb::Post;
    const PATH: &'static str = "/jobs/{job}/pause";
    type Answer = JobSummary;

    async fn run(self, admin: &Admin) -> Result<JobSummary, Refusal> {
        act(admin, &self.job, JobAction::Pause).await
    }
}

/// Resume a paused job where it stopped.
#[derive(Debug, Args)]
pub struct Resume {
    /// Name of the job.
    #[arg(value_name = "NAME")]
    job: JobKey,
}

#[async_trait]
impl Command for Resume {
    const NAME: [&'static str; 2] = ["job", "resume"];
    const ACCESS: Access = Access::Operate;
    const VERB: Verb = Verb::Post;
    const PATH: &'static str = "/jobs/{job}/resume";
    type Answer = JobSummary;

    async fn run(self, admin: &Admin) -> Result<JobSummary, Refusal> {
        let job = find(admin, &self.job).await?;
        let spending = admin.store.spending(Some(job.id)).await?;
        if let Some(spent) = paused_for(&job, &spending) {
            let (budget, key) = (job.config.budget, &job.key);
            return Err(Refusal::Conflict(format!(
                "job {key} has spent its budget: {spent} of {budget}; `node job limits {key} budget=AMOUNT` raises it, where 0 is any"
            )));
        }
        act(admin, &self.job, JobAction::Resume).await
    }
}

/// Close a standing job: it takes no more volumes, and ends when those that it has are done.
#[derive(Debug, Args)]
pub struct Close {
    /// Name of the job.
    #[arg(value_name = "NAME")]
    job: JobKey,
}

#[async_trait]
impl Command for Close {
    const NAME: [&'static str; 2] = ["job", "close"];
    const ACCESS: Access = Access::Operate;
    const VERB: Verb = Verb::Post;
    const PATH: &'static str = "/jobs/{job}/close";
    const WAIT: Option<Wait> = Some(UNTIL_ENDED);
    type Answer = JobSummary;

    async fn run(self, admin: &Admin) -> Result<JobSummary, Refusal> {
        act(admin, &self.job, JobAction::Close).await
    }
}

/// Cancel a job for good.
///
/// Stages that run stop at their next checkpoint. Artifacts that have been written stay, and so does the job itself until `job delete`.
#[derive(Debug, Args)]
pub struct Cancel {
    /// Name of the job.
    #[arg(value_name = "NAME")]
    job: JobKey,
}

#[async_trait]
impl Command for Cancel {
    const NAME: [&'static str; 2] = ["job", "cancel"];
    const ACCESS: Access = Access::Operate;
    const VERB: Verb = Verb::Post;
    const PATH: &'static str = "/jobs/{job}/cancel";
    const WAIT: Option<Wait> = Some(Wait {
        help: "Return when the last stage has stopped",
        ..UNTIL_ENDED
    });
    type Answer = JobSummary;

    async fn run(self, admin: &Admin) -> Result<JobSummary, Refusal> {
        act(admin, &self.job, JobAction::Cancel).await
    }
}

async fn act(admin: &Admin, key: &JobKey, action: JobAction) -> Result<JobSummary, Refusal> {
    let job = find(admin, key).await?;
    let after = admin
        .store
        .act_on_job(job.id, action)
        .await
        .map_err(|error| Refusal::about(&format!("job {key}"), error))?;
    JobSummary::of(admin, &after).await
}
