//! The protocol between whoever hands out leases and the pool that works under them: an assignment is offered and answered,
//! renewed while it runs, and reported on when it ends. The same types serve inside a process and between nodes.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::{
    DocumentKey, Epoch, Fence, Job, JobConfig, JobKey, StageError, StageProgress, Task, VolumeId,
    VolumeResults,
};

/// One stage of one task, as handed to a worker.
#[derive(Debug, Clone, PartialEq)]
pub struct Assignment {
    /// Identity of this run: the task, the stage and the try.
    pub fence: Fence,
    /// End of the lease, unless it is renewed.
    pub lease_until: DateTime<Utc>,
    pub volume: VolumeId,
    /// PDF that the volume's pages come from, as the [`Task`] has it.
    pub document: Option<DocumentKey>,
    pub job: JobKey,
    pub config: Arc<JobConfig>,
}

impl Assignment {
    /// Assignment of a task that holds a lease; `None` for one without.
    pub fn of(task: Task, job: &Job) -> Option<Self> {
        let mut config = job.config.clone();
        config.force |= task.forced;
        Some(Self {
            fence: task.fence()?,
            lease_until: task.lease?.until,
            volume: task.volume,
            document: task.document,
            job: job.key.clone(),
            config: Arc::new(config),
        })
    }
}

/// Answer of a pool to an assignment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum AssignReply {
    Accepted,
    /// No free slot, or the lease has run out on the way.
    Busy,
    /// The pool takes no more work.
    Draining,
    /// The pool has seen a later leader than the one that assigns.
    StaleEpoch {
        seen: Epoch,
    },
    /// The pool cannot run this assignment.
    Refused {
        reason: String,
    },
}

/// Measurements and findings of a stage that succeeded.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StageReport {
    /// Counts and durations, stored in `stage_runs.metrics`.
    pub metrics: serde_json::Value,
    pub fingerprint: Option<String>,
    /// Results of the volume; only `reduce` has these.
    pub results: Option<VolumeResults>,
}

/// End of a stage run.
#[derive(Debug, Clone, PartialEq)]
pub enum StageVerdict {
    Succeeded(StageReport),
    Failed(StageError),
    /// Drained before the end; finished pages are kept and the try is not charged.
    Interrupted,
}

/// Report of a pool on the end of a lease.
#[derive(Debug, Clone, PartialEq)]
pub struct LeaseReport {
    pub fence: Fence,
    /// `None` when the actor that ran the stage died.
    pub verdict: Option<StageVerdict>,
}

/// Answer to a [`LeaseReport`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReportReply {
    /// The report is in the database.
    Recorded,
    /// The lease was over; nothing was written and nothing ever will be.
    Fenced,
    /// The database or the leader is away; the pool keeps the report and sends it again.
    Unrecorded,
}

/// Request of a pool to renew one lease, which says that its stage is still running.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseRenewal {
    pub fence: Fence,
    pub volume: VolumeId,
    /// Absent until the stage knows how many pages it has.
    pub progress: Option<StageProgress>,
}

/// State of a lease after a request to renew it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseStatus {
    /// In force, and renewed.
    Held,
    /// In force, and not renewed: the job has been cancelled. To be released at the next checkpoint.
    Cancelled,
    /// Over.
    Lost,
}

/// Leases that a renewal found not to be held, of all those that it asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RenewalReply {
    /// Leases that belong to others now: stop, write nothing more.
    pub lost: Vec<Fence>,
    /// Leases whose work is no longer wanted: stop at the next checkpoint and release them.
    pub cancelled: Vec<Fence>,
}

impl RenewalReply {
    /// Sorts leases by their status; `statuses` has one for each of `fences`, in order.
    pub fn new(fences: Vec<Fence>, statuses: Vec<LeaseStatus>) -> Self {
        let mut reply = Self::default();
        for (fence, status) in fences.into_iter().zip(statuses) {
            match status {
                LeaseStatus::Held => {}
                LeaseStatus::Lost => reply.lost.push(fence),
                LeaseStatus::Cancelled => reply.cancelled.push(fence),
            }
        }
        reply
    }
}
