//! Connecting to an orchestrator.

use std::time::Duration;

use anyhow::{Result, bail};
use tokio::time::{Instant, sleep};

use crate::session::Remote;

/// Between two looks for an orchestrator.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// Waits until an orchestrator answers.
///
/// # Errors
///
/// When none does within `timeout`, or before that when one answers which would not do otherwise later, as it refuses the token.
pub async fn attach(remote: &Remote, timeout: Duration) -> Result<()> {
    let deadline = Instant::now() + timeout;
    let mut told_to_wait = false;
    loop {
        let survey = remote.look().await;
        if survey.best().is_some() {
            return Ok(());
        }
        // A refused token stays refused, so waiting for another answer is of no use.
        let may_pass = survey.failures.iter().all(|failure| failure.may_pass());
        // At least two looks, even with a timeout of zero: the first may fall between two leaders.
        if !may_pass || (told_to_wait && Instant::now() >= deadline) {
            bail!("cannot attach: {}", survey.troubles());
        }
        if !told_to_wait {
            let timeout = humantime::format_duration(timeout);
            eprintln!("no orchestrator is in touch; waiting for one, {timeout} at most (--timeout)");
            told_to_wait = true;
        }
        sleep(LOOK_AGAIN.min(deadline.saturating_duration_since(Instant::now()))).await;
    }
}
