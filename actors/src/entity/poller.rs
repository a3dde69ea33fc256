//! Poller of a stage: asks its service how the jobs stand that it has.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream;
use parkhang_core::domain::FailureKind;
use parkhang_core::policy::entity::polled_from;
use parkhang_service::{JobFailure, JobLook, ServiceError};
use parkhang_state::{StateError, SubmittedJob};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::service_state::ServiceState;
use super::{Entities, Station, slept};

/// Jobs that are read from the table at once, and asked about at once.
const PAGE: u32 = 100;
const AT_ONCE: usize = 8;

/// Asks about all jobs, at each interval, until it is time to stop.
pub(super) async fn run(entities: Arc<Entities>, station: Arc<Station>, stop: CancellationToken) {
    let (entities, station, stop) = (&*entities, &*station, &stop);
    let interval = station.service.poll_interval;
    // Apart from that of submits: a service may take no more work and still tell of what it has.
    let state = ServiceState::default();
    loop {
        let quarter = interval.mul_f64(rand::random_range(0.0..=0.25));
        if !slept(state.pause().max(interval - quarter), stop).await {
            return;
        }
        if let Err(error) = round(entities, station, &state, stop).await {
            entities.unanswered(station, &error);
        }
    }
}

async fn round(
    entities: &Entities,
    station: &Station,
    state: &ServiceState,
    stop: &CancellationToken,
) -> Result<(), StateError> {
    let age = polled_from(&station.stage.limits, station.service.has_webhook);
    // A job is not asked about before it can be known everywhere in its service.
    let age: Duration = age.max(station.service.poll_interval);
    let mut last: Option<SubmittedJob> = None;
    loop {
        let jobs = entities
            .table
            .submitted(&station.stage.name, age, last.as_ref(), PAGE)
            .await?;
        let is_last = jobs.len() < PAGE as usize;
        let asked: Vec<_> = jobs
            .iter()
            .map(|job| ask(entities, station, state, job))
            .collect();
        let mut asked = stream::iter(asked).buffer_unordered(AT_ONCE);
        while let Some(settled) = asked.next().await {
            settled?;
            if stop.is_cancelled() || !state.pause().is_zero() {
                return Ok(());
            }
        }
        if is_last {
            return Ok(());
        }
        last = jobs.last().cloned();
    }
}

async fn ask(
    entities: &Entities,
    station: &Station,
    state: &ServiceState,
    job: &SubmittedJob,
) -> Result<(), StateError> {
    let name = &station.service.name;
    let look = match station.service.client.look(&job.job).await {
        Ok(look) => {
            state.succeeded(name);
            look
        }
        // The job has an end that nobody can take.
        Err(error @ (ServiceError::TooLarge { .. } | ServiceError::NoContent)) => {
            JobLook::Failed(JobFailure {
                message: error.to_string(),
                kind: FailureKind::Hard,
            })
        }
        // Nothing is known of the job: it is asked about again, and counts as stuck in the end.
        Err(error) => {
            state.failed(name, &error);
            debug!(id = job.id, job = job.job, %error, "the service does not say how a job stands");
            return Ok(());
        }
    };
    entities.settle(station, &job.id, &job.job, look).await?;
    Ok(())
}
