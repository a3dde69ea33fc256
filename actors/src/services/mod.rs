//! Services that do a stage, for the rows of a table or for the tasks of a pipeline: what both need of them.
//!
//! A [`StageService`] says which service does a stage, and how it is asked. Its [`ServiceHealth`] is the circuit breaker and the rate that all
//! stages of one service share, the poller asks about jobs at a pace of its own, and a [`JobMessage`] is what a service tells by itself.
//!
//! The room knows neither rows nor tasks: what a job is for, and what its end means, is a matter of [`entity`](crate::entity) and
//! [`external`](crate::external).

mod health;
mod message;
mod poller;
mod retries;
mod turns;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parkhang_core::domain::FailureKind;
use parkhang_core::failpoint::Failpoint;
use parkhang_service::{BodyTemplate, JobFailure, JobLook, JobService, ServiceError};
use parkhang_state::StateError;
use parkhang_store::artifact::Digest;
use serde_json::Value;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::debug;

pub use health::ServiceHealth;
pub use message::{JobMessage, MalformedMessage};
pub(crate) use poller::{Page, PolledJobs, poll};
pub use retries::RetryOverrides;
pub use turns::Rate;

/// Looks at work whose job has not been recorded yet when its end is told, and the pause between them.
pub(crate) const LOOKS_AHEAD: u32 = 20;
pub(crate) const LOOK_AHEAD: Duration = Duration::from_millis(100);
/// Tries to write what became of a submit, and the first pause between them, which doubles.
pub(crate) const WRITES: u32 = 6;
pub(crate) const FIRST_WRITE_PAUSE: Duration = Duration::from_millis(100);

/// Service that does a stage, and how it is asked.
#[derive(Debug)]
pub struct StageService {
    /// Name of the service, which stages may share.
    pub name: String,
    pub client: Arc<dyn JobService>,
    /// Template of the body of a submit; without one it is the whole context.
    pub template: Option<BodyTemplate>,
    /// Largest body of a submit, in bytes.
    pub max_body: usize,
    /// Interval at which the service is asked about its jobs.
    pub poll_interval: Duration,
    /// True if the service tells of the end of its jobs by itself.
    pub has_webhook: bool,
    /// Failures that are tried again, or not, otherwise than usual.
    pub retry: RetryOverrides,
    /// Digest of all that decides about the readings of a service that reads the pages of a volume; `None` for one that is sent a body.
    pub reader: Option<Digest>,
}

/// Bounds of a service over all stages that it does.
#[derive(Debug, Clone, Copy)]
pub struct ServiceBounds {
    /// Jobs that it may have at once.
    pub max_in_flight: usize,
    pub rate: Option<Rate>,
}

/// Counter of what services have in hand of others than the asker: tasks at stages, or rows of other tables.
#[async_trait]
pub trait WorkElsewhere: Send + Sync + fmt::Debug {
    /// Counts what a service has in hand of others.
    ///
    /// # Errors
    ///
    /// [`StateError`] if it cannot be counted now.
    async fn in_flight(&self, service: &str) -> Result<usize, StateError>;
}

/// Effect of a message about a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// It is carried out, or was before.
    Processed,
    /// Nothing has had such a job.
    UnknownJob,
}

/// Receiver of messages about jobs: a part of the program that gives work to services.
#[async_trait]
pub trait JobListener: Send + Sync + fmt::Debug {
    /// Carries out what a service tells of a job.
    ///
    /// # Errors
    ///
    /// [`StateError`] if that cannot be written; the message may come again then.
    async fn hear(&self, message: &JobMessage) -> Result<Heard, StateError>;
}

impl StageService {
    /// Makes the body of a submit from what a template may name.
    pub(crate) fn body(&self, context: &Value) -> Result<String, JobFailure> {
        let Some(template) = &self.template else {
            return Ok(context.to_string());
        };
        template
            .render(context, self.max_body)
            .map_err(|error| JobFailure {
                message: error.to_string(),
                kind: FailureKind::Hard,
            })
    }

    /// Submits a job and returns its id.
    pub(crate) async fn submit(
        &self,
        health: &ServiceHealth,
        key: &str,
        body: String,
    ) -> Result<String, ServiceError> {
        let submitted = self.client.submit(key, body).await;
        match &submitted {
            Ok(_) => {
                Failpoint::JobSubmitted.pass();
                health.count_submit();
                health.succeeded();
            }
            Err(error) => {
                health.count_error(error.category().as_str());
                health.failed(error);
            }
        }
        submitted
    }

    /// Asks how a job stands; `None` if the service does not say. It is asked again then, and the job counts as stuck in the end.
    pub(crate) async fn look(&self, health: &ServiceHealth, job: &str) -> Option<JobLook> {
        match self.client.look(job).await {
            Ok(look) => {
                health.succeeded();
                Some(look)
            }
            // The job has an end that nobody can take.
            Err(error @ (ServiceError::TooLarge { .. } | ServiceError::NoContent)) => {
                Some(JobLook::Failed(JobFailure {
                    message: error.to_string(),
                    kind: FailureKind::Hard,
                }))
            }
            Err(error) => {
                health.failed(&error);
                debug!(job, %error, "the service does not say how a job stands");
                None
            }
        }
    }

    /// Returns whether the service gives a sign of life. It is asked for one only while it is in doubt.
    pub(crate) async fn is_there(&self, health: &ServiceHealth) -> bool {
        if !health.is_in_doubt() {
            return true;
        }
        let Err(error) = self.client.reach().await else {
            return true;
        };
        health.failed(&error);
        // An error that is of no service is a sign of life.
        !error.is_of_the_service()
    }
}

/// Failure of a job of which the service knows nothing.
pub(crate) fn lost_job() -> JobFailure {
    JobFailure::new("the service has lost the job")
}

/// Sleeps, unless it is time to stop; returns false then.
pub(crate) async fn slept(time: Duration, stop: &CancellationToken) -> bool {
    tokio::select! {
        () = sleep(time) => true,
        () = stop.cancelled() => false,
    }
}
