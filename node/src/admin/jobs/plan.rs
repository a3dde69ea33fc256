//! `job plan`: the work that a job, or a rerun of it, still has to do.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use clap::Args;
use parkhang_actors::stage::{StageModels, StageTable};
use parkhang_core::domain::{ActorKind, Hardware, Job, JobConfig, JobKey, StageName, TaskId};
use parkhang_core::policy::forecast::{self, Again, Cause, Cohort, Forecast, Known, StageForecast};
use parkhang_core::policy::rerun::{Rerun, TaskFilter};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::{find, rerun};
use crate::admin::command::{Access, Answer, Command, Verb};
use crate::admin::text::table;
use crate::admin::{Admin, Refusal};
use crate::words::pluralize;

/// Show what is still to be done for a job, stage by stage, why, and the estimated minutes.
///
/// With --from, show what a rerun from that stage would do. Nothing is changed, and scans are not read: whether they changed shows only
/// when the first stage runs.
#[derive(Debug, Args)]
pub struct Plan {
    /// Name of the job.
    #[arg(value_name = "NAME")]
    job: JobKey,
    /// First stage of a rerun.
    #[arg(long, value_name = "STAGE")]
    from: Option<StageName>,
    /// Plan a rerun that recomputes pages whose results are still valid.
    #[arg(long, requires = "from")]
    force: bool,
}

/// Work that a job, or a rerun of it, still has to do.
#[derive(Debug, Serialize, ToSchema)]
pub struct PlanAnswer {
    job: String,
    /// First stage of the planned rerun.
    from: Option<String>,
    force: bool,
    /// Stages in the order of the pipeline.
    stages: Vec<PlannedStage>,
    /// Volumes that failed for good and are not tried again.
    given_up: u64,
    /// Failed pages of all volumes of the job. Every rerun of the stage at which they failed tries them again, which is not counted
    /// here: only reading the scans shows whether that succeeds.
    failed_pages: u64,
    /// Minutes of GPU slots, for the stages whose cost is known.
    gpu_minutes: f64,
    /// Minutes of CPU slots, for the stages whose cost is known.
    cpu_minutes: f64,
    /// Stages with work whose cost is not known, as no run of them has finished yet.
    unpriced: Vec<String>,
}

/// Stage of the plan. Numbers count volumes unless their comment says otherwise.
#[derive(Debug, Serialize, ToSchema)]
pub struct PlannedStage {
    stage: String,
    /// cpu or gpu; absent for a stage that this build does not have.
    hardware: Option<&'static str>,
    /// Volumes that the stage would run on and compute something for.
    runs: u64,
    /// Volumes of `runs` that are not done yet.
    missing: u64,
    /// Volumes of `runs` that failed and are tried again.
    failed: u64,
    /// Volumes of `runs` that are recomputed because of --force.
    forced: u64,
    /// Volumes of `runs` made with another value of a setting.
    config_changed: u64,
    /// Volumes of `runs` made with another model than the job names or the nodes have loaded.
    model_changed: u64,
    /// Volumes of `runs` made from another result of the stage before.
    input_changed: u64,
    /// Volumes that the stage would run on and whose results are still valid.
    stands: u64,
    /// Volumes with results that are out of date and that only a rerun would make anew.
    outdated: u64,
    /// Reasons for which they are, such as `1 model changed`.
    outdated_causes: Vec<String>,
    /// Volumes whose results do not record what they were made with; they count as valid.
    unknown: u64,
    /// Settings of the job whose values differ from those that results were made with.
    changed_settings: Vec<String>,
    /// Pages to be worked on, estimated by the mean of the volumes whose pages are known.
    pages: Option<f64>,
    /// Minutes of one slot; absent if no run of the stage has finished yet.
    minutes: Option<f64>,
    /// Number of finished runs whose median duration the minutes are estimated by.
    samples: u64,
    /// True if these were runs of this job.
    of_this_job: bool,
}

