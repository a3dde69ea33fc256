mod choice;
mod filter;
mod inputs;
mod unserved;

use async_trait::async_trait;
use chrono::Utc;
use clap::Args;
use parkhang_actors::stage::OCR;
use parkhang_core::domain::{Amount, JobKey, LineMode, NewJob, StageName};
use parkhang_state::{Sample, StateStore};
use serde::Serialize;
use utoipa::ToSchema;

use self::choice::{Choice, ChoiceArgs};
use self::inputs::{InputArgs, inputs};
use self::unserved::unserved;
use super::{JobSummary, models};
use crate::admin::command::{Access, Answer, Command, Verb};
use crate::admin::diagnosis::{creation_warnings, facts_about};
use crate::admin::skipped::Skipped;
use crate::admin::{Admin, Refusal};
use crate::config::missing_service;
use crate::heartbeat::timeout;
use crate::networks;
use crate::words::pluralize;

/// Make a job over the volumes of the scans (pages), or over those that the options choose; it starts at once.
///
/// Volumes whose latest imported version was read already by a job that comes to the same are left out.
#[derive(Debug, Args)]
pub struct Create {
    /// Name of the job, part of every artifact key; J and a number if none is given.
    #[arg(value_name = "NAME")]
    job: Option<JobKey>,
    #[command(flatten)]
    choice: ChoiceArgs,
    /// Run this pipeline for all volumes, also for those that are PDFs; it is built in or named in the configuration (pipeline.NAME),
    /// and `docs/stages.md` lists them.
    #[arg(long, visible_alias = "op", value_name = "NAME", default_value = OCR)]
    pipeline: String,
    /// Read with this model, and only on nodes that have loaded it: NAME of one that reads lines, or of a service that reads pages in its
    /// place, or STAGE=NAME; short for job.models. May be repeated.
    #[arg(long, visible_alias = "engine", value_name = "MODEL")]
    model: Vec<String>,
    #[command(flatten)]
    inputs: InputArgs,
    /// Jobs of a higher priority go first; short for job.priority.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    priority: Option<i32>,
    /// Volumes in work at once; short for job.max_running.
    #[arg(long, value_name = "N")]
    max_running: Option<usize>,
    /// Amount that the job may spend at services before it is paused, in the currency of their prices; short for job.budget.
    #[arg(long, value_name = "AMOUNT")]
    budget: Option<Amount>,
    /// Set a key of the job's configuration; may be repeated. See `docs/config.md`.
    #[arg(long = "config", value_name = "KEY=VALUE")]
    config: Vec<String>,
    /// Volumes that are written at once. A job of more begins when the last of them are written.
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..))]
    chunk_size: u32,
    /// Let the job go on when its volumes are done, as more may come, until `job close`. It begins with the volumes that are named,
    /// or with none.
    #[arg(long)]
    standing: bool,
    /// Say what would be in the job, and make none.
    #[arg(long)]
    dry_run: bool,
}

/// Volumes that a dry run names to a reader.
const LISTED: usize = 20;

#[derive(Debug, Serialize, ToSchema)]
pub struct Created {
    /// The fields of `JobSummary`, where a job was made.
    #[serde(flatten)]
    #[schema(value_type = Object)]
    job: Option<JobSummary>,
    dry_run: bool,
    /// Volumes that the job has, or would have.
    chosen: u64,
    /// The first thousand that it would have; empty unless it is a dry run.
    named: Vec<String>,
    /// Volumes that it has not, by reason.
    skipped: Vec<Skipped>,
    /// What may keep the job from getting on, such as a model that nobody who is there has loaded.
    warnings: Vec<String>,
}

#[async_trait]
impl Command for Create {
    const NAME: [&'static str; 2] = ["job", "create"];
    const ACCESS: Access = Access::Operate;
    const VERB: Verb = Verb::Post;
    const PATH: &'static str = "/jobs";
    const LOCAL: &'static [&'static str] = &["volumes_from"];
    const MAY_BE_FIRST: bool = true;
    type Answer = Created;

