//! Stages that have work and nobody to do it.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use tokio::sync::watch;

use crate::telemetry::{StageDeserted, StageServed};
use parkhang_core::domain::{NodeState, StageName};
use parkhang_core::policy::transition::runnable_stage;
use parkhang_state::{StateError, StateStore};

/// The stages for which tasks wait and no pool is there, as they were last found.
#[derive(Debug)]
pub(super) struct DesertedStages(watch::Sender<BTreeSet<StageName>>);

impl DesertedStages {
    pub(super) fn new(told: watch::Sender<BTreeSet<StageName>>) -> Self {
        Self(told)
    }

    /// Raises an alarm for each stage that is deserted now and was not, and calls it off for the others. A stage that is
    /// `served` by now was joined while the store was asked.
    pub(super) fn found(&self, mut deserted: BTreeSet<StageName>, served: &BTreeSet<StageName>) {
        deserted.retain(|stage| !served.contains(stage));
        let before = self.0.send_replace(deserted.clone());
        for stage in deserted.difference(&before) {
            StageDeserted { stage }.emit();
        }
        for stage in before.difference(&deserted) {
            StageServed { stage }.emit();
        }
    }
}

impl Drop for DesertedStages {
    /// Whoever leads now raises alarms.
    fn drop(&mut self) {
        self.found(BTreeSet::new(), &BTreeSet::new());
    }
}

/// The stages that a task could begin at `now`, which are neither among those `served` nor run by nodes that take their work
/// themselves: the leader knows these by the leases they hold, and by what they tell of themselves.
pub(super) async fn deserted_stages(
    store: &dyn StateStore,
    served: &BTreeSet<StageName>,
    now: DateTime<Utc>,
) -> Result<BTreeSet<StageName>, StateError> {
    let jobs = store.running_jobs().await?;
    let needed = jobs.iter().flat_map(|job| job.pipeline.stages());
    let unserved = needed.filter(|stage| !served.contains(*stage));
    let mut one_each: BTreeMap<StageName, usize> = unserved.map(|stage| (stage.clone(), 1)).collect();
    if one_each.is_empty() {
        return Ok(BTreeSet::new());
    }
    for stage in served_by_others(store, now).await? {
        one_each.remove(&stage);
    }
    let ready = store.ready_tasks(&one_each, now).await?;
    let waiting = ready.tasks.iter();
    let stages =
        waiting.filter_map(|(task, job)| runnable_stage(task, &job.pipeline, job.config.retry_scope));
    Ok(stages
        .filter(|stage| one_each.contains_key(stage))
        .cloned()
        .collect())
}

async fn served_by_others(
    store: &dyn StateStore,
    now: DateTime<Utc>,
) -> Result<BTreeSet<StageName>, StateError> {
    let leases = store.leases(now).await?;
    let nodes = store.nodes().await?;
    let there = nodes.into_iter().filter(|node| node.state == NodeState::Joined);
    let pools = there.flat_map(|node| node.workers).map(|worker| worker.stage);
    Ok(leases
        .held
        .into_iter()
        .map(|held| held.stage)
        .chain(pools)
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_that_was_joined_meanwhile_is_not_deserted() {
        let stages = |names: &[&str]| -> BTreeSet<StageName> {
            names.iter().map(|name| StageName::new(*name).unwrap()).collect()
        };
        let told = watch::Sender::default();
        let deserted = DesertedStages::new(told.clone());
        deserted.found(stages(&["ocr", "reduce"]), &stages(&["ocr"]));
        assert_eq!(*told.borrow(), stages(&["reduce"]));
        deserted.found(stages(&["reduce"]), &stages(&["ocr", "reduce"]));
        assert_eq!(*told.borrow(), stages(&[]));
    }
}
