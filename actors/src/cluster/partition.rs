use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// Fault that is injected on purpose: the node ends its sessions and dials nobody for a time. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Partition(watch::Sender<Option<Instant>>);

impl Partition {
    /// Begins the fault, which lasts for `time`.
    pub fn begin(&self, time: Duration) {
        self.0.send_replace(Some(Instant::now() + time));
    }

    /// Waits until sessions are to be ended.
    pub(super) async fn begun(&self) {
        // Fails without a sender, which is part of `self`.
        let _ = self.0.subscribe().wait_for(Self::lasts).await;
    }

    /// Waits until peers may be dialled.
    pub(super) async fn over(&self) {
        loop {
            let until = *self.0.borrow();
            match until {
                Some(until) if until > Instant::now() => tokio::time::sleep_until(until).await,
                _ => return,
            }
        }
    }

    fn lasts(until: &Option<Instant>) -> bool {
        until.is_some_and(|until| until > Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_cut_lasts_as_long_as_it_was_said_to() {
        let partition = Partition::default();
        assert!(partition.over().now_or_never().is_some());
        assert!(partition.begun().now_or_never().is_none());
        let began = Instant::now();
        partition.begin(Duration::from_secs(3));
        partition.begun().await;
        partition.over().await;
        assert_eq!(began.elapsed(), Duration::from_secs(3));
        assert!(partition.begun().now_or_never().is_none());
    }
}
