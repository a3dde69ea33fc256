//! `node ocr`: state store, artifact store, orchestrator and stage pools in one process.
//!
//! A laptop runs the same actors, stages, leases and store as a cluster, only in one process and with a private database, so there is one
//! engine to test and one kind of artifact. Two things differ on purpose: the output folder is locked for the run, since nobody else may
//! write it, and leases of an earlier run are ended at once instead of when they expire, since the lock proves that their holder is
//! gone. The room assembles these parts and reports on them; it must not decide what is run next or touch artifacts itself.

mod arguments;
mod input;
mod preview;
mod progress;
mod session;
pub mod state;
mod summary;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use parkhang_actors::stage::{OCR, Pipelines};
use parkhang_core::domain::{JobKey, Pipeline, StageName};
use parkhang_store::storage::{ArtifactStore, LocalStore};

use self::preview::{Preview, PreviewOptions};
use crate::config::{Loaded, StorageKind};
use crate::export::{Format, FormatArgs, Results, export_all};
use crate::storage;

pub use arguments::OcrArgs;
pub use input::Input;
pub use session::{Session, SessionOptions};
pub use summary::FailedPage;

pub async fn run(arguments: OcrArgs) -> Result<ExitCode> {
    let loaded = Loaded::apart(&arguments.buckets)?.validated()?;
    let input = Input::of(&arguments, &loaded.config.pages).await?;
    let mut pairs: Vec<String> = arguments.config.clone();
    pairs.extend(arguments.workers.map(|workers| format!("workers={workers}")));
    pairs.extend(arguments.limit.map(|limit| format!("limit={limit}")));
    if arguments.force {
        pairs.push("force=true".to_owned());
    }
    let config = loaded
        .config
        .job
        .clone()
        .with_overrides(pairs.iter().map(String::as_str))
        .context("--config")?;
    let pipeline = select_stages(arguments.stages.as_deref())?;
    let storage = &loaded.config.storage;
    let bucket = match storage.kind {
        StorageKind::Local => None,
        StorageKind::S3 => Some((storage.s3.clone(), storage::artifacts(&loaded).await?)),
    };
    if arguments.dry_run {
        let models = session::load_models(&arguments.model, &arguments.device, &config).await?;
        let artifacts: Arc<dyn ArtifactStore> = match bucket {
            Some((_, store)) => store,
            // Opening a folder for writing would create it.
            // Nothing is locked either: a dry run may look at a folder that another process is working on.
            None => Arc::new(LocalStore::for_reading(&arguments.out)),
        };
        let options = PreviewOptions {
            job: JobKey::new(arguments.job).context("--job")?,
            config,
            pipeline,
            models,
            artifacts,
        };
        let preview = Preview::of(options, &input).await?;
        if arguments.json {
            println!("{}", serde_json::to_string_pretty(&preview)?);
        } else {
            println!("{preview}");
        }
        return Ok(ExitCode::SUCCESS);
    }
    let options = SessionOptions {
        out: arguments.out,
        job: arguments.job,
        database_url: arguments.database_url,
        models: arguments.model,
        device: arguments.device,
        config,
        pipeline,
        bucket,
    };
    let session = Session::open(options, input).await?;
    let mut summary = session.run().await?;
    // An export of half a volume would look finished.
    if !summary.interrupted {
        summary.exported = exported(&summary.out, &arguments.export, &arguments.options).await?;
    }
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&summary)?);
    } else {
        print!("{}", summary.table());
    }
    Ok(ExitCode::from(summary.exit_code()))
}

/// Exports all volumes that have text; returns the folders and files made.
async fn exported(out: &Path, formats: &[Format], options: &FormatArgs) -> Result<Vec<PathBuf>> {
    let results = Results::of_folder(out).await?;
    let mut written = Vec::new();
    export_all(&results, formats, options, &out.join("export"), &[], |path| {
        written.push(path)
    })
    .await?;
    Ok(written)
}

/// Returns the stages `FIRST..LAST` of the pipeline; either end may be left out.
fn select_stages(range: Option<&str>) -> Result<Pipeline> {
    let pipelines = Pipelines::built_in();
    let all = pipelines.get(OCR)?;
    let Some(range) = range else {
        return Ok(all.clone());
    };
    // A single name stands for a range of one stage.
    let (first, last) = range.split_once("..").unwrap_or((range, range));
    let place = |name: &str, default: usize| {
        if name.is_empty() {
            return Ok(default);
        }
        all.place_of(name).context("--stages")
    };
    let (first, last) = (place(first, 0)?, place(last, all.stages().len() - 1)?);
    if first > last {
        bail!(
            "--stages {range}: the first stage comes after the last; the order is {}",
            all.stages()
                .iter()
                .map(StageName::as_str)
                .collect::<Vec<_>>()
                .join(", ")
        );
    }
    Ok(Pipeline::new(all.stages()[first..=last].to_vec())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_stages() {
        let stages = |range: &str| -> Vec<String> {
            select_stages(Some(range))
                .unwrap()
                .stages()
                .iter()
                .map(ToString::to_string)
                .collect()
        };
        assert_eq!(stages("ocr..reduce"), ["ocr", "reduce"]);
        assert_eq!(stages("..line_extraction"), ["line_detection", "line_extraction"]);
        assert_eq!(stages("ocr"), ["ocr"]);
        assert!(select_stages(Some("reduce..ocr")).is_err());
        let unknown = select_stages(Some("ocr..reduec")).unwrap_err();
        assert!(
            format!("{unknown:#}").starts_with("--stages: there is no stage reduec (did you mean reduce?)"),
            "{unknown:#}"
        );
    }
}
