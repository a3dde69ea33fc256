use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use tokio::time::Instant;

use crate::supervisor::PoolHandle;
use parkhang_core::domain::{LeaseRenewal, WorkerRecord};

/// Latest renewal of a pool's leases.
pub(super) struct PoolHeartbeat {
    at: Instant,
    /// Pages of the tasks in work, and the number of them that are finished.
    pages: u64,
    finished: u64,
}

/// A pool that gets its work from a dispatcher.
pub(super) struct PoolMember {
    pub pool: PoolHandle,
    /// The pool may be given work.
    pub accepting: bool,
    /// Its latest renewal, if there was one.
    pub heartbeat: Option<PoolHeartbeat>,
}

impl PoolHeartbeat {
    pub(super) fn of(renewals: &[LeaseRenewal]) -> Self {
        let progress = || renewals.iter().filter_map(|renewal| renewal.progress);
        Self {
            at: Instant::now(),
            pages: progress().map(|progress| progress.pages).sum(),
            finished: progress().map(|progress| progress.finished()).sum(),
        }
    }
}

impl PoolMember {
    pub(super) fn new(pool: PoolHandle) -> Self {
        Self {
            pool,
            accepting: true,
            heartbeat: None,
        }
    }

    /// Describes the pool at `now`, with `in_hand` leases.
    pub(super) fn describe(&self, in_hand: usize, now: DateTime<Utc>) -> WorkerRecord {
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        // The progress is that of the last heartbeat, whose work may be over.
        let of_work = self.heartbeat.as_ref().filter(|_| in_hand > 0);
        WorkerRecord {
            worker: self.pool.info.worker.clone(),
            stage: self.pool.info.stage.clone(),
            models: self.pool.info.models.clone(),
            slots: count(self.pool.info.slots),
            in_use: count(in_hand),
            incarnation: self.pool.info.worker.incarnation().unwrap_or_default(),
            last_heartbeat: self
                .heartbeat
                .as_ref()
                .map(|heartbeat| before(now, heartbeat.at.elapsed())),
            pages: of_work.map(|heartbeat| heartbeat.pages),
            pages_finished: of_work.map(|heartbeat| heartbeat.finished),
        }
    }
}

fn before(now: DateTime<Utc>, ago: Duration) -> DateTime<Utc> {
    TimeDelta::from_std(ago).map_or(now, |ago| now - ago)
}
