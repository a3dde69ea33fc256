//! Health of a service, as far as this process has seen, and the rate at which it is given work.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use parkhang_core::domain::ServiceRecord;
use parkhang_core::policy::breaker::Breaker;
use parkhang_core::policy::service::FIRST_PAUSE;
use parkhang_service::ServiceError;
use parkhang_state::ServiceStore;
use tokio::sync::Notify;
use tokio::time::Instant;
use tracing::{info, warn};

use super::turns::{Rate, Turns};
use crate::telemetry::{service_failed, service_took};

/// Circuit breaker of a service, and the pace of its submits.
#[derive(Debug)]
pub struct ServiceHealth {
    service: String,
    /// Turns of submits, where the service has a rate.
    turns: Option<Turns>,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug)]
struct State {
    breaker: Breaker,
    /// Last failure.
    error: Option<String>,
    /// Number of changes of all these.
    changes: u64,
    /// Jobs that the service has taken, and failures by category, since it is known.
    submits: u64,
    errors: BTreeMap<String, u64>,
}

impl ServiceHealth {
    pub(crate) fn new(service: &str, rate: Option<Rate>) -> Self {
        Self::with_breaker(service, rate, Breaker::new(FIRST_PAUSE))
    }

    /// The same for a service whose rate holds for all together that give it work from the same store.
    pub(crate) fn sharing(service: &str, rate: Option<Rate>, store: Option<Arc<dyn ServiceStore>>) -> Self {
        Self {
            turns: rate.map(|rate| Turns::new(service, rate, store)),
            ..Self::new(service, None)
        }
    }

    pub(crate) fn with_breaker(service: &str, rate: Option<Rate>, breaker: Breaker) -> Self {
        Self {
            service: service.to_owned(),
            turns: rate.map(|rate| Turns::new(service, rate, None)),
            state: Mutex::new(State {
                breaker,
                error: None,
                changes: 0,
                submits: 0,
                errors: BTreeMap::new(),
            }),
            changed: Notify::new(),
        }
    }

    /// Name of the service.
    pub(crate) fn service(&self) -> &str {
        &self.service
    }

    /// Takes over what another process has found out.
    pub(crate) fn restore(&self, record: &ServiceRecord, now: DateTime<Utc>) {
        {
            let mut state = self.state();
            state.submits = state.submits.max(record.submits);
            state.errors.clone_from(&record.errors);
        }
        let rest = record.paused_until.and_then(|until| (until - now).to_std().ok());
        if let Some(rest) = rest {
            let mut state = self.state();
            state.breaker.restore(record.failures, rest, std_now());
            state.error.clone_from(&record.error);
        }
    }

    pub(crate) fn record(&self, now: DateTime<Utc>) -> ServiceRecord {
        let pause = TimeDelta::from_std(self.pause()).unwrap_or_default();
        let state = self.state();
        ServiceRecord {
            name: self.service.clone(),
            failures: state.breaker.failures(),
            paused_until: (!pause.is_zero()).then(|| now + pause),
            error: state.error.clone(),
            submits: state.submits,
            errors: state.errors.clone(),
            told_at: now,
        }
    }

    /// Counts a job that the service has taken.
    pub(crate) fn count_submit(&self) {
        self.state().submits += 1;
        service_took(&self.service);
    }

    /// Counts a failure of a category, such as that of a submit or of a job.
    pub(crate) fn count_error(&self, category: &str) {
        *self.state().errors.entry(category.to_owned()).or_default() += 1;
        service_failed(&self.service, category);
    }

