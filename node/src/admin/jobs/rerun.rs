use async_trait::async_trait;
use chrono::Utc;
use clap::Args;
use glob::Pattern;
use parkhang_actors::domain::{ErrorCategory, Job, JobKey, StageName, Task, TaskId, TaskStatus};
use parkhang_actors::policy::job_action::{self, JobAction};
use parkhang_actors::policy::rerun::{self, TaskFilter};
use parkhang_actors::state::StateStore;
use serde::Serialize;
use utoipa::ToSchema;

use super::find;
use super::plan::{PlanAnswer, plan};
use crate::admin::command::{Access, Answer, Command, Verb};
use crate::admin::{Admin, Refusal};
use crate::words::counted;

/// Do a stage and all after it again, for all volumes of the job or for those that the options describe.
///
/// Pages whose results still stand are kept, unless --force is given. Running work on these volumes is cut off.
/// A job that had ended runs again.
#[derive(Debug, Args)]
pub struct Rerun {
    #[arg(value_name = "NAME")]
    job: JobKey,
    /// First stage to do again.
    #[arg(long, value_name = "STAGE")]
    from: StageName,
    /// Only this volume (W-I), or those that a pattern with * and ? describes; may be repeated.
    #[arg(long, value_name = "VOLUME")]
    volume: Vec<Pattern>,
    /// Only volumes in this status: pending, running, done or failed.
    #[arg(long, value_name = "STATUS", value_parser = task_status)]
    status: Option<TaskStatus>,
    /// Only volumes that stand at this stage.
    #[arg(long, value_name = "STAGE")]
    at: Option<StageName>,
    /// Only volumes whose last try failed with an error of this category, such as network.
    #[arg(long, value_name = "CATEGORY", value_parser = error_category)]
    error: Option<ErrorCategory>,
    /// Recompute pages whose results still stand.
    #[arg(long)]
    force: bool,
    /// Say what would be done again, and do nothing.
    #[arg(long)]
    dry_run: bool,
}

/// What a rerun did, or would do.
#[derive(Debug, Serialize, ToSchema)]
pub struct RerunAnswer {
    job: String,
    from: String,
    force: bool,
    /// Whether it is only what would be done.
    dry_run: bool,
    /// To be done again.
    volumes: Vec<String>,
    /// Meant too, but these have not come as far as the stage and will run it anyway.
    not_reached: Vec<String>,
    /// Of a dry run: what the stages would make of the volumes that would go back, and at what price.
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<PlanAnswer>,
}

#[async_trait]
impl Command for Rerun {
    const NAME: [&'static str; 2] = ["job", "rerun"];
    const ACCESS: Access = Access::Operate;
    const VERB: Verb = Verb::Post;
    const PATH: &'static str = "/jobs/{job}/rerun";
    type Answer = RerunAnswer;

    async fn run(self, admin: &Admin) -> Result<RerunAnswer, Refusal> {
        let job = find(admin, &self.job).await?;
        let dry_run = self.dry_run;
        let rerun = rerun::Rerun {
            tasks: TaskFilter {
                volumes: self.volume,
                status: self.status,
                stage: self.at,
                error: self.error,
            },
            from: self.from,
            force: self.force,
        };
        let tasks = admin.store.tasks(job.id).await?;
        check(&job, &rerun, &tasks)?;
        let mut planned = None;
        let (volumes, not_reached) = if dry_run {
            let split = rerun.split(&job, &tasks);
            let ids: Vec<TaskId> = split.reached.iter().map(|task| task.id).collect();
            if !ids.is_empty() {
                planned = Some(plan(admin, &job, Some(&rerun), Some(&ids)).await?);
            }
            (names(split.reached), names(split.not_reached))
        } else {
            let done = admin.store.rerun(job.id, &rerun, Utc::now()).await;
            let done = done.map_err(|error| Refusal::about(&format!("job {}", job.key), error))?;
            (names(&done.tasks), names(&done.not_reached))
        };
        Ok(RerunAnswer {
            job: job.key.to_string(),
            from: rerun.from.to_string(),
            force: rerun.force,
            dry_run,
            volumes,
            not_reached,
            plan: planned,
        })
    }
}

fn names<'a>(tasks: impl IntoIterator<Item = &'a Task>) -> Vec<String> {
    tasks.into_iter().map(|task| task.volume.to_string()).collect()
}

/// A stage or a volume that the job does not have was written wrongly.
fn check(job: &Job, rerun: &rerun::Rerun, tasks: &[Task]) -> Result<(), Refusal> {
    let key = &job.key;
    job_action::after(job.status, JobAction::Rerun)
        .map_err(|error| Refusal::Conflict(format!("job {key}: {error}")))?;
    check_stages(job, rerun)?;
    let names = names(tasks);
    for pattern in &rerun.tasks.volumes {
        if !names.iter().any(|name| pattern.matches(name)) {
            return Err(Refusal::NotFound(format!("job {key} has no volume {pattern}")));
        }
    }
    Ok(())
}

/// A stage that the job does not have was written wrongly.
pub fn check_stages(job: &Job, rerun: &rerun::Rerun) -> Result<(), Refusal> {
    let key = &job.key;
    let stages = job.pipeline.stages();
    let named = [Some(&rerun.from), rerun.tasks.stage.as_ref()]
        .into_iter()
        .flatten();
    for stage in named {
        if !stages.contains(stage) {
            let stages: Vec<&str> = stages.iter().map(StageName::as_str).collect();
            let stages = stages.join(", ");
            return Err(Refusal::Invalid(format!(
                "job {key} has no stage {stage}; its stages are {stages}"
            )));
        }
    }
    Ok(())
}

fn task_status(text: &str) -> Result<TaskStatus, String> {
    one_of(&TaskStatus::ALL, TaskStatus::as_str, text)
}

fn error_category(text: &str) -> Result<ErrorCategory, String> {
    one_of(&ErrorCategory::ALL, ErrorCategory::as_str, text)
}

fn one_of<T: Copy>(all: &[T], name: impl Fn(T) -> &'static str, text: &str) -> Result<T, String> {
    let found = all.iter().copied().find(|value| name(*value) == text);
    found.ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|value| name(*value)).collect();
        format!("must be one of {}", names.join(", "))
    })
}

impl Answer for RerunAnswer {
    fn text(&self) -> String {
        let mut lines = if self.dry_run {
            self.volumes.clone()
        } else {
            Vec::new()
        };
        let verb = match (self.dry_run, self.volumes.len()) {
            (true, _) => "would go",
            (false, 1) => "goes",
            (false, _) => "go",
        };
        lines.push(format!(
            "{} {verb} back to {}",
            counted(self.volumes.len(), "volume"),
            self.from
        ));
        match self.not_reached.len() {
            0 => {}
            1 => lines.push("1 has not come that far and will run it anyway".to_owned()),
            many => lines.push(format!("{many} have not come that far and will run it anyway")),
        }
        if let Some(plan) = &self.plan {
            lines.push(plan.text());
        }
        lines.join("\n")
    }
}
