//! Services that are left alone, as reasons why work does not go on.

use chrono::{DateTime, Utc};

use super::{ClusterFacts, Reason};
use crate::domain::{ErrorCategory, Job, ServiceRecord, StageError, StageName};

/// Pause of the service that does the stage.
pub(super) fn service_paused(stage: &StageName, cluster: &ClusterFacts) -> Option<Reason> {
    let mut of_services = cluster.pools_of(stage).filter_map(|pool| pool.worker.service());
    let service = of_services.next()?;
    let record = record_of(service, cluster)?;
    let until = record.paused_until.filter(|until| *until > cluster.now)?;
    Some(Reason::ServicePaused {
        stage: stage.clone(),
        service: service.to_owned(),
        until,
        error: record.error.clone(),
    })
}

fn record_of<'a>(service: &str, cluster: &'a ClusterFacts) -> Option<&'a ServiceRecord> {
    cluster.services.iter().find(|record| record.name == service)
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
    let paused_until = record_of(service, cluster).and_then(|record| record.paused_until);
    Some(Reason::ServicePaused {
        stage: stage.clone(),
        service: service.to_owned(),
        until: paused_until.map_or(until, |paused_until| paused_until.max(until)),
        error: Some(error.message.clone()),
    })
}
