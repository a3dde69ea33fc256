//! Health of a service, as far as this process has seen.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use parkhang_core::policy::entity::pause_after;
use parkhang_service::ServiceError;
use tokio::time::Instant;
use tracing::{info, warn};

/// Failures of a service in a row, and the time until which it is left alone.
#[derive(Debug, Default)]
pub(super) struct ServiceState(Mutex<Troubles>);

#[derive(Debug, Default)]
struct Troubles {
    failures: u32,
    until: Option<Instant>,
}

impl Troubles {
    fn is_pause(&self) -> bool {
        self.until.is_some_and(|until| until > Instant::now())
    }
}

impl ServiceState {
    /// Returns the rest of the pause; zero if there is none.
    pub(super) fn pause(&self) -> Duration {
        let until = self.troubles().until;
        until.map_or(Duration::ZERO, |until| {
            until.saturating_duration_since(Instant::now())
        })
    }

    /// True after a failure, until something has succeeded.
    pub(super) fn is_in_doubt(&self) -> bool {
        self.troubles().failures > 0
    }

    /// Notes that the service has done what it was asked. A pause stays: the answer may be of a request from before it.
    pub(super) fn succeeded(&self, service: &str) {
        let mut troubles = self.troubles();
        if troubles.failures > 0 && !troubles.is_pause() {
            info!(service, "the service does its work again");
            *troubles = Troubles::default();
        }
    }

    /// Notes an error; one that is of the service and not of what it was asked leaves it alone for a while.
    pub(super) fn failed(&self, service: &str, error: &ServiceError) {
        if !error.is_of_the_service() {
            return;
        }
        let mut troubles = self.troubles();
        // Those that were asked together fail together, which is one failure.
        let is_paused = troubles.is_pause();
        if is_paused && error.retry_after().is_none() {
            return;
        }
        if !is_paused {
            troubles.failures = troubles.failures.saturating_add(1);
        }
        let pause = pause_after(
            troubles.failures,
            error.retry_after(),
            rand::random_range(-1.0..=1.0),
        );
        let until = Instant::now() + pause;
        troubles.until = Some(troubles.until.map_or(until, |before| before.max(until)));
        let failures = troubles.failures;
        warn!(service, %error, failures, ?pause, "the service is left alone for a while");
    }

    fn troubles(&self) -> MutexGuard<'_, Troubles> {
        // Two numbers cannot be left half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
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
        let state = ServiceState::default();
        // A whole batch, which is one failure.
        for _ in 0..5 {
            state.failed("llm", &busy(Some(7)));
            state.failed("llm", &busy(None));
        }
        state.succeeded("llm");
        assert_eq!(state.pause(), Duration::from_secs(7));
        tokio::time::advance(Duration::from_secs(8)).await;
        assert!(state.pause().is_zero() && state.is_in_doubt());
        state.succeeded("llm");
        assert!(!state.is_in_doubt());
        state.failed("llm", &ServiceError::NoContent);
        assert!(!state.is_in_doubt(), "that lies in what it was asked");
    }
}
