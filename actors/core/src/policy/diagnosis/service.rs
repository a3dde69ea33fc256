//! Services that are left alone, as reasons why work does not go on.

use chrono::{DateTime, Utc};

use super::{ClusterFacts, Reason};
use crate::domain::{EngineRecord, ErrorCategory, Job, StageError, StageName};

/// Pause of the service that does the stage.
pub(super) fn service_paused(stage: &StageName, cluster: &ClusterFacts) -> Option<Reason> {
    let mut of_services = cluster.pools_of(stage).filter_map(|pool| pool.worker.service());
    let service = of_services.next()?;
    let record = cluster.services.iter().find(|record| record.name == service)?;
    let until = record.paused_until.filter(|until| *until > cluster.now)?;
    Some(Reason::ServicePaused {
        stage: stage.clone(),
        service: service.to_owned(),
        until,
        error: record.error.clone(),
    })
}

/// Pause of a service that the node asks for the stage of a volume that it runs. Its worker waits and keeps the lease meanwhile.
pub(super) fn reader_paused(
    job: &Job,
    stage: &StageName,
    node: &str,
    cluster: &ClusterFacts,
) -> Option<Reason> {
    let asks = |engine: &EngineRecord| job.config.models.of(stage).any(|model| model == engine.service);
    let mut engines = cluster.engines.get(node)?.iter().filter(|engine| asks(engine));
    let (engine, until) = engines.find_map(|engine| Some((engine, paused_until(engine, cluster.now)?)))?;
    Some(Reason::ServicePaused {
        stage: stage.clone(),
        service: engine.service.clone(),
        until,
        error: engine.error.clone(),
    })
}

/// Service that reads the pages of the stage and was away at the last try. A try before the end of its pause would be in vain.
pub(super) fn reader_away(
    job: &Job,
    stage: &StageName,
    until: DateTime<Utc>,
    error: Option<&StageError>,
    cluster: &ClusterFacts,
) -> Option<Reason> {
    let error = error.filter(|error| error.category == ErrorCategory::Service)?;
    // One of the models that the job names for the stage is the service.
    let is_named = |name: &&str| error.message.contains(&format!("service {name}:"));
    let service = job.config.models.of(stage).find(is_named)?;
    let of_nodes = cluster.engines.values().flatten();
    let asked = of_nodes.filter(|engine| engine.service == service);
    // A node that does not leave the service alone may try it at once.
    let paused_until = asked
        .map(|engine| paused_until(engine, cluster.now))
        .min()
        .flatten();
    Some(Reason::ServicePaused {
        stage: stage.clone(),
        service: service.to_owned(),
        until: paused_until.map_or(until, |paused_until| paused_until.max(until)),
        error: Some(error.message.clone()),
    })
}

/// Time before which a node asks the service nothing, if that is still to come.
fn paused_until(engine: &EngineRecord, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
    engine.paused_until.filter(|until| *until > now)
}
