use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

/// Number of leases that the pools of a node hold together; clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct LeaseGauge(Arc<watch::Sender<usize>>);

/// The part of one pool in the number, which is taken back when it is dropped.
#[derive(Debug)]
pub(super) struct Share {
    of: LeaseGauge,
    leases: usize,
}

impl LeaseGauge {
    pub(super) fn share(&self) -> Share {
        Share {
            of: self.clone(),
            leases: 0,
        }
    }

    /// Waits until no pool has held a lease for `time`.
    pub(super) async fn idle_for(&self, time: Duration) {
        let mut leases = self.0.subscribe();
        loop {
            // A stage that began and ended meanwhile shows as a change all the same, and the time starts anew.
            let is_vacant = *leases.borrow_and_update() == 0;
            tokio::select! {
                () = tokio::time::sleep(time), if is_vacant => return,
                // The sender is part of `self`.
                _ = leases.changed() => {}
            }
        }
    }
}

impl Share {
    pub(super) fn set(&mut self, leases: usize) {
        if leases != self.leases {
            self.of
                .0
                .send_modify(|all| *all = (*all + leases).saturating_sub(self.leases));
            self.leases = leases;
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{Instant, advance};

    use super::*;

    const AWHILE: Duration = Duration::from_secs(60);

    /// Rows: F21.
    #[tokio::test(start_paused = true)]
    async fn a_node_is_vacant_when_none_of_its_pools_has_held_a_lease_for_a_while() {
        let lease_gauge = LeaseGauge::default();
        let (mut one, mut other) = (lease_gauge.share(), lease_gauge.share());
        one.set(2);
        other.set(1);
        let began = Instant::now();
        let waiting = tokio::spawn({
            let lease_gauge = lease_gauge.clone();
            async move { lease_gauge.idle_for(AWHILE).await }
        });
        tokio::task::yield_now().await;
        advance(AWHILE * 2).await;
        assert!(!waiting.is_finished(), "leases are held");
        one.set(0);
        // A pool that ends holds nothing any more.
        drop(other);
        tokio::task::yield_now().await;
        advance(AWHILE / 2).await;
        // Something short is something to do.
        one.set(1);
        one.set(0);
        waiting.await.unwrap();
        let expected = AWHILE * 2 + AWHILE / 2 + AWHILE;
        let took = began.elapsed();
        assert!(took >= expected && took - expected < AWHILE / 2, "{took:?}");
    }
}
