//! The one table of legal task transitions.

use chrono::{DateTime, Utc};

use crate::domain::{StageError, StageName, WorkerId};

/// What can happen to a task. Nothing else changes a task's position or status.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The task is handed to a worker to run `stage`.
    Leased {
        stage: StageName,
        worker: WorkerId,
        until: DateTime<Utc>,
    },
    /// The stage that runs has written its artifacts.
    Succeeded,
    /// The stage that runs has failed; the try is charged. `not_before` holds the backoff of the retry policy.
    Failed {
        error: StageError,
        not_before: Option<DateTime<Utc>>,
    },
    /// The try ended without a verdict (drain, spot notice, lost node); it is not charged.
    Interrupted,
    /// The volume kept killing its workers: failed for good.
    Quarantined { error: StageError },
    /// An operator wants `stage` and everything after it done again.
    Rerun { stage: StageName },
}
