//! Jobs whose readings a new job combines.

use std::collections::HashSet;

use clap::Args;
use clap::builder::PossibleValuesParser;
use parkhang_actors::stage::READINGS;
use parkhang_algorithms::Combination;
use parkhang_core::domain::{Input, Job, JobConfig, Pipeline, VolumeId};
use parkhang_state::StateStore;
use parkhang_store::artifact::{ArtifactRow, LineImageRow, OcrResultRow};

use crate::admin::jobs::find;
use crate::admin::{Admin, Refusal};

#[derive(Debug, Args)]
pub struct InputArgs {
    /// Combine what these jobs have read, the preferred one first; short for job.inputs. The job has their volumes unless others are
    /// named, and does each as soon as all of them have read it. archive:gv and archive:ocr_qwen_v1 are what the archive's own programs
    /// have read with Google Vision and with a language model.
    #[arg(long, value_name = "JOBS", value_delimiter = ',')]
    inputs: Vec<Input>,
    /// Decide between them so; short for job.how.
    #[arg(long, value_name = "HOW", value_parser = PossibleValuesParser::new(Combination::ALL.map(Combination::as_str)))]
    how: Option<String>,
}

impl InputArgs {
    /// Keys of the configuration that the arguments are short for.
    pub fn pairs(&self) -> impl Iterator<Item = String> + use<> {
        let names: Vec<String> = self.inputs.iter().map(Input::to_string).collect();
        let inputs = (!names.is_empty()).then(|| format!("inputs={}", names.join(",")));
        let how = self.how.as_ref().map(|how| format!("how={how}"));
        inputs.into_iter().chain(how)
    }
}

/// Jobs that a job of this pipeline combines; none for one that reads by itself.
///
/// # Errors
///
/// [`Refusal`] where the pipeline has no use for them or none are named, and for a job that is not there or whose readings cannot be
/// combined.
pub async fn inputs(
    admin: &Admin,
    config: &JobConfig,
    (name, pipeline): (&str, &Pipeline),
) -> Result<Vec<Job>, Refusal> {
    match (combines(admin, pipeline), config.inputs.is_empty()) {
        (false, true) => return Ok(Vec::new()),
        (false, false) => {
            return Err(Refusal::Invalid(format!(
                "pipeline {name} reads by itself; --inputs is for --pipeline combine"
            )));
        }
        (true, true) => {
            return Err(Refusal::Invalid(format!(
                "pipeline {name} makes one text of what other jobs have read; --inputs JOB,JOB names them"
            )));
        }
        (true, false) => {}
    }
    let mut jobs = Vec::new();
    for key in config.inputs.jobs() {
        let job = find(admin, key).await?;
        if job.config.layout != config.layout {
            return Err(Refusal::Invalid(format!(
                "job {key} has another layout of artifacts; --layout or --config layout=... sets that of the new one"
            )));
        }
        if combines(admin, &job.pipeline) || !finds_lines(admin, &job.pipeline) {
            return Err(Refusal::Invalid(format!(
                "job {key} has no lines of its own that could be combined: its pipeline is {}",
                job.operation
            )));
        }
        jobs.push(job);
    }
    Ok(jobs)
}

fn combines(admin: &Admin, pipeline: &Pipeline) -> bool {
    reads(admin, pipeline, READINGS)
}

/// True if a pipeline reads lines that it has cut out of pages.
fn finds_lines(admin: &Admin, pipeline: &Pipeline) -> bool {
    let rows = pipeline
        .stages()
        .iter()
        .filter_map(|stage| admin.stages.get(stage));
    let mut tables = rows.flat_map(|row| row.writes);
    tables.any(|table| table.name == OcrResultRow::TABLE) && reads(admin, pipeline, LineImageRow::TABLE)
}

fn reads(admin: &Admin, pipeline: &Pipeline, table: &str) -> bool {
    let rows = pipeline
        .stages()
        .iter()
        .filter_map(|stage| admin.stages.get(stage));
    rows.flat_map(|row| row.reads.iter().copied().flatten())
        .any(|read| *read == table)
}

/// Volumes of the jobs, each once.
pub async fn volumes(admin: &Admin, jobs: &[Job]) -> Result<Vec<VolumeId>, Refusal> {
    let mut volumes = Vec::new();
    for job in jobs {
        let tasks = admin.store.tasks(job.id).await?;
        volumes.extend(tasks.into_iter().map(|task| task.volume));
    }
    let mut seen = HashSet::new();
    volumes.retain(|volume| seen.insert(volume.clone()));
    Ok(volumes)
}
