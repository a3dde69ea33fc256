//! `node ocr`: state store, artifact store, orchestrator and stage pools in one process.
//!
//! A laptop runs the same actors, stages, leases and store as a cluster, only in one process and with a private database, so there is one
//! engine to test and one kind of artifact. Two things differ on purpose: the output folder is locked for the run, since nobody else may
//! write it, and leases of an earlier run are ended at once instead of when they expire, since the lock proves that their holder is
//! gone. The room assembles these parts and reports on them; it must not decide what is run next or touch artifacts itself.

mod arguments;
mod input;
mod jobs;
mod preview;
mod progress;
mod session;
pub mod state;
mod summary;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use parkhang_actors::engines::Engine;
use parkhang_actors::stage::DOCUMENTS;
use parkhang_core::domain::{JobConfig, JobKey, NamedModel, NamedModels, Pipeline};
use parkhang_store::storage::{ArtifactStore, LocalStore};

use self::jobs::{RunJob, jobs_of};
use self::preview::{Preview, PreviewOptions};
use self::summary::Summary;
use crate::config::{ConfigArgs, Loaded, StorageKind};
use crate::engines;
use crate::export::{Format, FormatArgs, Results, export_all};
use crate::networks::ModelChoice;
use crate::storage;
use crate::terminal::shown;

pub use arguments::OcrArgs;
pub use input::{Input, InputVolume};
pub use session::{Session, SessionOptions};
pub use summary::{FailedPage, INTERRUPTED};

pub async fn run(arguments: OcrArgs) -> Result<ExitCode> {
    let loaded = Loaded::apart(&arguments.buckets)?.validated()?;
    let config = job_config(&arguments, &loaded)?;
    let engines = engines(&arguments)?;
    let input = Input::of(&arguments, &loaded.config.pages).await?;
    let jobs = jobs_of(&arguments, input)?;
    let storage = &loaded.config.storage;
    let bucket = match storage.kind {
        StorageKind::Local => None,
        StorageKind::S3 => Some((storage.s3.clone(), storage::artifacts(&loaded).await?)),
    };
    if arguments.dry_run {
        preview(&arguments, &config, engines, jobs, bucket.map(|(_, store)| store)).await?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut summary: Option<Summary> = None;
    for job in jobs {
        let models = models(&arguments, &job.pipeline);
        let options = SessionOptions {
            out: arguments.out.clone(),
            job: job.name,
            database_url: arguments.database_url.clone(),
            models,
            engines: engines.clone(),
            device: arguments.device.clone(),
            config: config.clone(),
            pipeline: job.pipeline,
            operation: job.operation,
            bucket: bucket.clone(),
        };
        let done = Session::open(options, job.input).await?.run().await?;
        let interrupted = done.interrupted;
        summary = Some(match summary {
            Some(earlier) => earlier.followed_by(done),
            None => done,
        });
        if interrupted {
            break;
        }
    }
    let mut summary = summary.context("there is nothing to read")?;
    // An export of half a volume would look finished.
    if !summary.interrupted {
        summary.exported = exported(&summary.out, &arguments.export, &arguments.options).await?;
    }
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&summary)?);
    } else {
        print!("{}", shown(&summary.table()));
    }
    Ok(ExitCode::from(summary.exit_code()))
}

/// Returns the configuration of the jobs, with what the flags change of it.
fn job_config(arguments: &OcrArgs, loaded: &Loaded) -> Result<JobConfig> {
    let mut pairs: Vec<String> = arguments.config.clone();
    pairs.extend(arguments.workers.map(|workers| format!("workers={workers}")));
    pairs.extend(arguments.limit.map(|limit| format!("limit={limit}")));
    pairs.extend(arguments.verify.as_ref().map(|how| format!("verify={how}")));
    for (flag, pair) in [
        (arguments.force, "force=true"),
        (arguments.force_ocr, "read_pages=all"),
        (arguments.skip_text, "read_pages=empty"),
    ] {
        pairs.extend(flag.then(|| pair.to_owned()));
    }
    let config = loaded.config.job.clone();
    let mut config = config
        .with_overrides(pairs.iter().map(String::as_str))
        .context("--config")?;
    // It would wait for somebody to raise it, and nobody could.
    if !config.budget.is_zero() {
        bail!(
            "--config budget: jobs of a cluster have budgets; here the volumes that are named are what is read"
        );
    }
    let named = arguments.engine.iter().map(|engine| named(engine, arguments));
    let named: Vec<NamedModel> = named.collect::<Result<_>>()?;
    config.models = NamedModels::new(config.models.iter().cloned().chain(named));
    Ok(config)
}

/// The stage and the service that a value of --engine names.
fn named(engine: &str, arguments: &OcrArgs) -> Result<NamedModel> {
    let stage = match arguments.pipeline.as_deref() {
        Some(DOCUMENTS) => "embed",
        _ => "ocr",
    };
    let named = match engine.contains('=') {
        true => engine.parse(),
        false => format!("{stage}={engine}").parse(),
    };
    named.context("--engine")
}

/// Opens the services that stages ask.
fn engines(arguments: &OcrArgs) -> Result<Vec<Engine>> {
    let named = arguments.engine.iter().map(|engine| named(engine, arguments));
    let names: BTreeSet<String> = named.map(|named| Ok(named?.model)).collect::<Result<_>>()?;
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let config = ConfigArgs {
        config_file: arguments.config_file.clone(),
        ..ConfigArgs::default()
    };
    engines::named(&names, &config)
}

fn models(arguments: &OcrArgs, pipeline: &Pipeline) -> ModelChoice {
    ModelChoice {
        bundles: arguments.model.clone(),
        folder: arguments.models_dir.clone(),
        ..ModelChoice::of_stages(pipeline.stages())
    }
}

/// Prints what the jobs would do.
async fn preview(
    arguments: &OcrArgs,
    config: &JobConfig,
    engines: Vec<Engine>,
    jobs: Vec<RunJob>,
    bucket: Option<Arc<dyn ArtifactStore>>,
) -> Result<()> {
    let mut previews = Vec::new();
    for job in jobs {
        let models = models(arguments, &job.pipeline);
        let artifacts: Arc<dyn ArtifactStore> = match &bucket {
            Some(store) => store.clone(),
            // Opening a folder for writing would create it.
            // Nothing is locked either: a dry run may look at a folder that another process is working on.
            None => Arc::new(LocalStore::for_reading(&arguments.out)),
        };
        let options = PreviewOptions {
            job: JobKey::new(job.name).context("--job")?,
            config: config.clone(),
            pipeline: job.pipeline,
            models: session::load_models(models, engines.clone(), &arguments.device, config).await?,
            artifacts,
        };
        previews.push(Preview::of(options, &job.input).await?);
    }
    match (arguments.json, &previews[..]) {
        (true, [only]) => println!("{}", serde_json::to_string_pretty(only)?),
        (true, several) => println!("{}", serde_json::to_string_pretty(several)?),
        (false, previews) => previews
            .iter()
            .for_each(|preview| println!("{}", shown(&preview.to_string()))),
    }
    Ok(())
}

/// Exports all volumes that have text; returns the folders and files made.
async fn exported(out: &Path, formats: &[Format], options: &FormatArgs) -> Result<Vec<PathBuf>> {
    let results = Results::of_folder(out).await?;
    let mut written = Vec::new();
    let exported = export_all(&results, formats, options, &out.join("export"), &[], |path| {
        written.push(path)
    })
    .await?;
    for reason in &exported.refused {
        eprintln!("{reason}");
    }
    Ok(written)
}
