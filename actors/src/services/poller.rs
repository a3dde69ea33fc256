//! Poller: asks a service how the jobs stand that it has.

use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream;
use parkhang_core::domain::StageLimits;
use parkhang_core::failpoint::Failpoint;
use parkhang_core::policy::service::polled_from;
use parkhang_service::JobLook;
use parkhang_state::StateError;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::{ServiceHealth, StageService, slept};

/// Jobs that are read at once, and asked about at once.
const PAGE: u32 = 100;
const AT_ONCE: usize = 8;

/// Jobs in the hands of a service, in an order.
#[derive(Debug)]
pub(crate) struct Page<J> {
    /// Jobs, each with its id at the service.
    pub(crate) jobs: Vec<(String, J)>,
    /// Place behind which the next page begins; `None` if there is none.
    pub(crate) next: Option<J>,
}

/// Record of the jobs that a service has of a stage.
#[async_trait]
pub(crate) trait PolledJobs: Sync {
    type Job: Clone + Send + Sync;

    /// Returns the first jobs behind a place that are of this age, so many at most.
    async fn page(
        &self,
        age: Duration,
        after: Option<&Self::Job>,
        limit: u32,
    ) -> Result<Page<Self::Job>, StateError>;

    /// Writes the end of a job, if it has one.
    async fn record_look(&self, id: &str, job: &Self::Job, look: JobLook) -> Result<(), StateError>;

    /// Notes that the service was asked about these jobs.
    async fn note_looks(&self, _: &[Self::Job]) -> Result<(), StateError> {
        Ok(())
    }

    /// Notes that the record does not answer.
    fn unanswered(&self, error: &StateError);
}

/// Asks about all jobs, at each interval, until it is time to stop.
pub(crate) async fn poll(
    polled: &impl PolledJobs,
    service: &StageService,
    limits: &StageLimits,
    stop: &CancellationToken,
) {
    let interval = service.poll_interval;
    // Apart from that of submits: a service may take no more work and still tell of what it has.
    let health = ServiceHealth::new(&service.name, None);
    // A job is not asked about before it can be known everywhere in its service.
    let age = polled_from(limits, service.has_webhook).max(interval);
    loop {
        let quarter = interval.mul_f64(rand::random_range(0.0..=0.25));
        if !slept(health.pause().max(interval - quarter), stop).await {
            return;
        }
        if let Err(error) = round(polled, service, &health, age, stop).await {
            polled.unanswered(&error);
        }
    }
}

async fn round<B: PolledJobs>(
    polled: &B,
    service: &StageService,
    health: &ServiceHealth,
    age: Duration,
    stop: &CancellationToken,
) -> Result<(), StateError> {
    let mut after: Option<B::Job> = None;
    let mut unwritten = 0;
    loop {
        let page = polled.page(age, after.as_ref(), PAGE).await?;
        let jobs: Vec<B::Job> = page.jobs.iter().map(|(_, job)| job.clone()).collect();
        // Before the end of one is written, behind which nobody looks for it. Only shown, so that the round goes on without it.
        if !jobs.is_empty()
            && let Err(error) = polled.note_looks(&jobs).await
        {
            debug!(service = service.name, %error, "looks at jobs of a service are not noted");
        }
        let asked = page
            .jobs
            .iter()
            .map(async |(id, job)| match service.look(health, id).await {
                Some(JobLook::Running) => Ok(()),
                Some(look) => {
                    Failpoint::JobLooked.pass();
                    polled.record_look(id, job, look).await
                }
                None => Ok(()),
            });
        let asked: Vec<_> = asked.collect();
        let mut asked = stream::iter(asked).buffer_unordered(AT_ONCE);
        while let Some(recorded) = asked.next().await {
            match recorded {
                Ok(()) => unwritten = 0,
                // The record of so many in a row is away.
                Err(error) if unwritten + 1 >= AT_ONCE => return Err(error),
                Err(error) => {
                    unwritten += 1;
                    polled.unanswered(&error);
                }
            }
            if stop.is_cancelled() || !health.pause().is_zero() {
                return Ok(());
            }
        }
        drop(asked);
        if page.next.is_none() {
            return Ok(());
        }
        after = page.next;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use parkhang_service::{JobService, ServiceError};
    use serde_json::json;

    use super::super::RetryOverrides;
    use super::*;

    /// Service all of whose jobs are done.
    #[derive(Debug)]
    struct Done;

    #[async_trait]
    impl JobService for Done {
        async fn submit(&self, key: &str, _: String) -> Result<String, ServiceError> {
            Ok(key.to_owned())
        }

        async fn look(&self, _: &str) -> Result<JobLook, ServiceError> {
            Ok(JobLook::Completed(json!("text")))
        }

        async fn cancel(&self, _: &str) -> Result<(), ServiceError> {
            Ok(())
        }

        async fn reach(&self) -> Result<(), ServiceError> {
            Ok(())
        }
    }

    /// Record of so many jobs, some of whose ends cannot be written.
    struct Record {
        jobs: usize,
        is_unwritable: fn(usize) -> bool,
        written: Mutex<Vec<usize>>,
        told: Mutex<usize>,
    }

    impl Record {
        fn of(jobs: usize, is_unwritable: fn(usize) -> bool) -> Self {
            Self {
                jobs,
                is_unwritable,
                written: Mutex::default(),
                told: Mutex::default(),
            }
        }
    }

    #[async_trait]
    impl PolledJobs for Record {
        type Job = usize;

        async fn page(&self, _: Duration, after: Option<&usize>, _: u32) -> Result<Page<usize>, StateError> {
            let jobs = after.map_or(0, |after| after + 1)..self.jobs;
            Ok(Page {
                jobs: jobs.map(|job| (job.to_string(), job)).collect(),
                next: None,
            })
        }

        async fn record_look(&self, _: &str, job: &usize, _: JobLook) -> Result<(), StateError> {
            if (self.is_unwritable)(*job) {
                return Err(StateError::Unavailable("no room".to_owned()));
            }
            self.written.lock().unwrap().push(*job);
            Ok(())
        }

        fn unanswered(&self, _: &StateError) {
            *self.told.lock().unwrap() += 1;
        }
    }

    async fn one_round(record: &Record) -> Result<(), StateError> {
        let service = StageService {
            name: "llm".to_owned(),
            client: Arc::new(Done),
            template: None,
            max_body: 1000,
            poll_interval: Duration::from_secs(1),
            has_webhook: false,
            retry: RetryOverrides::default(),
            reader: None,
        };
        let health = ServiceHealth::new("llm", None);
        round(
            record,
            &service,
            &health,
            Duration::ZERO,
            &CancellationToken::new(),
        )
        .await
    }

    /// Rows: 231.
    #[tokio::test]
    async fn a_job_that_cannot_be_written_keeps_no_other_from_its_end() {
        let record = Record::of(40, |job| job % 7 == 3);
        one_round(&record).await.unwrap();
        let mut written = record.written.lock().unwrap().clone();
        written.sort_unstable();
        let expected: Vec<usize> = (0..40).filter(|job| job % 7 != 3).collect();
        assert_eq!((written, *record.told.lock().unwrap()), (expected, 6));

        let away = Record::of(40, |_| true);
        assert!(one_round(&away).await.is_err());
        assert!(
            *away.told.lock().unwrap() < AT_ONCE,
            "a record that is away is not asked forty times"
        );
    }
}
