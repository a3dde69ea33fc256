//! Pace of the requests to one service: so many at once, none while it is left alone, and one alone while it is in doubt.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Utc};
use parkhang_core::domain::{EngineRecord, FailureKind, ServiceRecord};
use parkhang_core::policy::breaker::Breaker;
use parkhang_service::ServiceError;
use tokio::sync::{MutexGuard, watch};
use tokio::time::{Instant, sleep};

use super::error::Failure;
use super::lately::Lately;
use super::permits::{Permit, Permits};
use crate::services::{Rate, ServiceHealth};

/// Tries of a request, with the first one.
const TRIES: u32 = 5;
/// Longest pause that is waited for here; a service that is left alone for longer counts as away.
const LONGEST: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(super) struct Pace {
    permits: Permits,
    /// Requests under way at once of all nodes that ask the service.
    in_flight: usize,
    /// Number of these nodes, with this one; 0 as long as it is to be told and is not.
    nodes: watch::Sender<u32>,
    /// Held by the one request that is sent while the service is in doubt.
    probe: tokio::sync::Mutex<()>,
    health: ServiceHealth,
    backoff: Duration,
    /// Requests whose answers are awaited.
    under_way: AtomicU64,
    answered: Mutex<Lately>,
}

/// Request under way.
struct UnderWay<'a>(&'a AtomicU64);

impl<'a> UnderWay<'a> {
    fn begin(number: &'a AtomicU64) -> Self {
        number.fetch_add(1, Ordering::Relaxed);
        Self(number)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Right to send a request.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    _permit: Permit<'a>,
    _probe: Option<MutexGuard<'a, ()>>,
}

impl Pace {
    pub(super) fn new(service: &str, in_flight: usize, rate: Option<Rate>, backoff: Duration) -> Self {
        Self {
            permits: Permits::new(in_flight),
            in_flight,
            nodes: watch::Sender::new(1),
            probe: tokio::sync::Mutex::const_new(()),
            health: ServiceHealth::with_breaker(service, rate, Breaker::new(backoff)),
            backoff,
            under_way: AtomicU64::new(0),
            answered: Mutex::default(),
        }
    }

    /// Leaves each of so many nodes its part of what the service may be asked; 0 has this one ask nothing before it knows.
    pub(super) fn share(&self, nodes: u32) {
        if nodes > 0 {
            self.permits.resize(self.in_flight / nodes as usize);
            self.health.share(nodes);
        }
        self.nodes.send_replace(nodes);
    }

    fn answered(&self) -> std::sync::MutexGuard<'_, Lately> {
        // Counts cannot be left half changed.
        self.answered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Describes how the service is doing.
    pub(super) fn record(&self, now: DateTime<Utc>) -> EngineRecord {
        let ServiceRecord {
            name,
            failures,
            paused_until,
            error,
            submits,
            errors,
            ..
        } = self.health.record(now);
        EngineRecord {
            service: name,
            in_flight: self.under_way.load(Ordering::Relaxed),
            answers_lately: self.answered().number(Instant::now()),
            answers: submits,
            errors,
            failures,
            paused_until,
            error,
        }
    }

    /// Waits for the right to send a request.
    ///
    /// # Errors
    ///
    /// [`Failure::LeftAlone`] if that takes too long.
    pub(super) async fn turn(&self) -> Result<Turn<'_>, Failure> {
        // Fails only when this is dropped.
        let _ = self.nodes.subscribe().wait_for(|nodes| *nodes > 0).await;
        let permit = self.permits.acquire().await;
        let mut probe = None;
        loop {
            let rest = self.health.pause();
            if rest > LONGEST {
                let reason = self.health.error().unwrap_or_default();
                return Err(Failure::LeftAlone(reason));
            }
            if !rest.is_zero() {
                // Others may have their turn first, and find out.
                probe = None;
                sleep(rest).await;
            } else if !self.health.is_in_doubt() || probe.is_some() {
                return Ok(Turn {
                    _permit: permit,
                    _probe: probe.filter(|_| self.health.is_in_doubt()),
                });
            } else {
                probe = Some(self.probe.lock().await);
            }
        }
    }

