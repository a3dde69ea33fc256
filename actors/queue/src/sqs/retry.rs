use std::time::Duration;

use parkhang_core::policy::retry::backoff;
use tokio::time::{Instant, timeout};

use super::failure::Failure;
use crate::QueueError;

/// Longest delay between two tries, but for the quarter that chance adds.
pub const MAX_BACKOFF: Duration = Duration::from_secs(10);

/// Time in which a request must succeed and delay between its tries. The SDK's own retries are off: they know a number of tries and
/// no deadline, and cannot send again the part of a batch that failed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Retry {
    pub(super) patience: Duration,
    pub(super) backoff: Duration,
    /// Longest time of one try.
    pub(super) answer_timeout: Duration,
}

/// Failure for good.
#[derive(Debug, Clone)]
pub(super) struct Refusal {
    pub(super) failure: Failure,
    pub(super) attempts: u32,
}

impl Refusal {
    pub(super) fn into_error(self, action: &'static str, queue: &str) -> QueueError {
        self.failure.into_error(action, queue, self.attempts)
    }
}

/// Results of the entries of a batch that one try settled, by their place in the batch.
pub(super) type Settled<T> = Vec<(usize, Result<T, Failure>)>;

impl Retry {
    /// The same for a request whose answer takes so much longer.
    pub(super) fn waiting(self, wait: Duration) -> Self {
        Self {
            patience: self.patience + wait,
            answer_timeout: self.answer_timeout + wait,
            ..self
        }
    }

    /// Sends a request until it succeeds, fails for good, or has failed for too long.
    pub(super) async fn run<T, F>(self, mut request: impl FnMut() -> F) -> Result<T, Refusal>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let mut tries = self.tries();
        loop {
            match tries.one(request()).await {
                Ok(answer) => return Ok(answer),
                Err(failure) if !failure.is_retryable() => return Err(tries.refusal(failure)),
                Err(failure) => {
                    if !tries.pause(&failure).await {
                        return Err(tries.refusal(failure));
                    }
                }
            }
        }
    }

    /// Sends a request for `entries` things until each of them has its result. A try gets the places of those that have none;
    /// what it does not answer for counts as failed on the way.
    pub(super) async fn run_batch<T, F>(
        self,
        entries: usize,
        mut request: impl FnMut(Vec<usize>) -> F,
    ) -> Vec<Result<T, Refusal>>
    where
        F: Future<Output = Result<Settled<T>, Failure>>,
    {
        let mut tries = self.tries();
        let mut results: Vec<Option<Result<T, Refusal>>> = (0..entries).map(|_| None).collect();
        loop {
            let open: Vec<usize> = (0..entries).filter(|place| results[*place].is_none()).collect();
            if open.is_empty() {
                break;
            }
            let mut last = Failure::network("NoResult", "the server answered for other entries of the batch");
            let mut failed: Vec<(usize, Failure)> = Vec::new();
            match tries.one(request(open.clone())).await {
                Ok(settled) => {
                    for (place, result) in settled {
                        match result {
                            Ok(done) => results[place] = Some(Ok(done)),
                            Err(failure) => failed.push((place, failure)),
                        }
                    }
                }
                Err(failure) => failed.extend(open.iter().map(|place| (*place, failure.clone()))),
            }
            for (place, failure) in failed.extract_if(.., |(_, failure)| !failure.is_retryable()) {
                results[place] = Some(Err(tries.refusal(failure)));
            }
            let open = || open.iter().filter(|place| results[**place].is_none());
            if open().next().is_none() {
                break;
            }
            if let Some((_, failure)) = failed.first() {
                last = failure.clone();
            }
            if !tries.pause(&last).await {
                let given_up: Vec<usize> = open().copied().collect();
                for place in given_up {
                    let own = failed.iter().find(|(failed, _)| *failed == place);
                    let failure = own.map_or(&last, |(_, failure)| failure).clone();
                    results[place] = Some(Err(tries.refusal(failure)));
                }
            }
        }
        results.into_iter().flatten().collect()
    }

    fn tries(self) -> Tries {
        Tries {
            retry: self,
            end: Instant::now() + self.patience,
            attempts: 0,
        }
    }
}

/// Tries of one request.
struct Tries {
    retry: Retry,
    end: Instant,
    attempts: u32,
}

