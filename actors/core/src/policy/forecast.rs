//! Forecast of a job: the work that would be done or recomputed, its causes, and its cost by the cost of such work before.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::domain::{NamedModels, Pipeline, Position, StageName, TaskStatus};

/// Cause for which a stage would be run on a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// The stage has not been done.
    Missing,
    /// The last try failed, and there will be another.
    Failed,
    /// Results are recomputed even where they stand.
    Forced,
    /// A setting that its result depends on has another value.
    ConfigChanged,
    /// The job names another model than the one that made its result, or no node that runs the stage has that.
    ModelChanged,
    /// A stage before it will make something else.
    InputChanged,
}

/// Settings and models that a result was made with, as its run wrote them down.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MadeWith {
    /// Settings that the result depends on: those of the job by its keys, and others of the stage's own.
    pub settings: Map<String, Value>,
    /// Digests of the models, in order.
    pub models: Vec<String>,
    /// Names of the models. A run writes them down beside this.
    #[serde(default, skip_serializing)]
    pub names: Vec<String>,
}

/// Number of volumes of a job that a forecast cannot tell apart.
#[derive(Debug, Clone, PartialEq)]
pub struct Cohort {
    pub position: Position,
    pub status: TaskStatus,
    /// Failed for good.
    pub terminal: bool,
    /// The stages to come recompute what still stands.
    pub forced: bool,
    /// Stages that have been done, now or before a rerun, with the settings and models; `None` where those were not written down.
    pub made: BTreeMap<StageName, Option<MadeWith>>,
    pub volumes: u64,
    /// Number of volumes whose pages are known.
    pub counted: u64,
    /// Number of these pages.
    pub pages: u64,
}

/// Time that a stage took.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Pace {
    /// Median of the seconds per page, over runs that made pages.
    pub seconds_per_page: Option<f64>,
    /// Median of the seconds per volume, for a stage that does not go by pages.
    pub seconds_per_volume: Option<f64>,
    /// Number of runs that this was taken from.
    pub samples: u64,
    /// True if they were runs of this job.
    pub of_this_job: bool,
}

/// Facts that a forecast is made from.
#[derive(Debug, Clone, Copy)]
pub struct Known<'a> {
    pub pipeline: &'a Pipeline,
    /// The job's configuration, all keys.
    pub config: &'a Map<String, Value>,
    /// Models that the job names.
    pub named: &'a NamedModels,
    /// Digests of the models that the nodes which are there have loaded for a stage, each list in order. A stage that no node is
    /// known to run is absent.
    pub models: &'a BTreeMap<StageName, BTreeSet<Vec<String>>>,
    pub paces: &'a BTreeMap<StageName, Pace>,
    /// Pages of a volume, for a job that has none whose pages are known.
    pub pages_of_a_volume: Option<f64>,
}

/// Rerun whose consequences are asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Again {
    pub from: StageName,
    pub force: bool,
}

/// Forecast of one stage, in numbers of volumes.
#[derive(Debug, Clone, PartialEq)]
pub struct StageForecast {
    pub stage: StageName,
    /// Volumes that the stage would be run on, by cause.
    pub runs: BTreeMap<Cause, u64>,
    /// Volumes that it would come to and whose results it would take over.
    pub stands: u64,
    /// Volumes whose results are out of date, by cause, and stay so unless there is a rerun.
    pub outdated: BTreeMap<Cause, u64>,
    /// Volumes among those that stand whose settings and models were not written down.
    pub unknown: u64,
    /// Settings whose values have changed since.
    pub changed_settings: BTreeSet<String>,
    /// Pages to be worked on; absent if no volume's pages are known.
    pub pages: Option<f64>,
    /// Seconds that the work takes on one slot; absent if nothing like it has been done yet.
    pub seconds: Option<f64>,
    pub pace: Option<Pace>,
}

impl StageForecast {
    /// Number of volumes that the stage would be run on.
    pub fn volumes(&self) -> u64 {
        self.runs.values().sum()
    }
}

/// Forecast of a job.
#[derive(Debug, Clone, PartialEq)]
pub struct Forecast {
    pub stages: Vec<StageForecast>,
    /// Number of volumes that failed for good, for which nothing is done.
    pub given_up: u64,
}

