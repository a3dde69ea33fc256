use async_trait::async_trait;
use chrono::Utc;
use clap::{ArgGroup, Args};
use glob::Pattern;
use parkhang_core::domain::{ErrorCategory, JobKey, StageName};
use parkhang_core::policy::rerun::{Cause, Rerun, TaskFilter};
use parkhang_state::{RerunResult, Sample, StateStore};
use serde::Serialize;
use utoipa::ToSchema;

use crate::admin::command::{Access, Answer, Command, Verb};
use crate::admin::jobs::{check_volumes, error_category, find, names};
use crate::admin::tasks::State;
use crate::admin::{Admin, Refusal};
use crate::words::counted;

/// Try volumes that failed for good again, each from the stage at which it failed, with a fresh allowance of tries.
///
/// A job that had ended runs again.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("meant").args(["volume", "cause", "error", "stage", "all"]).required(true).multiple(true)))]
pub struct Redrive {
    #[arg(value_name = "JOB")]
    job: JobKey,
    /// This volume (W-I), or those that a pattern with * and ? describes; may be repeated.
    #[arg(long, value_name = "VOLUME")]
    volume: Vec<Pattern>,
    /// Those of a cause, such as "input: page * is no image": `job errors --json` names them.
    #[arg(long, value_name = "CAUSE")]
    cause: Option<String>,
    /// Those whose last error is of this category, such as network.
    #[arg(long, value_name = "CATEGORY", value_parser = error_category)]
    error: Option<ErrorCategory>,
    /// Those that failed at this stage.
    #[arg(long, value_name = "STAGE")]
    stage: Option<StageName>,
    /// All of them.
    #[arg(long, conflicts_with_all = ["volume", "cause", "error", "stage"])]
    all: bool,
    /// Say which would be tried again, and do nothing.
    #[arg(long)]
    dry_run: bool,
}

/// What a redrive did, or would do.
#[derive(Debug, Serialize, ToSchema)]
pub struct Redriven {
    job: String,
    /// Whether it is only what would be done.
    dry_run: bool,
    /// Volumes to be tried again.
    number: u64,
    /// Some of them, a thousand for each stage at most.
    volumes: Vec<String>,
}

#[async_trait]
impl Command for Redrive {
    const NAME: [&'static str; 2] = ["dead", "redrive"];
    const ACCESS: Access = Access::Operate;
    const VERB: Verb = Verb::Post;
    const PATH: &'static str = "/jobs/{job}/dead/redrive";
    type Answer = Redriven;

    async fn run(self, admin: &Admin) -> Result<Redriven, Refusal> {
        let job = find(admin, &self.job).await?;
        check_volumes(admin, &job, &self.volume).await?;
        let filter = TaskFilter {
            volumes: self.volume,
            error: self.error,
            cause: self.cause.as_deref().map(Cause::new),
            phases: State::Failed.phases(),
            ..TaskFilter::default()
        };
        let is_asked_for = |stage: &&StageName| self.stage.as_ref().is_none_or(|asked| asked == *stage);
        let mut answer = Redriven {
            job: job.key.to_string(),
            dry_run: self.dry_run,
            number: 0,
            volumes: Vec::new(),
        };
        for stage in job.pipeline.stages().iter().filter(is_asked_for) {
            let rerun = Rerun::where_they_stand(stage.clone(), filter.clone());
            let redriven = match self.dry_run {
                true => {
                    let preview = admin.store.preview_rerun(&job, &rerun).await;
                    preview.map(|preview| preview.result)
                }
                false => admin.store.rerun(job.id, &rerun, Utc::now()).await,
            };
            let about = |error| Refusal::about(&format!("job {}", job.key), error);
            let RerunResult { tasks, .. } = redriven.map_err(about)?;
            answer.add(&tasks);
        }
        if answer.number == 0 {
            let message = format!("no volume of job {} that failed for good is meant", job.key);
            return Err(Refusal::Conflict(message));
        }
        Ok(answer)
    }
}

impl Redriven {
    fn add(&mut self, tasks: &Sample) {
        self.number += tasks.number;
        self.volumes.extend(names(tasks));
    }
}

impl Answer for Redriven {
    fn text(&self) -> String {
        let mut lines = match self.dry_run {
            true => self.volumes.clone(),
            false => Vec::new(),
        };
        let verb = match (self.dry_run, self.number) {
            (true, _) => "would be",
            (false, 1) => "is",
            (false, _) => "are",
        };
        lines.push(format!("{} {verb} tried again", counted(self.number, "volume")));
        lines.join("\n")
    }
}
