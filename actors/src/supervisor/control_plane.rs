use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use super::pool::PoolHandle;
use crate::domain::{Fence, VolumeId, WorkerId};
use crate::orchestrator::{OrchestratorHandle, Recording, Report, Unrecorded};
use crate::state::Standing;
use crate::telemetry::StageProgress;

/// Whoever gives a node its work and hears what became of it: the orchestrator of this process, or of another node.
#[async_trait]
pub trait ControlPlane: Send + Sync + fmt::Debug {
    /// The pool is ready for work.
    fn register(&self, pool: PoolHandle);

    /// The pool takes no more work; what it holds keeps its leases.
    fn suspend(&self, worker: WorkerId);

    /// The pool is gone for good; its leases end.
    fn deregister(&self, worker: WorkerId);

    /// Returns when the verdict is in the database, or known to be stale. The pool repeats what was not recorded.
    async fn report(&self, report: Report) -> Result<Recording, Unrecorded>;

    /// Renews leases. When nobody can be asked, none is lost.
    async fn heartbeat(&self, worker: &WorkerId, pulses: Vec<Pulse>) -> Renewal;
}

/// Proof that a lease is still worked on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pulse {
    pub fence: Fence,
    pub volume: VolumeId,
    /// Absent until the stage knows how many pages it has.
    pub progress: Option<StageProgress>,
}

/// The answer to a heartbeat.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Renewal {
    /// Leases that belong to others now.
    pub lost: Vec<Fence>,
    /// Leases whose work is no longer wanted.
    pub cancelled: Vec<Fence>,
}

impl Renewal {
    /// What the standings mean, one of each fence in order.
    pub fn of(fences: Vec<Fence>, standings: Vec<Standing>) -> Self {
        let mut renewal = Self::default();
        for (fence, standing) in fences.into_iter().zip(standings) {
            match standing {
                Standing::Held => {}
                Standing::Lost => renewal.lost.push(fence),
                Standing::Unwanted => renewal.cancelled.push(fence),
            }
        }
        renewal
    }
}

#[async_trait]
impl ControlPlane for OrchestratorHandle {
    fn register(&self, pool: PoolHandle) {
        Self::register(self, Arc::new(pool));
    }

    fn suspend(&self, worker: WorkerId) {
        Self::suspend(self, worker);
    }

    fn deregister(&self, worker: WorkerId) {
        Self::deregister(self, worker);
    }

    async fn report(&self, report: Report) -> Result<Recording, Unrecorded> {
        Self::report(self, report).await
    }

    async fn heartbeat(&self, _: &WorkerId, pulses: Vec<Pulse>) -> Renewal {
        let fences: Vec<Fence> = pulses.into_iter().map(|pulse| pulse.fence).collect();
        let standings = Self::heartbeat(self, fences.clone()).await;
        Renewal::of(fences, standings)
    }
}
