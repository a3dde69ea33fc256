//! Orders of operators to the nodes that work on a job: two objects that are there or not. So nobody has to read before writing,
//! and a job that is cancelled stays so whatever else is ordered at the same time.

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::ShardError;
use super::manifest::{JobManifest, json};
use parkhang_core::domain::{JobKey, JobStatus};
use parkhang_core::policy::job_action::{self, JobAction};
use parkhang_store::artifact::ShardLayout;
use parkhang_store::storage::ArtifactStore;

/// An order to all nodes that work on a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShardOrder {
    /// Nothing more is begun; stages that run go on to their end.
    Pause,
    /// Work is begun again.
    Resume,
    /// Nothing more is begun, for good, and stages that run stop at their next checkpoints.
    Cancel,
}

impl From<ShardOrder> for JobAction {
    fn from(order: ShardOrder) -> Self {
        match order {
            ShardOrder::Pause => Self::Pause,
            ShardOrder::Resume => Self::Resume,
            ShardOrder::Cancel => Self::Cancel,
        }
    }
}

/// Content of an object of the control folder, for people: nodes only look whether the object is there.
#[derive(Serialize)]
struct Mark {
    since: DateTime<Utc>,
}

impl JobManifest {
    /// Orders the nodes, which obey when they next look; returns the status of the job after that.
    ///
    /// # Errors
    ///
    /// [`ShardError::Forbidden`] if the status of the job does not allow the order, and when the store cannot be read or
    /// written.
    pub async fn order(
        &self,
        store: &dyn ArtifactStore,
        order: ShardOrder,
        now: DateTime<Utc>,
    ) -> Result<JobStatus, ShardError> {
        let layout = ShardLayout::new(&self.job);
        let finished = store.list(&layout.done_folder()).await?.len();
        let status = match ordered(store, &self.job).await? {
            // No object says that a job has ended: it follows from the markers of its shards.
            JobStatus::Running if finished >= self.shards as usize => JobStatus::Completed,
            status => status,
        };
        let after = job_action::after(status, order.into())?;
        let mark = json(&Mark { since: now })?;
        match order {
            ShardOrder::Pause => drop(store.put_if_absent(&layout.paused(), mark).await?),
            ShardOrder::Resume => store.delete(&layout.paused()).await?,
            ShardOrder::Cancel => drop(store.put_if_absent(&layout.cancelled(), mark).await?),
        }
        Ok(after)
    }
}

/// Status of the job by its orders: running, paused or cancelled.
pub(super) async fn ordered(store: &dyn ArtifactStore, job: &JobKey) -> Result<JobStatus, ShardError> {
    let layout = ShardLayout::new(job);
    let marks = store.list(&layout.control_folder()).await?;
    let is_there = |key| marks.iter().any(|(mark, _)| *mark == key);
    // Both may be there, as a job that is paused can be cancelled.
    Ok(if is_there(layout.cancelled()) {
        JobStatus::Cancelled
    } else if is_there(layout.paused()) {
        JobStatus::Paused
    } else {
        JobStatus::Running
    })
}
