//! `node simulate record`: a profile from the history of a job.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use parkhang_actors::stage::StageTable;
use parkhang_core::domain::{Hardware, Job, JobKey, StageName, StageRun, TaskId, VolumeResults};
use parkhang_simulation::{Distribution, Profile};
use parkhang_state::StateStore;

use crate::config::{ConfigArgs, Loaded};
use crate::database::database_for_command;
use crate::ocr;

#[derive(Debug, Args)]
pub struct RecordArgs {
    /// Name of the job.
    #[arg(long, default_value = "ocr", value_name = "NAME")]
    pub job: String,
    /// Output folder of `node ocr`; without it the job is read from the cluster's database.
    #[arg(long, value_name = "OUT")]
    pub out: Option<PathBuf>,
    /// Database with the state of OUT; by default a private Postgres on this machine.
    #[arg(
        long,
        env = "DATABASE_URL",
        hide_env_values = true,
        value_name = "URL",
        requires = "out"
    )]
    pub database_url: Option<String>,
    /// Description of what ran on which machine, which is written to the profile.
    #[arg(long, value_name = "TEXT")]
    pub about: String,
    /// Take the sizes of the volumes from the job as well. By default they are those of the built-in profile, since a job that was
    /// created to be measured is seldom like the library.
    #[arg(long)]
    pub sizes: bool,
    /// File to write.
    #[arg(long, value_name = "FILE")]
    pub to: PathBuf,
    #[command(flatten)]
    pub config: ConfigArgs,
}

type History = BTreeMap<TaskId, (VolumeResults, Vec<StageRun>)>;

pub async fn run(arguments: RecordArgs) -> Result<ExitCode> {
    let (job, history) = match &arguments.out {
        Some(out) => {
            // The name of the folder's database is a digest of the path as the run knew it.
            let out = out.canonicalize().with_context(|| out.display().to_string())?;
            let state = ocr::state::open(arguments.database_url.as_deref(), &out, &arguments.job).await?;
            read(state.store.as_ref(), &state.job).await?
        }
        None => {
            let loaded = Loaded::read(&arguments.config)?.validated()?;
            let database = database_for_command(&loaded, false).await?;
            read(&database.store, &JobKey::new(arguments.job.clone())?).await?
        }
    };
    let built_in = Profile::built_in()?;
    // The history does not record on which hardware a stage ran, and the stage table names it for each.
    let table = StageTable::built_in();
    let hardware: HashMap<StageName, Hardware> = table
        .stages()
        .iter()
        .map(|stage| (stage.name(), stage.hardware))
        .collect();
    let pages: Vec<f64> = history
        .values()
        .map(|(results, _)| f64::from(results.total_images))
        .collect();
    let (volumes, total) = (pages.len(), pages.iter().sum::<f64>());
    let sizes = if arguments.sizes {
        Distribution::new(pages)?
    } else {
        built_in.pages_per_volume
    };
    let about = format!("{}: {total} pages in {volumes} volumes", arguments.about);
    let profile = Profile::record(about, sizes, &job.pipeline, &hardware, &history)?;
    std::fs::write(&arguments.to, profile.to_json()?).with_context(|| arguments.to.display().to_string())?;
    for stage in &profile.stages {
        println!("{}: {:.3} s a page", stage.stage, stage.seconds_per_page.mean());
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads a job with the history of its volumes that have results.
async fn read(store: &dyn StateStore, key: &JobKey) -> Result<(Job, History)> {
    let job = store
        .job(key)
        .await?
        .with_context(|| format!("there is no job {key}"))?;
    let mut history = History::new();
    for task in store.tasks(job.id).await? {
        // Times are per page, and only finished volumes have a number of pages.
        if let Some(results) = store.volume_results(task.id).await? {
            history.insert(task.id, (results, store.stage_runs(task.id).await?));
        }
    }
    Ok((job, history))
}