impl Tries {
    async fn one<T>(&mut self, request: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        self.attempts += 1;
        let limit = self.retry.answer_timeout;
        let late = || Failure::network("TimedOut", format!("no answer within {limit:?}"));
        timeout(limit, request).await.unwrap_or_else(|_| Err(late()))
    }

    /// Waits out the delay after a try; false if that would be too long.
    async fn pause(&self, failure: &Failure) -> bool {
        let jitter = rand::random_range(-1.0..=1.0);
        let nominal = backoff(self.retry.backoff.as_secs_f64(), self.attempts, 0.0).min(MAX_BACKOFF);
        let delay = backoff(nominal.as_secs_f64(), 1, jitter);
        if Instant::now() + delay >= self.end {
            return false;
        }
        tracing::debug!(
            attempt = self.attempts,
            ?failure,
            "queue request will be tried again"
        );
        tokio::time::sleep(delay).await;
        true
    }

    fn refusal(&self, failure: Failure) -> Refusal {
        Refusal {
            failure,
            attempts: self.attempts,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::super::failure::Meaning;
    use super::*;

    const RETRY: Retry = Retry {
        patience: Duration::from_secs(60),
        backoff: Duration::from_secs(1),
        answer_timeout: Duration::from_secs(5),
    };

    fn throttled() -> Failure {
        Failure::network("RequestThrottled", "")
    }

    fn refused() -> Failure {
        Failure::new(Meaning::Stale, "ReceiptHandleIsInvalid", "")
    }

    #[tokio::test(start_paused = true)]
    async fn throttling_is_waited_out_until_the_deadline() {
        let started = Instant::now();
        let refusal = RETRY.run(|| async { Err::<(), _>(throttled()) }).await;
        assert!(refusal.unwrap_err().attempts > 6);
        let waited = started.elapsed();
        assert!(
            waited < RETRY.patience && waited > RETRY.patience - MAX_BACKOFF * 2,
            "{waited:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_server_is_asked_again_and_a_waiting_one_is_waited_for() {
        let tries = RefCell::new(0);
        let answer = RETRY
            .run(|| async {
                let first = tries.replace_with(|tries| *tries + 1) == 0;
                tokio::time::sleep(Duration::from_secs(if first { 6 } else { 4 })).await;
                Ok(())
            })
            .await;
        assert!(answer.is_ok() && *tries.borrow() == 2);
        let slow = || async {
            tokio::time::sleep(Duration::from_secs(20)).await;
            Ok(())
        };
        assert!(RETRY.waiting(Duration::from_secs(20)).run(slow).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn only_the_entries_that_failed_are_sent_again() {
        let requests: RefCell<Vec<Vec<usize>>> = RefCell::default();
        let results = RETRY
            .run_batch(5, |open| {
                let number = requests.borrow().len();
                requests.borrow_mut().push(open.clone());
                async move {
                    match number {
                        // One done, one refused, two throttled, and of one nothing is said.
                        0 => Ok(vec![
                            (0, Ok('a')),
                            (1, Err(refused())),
                            (2, Err(throttled())),
                            (3, Err(throttled())),
                        ]),
                        1 => Err(throttled()),
                        _ => Ok(open.into_iter().map(|place| (place, Ok('b'))).collect()),
                    }
                }
            })
            .await;
        assert_eq!(
            *requests.borrow(),
            [vec![0, 1, 2, 3, 4], vec![2, 3, 4], vec![2, 3, 4]]
        );
        let shown: Vec<String> = results
            .into_iter()
            .map(|result| match result {
                Ok(letter) => letter.to_string(),
                Err(refusal) => format!("refused at {}", refusal.attempts),
            })
            .collect();
        assert_eq!(shown, ["a", "refused at 1", "b", "b", "b"]);
    }

    #[tokio::test(start_paused = true)]
    async fn entries_that_never_succeed_keep_their_own_failure() {
        let results: Vec<Result<(), Refusal>> = RETRY
            .run_batch(2, |open| async move {
                let fail = |place| (place, Err(Failure::network(&format!("E{place}"), "")));
                Ok(open.into_iter().map(fail).collect())
            })
            .await;
        let codes: Vec<String> = results
            .into_iter()
            .map(|result| result.unwrap_err().into_error("send to", "q").to_string())
            .collect();
        assert!(codes[0].contains("E0") && codes[1].contains("E1"), "{codes:?}");
    }
}
