//! Services that are left alone, as reasons why work does not go on.

use chrono::{DateTime, Utc};

use super::{ClusterFacts, Reason};
use crate::domain::{ErrorCategory, Job, StageError, StageName};

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

/// Service that reads the pages of the stage and was away at the last try.
pub(super) fn reader_away(
    job: &Job,
    stage: &StageName,
    until: DateTime<Utc>,
    error: Option<&StageError>,
) -> Option<Reason> {
    let error = error.filter(|error| error.category == ErrorCategory::Service)?;
    // One of the models that the job names for the stage is the service.
    let is_named = |name: &&str| error.message.contains(&format!("service {name}:"));
    let service = job.config.models.of(stage).find(is_named)?;
    Some(Reason::ServicePaused {
        stage: stage.clone(),
        service: service.to_owned(),
        until,
        error: Some(error.message.clone()),
    })
}
