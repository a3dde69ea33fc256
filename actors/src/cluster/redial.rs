//! Delays before a peer is dialled again: without an end, more and more rarely while it stays away, and never two nodes in step.

use std::time::Duration;

/// Delays between the attempts to reach a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RedialPolicy {
    /// Delay before the second attempt; each further one is twice as long.
    pub first: Duration,
    /// Longest delay.
    pub longest: Duration,
    /// Length of a session after which the delays start over. A peer that accepts and then ends each session counts as away.
    pub stable_after: Duration,
}

impl Default for RedialPolicy {
    fn default() -> Self {
        Self {
            first: Duration::from_millis(100),
            longest: Duration::from_secs(5),
            stable_after: Duration::from_secs(10),
        }
    }
}

/// Failures with one peer so far.
#[derive(Debug, Clone, Copy)]
pub(super) struct Redial {
    policy: RedialPolicy,
    failures: u32,
}

impl Redial {
    pub(super) fn new(policy: RedialPolicy) -> Self {
        Self { policy, failures: 0 }
    }

    /// Delay after an attempt that failed, or after a session that lasted for `lived`. `jitter` is drawn from 0 to 1 and takes
    /// away up to half of the delay, so that nodes which lost one peer together do not dial it together.
    pub(super) fn delay_after(&mut self, lived: Option<Duration>, jitter: f64) -> Duration {
        if lived.is_some_and(|lived| lived >= self.policy.stable_after) {
            self.failures = 0;
        }
        let doubled = 2_u32.checked_pow(self.failures).unwrap_or(u32::MAX);
        let delay = self.policy.first.saturating_mul(doubled).min(self.policy.longest);
        self.failures = self.failures.saturating_add(1);
        delay.mul_f64(1.0 - jitter.clamp(0.0, 1.0) / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn delays_double_up_to_the_longest_and_start_over() {
        let mut redial = Redial::new(RedialPolicy {
            first: Duration::from_millis(100),
            longest: Duration::from_millis(500),
            stable_after: Duration::from_secs(10),
        });
        let delays = [(); 5].map(|()| redial.delay_after(None, 0.0).as_millis());
        assert_eq!(delays, [100, 200, 400, 500, 500]);
        let short = Duration::from_secs(1);
        assert_eq!(redial.delay_after(Some(short), 0.0).as_millis(), 500);
        let long = Duration::from_secs(10);
        assert_eq!(redial.delay_after(Some(long), 0.0).as_millis(), 100);
        assert_eq!(redial.delay_after(None, 0.0).as_millis(), 200);
    }

    proptest! {
        #[test]
        fn no_delay_is_nothing_or_too_long(failures in 0..200_u32, jitter in -1.0..2.0_f64) {
            let policy = RedialPolicy::default();
            let mut redial = Redial { policy, failures };
            let delay = redial.delay_after(None, jitter);
            prop_assert!(delay >= policy.first / 2);
            prop_assert!(delay <= policy.longest);
        }
    }
}
