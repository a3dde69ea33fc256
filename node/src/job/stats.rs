//! `node job stats`: what the runs of a job took.

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use parkhang_actors::domain::{JobKey, StageName};
use parkhang_actors::state::{StageStatistics, StateStore};
use serde_json::{Value, json};

use crate::config::{ConfigArgs, Loaded};
use crate::role::database;

#[derive(Debug, Args)]
pub struct StatsArgs {
    #[arg(value_name = "NAME")]
    pub name: String,
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub config: ConfigArgs,
}

pub async fn run(arguments: StatsArgs) -> Result<ExitCode> {
    let loaded = Loaded::read(&arguments.config)?.validated()?;
    let database = database(&loaded).await?;
    let key = JobKey::new(arguments.name)?;
    let job = database.store.job(&key).await?;
    let job = job.with_context(|| format!("there is no job {key}"))?;
    let mut stages = database.store.stage_statistics(job.id).await?;
    let place = |stage: &StageName| job.pipeline.stages().iter().position(|known| known == stage);
    stages.sort_by_key(|stage| place(&stage.stage));
    match arguments.json {
        true => {
            let stages: Vec<Value> = stages.iter().map(described).collect();
            println!("{:#}", json!({ "job": key.as_str(), "stages": stages }));
        }
        false => println!("{}", table(&stages)),
    }
    Ok(ExitCode::SUCCESS)
}

fn described(stage: &StageStatistics) -> Value {
    let mut described = json!(stage);
    described["pages_per_slot_second"] = json!(stage.pages_per_slot_second());
    described
}

fn table(stages: &[StageStatistics]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED).set_header([
        "stage",
        "running",
        "done",
        "failed",
        "interrupted",
        "p50 s",
        "p95 s",
        "pages",
        "pages/s of a slot",
    ]);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let number = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.2}"));
    for stage in stages {
        table.add_row([
            stage.stage.to_string(),
            stage.running.to_string(),
            stage.done.to_string(),
            stage.failed.to_string(),
            stage.interrupted.to_string(),
            number(stage.p50_s),
            number(stage.p95_s),
            stage.pages.to_string(),
            number(stage.pages_per_slot_second()),
        ]);
    }
    table
}
