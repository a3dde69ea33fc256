//! Pace of the requests to one service: so many at once, and none while it asks to be left alone.

use std::time::Duration;

use parkhang_core::domain::FailureKind;
use parkhang_service::ServiceError;
use tokio::sync::{Semaphore, SemaphorePermit, watch};
use tokio::time::{Instant, sleep_until};

/// Tries of a request, with the first one.
const TRIES: u32 = 5;
/// Longest wait that is waited for here; a service that asks for more counts as away.
const LONGEST: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(super) struct Pace {
    permits: Semaphore,
    /// Time before which nothing is sent.
    until: watch::Sender<Instant>,
    backoff: Duration,
}

impl Pace {
    pub(super) fn new(in_flight: usize, backoff: Duration) -> Self {
        Self {
            permits: Semaphore::new(in_flight.clamp(1, Semaphore::MAX_PERMITS)),
            until: watch::Sender::new(Instant::now()),
            backoff,
        }
    }

    /// Waits for the right to send a request.
    pub(super) async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        // It is never closed.
        let permit = self.permits.acquire().await.ok();
        loop {
            let until = *self.until.borrow();
            if until <= Instant::now() {
                return permit;
            }
            sleep_until(until).await;
        }
    }

    /// Sends a request until it has an answer, or no other try is of use.
    pub(super) async fn ask<T, F>(&self, mut request: impl FnMut() -> F) -> Result<T, ServiceError>
    where
        F: Future<Output = Result<T, ServiceError>>,
    {
        let mut tries = 0;
        loop {
            let answer = {
                let _turn = self.turn().await;
                request().await
            };
            let error = match answer {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            tries += 1;
            match wait_before_next(&error, tries, self.backoff) {
                Some(wait) => self.pause(wait),
                None => return Err(error),
            }
        }
    }

    /// Wait after an error of one page within an answer; `None` after the last try.
    pub(super) fn wait_for_page(&self, tries: u32) -> Option<Duration> {
        (tries < TRIES).then(|| doubled(self.backoff, tries))
    }

    /// Sends nothing for this time.
    pub(super) fn pause(&self, wait: Duration) {
        let end = Instant::now() + wait;
        self.until.send_if_modified(|until| {
            let is_later = end > *until;
            if is_later {
                *until = end;
            }
            is_later
        });
    }
}

/// Wait before a request is tried again that has failed so many times; `None` where that is of no use.
fn wait_before_next(error: &ServiceError, tries: u32, backoff: Duration) -> Option<Duration> {
    if error.kind() != FailureKind::Retriable || tries >= TRIES {
        return None;
    }
    let wait = error.retry_after().unwrap_or_else(|| doubled(backoff, tries));
    (wait <= LONGEST).then_some(wait)
}

fn doubled(backoff: Duration, tries: u32) -> Duration {
    backoff
        .saturating_mul(1 << (tries.saturating_sub(1)).min(10))
        .min(LONGEST)
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
    #[test]
    fn the_wait_is_that_of_the_service_or_doubles() {
        let second = Duration::from_secs(1);
        let wait = |error: &ServiceError, tries| wait_before_next(error, tries, second);
        assert_eq!(wait(&busy(Some(7)), 1), Some(7 * second));
        assert_eq!(wait(&busy(None), 1), Some(second));
        assert_eq!(wait(&busy(None), 3), Some(4 * second));
        assert_eq!(wait(&busy(None), TRIES), None);
        assert_eq!(wait(&busy(Some(3600)), 1), None, "so long it counts as away");
        assert_eq!(wait(&ServiceError::NoContent, 1), None);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_sent_while_the_service_asks_to_be_left_alone() {
        let pace = Pace::new(4, Duration::from_secs(1));
        let started = Instant::now();
        let mut answers = vec![Ok(()), Err(busy(None)), Err(busy(Some(9)))];
        let asked = pace.ask(|| std::future::ready(answers.pop().unwrap())).await;
        assert_eq!((asked, started.elapsed()), (Ok(()), Duration::from_secs(11)));
        pace.pause(Duration::from_secs(5));
        pace.pause(Duration::from_secs(2));
        pace.turn().await;
        assert_eq!(started.elapsed(), Duration::from_secs(16));
    }
}
