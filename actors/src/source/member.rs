use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use tokio::time::Instant;

use crate::domain::WorkerRecord;
use crate::supervisor::{PoolHandle, Pulse};

/// A pool has renewed its leases.
pub(super) struct Beat {
    at: Instant,
    /// Pages of the tasks in work, and how many of them are dealt with.
    pages: u64,
    finished: u64,
}

/// A pool that gets its work from a dispatcher.
pub(super) struct Member {
    pub pool: PoolHandle,
    pub accepting: bool,
    pub beat: Option<Beat>,
}

impl Beat {
    pub(super) fn of(pulses: &[Pulse]) -> Self {
        let progress = || pulses.iter().filter_map(|pulse| pulse.progress);
        Self {
            at: Instant::now(),
            pages: progress().map(|progress| progress.pages).sum(),
            finished: progress().map(|progress| progress.finished()).sum(),
        }
    }
}

impl Member {
    pub(super) fn new(pool: PoolHandle) -> Self {
        Self {
            pool,
            accepting: true,
            beat: None,
        }
    }

    /// The pool at `now`, with so many leases.
    pub(super) fn describe(&self, in_hand: usize, now: DateTime<Utc>) -> WorkerRecord {
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        // Of work that is over there is no progress.
        let of_work = self.beat.as_ref().filter(|_| in_hand > 0);
        WorkerRecord {
            worker: self.pool.worker.clone(),
            stage: self.pool.stage.clone(),
            models: self.pool.models.clone(),
            slots: count(self.pool.slots),
            in_use: count(in_hand),
            generation: self.pool.worker.incarnation().unwrap_or_default(),
            last_heartbeat: self.beat.as_ref().map(|beat| before(now, beat.at.elapsed())),
            pages: of_work.map(|beat| beat.pages),
            pages_finished: of_work.map(|beat| beat.finished),
        }
    }
}

fn before(now: DateTime<Utc>, ago: Duration) -> DateTime<Utc> {
    TimeDelta::from_std(ago).map_or(now, |ago| now - ago)
}