    /// Sends a request until it has an answer, or no other try is of use.
    pub(super) async fn ask<T, F>(&self, mut request: impl FnMut() -> F) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, ServiceError>>,
    {
        let mut tries = 0;
        loop {
            let answer = {
                let _turn = self.turn().await?;
                self.health.turn().await;
                let under_way = UnderWay::begin(&self.under_way);
                let answer = request().await;
                drop(under_way);
                match &answer {
                    Ok(_) => {
                        self.answered().count(Instant::now());
                        self.health.count_submit();
                        self.health.succeeded();
                    }
                    Err(error) => {
                        self.health.count_error(error.category().as_str());
                        self.health.failed(error);
                    }
                }
                answer
            };
            let error = match answer {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            tries += 1;
            if error.kind() != FailureKind::Retriable || tries >= TRIES {
                return Err(Failure::Service(error));
            }
            // The service is not left alone for an answer that makes no sense.
            if !error.is_of_the_service() {
                sleep(doubled(self.backoff, tries)).await;
            }
        }
    }

    /// Notes an error of one page within an answer, which is of the service. Returns false after the last try.
    pub(super) fn may_ask_again(&self, reason: &str, tries: u32) -> bool {
        let error = ServiceError::Status {
            status: 503,
            retry_after: None,
            message: reason.to_owned(),
        };
        self.health.count_error(error.category().as_str());
        if tries >= TRIES {
            return false;
        }
        self.health.failed(&error);
        true
    }
}

fn doubled(backoff: Duration, tries: u32) -> Duration {
    backoff
        .saturating_mul(1 << (tries.saturating_sub(1)).min(10))
        .min(LONGEST)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use futures::future::join_all;

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
    async fn a_service_is_waited_for_as_long_as_it_asks_and_not_for_ever() {
        let pace = Pace::new("vision", 4, None, Duration::from_secs(1));
        let started = Instant::now();
        let mut answers = vec![Ok(()), Err(busy(Some(9))), Err(busy(Some(7)))];
        let asked = pace.ask(|| std::future::ready(answers.pop().unwrap())).await;
        assert_eq!((asked, started.elapsed()), (Ok(()), Duration::from_secs(16)));

        let mut tries = 0;
        let asked = pace.ask(|| {
            tries += 1;
            std::future::ready(Err::<(), _>(busy(None)))
        });
        assert_eq!(asked.await, Err(Failure::Service(busy(None))));
        assert_eq!(tries, TRIES);

        let hour = pace.ask(|| std::future::ready(Err::<(), _>(busy(Some(3600)))));
        assert_eq!(hour.await, Err(Failure::LeftAlone("HTTP 429".to_owned())));
        assert_eq!(pace.health.pause(), Duration::from_secs(300));
        let started = Instant::now();
        let left_alone = pace.ask(|| std::future::ready(Ok(()))).await;
        assert_eq!(left_alone, Err(Failure::LeftAlone("HTTP 429".to_owned())));
        assert!(started.elapsed().is_zero(), "it is not even asked");
    }

    #[tokio::test(start_paused = true)]
    async fn requests_have_their_turns_at_the_rate_of_the_service() {
        let pace = Pace::new("vision", 4, Rate::new(4), Duration::from_secs(1));
        let started = Instant::now();
        for _ in 0..9 {
            pace.ask(|| std::future::ready(Ok(()))).await.unwrap();
        }
        assert_eq!(started.elapsed(), Duration::from_secs(2));
    }

    /// Rows: 84.
    #[tokio::test(start_paused = true)]
    async fn nodes_have_the_bounds_of_a_service_together() {
        let paces = [0; 3].map(|_| Pace::new("vision", 6, Rate::new(6), Duration::from_secs(1)));
        for pace in &paces {
            pace.share(0);
        }
        let under_way = Cell::new(0);
        let most = Cell::new(0);
        let asks = || {
            let asks = paces.iter().flat_map(|pace| [pace; 12]);
            join_all(asks.map(async |pace| {
                let asked = pace.ask(async || {
                    under_way.set(under_way.get() + 1);
                    most.set(most.get().max(under_way.get()));
                    sleep(Duration::from_secs(2)).await;
                    under_way.set(under_way.get() - 1);
                    Ok(())
                });
                asked.await.unwrap();
            }))
        };
        let started = Instant::now();
        let told = async {
            sleep(Duration::from_secs(5)).await;
            assert_eq!(most.get(), 0, "a node asks before it knows of the others");
            paces.iter().for_each(|pace| pace.share(3));
        };
        tokio::join!(asks(), told);
        assert_eq!(most.get(), 6);
        // Two of twelve requests at once of each node, each of them two seconds, and a turn every half second.
        let took = started.elapsed() - Duration::from_secs(5);
        assert!(
            (Duration::from_secs(12)..Duration::from_secs(14)).contains(&took),
            "{took:?}"
        );
        paces.iter().for_each(|pace| pace.share(100));
        most.set(0);
        asks().await;
        assert_eq!(most.get(), 3, "each may ask one");
    }

    /// Rows: 84.
    #[tokio::test(start_paused = true)]
    async fn what_is_under_way_is_told_beside_what_was_answered_and_what_failed() {
        let pace = Pace::new("vision", 4, None, Duration::from_secs(1));
        let now = DateTime::from_timestamp(1_700_000_000, 0).unwrap();
        pace.ask(|| std::future::ready(Ok(()))).await.unwrap();
        let mut asks = Box::pin(pace.ask(std::future::pending::<Result<(), ServiceError>>));
        assert!(futures::poll!(asks.as_mut()).is_pending());
        let working = EngineRecord {
            service: "vision".to_owned(),
            in_flight: 1,
            answers_lately: 1,
            answers: 1,
            errors: [].into(),
            failures: 0,
            paused_until: None,
            error: None,
        };
        assert_eq!(pace.record(now), working);
        drop(asks);
        pace.health.failed(&busy(Some(60)));
        let left_alone = pace.record(now);
        assert_eq!((left_alone.in_flight, left_alone.failures), (0, 1));
        assert_eq!(
            left_alone.paused_until,
            Some(now + chrono::TimeDelta::seconds(60))
        );
        tokio::time::advance(Duration::from_secs(61)).await;
        let later = pace.record(now);
        assert_eq!((later.answers_lately, later.answers), (0, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn an_error_of_a_page_counts_at_every_try() {
        let pace = Pace::new("vision", 4, None, Duration::from_secs(1));
        assert!(pace.may_ask_again("busy", 1) && !pace.may_ask_again("busy", TRIES));
        assert_eq!(pace.health.counts(), (0, 2));
    }

    #[tokio::test(start_paused = true)]
    async fn one_request_alone_finds_out_whether_a_service_is_back() {
        let pace = Pace::new("vision", 10, None, Duration::from_secs(1));
        pace.health.failed(&busy(None));
        let (at_once, most, is_back) = (Cell::new(0), Cell::new(0), Cell::new(false));
        let request = || async {
            at_once.set(at_once.get() + 1);
            if !is_back.get() {
                most.set(most.get().max(at_once.get()));
            }
            sleep(Duration::from_millis(10)).await;
            at_once.set(at_once.get() - 1);
            is_back.set(true);
            Ok(())
        };
        let asked = join_all((0..10).map(|_| pace.ask(request))).await;
        assert_eq!(most.get(), 1);
        assert!(asked.iter().all(Result::is_ok), "{asked:?}");
    }
}