/// Forecasts the stages of a job, one by one: for the work that is left, or for a rerun of all volumes given.
///
/// Scans are not looked at: a change of theirs shows when the first stage runs.
pub fn forecast(cohorts: &[Cohort], again: Option<&Again>, known: Known<'_>) -> Forecast {
    let mean = pages_of_a_volume(cohorts).or(known.pages_of_a_volume);
    let mut given_up = 0;
    let stages = known.pipeline.stages().iter();
    let mut stages: Vec<StageForecast> = stages.map(StageForecast::empty).collect();
    for cohort in cohorts {
        let start = match begin(cohort, again, known.pipeline) {
            Some(start) => start,
            None => {
                given_up += cohort.volumes;
                continue;
            }
        };
        let mut input_changes = false;
        for (index, stage) in stages.iter_mut().enumerate() {
            let comes = index >= start;
            let force = comes && (cohort.forced || again.is_some_and(|again| again.force));
            let (cause, settings) = stage.cause(cohort, index == start, force, input_changes, known);
            input_changes |= cause.is_some();
            stage.changed_settings.extend(settings);
            match cause {
                Some(cause) if comes => {
                    *stage.runs.entry(cause).or_default() += cohort.volumes;
                    let pages = match cohort.counted {
                        // No volume of the cohort is counted yet, so the mean of the others stands in.
                        0 => mean.map(|mean| mean * cohort.volumes as f64),
                        // Those that are not counted are taken to be like those that are.
                        counted => Some(cohort.pages as f64 * cohort.volumes as f64 / counted as f64),
                    };
                    stage.pages = pages.map(|pages| pages + stage.pages.unwrap_or_default());
                }
                Some(cause) => *stage.outdated.entry(cause).or_default() += cohort.volumes,
                None if comes => stage.stands += cohort.volumes,
                None => {}
            }
        }
    }
    for stage in &mut stages {
        stage.price(known.paces.get(&stage.stage));
    }
    Forecast { stages, given_up }
}

/// The first stage that work would come to by itself, or with the rerun; None for volumes that are given up.
fn begin(cohort: &Cohort, again: Option<&Again>, pipeline: &Pipeline) -> Option<usize> {
    let stages = pipeline.stages();
    let place = |stage: &StageName| stages.iter().position(|known| known == stage);
    let own = match &cohort.position {
        Position::Pending => 0,
        Position::At(stage) => {
            // A job that was reopened may have lost the stage; then nothing of its pipeline comes after it.
            let at = place(stage).unwrap_or(stages.len());
            if cohort.status == TaskStatus::Done {
                at + 1
            } else {
                at
            }
        }
        Position::Done => stages.len(),
    };
    match again.and_then(|again| place(&again.from)) {
        Some(from) => Some(own.min(from)),
        None if cohort.terminal => None,
        None => Some(own),
    }
}

fn pages_of_a_volume(cohorts: &[Cohort]) -> Option<f64> {
    let counted: u64 = cohorts.iter().map(|cohort| cohort.counted).sum();
    let pages: u64 = cohorts.iter().map(|cohort| cohort.pages).sum();
    (counted > 0).then(|| pages as f64 / counted as f64)
}

impl StageForecast {
    fn empty(stage: &StageName) -> Self {
        Self {
            stage: stage.clone(),
            runs: BTreeMap::new(),
            stands: 0,
            outdated: BTreeMap::new(),
            unknown: 0,
            changed_settings: BTreeSet::new(),
            pages: None,
            seconds: None,
            pace: None,
        }
    }

    /// Cause for which the stage would recompute these volumes, if it would, and the settings whose values have changed.
    fn cause(
        &mut self,
        cohort: &Cohort,
        is_first: bool,
        force: bool,
        input_changes: bool,
        known: Known<'_>,
    ) -> (Option<Cause>, BTreeSet<String>) {
        let nothing = BTreeSet::new();
        if is_first && cohort.status == TaskStatus::Failed {
            return (Some(Cause::Failed), nothing);
        }
        let Some(made) = cohort.made.get(&self.stage) else {
            return (Some(Cause::Missing), nothing);
        };
        if force {
            return (Some(Cause::Forced), nothing);
        }
        if input_changes {
            return (Some(Cause::InputChanged), nothing);
        }
        let Some(made) = made else {
            self.unknown += cohort.volumes;
            return (None, nothing);
        };
        let settings = changed_settings(made, known.config);
        if !settings.is_empty() {
            return (Some(Cause::ConfigChanged), settings);
        }
        let mut named = known.named.of(&self.stage).peekable();
        // Runs that wrote down no names are compared by the digests below alone.
        if named.peek().is_some() && !made.names.is_empty() {
            let is_named = named.any(|named| made.names.iter().any(|name| name == named));
            if !is_named {
                return (Some(Cause::ModelChanged), nothing);
            }
        }
        let loaded = known.models.get(&self.stage);
        let has_gone = loaded.is_some_and(|loaded| !loaded.contains(&made.models));
        (has_gone.then_some(Cause::ModelChanged), nothing)
    }

    fn price(&mut self, pace: Option<&Pace>) {
        let volumes = self.volumes() as f64;
        if self.runs.is_empty() {
            self.pages = Some(0.0);
            self.seconds = Some(0.0);
            return;
        }
        self.pace = pace.copied();
        self.seconds = pace.and_then(|pace| match (pace.seconds_per_page, self.pages) {
            (Some(seconds), Some(pages)) => Some(seconds * pages),
            (Some(_), None) => None,
            (None, _) => pace.seconds_per_volume.map(|seconds| seconds * volumes),
        });
    }
}

/// Settings of the job that the result depends on and that have other values now. What else it depends on comes with the
/// stage's models.
fn changed_settings(made: &MadeWith, config: &Map<String, Value>) -> BTreeSet<String> {
    let changed = made
        .settings
        .iter()
        .filter(|(key, value)| config.get(*key).is_some_and(|now| now != *value));
    changed.map(|(key, _)| key.clone()).collect()
}

#[cfg(test)]
mod tests;
