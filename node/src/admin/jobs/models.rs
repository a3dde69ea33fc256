//! The models that a job names: whether they can be names, and whether anybody has them.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use parkhang_actors::stage::{StageModels, StageTable};
use parkhang_core::domain::{Job, JobConfig, JobId, NamedModels, Pipeline, StageName};
use parkhang_state::JobTaskCount;

use super::Hands;
use super::obstacles::{Obstacle, obstacles};
use crate::admin::Refusal;

/// Refuses what cannot be the name of a model of the pipeline.
pub fn check(config: &JobConfig, pipeline: &Pipeline, table: &StageTable) -> Result<(), Refusal> {
    let has_models = |stage: &StageName| table.models_of(stage) != StageModels::None;
    for named in config.models.iter() {
        if !pipeline.stages().contains(&named.stage) {
            let stage = &named.stage;
            return Err(Refusal::Invalid(format!("{named}: there is no stage {stage}")));
        }
        if !has_models(&named.stage) {
            let stages = pipeline.stages().iter().filter(|&stage| has_models(stage));
            let stages: Vec<&str> = stages.map(StageName::as_str).collect();
            return Err(Refusal::Invalid(format!(
                "{named}: {} has no model; stages that have are {}",
                named.stage,
                stages.join(" and ")
            )));
        }
        if named.model.contains('/') {
            let path = &named.model;
            return Err(Refusal::Invalid(format!(
                "{path} is a path: a job names its models as `name` of their model.json does; nodes load them from folders (node.models)"
            )));
        }
    }
    Ok(())
}

/// A warning for each stage whose models nobody who is there has loaded, or for which nodes have different ones.
pub fn warnings(models: &NamedModels, hands: Hands<'_>, now: DateTime<Utc>) -> Vec<String> {
    let stages: BTreeSet<&StageName> = models.iter().map(|named| &named.stage).collect();
    let warnings = stages.into_iter().filter_map(|stage| {
        let pools = hands.pools(now).filter(|pool| pool.stage == *stage);
        let loaded: Vec<&[String]> = pools.map(|pool| pool.models.as_slice()).collect();
        if loaded.iter().any(|loaded| models.are_loaded(stage, loaded)) {
            return None;
        }
        let wanted: Vec<&str> = models.of(stage).collect();
        let wanted = wanted.join(" and ");
        let known: BTreeSet<&str> = loaded.iter().copied().flatten().map(String::as_str).collect();
        let known: Vec<&str> = known.into_iter().collect();
        Some(match known[..] {
            [] => format!("no node that is there has loaded {wanted} for {stage}, nor any other model"),
            _ => format!(
                "no node that is there has loaded {wanted} for {stage}; there is {}",
                known.join(", ")
            ),
        })
    });
    let mixed = mixed(models, hands, now);
    let mixed = mixed.iter().map(|(stage, models)| {
        format!(
            "{}; --model {stage}=NAME chooses one",
            mixed_in_words(stage, models)
        )
    });
    warnings.chain(mixed).collect()
}

/// The stages for which the job names no model while the nodes that are there have loaded different ones, with all of those. A
/// volume is then read with what its node has.
pub fn mixed(models: &NamedModels, hands: Hands<'_>, now: DateTime<Utc>) -> Vec<(StageName, Vec<String>)> {
    let mut loaded: BTreeMap<&StageName, BTreeSet<BTreeSet<&String>>> = BTreeMap::new();
    for pool in hands.pools(now).filter(|pool| !pool.models.is_empty()) {
        if models.of(&pool.stage).next().is_none() {
            let of_stage = loaded.entry(&pool.stage).or_default();
            of_stage.insert(pool.models.iter().collect());
        }
    }
    let mixed = loaded.into_iter().filter(|(_, sets)| sets.len() > 1);
    mixed
        .map(|(stage, sets)| {
            let names: BTreeSet<&String> = sets.into_iter().flatten().collect();
            (stage.clone(), names.into_iter().cloned().collect())
        })
        .collect()
}

/// What [`mixed`] found of one stage, in words.
pub fn mixed_in_words(stage: &StageName, models: &[String]) -> String {
    format!(
        "nodes have loaded different models for {stage} ({}), and a volume is read with what its node has",
        models.join(", ")
    )
}

/// For each job that waits for a model which nobody who is there has loaded, what is in its way.
pub fn missed<'a>(
    jobs: impl IntoIterator<Item = &'a Job>,
    counts: &BTreeMap<JobId, Vec<JobTaskCount>>,
    hands: Hands<'_>,
    now: DateTime<Utc>,
) -> Vec<(&'a Job, Obstacle)> {
    let naming = jobs.into_iter().filter(|job| !job.config.models.is_empty());
    let found = naming.flat_map(|job| {
        let counts = counts.get(&job.id).map_or(&[][..], Vec::as_slice);
        let found = obstacles(job, counts, hands, now).into_iter();
        found.map(move |obstacle| (job, obstacle))
    });
    found
        .filter(|(_, obstacle)| matches!(obstacle, Obstacle::NoModel { .. }))
        .collect()
}