    /// Numbers of submits and of errors so far.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let state = self.state();
        (state.submits, state.errors.values().sum())
    }

    /// Number of changes of the health so far.
    pub(crate) fn changes(&self) -> u64 {
        self.state().changes
    }

    /// Returns the rest of the pause; zero if there is none.
    pub(crate) fn pause(&self) -> Duration {
        self.state().breaker.pause(std_now())
    }

    /// True after a failure, until something has succeeded.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.state().breaker.is_in_doubt()
    }

    /// Last failure, where the service is in doubt.
    pub(crate) fn error(&self) -> Option<String> {
        self.state().error.clone()
    }

    /// Number of jobs that the service may be given now, of which it is being given some: one while it is in doubt, so that a service that is
    /// away does not cost much work a try; and as many as have their turn within a second.
    pub(crate) fn admits(&self, under_way: usize) -> usize {
        if !self.pause().is_zero() {
            return 0;
        }
        let by_health = if self.is_in_doubt() { 1 } else { usize::MAX };
        let turns = self.turns.as_ref();
        let by_rate = turns.map_or(usize::MAX, |turns| turns.rate().get() as usize);
        by_health.min(by_rate).saturating_sub(under_way)
    }

    /// True if the end of a submit makes room for another one.
    pub(crate) fn is_limited(&self) -> bool {
        self.turns.is_some() || self.is_in_doubt()
    }

    /// Leaves each of so many processes its part of the rate, where each gives itself its turns.
    pub(crate) fn share(&self, processes: u32) {
        if let Some(turns) = &self.turns {
            turns.share(processes);
        }
    }

    /// Waits for the turn of a submit.
    pub(crate) async fn turn(&self) {
        if let Some(turns) = &self.turns {
            turns.turn().await;
        }
    }

    /// Waits until the health of the service, or what it may be given, is another one.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Tells whoever waits in [`changed`](Self::changed) to look again.
    pub(crate) fn announce(&self) {
        self.changed.notify_one();
    }

    /// Notes that the service has done what it was asked. A pause stays: the answer may be of a request from before it.
    pub(crate) fn succeeded(&self) {
        let mut state = self.state();
        if state.breaker.succeeded(std_now()) {
            info!(service = self.service, "the service does its work again");
            state.error = None;
            state.changes += 1;
            self.announce();
        }
    }

    /// Notes an error; one that is of the service and not of what it was asked leaves it alone for a while.
    pub(crate) fn failed(&self, error: &ServiceError) {
        if !error.is_of_the_service() {
            return;
        }
        let mut state = self.state();
        let jitter = rand::random_range(-1.0..=1.0);
        let Some(pause) = state.breaker.failed(error.retry_after(), jitter, std_now()) else {
            return;
        };
        state.error = Some(error.to_string());
        state.changes += 1;
        let (service, failures) = (&self.service, state.breaker.failures());
        warn!(service, %error, failures, ?pause, "the service is left alone for a while");
        self.announce();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A few plain values cannot be left half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Time by the clock of the runtime, which tests may stop.
fn std_now() -> std::time::Instant {
    Instant::now().into_std()
}

#[cfg(test)]
mod tests {
    use futures::future::join_all;
    use parkhang_state::MemoryStore;

    use super::*;

    fn busy(retry_after: Option<u64>) -> ServiceError {
        ServiceError::Status {
            status: 429,
            retry_after: retry_after.map(Duration::from_secs),
            message: String::new(),
        }
    }

    /// Rows: 235.
    #[tokio::test(start_paused = true)]
    async fn a_busy_service_is_left_alone_for_as_long_as_it_asks() {
        let health = ServiceHealth::new("llm", None);
        assert_eq!(health.admits(3), usize::MAX - 3);
        // A whole batch, which is one failure.
        for _ in 0..5 {
            health.failed(&busy(Some(7)));
            health.failed(&busy(None));
        }
        health.succeeded();
        assert_eq!(health.pause(), Duration::from_secs(7));
        assert_eq!(health.admits(0), 0);
        tokio::time::advance(Duration::from_secs(8)).await;
        assert!(health.pause().is_zero() && health.is_in_doubt());
        assert_eq!([health.admits(0), health.admits(1)], [1, 0], "one try alone");
        health.succeeded();
        assert!(!health.is_in_doubt());
        health.failed(&ServiceError::NoContent);
        assert!(!health.is_in_doubt(), "that lies in what it was asked");
    }

    #[tokio::test(start_paused = true)]
    async fn submits_have_their_turns_at_the_rate() {
        let health = ServiceHealth::new("llm", Rate::new(4));
        assert_eq!([health.admits(0), health.admits(3), health.admits(5)], [4, 1, 0]);
        let began = Instant::now();
        for _ in 0..9 {
            health.turn().await;
        }
        assert_eq!(began.elapsed(), Duration::from_secs(2));
        tokio::time::advance(Duration::from_secs(60)).await;
        let idle = Instant::now();
        health.turn().await;
        assert_eq!(
            idle.elapsed(),
            Duration::ZERO,
            "nothing is saved up, and nothing owed"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn who_shares_a_store_shares_the_rate() {
        let store: Arc<dyn ServiceStore> = Arc::new(MemoryStore::new());
        let sharing = || ServiceHealth::sharing("llm", Rate::new(8), Some(store.clone()));
        let (here, there) = (sharing(), sharing());
        let began = Instant::now();
        let turns = |health| join_all((0..20).map(move |_| ServiceHealth::turn(health)));
        tokio::join!(turns(&here), turns(&there));
        let gaps = 39;
        assert_eq!(began.elapsed(), Duration::from_secs(1) * gaps / 8);
        let other = ServiceHealth::sharing("scraper", Rate::new(8), Some(store.clone()));
        let began = Instant::now();
        other.turn().await;
        assert_eq!(began.elapsed(), Duration::ZERO, "another service has other turns");
    }

    #[tokio::test(start_paused = true)]
    async fn the_next_leader_leaves_a_service_alone_too() {
        let (first, second) = (ServiceHealth::new("llm", None), ServiceHealth::new("llm", None));
        first.failed(&busy(Some(60)));
        let now = DateTime::from_timestamp(1_700_000_000, 0).unwrap();
        let record = first.record(now);
        assert_eq!(record.paused_until, Some(now + TimeDelta::seconds(60)));
        second.restore(&record, now + TimeDelta::seconds(20));
        assert_eq!(second.pause(), Duration::from_secs(40));
        assert!(second.is_in_doubt());
        let third = ServiceHealth::new("llm", None);
        third.restore(&record, now + TimeDelta::seconds(90));
        assert!(third.pause().is_zero() && !third.is_in_doubt());
    }
}
