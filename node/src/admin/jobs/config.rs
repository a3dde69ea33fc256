//! `job config` and `job update`: the configuration of a job.

use std::collections::BTreeMap;

use async_trait::async_trait;
use clap::Args;
use parkhang_actors::stage::StageTable;
use parkhang_core::domain::{Adjustment, Job, JobConfig, JobKey, JobStatus};
use parkhang_state::StateStore;
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::{find, models};
use crate::admin::command::{Access, Answer, Command, Verb};
use crate::admin::{Admin, Refusal};

/// Show the configuration of a job.
#[derive(Debug, Args)]
pub struct Config {
    /// Name of the job.
    #[arg(value_name = "NAME")]
    job: JobKey,
}

/// Configuration of a job, by key.
#[derive(Debug, Serialize, ToSchema)]
pub struct InUse {
    job: String,
    #[schema(value_type = BTreeMap<String, Value>)]
    config: Map<String, Value>,
}

#[async_trait]
impl Command for Config {
    const NAME: [&'static str; 2] = ["job", "config"];
    const ACCESS: Access = Access::Read;
    const VERB: Verb = Verb::Get;
    const PATH: &'static str = "/jobs/{job}/config";
    type Answer = InUse;

    async fn run(self, admin: &Admin) -> Result<InUse, Refusal> {
        let job = find(admin, &self.job).await?;
        Ok(InUse {
            job: job.key.to_string(),
            config: job.config.keys(),
        })
    }
}

impl Answer for InUse {
    fn text(&self) -> String {
        let lines: Vec<String> = self
            .config
            .iter()
            .map(|(key, value)| format!("{key} = {value}"))
            .collect();
        lines.join("\n")
    }
}

/// Change the configuration of a job that is paused, has not started or has ended.
///
/// Stages that still run keep the configuration that they started with. Finished results stay: the answer names the stages whose
/// results the change makes out of date, and the `job rerun` that makes them anew. Example: `job update press k_factor=2.5`.
#[derive(Debug, Args)]
pub struct Update {
    /// Name of the job.
    #[arg(value_name = "NAME")]
    job: JobKey,
    /// Keys to change, such as k_factor=2.5; `docs/config.md` lists all. layout and retry_scope cannot be changed.
    #[arg(value_name = "KEY=VALUE", required_unless_present = "text")]
    config: Vec<String>,
    /// Keys to change, as a JSON object.
    #[arg(long, value_name = "JSON")]
    text: Option<String>,
}

/// Result of an update.
#[derive(Debug, Serialize, ToSchema)]
pub struct Updated {
    job: String,
    changed: BTreeMap<String, Revised>,
    /// Stages whose results are out of date now, in the order of the pipeline.
    stale: Vec<String>,
    /// Command that makes them anew, if there are any.
    advice: Option<String>,
}

/// Value of a key before and after an update.
#[derive(Debug, PartialEq, Serialize, ToSchema)]
pub struct Revised {
    #[schema(value_type = Value)]
    before: Value,
    #[schema(value_type = Value)]
    after: Value,
}

#[async_trait]
impl Command for Update {
    const NAME: [&'static str; 2] = ["job", "update"];
    const ACCESS: Access = Access::Operate;
    const VERB: Verb = Verb::Patch;
    const PATH: &'static str = "/jobs/{job}/config";
    type Answer = Updated;

    async fn run(self, admin: &Admin) -> Result<Updated, Refusal> {
        let job = find(admin, &self.job).await?;
        let text = self.text.as_deref().map(pairs).transpose()?.unwrap_or_default();
        let revision = Adjustment::revision(self.config.into_iter().chain(text))?;
        // Only this build knows which stages have models, so the store cannot check their names.
        models::check(&revision.apply(job.config.clone())?, &job.pipeline, &admin.stages)?;
        // A refused status gets advice only where pausing helps; the store says why it forbids the others.
        let updated =
            admin.store.adjust_job(job.id, &revision).await.map_err(|error| {
                match Refusal::about(&format!("job {}", job.key), error) {
                    Refusal::Conflict(why) if job.status == JobStatus::Running => {
                        Refusal::Conflict(format!("{why}: it has to be paused first"))
                    }
                    refusal => refusal,
                }
            })?;
        let stale = stale(&job, &updated.config, &admin.stages);
        Ok(Updated {
            changed: changed(&job.config.keys(), updated.config.keys()),
            advice: stale
                .first()
                .map(|stage| format!("node job rerun {} --from {stage}", job.key)),
            stale,
            job: job.key.to_string(),
        })
    }
}

fn pairs(text: &str) -> Result<Vec<String>, Refusal> {
    let keys: Map<String, Value> = serde_json::from_str(text)
        .map_err(|error| Refusal::Invalid(format!("--text is no JSON object: {error}")))?;
    Ok(keys.iter().map(|(key, value)| format!("{key}={value}")).collect())
}

fn stale(job: &Job, after: &JobConfig, table: &StageTable) -> Vec<String> {
    let first = table.first_stale(&job.pipeline, &job.config, after);
    job.pipeline
        .stages()
        .iter()
        // Each stage reads what the one before made, so all from the first stale one on are stale.
        .skip_while(|stage| Some(*stage) != first)
        .map(ToString::to_string)
        .collect()
}

fn changed(before: &Map<String, Value>, after: Map<String, Value>) -> BTreeMap<String, Revised> {
    after
        .into_iter()
        .filter_map(|(key, after)| {
            let before = before.get(&key).cloned().unwrap_or_default();
            (before != after).then_some((key, Revised { before, after }))
        })
        .collect()
}

impl Answer for Updated {
    fn text(&self) -> String {
        let mut lines: Vec<String> = self
            .changed
            .iter()
            .map(|(key, value)| format!("{key} = {} (was {})", value.after, value.before))
            .collect();
        if lines.is_empty() {
            lines.push("nothing changed".to_owned());
        }
        if let Some(advice) = &self.advice {
            lines.push(format!(
                "finished results of these stages are out of date: {}; `{advice}` makes them anew",
                self.stale.join(", ")
            ));
        }
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use parkhang_actors::stage::ocr_pipeline;
    use parkhang_core::domain::testing;

    use super::*;

    fn job() -> Job {
        Job {
            pipeline: ocr_pipeline(),
            status: JobStatus::Paused,
            ..testing::job()
        }
    }

    #[test]
    fn a_key_makes_the_results_of_its_stage_and_of_those_behind_it_stale() {
        for (pair, stages) in [
            (
                "line_mode=layout",
                &["line_detection", "line_extraction", "ocr", "reduce"][..],
            ),
            ("k_factor=2.5", &["line_extraction", "ocr", "reduce"]),
            ("beam_width=16", &["ocr", "reduce"]),
            ("models=ocr=m", &["ocr", "reduce"]),
            ("priority=3", &[]),
            ("k_factor=1.7", &[]),
        ] {
            let after = Adjustment::revision([pair]).unwrap().apply(JobConfig::default());
            let stale = stale(&job(), &after.unwrap(), &StageTable::built_in());
            assert_eq!(stale, stages, "{pair}");
        }
    }

    #[test]
    fn an_object_is_pairs() {
        assert_eq!(
            pairs("{\"k_factor\": 2.5, \"encoding\": \"wylie\"}").unwrap(),
            ["encoding=\"wylie\"", "k_factor=2.5"]
        );
        assert!(pairs("[1]").is_err());
    }
}