    async fn run(self, admin: &Admin) -> Result<Created, Refusal> {
        let priority = self.priority.map(|priority| format!("priority={priority}"));
        let max_running = self.max_running.map(|volumes| format!("max_running={volumes}"));
        let budget = self.budget.map(|budget| format!("budget={budget}"));
        let pairs: Vec<String> = self
            .config
            .into_iter()
            .chain(priority)
            .chain(max_running)
            .chain(budget)
            .chain(models_pair(&self.model))
            .chain(self.inputs.pairs())
            .collect();
        let config = admin.loaded.config.job.clone();
        let config = config.with_overrides(pairs.iter().map(String::as_str))?;
        let pipeline = admin.pipelines()?.get(&self.pipeline)?.clone();
        models::check(&config, &pipeline, &admin.stages)?;
        let inputs = inputs(admin, &config, (&self.pipeline, &pipeline)).await?;
        if let Some(missing) = missing_service(&admin.loaded.config, &pipeline) {
            return Err(Refusal::Invalid(missing));
        }
        // Refused before there is a job, by the models of this configuration, as no volume of it could be
        // read.
        if config.line_mode == LineMode::Layout {
            let models = networks::knows_layout(&admin.loaded.config.node.models);
            if !models.map_err(|error| Refusal::Invalid(format!("{error:#}")))? {
                return Err(Refusal::Invalid(networks::NO_LAYOUT.to_owned()));
            }
        }
        if let Some(job) = &self.job
            // The store refuses it too, but only after the volumes were looked up, which can take long.
            && admin.store.job(job).await?.is_some()
        {
            return Err(Refusal::Conflict(format!("job {job} exists already")));
        }
        let heartbeat = admin.loaded.config.cluster.heartbeat;
        let nodes = admin.store.nodes().await?;
        let cluster = facts_about(&admin.store, &nodes, &admin.loaded.config).await?;
        let silence = timeout(heartbeat);
        let unserved = unserved(&pipeline, &admin.stages, &nodes, silence, cluster.now);
        if !self.choice.force && !unserved.is_empty() {
            return Err(nobody_runs(&unserved));
        }
        let warnings = creation_warnings(&pipeline, &config.models, cluster);
        let mut new = NewJob {
            key: self.job,
            operation: self.pipeline,
            pipeline,
            config,
            volumes: Vec::new(),
            standing: self.standing,
        };
        // The job exists without volumes first, because the choice compares its pipeline and configuration
        // with other jobs.
        let Choice { volumes, skipped } = self.choice.choose(admin, &new, &inputs).await?;
        let chosen = volumes.len() as u64;
        let shown = match self.dry_run {
            true => volumes
                .iter()
                .take(Sample::SIZE)
                .map(ToString::to_string)
                .collect(),
            false => Vec::new(),
        };
        let job = if self.dry_run {
            None
        } else {
            if volumes.is_empty() && !new.standing {
                return Err(nothing(&skipped));
            }
            new.volumes = volumes;
            let chunk = usize::try_from(self.chunk_size).unwrap_or(usize::MAX);
            // A job of one chunk is never seen without its volumes; a larger one runs only once its last
            // chunk is written.
            let job = match new.volumes.len() <= chunk {
                true => admin.store.create_job(&new, Utc::now()).await?,
                false => {
                    let made = admin.store.create_job_in_chunks(&new, chunk, Utc::now());
                    made.await?
                }
            };
            Some(JobSummary::of(admin, &job).await?)
        };
        Ok(Created {
            job,
            dry_run: self.dry_run,
            chosen,
            named: shown,
            skipped,
            warnings,
        })
    }
}

/// What `--model` is short for. A name alone is that of a model which reads lines, as of the stage that jobs are made for.
pub fn models_pair(models: &[String]) -> Option<String> {
    let named = models.iter().map(|model| match model.contains('=') {
        true => model.clone(),
        // The stage whose model decides the text, and the one that nearly every use of the flag is about.
        false => format!("ocr={model}"),
    });
    let named: Vec<String> = named.collect();
    (!named.is_empty()).then(|| format!("models={}", named.join(",")))
}

/// Refusal of a pipeline with stages that no node has.
fn nobody_runs(stages: &[&StageName]) -> Refusal {
    let stages: Vec<&str> = stages.iter().map(|stage| stage.as_str()).collect();
    Refusal::Conflict(format!(
        "no node that is there has {}: start nodes of this build, or give --force to make the job all the same",
        stages.join(" or ")
    ))
}

/// Why there is no job to make.
fn nothing(skipped: &[Skipped]) -> Refusal {
    if skipped.is_empty() {
        return Refusal::Invalid("there are no volumes to make a job of".to_owned());
    }
    let reasons: Vec<String> = skipped.iter().map(Skipped::line).collect();
    Refusal::Conflict(format!(
        "no volume is left to make a job of:\n  {}",
        reasons.join("\n  ")
    ))
}

impl Answer for Created {
    fn text(&self) -> String {
        let volumes = pluralize(self.chosen, "volume");
        let mut lines: Vec<String> = self.named.iter().take(LISTED).cloned().collect();
        if self.chosen > LISTED as u64 && self.dry_run {
            lines.push("...".to_owned());
        }
        lines.push(match &self.job {
            Some(job) => format!("{}: {volumes}", job.job),
            None => format!("{volumes} would be in the job"),
        });
        let skipped = self
            .skipped
            .iter()
            .map(|skipped| format!("left out: {}", skipped.line()));
        lines.extend(skipped);
        lines.extend(self.warnings.iter().map(|warning| format!("warning: {warning}")));
        lines.join("\n")
    }
}
