use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use super::health::HealthPolicy;

/// Recent restarts of a node's pools, those within the window of the policy.
#[derive(Debug, Default)]
pub(super) struct Restarts(VecDeque<Instant>);

/// More restarts than a node may need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{restarts} restarts of pools within {window:?}")]
pub(super) struct TooManyRestarts {
    pub restarts: usize,
    pub window: Duration,
}

impl Restarts {
    /// Counts one more restart, and returns the delay before it.
    pub(super) fn next(&mut self, now: Instant, policy: &HealthPolicy) -> Result<Duration, TooManyRestarts> {
        let window = policy.restart_window;
        self.0.push_back(now);
        while self.0.front().is_some_and(|then| now - *then > window) {
            self.0.pop_front();
        }
        let restarts = self.0.len();
        if restarts > policy.max_restarts {
            return Err(TooManyRestarts { restarts, window });
        }
        // The restart that was counted above lies within the window, so there is at least one.
        let doublings = u32::try_from(restarts - 1).unwrap_or(u32::MAX);
        let backoff = policy
            .restart_backoff
            .saturating_mul(2u32.saturating_pow(doublings));
        Ok(backoff.min(HealthPolicy::MAX_BACKOFF))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> HealthPolicy {
        HealthPolicy {
            max_restarts: 3,
            ..HealthPolicy::default()
        }
    }

    #[test]
    fn delays_double_and_the_node_gives_up() {
        let (mut restarts, now) = (Restarts::default(), Instant::now());
        let delays: Vec<_> = (0..4).map(|_| restarts.next(now, &policy())).collect();
        let milliseconds = [200, 400, 800].map(|delay| Ok(Duration::from_millis(delay)));
        assert_eq!(delays[..3], milliseconds);
        assert_eq!(
            delays[3],
            Err(TooManyRestarts {
                restarts: 4,
                window: policy().restart_window
            })
        );
    }

    #[test]
    fn restarts_of_long_ago_do_not_count() {
        let (mut restarts, mut now) = (Restarts::default(), Instant::now());
        for _ in 0..100 {
            now += Duration::from_secs(40);
            assert!(restarts.next(now, &policy()).unwrap() <= Duration::from_millis(400));
        }
    }

    #[test]
    fn the_delay_has_a_limit() {
        let patient = HealthPolicy {
            max_restarts: 1_000,
            ..policy()
        };
        let (mut restarts, now) = (Restarts::default(), Instant::now());
        let last = (0..1_000).map(|_| restarts.next(now, &patient)).last().unwrap();
        assert_eq!(last, Ok(HealthPolicy::MAX_BACKOFF));
    }
}
