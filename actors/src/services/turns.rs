//! Turns of submits to a service with a rate: of this process alone, or of all that share a store.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use parkhang_state::ServiceStore;
use tokio::time::{Instant, sleep_until};
use tracing::debug;

/// Most submits to a service in a second.
pub type Rate = NonZeroU32;

/// Giver of turns.
#[derive(Debug)]
pub(super) struct Turns {
    service: String,
    rate: Rate,
    /// Store that gives turns to all who share it; without one they are those of this process.
    store: Option<Arc<dyn ServiceStore>>,
    /// Time of the next turn that this process gives itself.
    next: Mutex<Option<Instant>>,
    /// Number of processes that have the rate together when each gives itself its turns.
    processes: AtomicU32,
}

impl Turns {
    pub(super) fn new(service: &str, rate: Rate, store: Option<Arc<dyn ServiceStore>>) -> Self {
        Self {
            service: service.to_owned(),
            rate,
            store,
            next: Mutex::default(),
            processes: AtomicU32::new(1),
        }
    }

    pub(super) fn share(&self, processes: u32) {
        self.processes.store(processes, Ordering::Relaxed);
    }

    pub(super) fn rate(&self) -> Rate {
        self.rate
    }

    /// Waits for a turn. Nothing can be submitted while the store is away; this process gives itself turns then, so that it asks no faster.
    pub(super) async fn turn(&self) {
        let turn = self.shared().await.unwrap_or_else(|| self.own());
        sleep_until(turn).await;
    }

    async fn shared(&self) -> Option<Instant> {
        match self.store.as_ref()?.take_turn(&self.service, self.rate).await {
            Ok(wait) => Some(Instant::now() + wait),
            Err(error) => {
                debug!(service = self.service, %error, "turns of a service cannot be taken now");
                None
            }
        }
    }

    fn own(&self) -> Instant {
        let now = Instant::now();
        // A plain value cannot be left half changed.
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let turn = next.map_or(now, |next| next.max(now));
        let processes = self.processes.load(Ordering::Relaxed);
        *next = Some(turn + Duration::from_secs(processes.into()) / self.rate.get());
        turn
    }
}
