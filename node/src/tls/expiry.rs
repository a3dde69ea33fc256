//! Warnings that a certificate is about to end.

use std::path::{Path, PathBuf};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use tracing::warn;

use super::identity::read_details;

/// Time before the end of a certificate from which on it is warned of.
const AHEAD: TimeDelta = TimeDelta::days(21);
/// Between two looks. The file is read each time, as it may have been renewed.
const LOOK: Duration = Duration::from_secs(24 * 60 * 60);

/// Warns now, and every day while the process lives, if a certificate is about to end. `key` is its key of the configuration.
pub fn warn_before_end(key: &'static str, certificate: &Path) {
    let certificate: PathBuf = certificate.to_owned();
    tokio::spawn(async move {
        loop {
            // One that cannot be read is reported where it is used.
            let end = read_details(&certificate).map(|details| details.not_after);
            if let Ok(end) = end
                && let Some(warning) = warning(end, Utc::now())
            {
                warn!(key, certificate = %certificate.display(), "{warning}");
            }
            tokio::time::sleep(LOOK).await;
        }
    });
}

fn warning(end: DateTime<Utc>, now: DateTime<Utc>) -> Option<String> {
    let left = end - now;
    (left < AHEAD).then(|| {
        let advice = "put a new one in its place; it is used without a restart";
        if left < TimeDelta::zero() {
            format!("the certificate has ended at {end}: {advice}")
        } else {
            format!(
                "the certificate ends in {} days, at {end}: {advice}",
                left.num_days()
            )
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_warned_of_three_weeks_ahead() {
        let now = DateTime::from_timestamp(1_700_000_000, 0).unwrap();
        let warned = |days| warning(now + TimeDelta::days(days), now);
        assert_eq!(warned(21), None);
        assert!(warned(20).unwrap().starts_with("the certificate ends in 20 days"));
        assert!(warned(-1).unwrap().starts_with("the certificate has ended"));
    }
}
