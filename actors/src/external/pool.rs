//! Service as a pool of the orchestrator.

use std::sync::Arc;

use async_trait::async_trait;
use parkhang_core::domain::{AssignReply, Assignment, Fence, PoolInfo};
use parkhang_core::policy::service::ServiceTerms;

use super::ServedStage;
use super::submit::Request;
use crate::orchestrator::{Executor, Unreachable};

/// Pool of a stage that a service does. It takes what it is given and holds nothing: leases are in the store.
#[derive(Debug)]
pub(super) struct ServicePool {
    info: PoolInfo,
    served: Arc<ServedStage>,
}

impl ServicePool {
    pub(super) fn new(served: Arc<ServedStage>) -> Self {
        let info = PoolInfo {
            worker: served.worker.clone(),
            stage: served.stage.name.clone(),
            slots: served.shared.max_in_flight,
            models: Vec::new(),
        };
        Self { info, served }
    }
}

#[async_trait]
impl Executor for ServicePool {
    fn info(&self) -> &PoolInfo {
        &self.info
    }

    fn terms(&self) -> Option<ServiceTerms> {
        Some(ServiceTerms {
            limits: self.served.stage.limits,
            max_in_flight: self.served.shared.left_by_others(),
            admits: self.served.shared.admits(),
        })
    }

    async fn assign(&self, assignment: Assignment) -> Result<AssignReply, Unreachable> {
        // Nobody takes requests once the work on external stages has ended.
        Ok(match self.served.request(assignment.fence, false) {
            true => AssignReply::Accepted,
            false => AssignReply::Busy,
        })
    }

    fn cancel(&self, fences: Vec<Fence>) {
        let request = Request::Cancel(self.served.clone(), fences);
        // Fails only when the work on external stages has ended.
        let _ = self.served.requests.send(request);
    }

    /// Nothing: jobs in flight need no node, and go on under whoever leads.
    fn drain(&self) {}
}
