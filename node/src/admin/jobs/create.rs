use async_trait::async_trait;
use chrono::Utc;
use clap::Args;
use parkhang_actors::domain::{JobKey, NewJob};
use parkhang_actors::stage::ocr_pipeline;
use parkhang_actors::state::StateStore;
use serde::Serialize;
use utoipa::ToSchema;

use super::JobSummary;
use crate::admin::command::{Access, Answer, Command, Verb};
use crate::admin::{Admin, Refusal};
use crate::storage::{VolumeArgs, volumes};
use crate::words::counted;

/// Make a job over the volumes of the scans (pages); it starts at once.
#[derive(Debug, Args)]
pub struct Create {
    /// Name of the job, part of every artifact key; J and a number if none is given.
    #[arg(value_name = "NAME")]
    job: Option<JobKey>,
    #[command(flatten)]
    volumes: VolumeArgs,
    /// Jobs of a higher priority go first; short for job.priority.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    priority: Option<i32>,
    /// Volumes in work at once; short for job.max_running.
    #[arg(long, value_name = "N")]
    max_running: Option<usize>,
    /// Set a key of the job's configuration; may be repeated. See `docs/config.md`.
    #[arg(long = "config", value_name = "KEY=VALUE")]
    config: Vec<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Created {
    #[serde(flatten)]
    job: JobSummary,
}

#[async_trait]
impl Command for Create {
    const NAME: [&'static str; 2] = ["job", "create"];
    const ACCESS: Access = Access::Operate;
    const VERB: Verb = Verb::Post;
    const PATH: &'static str = "/jobs";
    const LOCAL: &'static [&'static str] = &["volumes_from"];
    type Answer = Created;

    async fn run(self, admin: &Admin) -> Result<Created, Refusal> {
        let priority = self.priority.map(|priority| format!("priority={priority}"));
        let max_running = self.max_running.map(|volumes| format!("max_running={volumes}"));
        let pairs: Vec<String> = self
            .config
            .into_iter()
            .chain(priority)
            .chain(max_running)
            .collect();
        let config = admin.loaded.config.job.clone();
        let config = config.with_overrides(pairs.iter().map(String::as_str))?;
        if let Some(job) = &self.job
            && admin.store.job(job).await?.is_some()
        {
            return Err(Refusal::Conflict(format!("job {job} exists already")));
        }
        let named = self
            .volumes
            .named()
            .map_err(|error| Refusal::Invalid(format!("{error:#}")))?;
        let volumes = volumes(&admin.loaded.config.pages, named).await;
        let new = NewJob {
            key: self.job,
            operation: "ocr".to_owned(),
            pipeline: ocr_pipeline(),
            config,
            volumes: volumes.map_err(|error| Refusal::Invalid(format!("{error:#}")))?,
        };
        let job = admin.store.create_job(&new, Utc::now()).await?;
        let job = JobSummary::of(admin, &job).await?;
        Ok(Created { job })
    }
}

impl Answer for Created {
    fn text(&self) -> String {
        format!("{}: {}", self.job.job, counted(self.job.volumes, "volume"))
    }
}
