//! `job rerun`: sends volumes of a job back to a stage.

use async_trait::async_trait;
use chrono::Utc;
use clap::Args;
use glob::Pattern;
use parkhang_core::domain::{ErrorCategory, Job, JobKey, StageName};
use parkhang_core::policy::job_action::{self, JobAction};
use parkhang_core::policy::rerun::{self, TaskFilter};
use parkhang_state::{Sample, StateStore, TaskQuery};
use serde::Serialize;
use utoipa::ToSchema;

use super::find;
use super::plan::{PlanAnswer, plan};
use crate::admin::command::{Access, Answer, Command, Verb};
use crate::admin::tasks::State;
use crate::admin::{Admin, Refusal};
use crate::words::counted;

/// Volumes read in one query.
const PAGE: u32 = 1_000;

/// Run a stage and all stages after it again, for all volumes of a job or those that the options select.
///
/// Pages whose results are still valid are kept, unless --force is given. Stages that run on these volumes now are stopped.
/// A job that has ended runs again. Example: `job rerun press --from ocr --status failed`.
#[derive(Debug, Args)]
pub struct Rerun {
    /// Name of the job.
    #[arg(value_name = "NAME")]
    job: JobKey,
    /// First stage to run again.
    #[arg(long, value_name = "STAGE")]
    from: StageName,
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
    /// Recompute pages whose results are still valid.
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
    from: String,
    force: bool,
    /// True if this is a dry run.
    dry_run: bool,
    /// Number of volumes to be done again.
    number: u64,
    /// The first thousand of them.
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
        let dry_run = self.dry_run;
        let rerun = rerun::Rerun {
            tasks: TaskFilter {
                volumes: self.volume,
                phases: self.status.map(State::phases).unwrap_or_default(),
                stage: self.at,
                error: self.error,
                ..TaskFilter::default()
            },
            from: self.from,
            force: self.force,
        };
        check(admin, &job, &rerun).await?;
        // A cancelled job cannot be rerun and was refused above, so no task of this one is in that state.
        if self.status == Some(State::Cancelled) {
            let message = format!("job {} was not cancelled, nor was any volume of it", job.key);
            return Err(Refusal::Conflict(message));
        }
        let about = |error| Refusal::about(&format!("job {}", job.key), error);
        let mut planned = None;
        let result = if dry_run {
            let preview = admin.store.preview_rerun(&job, &rerun).await.map_err(about)?;
            if !preview.reached.is_empty() {
                planned = Some(plan(admin, &job, Some(&rerun), Some(&preview.reached)).await?);
            }
            preview.result
        } else {
            admin
                .store
                .rerun(job.id, &rerun, Utc::now())
                .await
                .map_err(about)?
        };
        Ok(RerunAnswer {
            job: job.key.to_string(),
            from: rerun.from.to_string(),
            force: rerun.force,
            dry_run,
            number: result.tasks.number,
            volumes: names(&result.tasks),
            not_reached_number: result.not_reached.number,
            not_reached: names(&result.not_reached),
            plan: planned,
        })
    }
}

pub fn names(tasks: &Sample) -> Vec<String> {
    tasks.first.iter().map(|task| task.volume.to_string()).collect()
}

/// Checks that the job may be rerun and has the stages and volumes that are named.
///
/// # Errors
///
/// [`Refusal::Conflict`], [`Refusal::Invalid`] and [`Refusal::NotFound`] in this order: an unknown name is taken for a typing
/// mistake, and not for a selection of nothing.
async fn check(admin: &Admin, job: &Job, rerun: &rerun::Rerun) -> Result<(), Refusal> {
    let key = &job.key;
    job_action::after(job.status, JobAction::Rerun)
        .map_err(|error| Refusal::Conflict(format!("job {key}: {error}")))?;
    check_stages(job, rerun)?;
    check_volumes(admin, job, &rerun.tasks.volumes).await
}

/// Checks that the job has the stages that a rerun names.
///
/// # Errors
///
/// [`Refusal::Invalid`] with the stages that there are.
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

/// Checks that each pattern matches a volume of the job.
///
/// # Errors
///
/// [`Refusal::NotFound`] with the first pattern that matches none.
pub async fn check_volumes(admin: &Admin, job: &Job, patterns: &[Pattern]) -> Result<(), Refusal> {
    // A plain name is one look-up. Only patterns need the job's volumes to be read, page by page, until each has matched.
    let mut unseen = Vec::new();
    for pattern in patterns {
        let is_there = match pattern.as_str().parse() {
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
        let page = admin.store.task_page(job, &query).await?;
        for task in &page.tasks {
            let name = task.volume.to_string();
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

pub fn error_category(text: &str) -> Result<ErrorCategory, String> {
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
        let verb = match (self.dry_run, self.number) {
            (true, _) => "would go",
            (false, 1) => "goes",
            (false, _) => "go",
        };
        lines.push(format!(
            "{} {verb} back to {}",
            counted(self.number, "volume"),
            self.from
        ));
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
