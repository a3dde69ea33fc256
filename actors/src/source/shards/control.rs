//! What an operator wants of a job: two objects that are there or not, so that nobody has to read before writing, and a job
//! that is cancelled stays so whatever else is asked of it at the same time.

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
    Resume,
    /// As pause, and stages that run stop at their next checkpoints. For good.
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

/// What an object of the control folder holds. That it is there is what counts.
#[derive(Serialize)]
struct Mark {
    since: DateTime<Utc>,
}

impl JobManifest {
    /// Orders the nodes, which obey when they next look; returns what the job is then.
    pub async fn order(
        &self,
        store: &dyn ArtifactStore,
        order: ShardOrder,
        now: DateTime<Utc>,
    ) -> Result<JobStatus, ShardError> {
        let layout = ShardLayout::new(&self.job);
        let finished = store.list(&layout.done_folder()).await?.len();
        let status = match ordered(store, &self.job).await? {
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

/// Running, paused or cancelled, as was ordered.
pub(super) async fn ordered(store: &dyn ArtifactStore, job: &JobKey) -> Result<JobStatus, ShardError> {
    let layout = ShardLayout::new(job);
    let marks = store.list(&layout.control_folder()).await?;
    let is_there = |key| marks.iter().any(|(mark, _)| *mark == key);
    Ok(match () {
        () if is_there(layout.cancelled()) => JobStatus::Cancelled,
        () if is_there(layout.paused()) => JobStatus::Paused,
        () => JobStatus::Running,
    })
}