#[async_trait]
impl Command for Plan {
    const NAME: [&'static str; 2] = ["job", "plan"];
    const ACCESS: Access = Access::Read;
    const VERB: Verb = Verb::Get;
    const PATH: &'static str = "/jobs/{job}/plan";
    type Answer = PlanAnswer;

    async fn run(self, admin: &Admin) -> Result<PlanAnswer, Refusal> {
        let job = find(admin, &self.job).await?;
        let Some(from) = self.from else {
            return plan(admin, &job, None, None).await;
        };
        let rerun = Rerun {
            tasks: TaskFilter::default(),
            from,
            force: self.force,
        };
        rerun::check_stages(&job, Some(&rerun.from), &rerun.tasks)?;
        plan(admin, &job, Some(&rerun), None).await
    }
}

/// Adds the settings that runs have left out because they were the default, where the job has another value now.
fn fill_defaults(cohorts: &mut [Cohort], stages: &StageTable, config: &JobConfig) {
    let defaults = JobConfig::default().keys();
    for cohort in cohorts {
        for (stage, made) in &mut cohort.made {
            let Some(made) = made else { continue };
            for key in stages.settings_of(stage, config).keys() {
                if let Some(default) = defaults.get(key) {
                    made.settings
                        .entry(key.as_str())
                        .or_insert_with(|| default.clone());
                }
            }
        }
    }
}

/// Plans the named tasks of a job, or all of them.
pub async fn plan(
    admin: &Admin,
    job: &Job,
    rerun: Option<&Rerun>,
    tasks: Option<&[TaskId]>,
) -> Result<PlanAnswer, Refusal> {
    let mut cohorts = admin.store.cohorts(job.id, tasks).await?;
    fill_defaults(&mut cohorts, &admin.stages, &job.config);
    let paces = admin.store.paces_of(job.id).await?;
    // Runs record their settings as JSON, so the job's are compared in the same form.
    let Ok(Value::Object(mut config)) = serde_json::to_value(&job.config) else {
        return Err(Refusal::Internal(anyhow::anyhow!("a configuration is no object")));
    };
    for (key, value) in job.config.keys() {
        config.entry(key).or_insert(value);
    }
    let again = rerun.map(|rerun| Again {
        from: rerun.from.clone(),
        force: rerun.force,
    });
    let known = Known {
        pipeline: &job.pipeline,
        config: &config,
        named: &job.config.models,
        models: &loaded_models(admin).await?,
        paces: &paces.stages,
        pages_of_a_volume: paces.pages_of_a_volume,
    };
    let forecast = forecast::forecast(&cohorts, again.as_ref(), known);
    let failed_pages = admin.store.failed_pages(job.id).await?.pages;
    Ok(PlanAnswer::new(
        job,
        again,
        &forecast,
        failed_pages,
        &admin.stages,
    ))
}

/// Digests of the models that the pools of the cluster have loaded, as last reported, by stage. Each element is a set of models
/// that results may have been made with.
async fn loaded_models(admin: &Admin) -> Result<BTreeMap<StageName, BTreeSet<Vec<String>>>, Refusal> {
    let mut models: BTreeMap<StageName, BTreeSet<Vec<String>>> = BTreeMap::new();
    let nodes = admin.store.actors().await?;
    let pools = nodes.into_iter().flat_map(|node| node.actors);
    // A pool without slots is out of service or being replaced, and its models are not loaded.
    for pool in pools.filter(|actor| actor.kind == ActorKind::Pool && actor.slots.is_some()) {
        // The name of a pool that has been replaced is its stage and a number: `ocr.2`.
        let stage = pool.name.split('.').next().unwrap_or_default();
        if let Ok(stage) = StageName::new(stage) {
            let digests: Vec<String> = pool.models.into_iter().map(|model| model.digest).collect();
            let is_chosen = matches!(admin.stages.models_of(&stage), StageModels::Choice(_));
            let loaded = models.entry(stage).or_default();
            // A stage that chooses a model uses one of the loaded ones for a volume; any other stage uses all of them together.
            if is_chosen {
                loaded.extend(digests.into_iter().map(|digest| vec![digest]));
            } else {
                loaded.insert(digests);
            }
        }
    }
    Ok(models)
}

impl PlanAnswer {
    fn new(
        job: &Job,
        again: Option<Again>,
        forecast: &Forecast,
        failed_pages: u64,
        table: &StageTable,
    ) -> Self {
        let stages: Vec<PlannedStage> = forecast
            .stages
            .iter()
            .map(|stage| PlannedStage::new(stage, table))
            .collect();
        let minutes = |hardware: Hardware| {
            stages
                .iter()
                .filter(|stage| stage.hardware == Some(hardware.as_str()))
                .filter_map(|stage| stage.minutes)
                .sum()
        };
        let unpriced = stages.iter().filter(|stage| stage.minutes.is_none());
        Self {
            job: job.key.to_string(),
            force: again.as_ref().is_some_and(|again| again.force),
            from: again.map(|again| again.from.to_string()),
            given_up: forecast.given_up,
            failed_pages,
            gpu_minutes: minutes(Hardware::Gpu),
            cpu_minutes: minutes(Hardware::Cpu),
            unpriced: unpriced.map(|stage| stage.stage.clone()).collect(),
            stages,
        }
    }
}

const fn in_words(cause: Cause) -> &'static str {
    match cause {
        Cause::Missing => "not done",
        Cause::Failed => "failed",
        Cause::Forced => "forced",
        Cause::ConfigChanged => "settings changed",
        Cause::ModelChanged => "model changed",
        Cause::InputChanged => "input changed",
    }
}

