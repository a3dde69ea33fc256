//! Retries: the errors after which there is another try, and the delay before it.

use std::time::Duration;

use crate::domain::StageError;

/// Share of a delay that chance may add or take away.
const JITTER: f64 = 0.25;
/// Longest delay in seconds, however often it has doubled.
const MAX_DELAY_S: f64 = 3600.0;
/// Longest wait for the storage in seconds: when it is back, work goes on soon.
const MAX_OUTAGE_DELAY_S: f64 = 300.0;

/// Retries within one attempt of a stage.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RetryPolicy {
    /// Number of tries after the first one.
    pub retries: u32,
    /// Seconds before the first retry; each further delay is twice as long.
    pub backoff_s: f64,
}

impl RetryPolicy {
    /// Delay after the `attempt`-th try (1 for the first) failed with `error`; `None` to give up.
    pub fn delay_after(&self, attempt: u32, error: &StageError, jitter: f64) -> Option<Duration> {
        let again = attempt <= self.retries && error.retryable;
        again.then(|| backoff(self.backoff_s, attempt, jitter))
    }
}

/// Delay of `base_s * 2^(attempt - 1)` seconds, a quarter more or less: `jitter` is drawn from -1 to 1. Never longer than an
/// hour and a quarter.
pub fn backoff(base_s: f64, attempt: u32, jitter: f64) -> Duration {
    // No more than a float can hold: infinity times a base of 0 would be no number, and the longest delay instead of none.
    let doublings = i32::try_from(attempt.saturating_sub(1))
        .unwrap_or(i32::MAX)
        .min(f64::MAX_EXP - 1);
    let delay = (base_s.max(0.0) * 2_f64.powi(doublings)).min(MAX_DELAY_S);
    let delay = delay * (1.0 + JITTER * jitter.clamp(-1.0, 1.0));
    Duration::try_from_secs_f64(delay).unwrap_or_default()
}

/// Delay before a stage is begun again that the storage ended for the `outages`-th time in a row. It grows like [`backoff`],
/// but never beyond five minutes and a quarter of them.
pub fn outage_backoff(base_s: f64, outages: u32, jitter: f64) -> Duration {
    let delay = backoff(base_s, outages, 0.0).as_secs_f64();
    backoff(delay.min(MAX_OUTAGE_DELAY_S), 1, jitter)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::ErrorCategory;

    #[test]
    fn a_base_of_nothing_stays_nothing_however_often() {
        for attempt in [1, 1024, 1025, 5000, u32::MAX] {
            assert_eq!(backoff(0.0, attempt, 1.0), Duration::ZERO);
            assert_eq!(outage_backoff(0.0, attempt, 1.0), Duration::ZERO);
        }
    }

    #[test]
    fn waits_for_the_storage_double_up_to_five_minutes() {
        let seconds = |outages, jitter| outage_backoff(1.0, outages, jitter).as_secs_f64();
        assert_eq!(
            [1, 2, 3, 9].map(|outages| seconds(outages, 0.0)),
            [1.0, 2.0, 4.0, 256.0]
        );
        assert_eq!(
            [10, 1000, u32::MAX].map(|outages| seconds(outages, 0.0)),
            [300.0; 3]
        );
        assert_eq!([seconds(99, -1.0), seconds(99, 1.0)], [225.0, 375.0]);
    }

    fn policy(retries: u32) -> RetryPolicy {
        RetryPolicy {
            retries,
            backoff_s: 1.0,
        }
    }

    /// Rows: 206, 207.
    #[test]
    fn delays_double_and_stop() {
        let error = StageError::new("ocr", ErrorCategory::Network, "reset");
        let delays = |jitter| -> Vec<Option<f64>> {
            let delay = |attempt| policy(3).delay_after(attempt, &error, jitter);
            (1..=4)
                .map(|attempt| delay(attempt).map(|d| d.as_secs_f64()))
                .collect()
        };
        assert_eq!(delays(0.0), [Some(1.0), Some(2.0), Some(4.0), None]);
        assert_eq!(delays(1.0), [Some(1.25), Some(2.5), Some(5.0), None]);
        assert_eq!(delays(-1.0), [Some(0.75), Some(1.5), Some(3.0), None]);
    }

    /// Rows: 204.
    #[test]
    fn the_category_decides_about_another_try() {
        for category in ErrorCategory::ALL {
            let error = StageError::new("ocr", category, "x");
            let expected = matches!(category, ErrorCategory::Network | ErrorCategory::Transient);
            assert_eq!(
                policy(1).delay_after(1, &error, 0.0).is_some(),
                expected,
                "{category}"
            );
        }
    }

    proptest! {
        /// Rows: 171.
        #[test]
        fn a_delay_is_within_a_quarter_of_its_nominal(
            base in 0.0..1e6_f64, attempt in 0_u32..=u32::MAX, jitter in -1.0..=1.0_f64,
        ) {
            let delay = backoff(base, attempt, jitter).as_secs_f64();
            let nominal = backoff(base, attempt, 0.0).as_secs_f64();
            prop_assert!((delay - nominal).abs() <= nominal * 0.25 + 1e-6);
            prop_assert!(delay <= 4500.0);
            prop_assert!(backoff(base, attempt.saturating_add(1), 0.0).as_secs_f64() >= nominal);
        }

        #[test]
        fn nonsense_is_no_delay(base in prop::sample::select(vec![-1.0, f64::NAN, f64::NEG_INFINITY])) {
            prop_assert_eq!(backoff(base, 3, 0.5), Duration::ZERO);
        }
    }
}
