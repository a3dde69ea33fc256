use std::time::Duration;

use super::super::{ArtifactKey, StorageError};
use super::failure::Failure;
use parkhang_core::policy::retry::backoff;

/// Longest delay between two tries, but for the quarter that chance adds.
pub const MAX_BACKOFF: Duration = Duration::from_secs(20);

/// Number of tries of a request and delay between them. The SDK's own retries are off: they stop where the
/// body of an answer begins, and do not tell which try succeeded.
#[derive(Debug, Clone, Copy)]
pub(super) struct Retry {
    pub(super) attempts: u32,
    pub(super) backoff: Duration,
}

/// Failure of a request for good.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) failure: Failure,
    pub(super) attempts: u32,
}

impl Refusal {
    pub(super) fn into_error(self, action: &'static str, key: &ArtifactKey) -> StorageError {
        self.failure.into_error(action, key, self.attempts)
    }
}

impl Retry {
    /// Sends a request until it succeeds, fails for good, or was tried often enough. `request` gets the number of the
    /// try, from 1.
    pub(super) async fn run<T, F>(&self, mut request: impl FnMut(u32) -> F) -> Result<T, Refusal>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let mut attempt = 1;
        loop {
            match request(attempt).await {
                Ok(answer) => return Ok(answer),
                Err(failure) if attempt >= self.attempts || !failure.is_retryable() => {
                    return Err(Refusal {
                        failure,
                        attempts: attempt,
                    });
                }
                Err(failure) => {
                    tracing::debug!(attempt, ?failure, "object store request will be tried again");
                    self.pause(attempt).await;
                }
            }
            attempt += 1;
        }
    }

    /// Waits out the delay after the `attempt`-th try.
    pub(super) async fn pause(&self, attempt: u32) {
        let jitter = rand::random_range(-1.0..=1.0);
        let nominal = backoff(self.backoff.as_secs_f64(), attempt, 0.0).min(MAX_BACKOFF);
        // Chance is added behind the limit: clients that have reached it must not come back all at once.
        tokio::time::sleep(backoff(nominal.as_secs_f64(), 1, jitter)).await;
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::super::failure::Meaning;
    use super::*;

    const RETRY: Retry = Retry {
        attempts: 12,
        backoff: Duration::from_secs(1),
    };

    #[tokio::test(start_paused = true)]
    async fn delays_grow_to_a_bound_and_end() {
        let started = Instant::now();
        let refused = RETRY
            .run(|_| async { Err::<(), _>(Failure::network("SlowDown", "")) })
            .await
            .unwrap_err();
        assert_eq!(refused.attempts, 12);
        // 1 + 2 + 4 + 8 + 16, then 20 each, give or take a quarter.
        let nominal = 31.0 + 6.0 * 20.0;
        let waited = started.elapsed().as_secs_f64();
        assert!(
            (nominal * 0.75..=nominal * 1.25 + 1.0).contains(&waited),
            "{waited}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn success_and_final_failures_end_at_once() {
        let started = Instant::now();
        assert_eq!(RETRY.run(|attempt| async move { Ok(attempt) }).await.unwrap(), 1);
        let denied = Failure::new(Meaning::Shut, "AccessDenied", "");
        let refused = RETRY
            .run(|_| async { Err::<(), _>(denied.clone()) })
            .await
            .unwrap_err();
        assert_eq!(refused.attempts, 1);
        assert_eq!(started.elapsed(), Duration::ZERO);
    }
}
