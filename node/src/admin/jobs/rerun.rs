//! `job rerun`: sends volumes of a job back to a stage.

use async_trait::async_trait;
use chrono::Utc;
use clap::Args;
use glob::Pattern;
use parkhang_core::domain::{ErrorCategory, Job, JobKey, StageName};
use parkhang_core::policy::job_action::{self, JobAction};
use parkhang_core::policy::rerun::{self, Cause, TaskFilter};
use parkhang_state::{RerunResult, Sample, StateStore, TaskQuery};
use serde::Serialize;
use utoipa::ToSchema;

use super::find;
use super::plan::{PlanAnswer, plan};
use crate::admin::command::{Access, Answer, Command, Verb};
use crate::admin::tasks::State;
use crate::admin::{Admin, Refusal};
use crate::words::pluralize;

/// Volumes read in one query.
const PAGE: u32 = 1_000;

/// Run a stage and all stages after it again, for all volumes of a job or those that the options select.
///
/// With --status failed and no --from, volumes that failed for good are tried again, each from the stage at which it failed.
/// Pages whose results still stand are kept, unless --force is given. Running work on these volumes is cut off.
/// A job that had ended runs again.
#[derive(Debug, Args)]
pub struct Rerun {
    /// Name of the job.
    #[arg(value_name = "NAME")]
    job: JobKey,
    /// First stage to do again; needed but for --status failed.
    #[arg(long, value_name = "STAGE")]
    from: Option<StageName>,
    /// Only this volume (W-I), or those that a pattern with * and ? describes; may be repeated.
    #[arg(long, value_name = "VOLUME")]
    volume: Vec<Pattern>,
    /// Only volumes in this state.
    #[arg(long, value_enum)]
    status: Option<State>,
    /// Only volumes whose current stage is this one.
    #[arg(long, value_name = "STAGE")]
    at: Option<StageName>,
    /// Only volumes whose last try failed with an error of this category, such as network.
    #[arg(long, value_name = "CATEGORY", value_parser = error_category)]
    error: Option<ErrorCategory>,
    /// Only volumes whose last try failed for this cause, such as "input: page * is no image": `job errors --json` names them.
    #[arg(long, value_name = "CAUSE")]
    cause: Option<String>,
    /// Recompute pages whose results still stand.
    #[arg(long)]
    force: bool,
    /// Show what would be done, and change nothing.
    #[arg(long)]
    dry_run: bool,
}

/// Result of a rerun, or of a dry run of one.
#[derive(Debug, Serialize, ToSchema)]
pub struct RerunAnswer {
    job: String,
    /// The first stage that is done again; absent where each volume begins with the one at which it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    force: bool,
    /// True if this is a dry run.
    dry_run: bool,
    /// Number of volumes to be done again.
    number: u64,
    /// The first thousand of them, or of those that failed at each stage.
    volumes: Vec<String>,
    /// Number of selected volumes that have not reached the stage yet and will run it anyway.
    not_reached_number: u64,
    /// The first thousand of them.
    not_reached: Vec<String>,
    /// Plan of the work on the volumes that would go back, with its cost; in a dry run only.
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
        let filter = TaskFilter {
            volumes: self.volume,
            phases: self.status.map(State::phases).unwrap_or_default(),
            stage: self.at,
            error: self.error,
            cause: self.cause.as_deref().map(Cause::new),
        };
        check(admin, &job, self.from.as_ref(), &filter).await?;
        // No phase belongs to this state, and a filter without phases would select every volume.
        if self.status == Some(State::Cancelled) {
            let message = format!("job {} was not cancelled, nor was any volume of it", job.key);
            return Err(Refusal::Conflict(message));
        }
        let mut answer = RerunAnswer {
            job: job.key.to_string(),
            from: self.from.as_ref().map(ToString::to_string),
            force: self.force,
            dry_run: self.dry_run,
            number: 0,
            volumes: Vec::new(),
            not_reached_number: 0,
            not_reached: Vec::new(),
            plan: None,
        };
        match (self.from, self.status) {
            (Some(from), _) => {
                let rerun = rerun::Rerun {
                    tasks: filter,
                    from,
                    force: self.force,
                };
                answer.carry_out(admin, &job, &rerun, true).await?;
            }
            (None, Some(State::Failed)) => {
                let is_meant = |stage: &&StageName| filter.stage.as_ref().is_none_or(|at| at == *stage);
                // One rerun for each stage, because each has one stage to begin with. A volume that was sent
                // back has not failed any more, so no later round takes it twice.
                for stage in job.pipeline.stages().iter().filter(is_meant) {
                    let rerun = rerun::Rerun {
                        force: self.force,
                        ..rerun::Rerun::where_they_stand(stage.clone(), filter.clone())
                    };
                    answer.carry_out(admin, &job, &rerun, false).await?;
                }
                if answer.number == 0 {
                    let message = format!("no volume of job {} that failed for good is meant", job.key);
                    return Err(Refusal::Conflict(message));
                }
            }
            (None, _) => {
                let message = "--from says which stage to begin with; only volumes that failed (--status failed) can do without";
                return Err(Refusal::Invalid(message.to_owned()));
            }
        }
        Ok(answer)
    }
}

