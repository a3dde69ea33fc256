//! Circuit breaker of a service: it is left alone after a failure, longer after each further one, and then tried with one request.

use std::time::{Duration, Instant};

use super::service::pause_after;

/// Failures of a service in a row, and the time until which it is left alone. Requests that were under way together fail together, which is
/// one failure.
#[derive(Debug, Clone)]
pub struct Breaker {
    /// Pause after the first failure.
    first_pause: Duration,
    failures: u32,
    until: Option<Instant>,
}

impl Breaker {
    pub const fn new(first_pause: Duration) -> Self {
        Self {
            first_pause,
            failures: 0,
            until: None,
        }
    }

    /// Takes over what another process has found out: so many failures, and the rest of its pause.
    pub fn restore(&mut self, failures: u32, rest: Duration, now: Instant) {
        self.failures = failures;
        self.until = now.checked_add(rest);
    }

    pub const fn failures(&self) -> u32 {
        self.failures
    }

    /// True after a failure, until something has succeeded: one request alone finds out.
    pub const fn is_in_doubt(&self) -> bool {
        self.failures > 0
    }

    /// Returns the rest of the pause; zero if there is none.
    pub fn pause(&self, now: Instant) -> Duration {
        let until = self.until;
        until.map_or(Duration::ZERO, |until| until.saturating_duration_since(now))
    }

    /// Notes a success. A pause stays: the answer may be of a request from before it. Returns true if the service was in doubt until now.
    pub fn succeeded(&mut self, now: Instant) -> bool {
        let is_over = self.is_in_doubt() && self.pause(now).is_zero();
        if is_over {
            (self.failures, self.until) = (0, None);
        }
        is_over
    }

    /// Notes a failure of the service, which may ask to be left alone for some time; `jitter` is drawn from -1 to 1. Returns the rest of the
    /// pause if it is another one.
    pub fn failed(&mut self, asked: Option<Duration>, jitter: f64, now: Instant) -> Option<Duration> {
        let is_paused = !self.pause(now).is_zero();
        if is_paused && asked.is_none() {
            return None;
        }
        if !is_paused {
            self.failures = self.failures.saturating_add(1);
        }
        let until = now + pause_after(self.first_pause, self.failures, asked, jitter);
        self.until = Some(self.until.map_or(until, |before| before.max(until)));
        Some(self.pause(now))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn failures_together_are_one_and_the_longest_pause_stands() {
        let (mut breaker, now) = (Breaker::new(SECOND), Instant::now());
        assert_eq!(breaker.failed(None, 0.0, now), Some(SECOND));
        assert_eq!(breaker.failed(None, 0.0, now), None);
        assert_eq!(breaker.failed(Some(7 * SECOND), 0.0, now), Some(7 * SECOND));
        assert_eq!(breaker.failed(Some(2 * SECOND), 0.0, now), Some(7 * SECOND));
        assert_eq!(breaker.failures(), 1);
        assert!(!breaker.succeeded(now), "that was asked before the pause");
        let later = now + 7 * SECOND;
        assert_eq!(breaker.failed(None, 0.0, later), Some(2 * SECOND));
        assert!(breaker.succeeded(later + 2 * SECOND) && !breaker.is_in_doubt());
        breaker.restore(3, 9 * SECOND, now);
        assert_eq!((breaker.failures(), breaker.pause(now)), (3, 9 * SECOND));
    }

    /// Request of a random history: the milliseconds since the one before it, and whether it succeeds.
    type Step = (u64, bool, Option<u64>);

    proptest! {
        #[test]
        fn a_pause_is_bounded_and_ends_in_doubt(
            steps in prop::collection::vec((0..400_000_u64, any::<bool>(), prop::option::of(0..9_999_u64)), 0..60),
            jitter in -1.0..=1.0_f64,
        ) {
            let (mut breaker, mut now) = (Breaker::new(SECOND), Instant::now());
            for (passed, good, asked) in steps as Vec<Step> {
                now += Duration::from_millis(passed);
                let before = breaker.pause(now);
                if good {
                    let is_over = breaker.succeeded(now);
                    prop_assert!(!is_over || (before.is_zero() && !breaker.is_in_doubt()));
                } else {
                    breaker.failed(asked.map(Duration::from_secs), jitter, now);
                    prop_assert!(breaker.is_in_doubt() && breaker.pause(now) >= before);
                    prop_assert!(!breaker.pause(now).is_zero());
                }
                prop_assert!(breaker.pause(now) <= Duration::from_secs(375));
            }
        }
    }
}