impl PlannedStage {
    fn new(stage: &StageForecast, table: &StageTable) -> Self {
        let by = |cause| stage.runs.get(&cause).copied().unwrap_or_default();
        Self {
            stage: stage.stage.to_string(),
            hardware: table.hardware_of(&stage.stage).map(Hardware::as_str),
            runs: stage.volumes(),
            missing: by(Cause::Missing),
            failed: by(Cause::Failed),
            forced: by(Cause::Forced),
            config_changed: by(Cause::ConfigChanged),
            model_changed: by(Cause::ModelChanged),
            input_changed: by(Cause::InputChanged),
            stands: stage.stands,
            outdated: stage.outdated.values().sum(),
            outdated_causes: stage
                .outdated
                .iter()
                .map(|(cause, volumes)| format!("{volumes} {}", in_words(*cause)))
                .collect(),
            unknown: stage.unknown,
            changed_settings: stage.changed_settings.iter().cloned().collect(),
            pages: stage.pages,
            minutes: stage.seconds.map(|seconds| seconds / 60.0),
            samples: stage.pace.map_or(0, |pace| pace.samples),
            of_this_job: stage.pace.is_some_and(|pace| pace.of_this_job),
        }
    }

    fn why(&self) -> String {
        let causes = [
            (self.missing, Cause::Missing),
            (self.failed, Cause::Failed),
            (self.forced, Cause::Forced),
            (self.config_changed, Cause::ConfigChanged),
            (self.model_changed, Cause::ModelChanged),
            (self.input_changed, Cause::InputChanged),
        ];
        let mut causes: Vec<String> = causes
            .into_iter()
            .filter(|(volumes, _)| *volumes > 0)
            .map(|(volumes, cause)| format!("{volumes} {}", in_words(cause)))
            .collect();
        if !self.changed_settings.is_empty() {
            causes.push(format!("({})", self.changed_settings.join(", ")));
        }
        causes.join(", ")
    }

    fn price(&self) -> String {
        match self.minutes {
            Some(minutes) => format!("{minutes:.1}"),
            None => "?".to_owned(),
        }
    }

    fn certainty(&self) -> String {
        match (self.runs, self.samples) {
            (0, _) => String::new(),
            // No run to estimate from is a different statement than an estimate of nought.
            (_, 0) => "nothing like it yet".to_owned(),
            (_, samples) if self.of_this_job => pluralize(samples, "run"),
            (_, samples) => format!("{} of other jobs", pluralize(samples, "run")),
        }
    }
}

impl PlanAnswer {
    /// Returns whether no stage would run.
    fn is_empty(&self) -> bool {
        self.stages.iter().all(|stage| stage.runs + stage.stands == 0)
    }

    fn table(&self) -> String {
        let header = [
            "stage",
            "on",
            "why",
            "stands",
            "out of date",
            "runs",
            "pages",
            "minutes",
            "by",
        ];
        let rows = self.stages.iter().map(|stage| {
            [
                stage.stage.clone(),
                stage.hardware.unwrap_or_default().to_owned(),
                stage.why(),
                stage.stands.to_string(),
                stage.outdated.to_string(),
                stage.runs.to_string(),
                stage
                    .pages
                    .map_or_else(|| "?".to_owned(), |pages| format!("{pages:.0}")),
                stage.price(),
                stage.certainty(),
            ]
        });
        let mut text = table(header, rows, usize::MAX);
        text.push_str(&format!(
            "\n{:.1} minutes of GPU slots and {:.1} of CPU slots",
            self.gpu_minutes, self.cpu_minutes
        ));
        if !self.unpriced.is_empty() {
            text.push_str(&format!(
                "; the cost of {} is not known yet",
                self.unpriced.join(", ")
            ));
        }
        text
    }
}

impl Answer for PlanAnswer {
    fn text(&self) -> String {
        let mut text = if self.is_empty() {
            "nothing is left to do".to_owned()
        } else {
            self.table()
        };
        if self.given_up > 0 {
            text.push_str(&format!(
                "\n{} failed for good; tasks retry tries them again",
                pluralize(self.given_up, "volume")
            ));
        }
        if self.failed_pages > 0 {
            let pages = pluralize(self.failed_pages, "page");
            text.push_str(&match &self.from {
                Some(_) => format!(
                    "\n{pages} failed before; what failed from there on is tried again, and is not counted"
                ),
                None => format!(
                    "\n{pages} failed; once the cause is gone, job rerun {} --from STAGE tries them again",
                    self.job
                ),
            });
        }
        let mut outdated = self.stages.iter().filter(|stage| stage.outdated > 0).peekable();
        if let Some(first) = outdated.peek() {
            let from = first.stage.clone();
            let causes =
                outdated.map(|stage| format!("{}: {}", stage.stage, stage.outdated_causes.join(", ")));
            text.push_str(&format!(
                "\nresults are out of date ({}): job rerun {} --from {from} makes them anew",
                causes.collect::<Vec<_>>().join("; "),
                self.job
            ));
        }
        let unknown = self
            .stages
            .iter()
            .map(|stage| stage.unknown)
            .max()
            .unwrap_or_default();
        if unknown > 0 {
            text.push_str(&format!(
                "\nthe results of {} do not record what they were made with; they count as valid",
                pluralize(unknown, "volume")
            ));
        }
        text
    }
}
