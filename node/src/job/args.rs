use clap::{Args, Subcommand};
use glob::Pattern;
use parkhang_actors::domain::{ErrorCategory, JobKey, StageName, TaskStatus};
use parkhang_actors::policy::rerun::{Rerun, TaskFilter};

use super::stats::StatsArgs;
use crate::config::ConfigArgs;
use crate::storage::VolumeArgs;

#[derive(Debug, Subcommand)]
pub enum JobCommand {
    /// Make a job over the volumes of the scans (pages); it starts at once.
    Create(CreateArgs),
    /// List all jobs with what they wait for.
    List(ListArgs),
    /// Say how far a job is; exit status 1 if it failed or was cancelled.
    Status(StatusArgs),
    /// Say how long the stages of a job took, and how fast they were.
    Stats(StatsArgs),
    /// Begin no further stage of the job. Stages that run go on to their end.
    Pause(JobArgs),
    /// Let a paused job go on where it stood.
    Resume(JobArgs),
    /// End the job for good. Stages that run stop at their next checkpoint; what has been written stays.
    Cancel(CancelArgs),
    /// Change the job's priority. Free slots go to the jobs of the highest; those of equal priority share them.
    Priority(PriorityArgs),
    /// Show or change what the job may take of the cluster, while it runs.
    Limits(LimitsArgs),
    /// Do a stage and all after it again, for all volumes of the job or for those that the options describe.
    ///
    /// Pages whose results still stand are kept, unless --force is given. Running work on these volumes is cut off.
    /// A job that had ended runs again.
    Rerun(RerunArgs),
}

/// One job, in the cluster of this configuration.
#[derive(Debug, Args)]
pub struct JobArgs {
    #[arg(value_name = "NAME")]
    pub name: JobKey,
    /// Print the answer as JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub config: ConfigArgs,
}

#[derive(Debug, Args)]
pub struct CreateArgs {
    /// Name of the job, part of every artifact key.
    #[arg(value_name = "NAME")]
    pub name: JobKey,
    #[command(flatten)]
    pub volumes: VolumeArgs,
    /// Jobs of a higher priority go first; short for --set job.priority=N.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub priority: Option<i32>,
    /// Volumes in work at once; short for --set job.max_running=N.
    #[arg(long, value_name = "N")]
    pub max_running: Option<usize>,
    /// Print the answer as JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub config: ConfigArgs,
}

impl CreateArgs {
    /// The configuration with the short options as settings.
    pub fn settings(&self) -> ConfigArgs {
        let mut config = self.config.clone();
        let priority = self.priority.map(|priority| format!("job.priority={priority}"));
        let max_running = self
            .max_running
            .map(|volumes| format!("job.max_running={volumes}"));
        config.set.extend(priority.into_iter().chain(max_running));
        config
    }
}

#[derive(Debug, Args)]
pub struct ListArgs {
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub config: ConfigArgs,
}

#[derive(Debug, Args)]
pub struct StatusArgs {
    #[arg(value_name = "NAME")]
    pub name: JobKey,
    /// Return when the job has ended.
    #[arg(long)]
    pub wait: bool,
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub config: ConfigArgs,
}

#[derive(Debug, Args)]
pub struct CancelArgs {
    /// Return when the last stage has stopped.
    #[arg(long)]
    pub wait: bool,
    #[command(flatten)]
    pub job: JobArgs,
}

#[derive(Debug, Args)]
pub struct PriorityArgs {
    #[command(flatten)]
    pub job: JobArgs,
    #[arg(value_name = "N", allow_negative_numbers = true)]
    pub priority: i32,
}

#[derive(Debug, Args)]
pub struct LimitsArgs {
    #[command(flatten)]
    pub job: JobArgs,
    /// Such as max_running=4 or retries=5; `docs/config.md` has all. Without any, the limits in force are shown.
    #[arg(value_name = "KEY=VALUE")]
    pub limits: Vec<String>,
}

#[derive(Debug, Args)]
pub struct RerunArgs {
    #[command(flatten)]
    pub job: JobArgs,
    /// First stage to do again.
    #[arg(long, value_name = "STAGE")]
    pub from: StageName,
    /// Only this volume (W-I), or those that a pattern with * and ? describes; may be repeated.
    #[arg(long, value_name = "VOLUME")]
    pub volume: Vec<Pattern>,
    /// Only volumes in this status: pending, running, done or failed.
    #[arg(long, value_name = "STATUS", value_parser = task_status)]
    pub status: Option<TaskStatus>,
    /// Only volumes that stand at this stage.
    #[arg(long, value_name = "STAGE")]
    pub at: Option<StageName>,
    /// Only volumes whose last try failed with an error of this category, such as network.
    #[arg(long, value_name = "CATEGORY", value_parser = error_category)]
    pub error: Option<ErrorCategory>,
    /// Recompute pages whose results still stand.
    #[arg(long)]
    pub force: bool,
    /// Say what would be done again, and do nothing.
    #[arg(long)]
    pub dry_run: bool,
}

impl RerunArgs {
    pub fn rerun(&self) -> Rerun {
        Rerun {
            tasks: TaskFilter {
                volumes: self.volume.clone(),
                status: self.status,
                stage: self.at.clone(),
                error: self.error,
            },
            from: self.from.clone(),
            force: self.force,
        }
    }
}

fn task_status(text: &str) -> Result<TaskStatus, String> {
    one_of(&TaskStatus::ALL, TaskStatus::as_str, text)
}

fn error_category(text: &str) -> Result<ErrorCategory, String> {
    one_of(&ErrorCategory::ALL, ErrorCategory::as_str, text)
}

fn one_of<T: Copy>(all: &[T], name: impl Fn(T) -> &'static str, text: &str) -> Result<T, String> {
    let names = || {
        all.iter()
            .map(|value| name(*value))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let found = all.iter().copied().find(|value| name(*value) == text);
    found.ok_or_else(|| format!("must be one of {}", names()))
}
