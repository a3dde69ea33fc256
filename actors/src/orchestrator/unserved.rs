//! Stages that have work and nobody to do it.

use std::collections::{BTreeMap, BTreeSet};

use chrono::TimeDelta;
use tokio::sync::watch;

use crate::telemetry::{StageDeserted, StageServed};
use parkhang_core::domain::{PoolInfo, StageName};
use parkhang_core::policy::diagnosis::{ClusterFacts, Reason, of_task};
use parkhang_state::{StateError, StateStore};

/// The stages for which tasks wait and no pool is there, as they were last found.
#[derive(Debug)]
pub(super) struct UnservedStages(watch::Sender<BTreeSet<StageName>>);

impl UnservedStages {
    pub(super) fn new(reported: watch::Sender<BTreeSet<StageName>>) -> Self {
        Self(reported)
    }

    /// Raises an alarm for each stage that is unserved now and was not, and calls it off for the others. A stage that is
    /// `served` by now was joined while the store was asked.
    pub(super) fn found(&self, mut unserved: BTreeSet<StageName>, served: &BTreeSet<StageName>) {
        unserved.retain(|stage| !served.contains(stage));
        let before = self.0.send_replace(unserved.clone());
        for stage in unserved.difference(&before) {
            StageDeserted { stage }.emit();
        }
        for stage in before.difference(&unserved) {
            StageServed { stage }.emit();
        }
    }
}

impl Drop for UnservedStages {
    /// Whoever leads now raises alarms.
    fn drop(&mut self) {
        self.found(BTreeSet::new(), &BTreeSet::new());
    }
}

/// Reads the stages that tasks wait for and nobody runs: neither the leader's `pools`, nor nodes that take their work
/// themselves. The leader knows these by the leases they hold, and by what they record of themselves.
pub(super) async fn unserved_stages(
    store: &dyn StateStore,
    pools: Vec<PoolInfo>,
) -> Result<BTreeSet<StageName>, StateError> {
    let jobs = store.running_jobs().await?;
    let needed: BTreeSet<&StageName> = jobs.iter().flat_map(|job| job.pipeline.stages()).collect();
    let is_served = |stage: &StageName| pools.iter().any(|pool| pool.stage == *stage);
    // So it is nearly always, and then nothing more is asked of the store.
    if needed.iter().all(|stage| is_served(stage)) {
        return Ok(BTreeSet::new());
    }
    let now = store.now().await?;
    let held = store.leases(now).await?.held;
    let nodes = store.nodes().await?;
    // Nodes that are silent for too long are recorded as lost.
    let mut cluster = ClusterFacts::of_records(true, &nodes, held, TimeDelta::MAX, now);
    cluster.pools.extend(pools);
    let unserved = needed.into_iter().filter(|stage| !cluster.is_run(stage));
    let one_each: BTreeMap<StageName, usize> = unserved.map(|stage| (stage.clone(), 1)).collect();
    let mut unserved = BTreeSet::new();
    for (task, job) in store.ready_tasks(&one_each, now).await?.tasks {
        if let Reason::NoPool { stage, .. } = of_task(&task, &job, &cluster, None) {
            unserved.insert(stage);
        }
    }
    Ok(unserved)
}

#[cfg(test)]
mod tests {
    use super::*;
    use parkhang_core::domain::testing::stage;

    #[test]
    fn a_stage_that_was_joined_meanwhile_is_not_deserted() {
        let stages =
            |names: &[&str]| -> BTreeSet<StageName> { names.iter().map(|name| stage(name)).collect() };
        let reported = watch::Sender::default();
        let unserved = UnservedStages::new(reported.clone());
        unserved.found(stages(&["ocr", "reduce"]), &stages(&["ocr"]));
        assert_eq!(*reported.borrow(), stages(&["reduce"]));
        unserved.found(stages(&["reduce"]), &stages(&["ocr", "reduce"]));
        assert_eq!(*reported.borrow(), stages(&[]));
    }
}
