//! Count of the jobs that wait for a model which no node has loaded.

use std::collections::BTreeMap;
use std::time::Instant;

use parkhang_actors::telemetry::ModelsMissed;
use parkhang_core::domain::StageName;
use parkhang_core::policy::diagnosis::Reason;
use parkhang_state::{PostgresStore, StateError, StateStore};
use tracing::debug;

use super::watch::{COUNT_INTERVAL, COUNT_PAUSE};
use crate::admin::{by_job, cluster_facts, missing_models};
use crate::config::ClusterConfig;

/// Counts such jobs for ever, while this process leads, and publishes their number.
pub async fn look_for_missed_models(store: &PostgresStore, config: &ClusterConfig) {
    let mut levels = ModelsMissed::default();
    loop {
        let began = Instant::now();
        match by_stage(store, config).await {
            Ok(jobs) => levels.publish(jobs),
            Err(error) => debug!(%error, "cannot see which models are missed"),
        }
        tokio::time::sleep(COUNT_INTERVAL.max(began.elapsed() * COUNT_PAUSE)).await;
    }
}

async fn by_stage(
    store: &PostgresStore,
    config: &ClusterConfig,
) -> Result<BTreeMap<StageName, usize>, StateError> {
    let mut jobs = store.running_jobs().await?;
    // Most jobs name no model, and then the counts of all tasks need not be read.
    jobs.retain(|job| !job.config.models.is_empty());
    let mut missing = BTreeMap::new();
    if jobs.is_empty() {
        return Ok(missing);
    }
    let counts = by_job(store.job_task_counts(None).await?);
    let cluster = cluster_facts(store, config).await?;
    for (_, reason) in missing_models(jobs.iter().map(AsRef::as_ref), &counts, &cluster) {
        if let Reason::NoModel { stage, .. } = reason {
            *missing.entry(stage).or_default() += 1;
        }
    }
    Ok(missing)
}
