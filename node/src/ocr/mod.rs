//! `node ocr`: state store, artifact store, orchestrator and stage pools in one process.

mod output;
mod progress;
mod session;
mod state;
mod summary;

use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use parkhang_actors::domain::{JobConfig, Pipeline, StageName};
use parkhang_actors::pages::{FolderSource, PageSource, VolumeFolder, discover_volumes, folders_left_out};
use parkhang_actors::stage::ocr_pipeline;
use serde_json::json;

use crate::cli::OcrArgs;
use crate::config::job_defaults;

pub use output::read_note;
pub use session::{Session, SessionOptions};

pub async fn run(arguments: OcrArgs) -> Result<ExitCode> {
    let volumes = discover_volumes(
        &arguments.pages,
        arguments.w_id.as_deref(),
        arguments.i_id.as_deref(),
    )?;
    for folder in folders_left_out(&volumes) {
        eprintln!(
            "warning: {} is left out: the folder above it holds images and is one volume",
            folder.display()
        );
    }
    let mut pairs: Vec<String> = arguments.config.clone();
    pairs.extend(arguments.workers.map(|workers| format!("workers={workers}")));
    pairs.extend(arguments.limit.map(|limit| format!("limit={limit}")));
    let config = job_defaults()?
        .with_overrides(pairs.iter().map(String::as_str))
        .context("--config")?;
    let pipeline = select_stages(arguments.stages.as_deref())?;
    if arguments.dry_run {
        return dry_run(&volumes, &pipeline, &config, arguments.json).await;
    }
    let options = SessionOptions {
        out: arguments.out,
        job: arguments.job,
        database_url: arguments.database_url,
        models: arguments.model,
        device: arguments.device,
        config,
        pipeline,
        force: arguments.force,
        quiet: false,
    };
    let session = Session::open(options, volumes).await?;
    let mut summary = session.run().await?;
    if !summary.interrupted {
        summary.exported = crate::export::export_all(&summary.out, &arguments.export, None, &[]).await?;
    }
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&summary)?);
    } else {
        print!("{}", summary.table());
    }
    Ok(ExitCode::from(summary.exit_code()))
}

/// The stages `FIRST..LAST` of the pipeline; either end may be left out.
fn select_stages(range: Option<&str>) -> Result<Pipeline> {
    let all = ocr_pipeline();
    let Some(range) = range else { return Ok(all) };
    let names = || {
        all.stages()
            .iter()
            .map(StageName::as_str)
            .collect::<Vec<_>>()
            .join(", ")
    };
    let (first, last) = range.split_once("..").unwrap_or((range, range));
    let place = |name: &str, default: usize| {
        if name.is_empty() {
            return Ok(default);
        }
        let found = all.stages().iter().position(|stage| stage.as_str() == name);
        found.with_context(|| format!("--stages: there is no stage {name:?}; the stages are {}", names()))
    };
    let (first, last) = (place(first, 0)?, place(last, all.stages().len() - 1)?);
    if first > last {
        bail!(
            "--stages {range}: the first stage comes after the last; the order is {}",
            names()
        );
    }
    Ok(Pipeline::new(all.stages()[first..=last].to_vec())?)
}

async fn dry_run(
    volumes: &[VolumeFolder],
    pipeline: &Pipeline,
    config: &JobConfig,
    json: bool,
) -> Result<ExitCode> {
    let source = FolderSource::new(volumes.iter().cloned());
    let stages: Vec<&str> = pipeline.stages().iter().map(StageName::as_str).collect();
    let mut planned = Vec::new();
    for found in volumes {
        let pages = source.pages(&found.volume).await?.len();
        let limit = if config.limit > 0 {
            config.limit
        } else {
            usize::MAX
        };
        planned.push((found, pages.min(limit)));
    }
    if json {
        let volumes: Vec<_> = planned
            .iter()
            .map(|(found, pages)| {
                json!({"volume": found.volume.to_string(), "pages": pages, "folder": found.folder})
            })
            .collect();
        println!("{:#}", json!({"stages": stages, "volumes": volumes}));
        return Ok(ExitCode::SUCCESS);
    }
    for (found, pages) in &planned {
        println!("{}\t{pages} pages\t{}", found.volume, found.folder.display());
    }
    let total: usize = planned.iter().map(|(_, pages)| pages).sum();
    println!(
        "volumes: {}, pages: {total}, stages: {}",
        volumes.len(),
        stages.join(", ")
    );
    Ok(ExitCode::SUCCESS)
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
        assert!(
            select_stages(Some("ocr..print"))
                .unwrap_err()
                .to_string()
                .contains("line_detection")
        );
    }
}