impl RerunAnswer {
    /// Does again what is meant, or says what would be done, with what it would cost where that is asked for.
    async fn carry_out(
        &mut self,
        admin: &Admin,
        job: &Job,
        rerun: &rerun::Rerun,
        is_planned: bool,
    ) -> Result<(), Refusal> {
        let about = |error| Refusal::about(&format!("job {}", job.key), error);
        let RerunResult { tasks, not_reached } = if self.dry_run {
            let preview = admin.store.preview_rerun(job, rerun).await.map_err(about)?;
            // An empty list of tasks would be a forecast of nothing; without a first stage there is no single
            // plan.
            if is_planned && !preview.reached.is_empty() {
                self.plan = Some(plan(admin, job, Some(rerun), Some(&preview.reached)).await?);
            }
            preview.result
        } else {
            let done = admin.store.rerun(job.id, rerun, Utc::now()).await;
            done.map_err(about)?
        };
        self.number += tasks.number;
        self.volumes.extend(names(&tasks));
        self.not_reached_number += not_reached.number;
        self.not_reached.extend(names(&not_reached));
        Ok(())
    }
}

fn names(tasks: &Sample) -> Vec<String> {
    tasks.first.iter().map(|task| task.volume.to_string()).collect()
}

/// A stage or a volume that the job does not have was written wrongly.
async fn check(
    admin: &Admin,
    job: &Job,
    from: Option<&StageName>,
    filter: &TaskFilter,
) -> Result<(), Refusal> {
    let key = &job.key;
    job_action::after(job.status, JobAction::Rerun)
        .map_err(|error| Refusal::Conflict(format!("job {key}: {error}")))?;
    check_stages(job, from, filter)?;
    check_volumes(admin, job, &filter.volumes).await
}

/// A stage that the job does not have was written wrongly.
pub fn check_stages(job: &Job, from: Option<&StageName>, filter: &TaskFilter) -> Result<(), Refusal> {
    let key = &job.key;
    let stages = job.pipeline.stages();
    for stage in from.into_iter().chain(&filter.stage) {
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

/// A volume that the job does not have was written wrongly.
async fn check_volumes(admin: &Admin, job: &Job, patterns: &[Pattern]) -> Result<(), Refusal> {
    let mut unseen = Vec::new();
    for pattern in patterns {
        let is_there = match pattern.as_str().parse() {
            // A full name is one look-up; only patterns need the walk through the job below.
            Ok(volume) => admin.store.task_of(job.id, &volume).await?.is_some(),
            Err(_) => false,
        };
        if !is_there {
            unseen.push(pattern);
        }
    }
    let mut query = TaskQuery {
        limit: PAGE,
        ..TaskQuery::default()
    };
    while !unseen.is_empty() {
        let page = admin.store.list_tasks(job, &query).await?;
        for task in &page.tasks {
            let name = task.volume.to_string();
            // The walk ends with the first match of the last pattern, so a usual one reads a single page.
            unseen.retain(|pattern| !pattern.matches(&name));
        }
        query.after = page.next;
        if page.next.is_none() {
            break;
        }
    }
    match unseen.first() {
        Some(pattern) => Err(Refusal::NotFound(format!(
            "job {} has no volume {pattern}",
            job.key
        ))),
        None => Ok(()),
    }
}

fn error_category(text: &str) -> Result<ErrorCategory, String> {
    let all = ErrorCategory::ALL;
    all.into_iter()
        .find(|category| category.as_str() == text)
        .ok_or_else(|| format!("must be one of {}", all.map(ErrorCategory::as_str).join(", ")))
}

impl Answer for RerunAnswer {
    fn text(&self) -> String {
        let mut lines = if self.dry_run {
            self.volumes.clone()
        } else {
            Vec::new()
        };
        let (volumes, dry_run) = (pluralize(self.number, "volume"), self.dry_run);
        lines.push(match (&self.from, dry_run, self.number) {
            (Some(from), true, _) => format!("{volumes} would go back to {from}"),
            (Some(from), false, 1) => format!("{volumes} goes back to {from}"),
            (Some(from), false, _) => format!("{volumes} go back to {from}"),
            (None, true, _) => format!("{volumes} would be tried again"),
            (None, false, 1) => format!("{volumes} is tried again"),
            (None, false, _) => format!("{volumes} are tried again"),
        });
        match self.not_reached_number {
            0 => {}
            1 => lines.push("1 has not reached it yet and will run it anyway".to_owned()),
            many => lines.push(format!("{many} have not reached it yet and will run it anyway")),
        }
        if let Some(plan) = &self.plan {
            lines.push(plan.text());
        }
        lines.join("\n")
    }
}
