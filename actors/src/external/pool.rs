//! Service as a pool of the orchestrator.

use std::sync::Arc;

use async_trait::async_trait;
use parkhang_core::domain::{AssignReply, Assignment, Fence, PoolInfo};
use parkhang_core::policy::service::ServiceTerms;

use super::Station;
use super::submit::Order;
use crate::orchestrator::{Executor, Unreachable};

/// Pool of a stage that a service does. It takes what it is given and holds nothing: leases are in the store.
#[derive(Debug)]
pub(super) struct ServicePool {
    info: PoolInfo,
    station: Arc<Station>,
}

impl ServicePool {
    pub(super) fn new(station: Arc<Station>) -> Self {
        let info = PoolInfo {
            worker: station.worker.clone(),
            stage: station.stage.name.clone(),
            slots: station.desk.max_in_flight,
            models: Vec::new(),
        };
        Self { info, station }
    }
}

#[async_trait]
impl Executor for ServicePool {
    fn info(&self) -> &PoolInfo {
        &self.info
    }

    fn terms(&self) -> Option<ServiceTerms> {
        Some(ServiceTerms {
            limits: self.station.stage.limits,
            max_in_flight: self.station.desk.max_in_flight,
            admits: self.station.desk.admits(),
        })
    }

    async fn assign(&self, assignment: Assignment) -> Result<AssignReply, Unreachable> {
        // Nobody takes orders once the work on external stages has ended.
        Ok(match self.station.order(assignment.fence, false) {
            true => AssignReply::Accepted,
            false => AssignReply::Busy,
        })
    }

    fn cancel(&self, fences: Vec<Fence>) {
        let order = Order::Cancel(self.station.clone(), fences);
        // Fails only when the work on external stages has ended.
        let _ = self.station.orders.send(order);
    }

    /// Nothing: jobs in flight need no node, and go on under whoever leads.
    fn drain(&self) {}
}
