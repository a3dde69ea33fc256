//! Repair of a stage whose pool stands still or reports that the node is out of order. The decisions are made in
//! [`policy::pool_health`](parkhang_core::policy::pool_health); here they are carried out.
//!
//! A pool at fault is always replaced as a whole: its thread may hang for good, and its other stage runs are stuck behind it.
//! Volumes that stood still keep their leases until it is known whether they are to blame (`judge`). While they wait the old pool
//! lives on beside its successor, only to hold them.

use std::time::Duration;

use chrono::Utc;
use ractor::{ActorId, ActorRef};
use tracing::{error, info, warn};

use super::{NodeMsg, OutOfOrder, Pool, SupervisorState};
use crate::detached;
use crate::supervisor::pool::{Drained, Judgement, PoolMsg};
use crate::telemetry::stage_out_of_order;
use parkhang_core::domain::{StageName, Unfit};
use parkhang_core::policy::pool_health::{PoolHealth, Remedy};

/// Time limit for a node that ends itself to release its leases.
const FAREWELL: Duration = Duration::from_secs(10);

/// Faults of a stage's pools on this node, and their consequences that are still open.
#[derive(Debug, Default)]
pub(super) struct Repair {
    health: PoolHealth,
    /// Reason with which a stage returned, until the test that it calls for has ended.
    complaint: Option<String>,
    /// Pools that stood still, whose volumes wait for a judgement.
    accused: Vec<ActorRef<PoolMsg>>,
}

/// Reason why a node ends itself.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum Hopeless {
    #[error("{stage} hung {times} times in a row: {reason}")]
    KeepsHanging {
        stage: StageName,
        times: u32,
        reason: String,
    },
    #[error("{stage} cannot be renewed: {reason}")]
    NotRenewed { stage: StageName, reason: String },
}

impl SupervisorState {
    /// Takes a pool out that made no progress, and has the stage renewed.
    pub(super) fn stalled(&mut self, id: ActorId, myself: &ActorRef<NodeMsg>) {
        let Some(stage) = self.retire(id) else {
            return;
        };
        let actor = self.replaced.get(&id).map(|pool| pool.handle.actor.clone());
        // The volumes of an earlier stall waited for this pool to show whether it works. It does not, so they are not to blame.
        self.judge_all(&stage, &Judgement::Pool);
        let limits = self.config.health.faults;
        let repair = self.repair(&stage);
        repair.accused.extend(actor);
        let remedy = repair.health.stalled(limits);
        self.act(&stage, remedy, "it finished no page", myself)
    }

    /// Takes a pool out whose stage reported that the node is out of order, and has the stage tested.
    pub(super) fn faulted(&mut self, id: ActorId, reason: String, myself: &ActorRef<NodeMsg>) {
        let Some(stage) = self.retire(id) else {
            return;
        };
        if let Some(Pool { handle, .. }) = self.replaced.get(&id) {
            // One that has ended meanwhile holds no lease any more.
            let _ = handle.actor.cast(PoolMsg::Retire);
        }
        // A pool that is out of order itself proves nothing against the volumes that stood still before it.
        self.judge_all(&stage, &Judgement::Pool);
        self.count_restart(&stage);
        self.awaited.insert(stage.clone(), Utc::now());
        self.is_out_of_order(&stage, &reason, false);
        self.repair(&stage).complaint = Some(reason);
        self.ask(&stage, myself);
    }

    /// Takes note that a pool works: it was the volumes that stood still that made it hang.
    pub(super) fn proven(&mut self, id: ActorId) {
        let Some(stage) = self.pools.get(&id).map(|pool| pool.logic.info().name()) else {
            return;
        };
        if let Some(repair) = self.repairs.get_mut(&stage) {
            repair.health.proven();
            self.judge_all(&stage, &Judgement::Volumes);
            // Faults count in a row only, and a stage that works has ended the row.
            self.repairs.remove(&stage);
        }
    }

    /// Gives the stage a new thread for its network, and tests it.
    pub(super) fn renew(&mut self, stage: &StageName, myself: &ActorRef<NodeMsg>) {
        let logic = self.config.registry.get(stage).filter(|_| !self.draining);
        match logic.map_or(Ok(()), |logic| logic.info().renew()) {
            Ok(()) => self.ask(stage, myself),
            Err(error) => {
                let hopeless = Hopeless::NotRenewed {
                    stage: stage.clone(),
                    reason: error.to_string(),
                };
                self.give_up(&hopeless, myself);
            }
        }
    }

    /// Tests the stage, beside the actor: the test may hang as the pool did.
    pub(super) fn ask(&self, stage: &StageName, myself: &ActorRef<NodeMsg>) {
        let Some(logic) = self.config.registry.get(stage).cloned() else {
            return;
        };
        let (stage, myself, limit) = (stage.clone(), myself.clone(), self.config.health.check_limit);
        detached::spawn(async move {
            let answer = tokio::time::timeout(limit, logic.check()).await.ok();
            // Fails only when the supervisor is ending.
            let _ = myself.cast(NodeMsg::Checked(stage, answer));
        });
    }

    /// Draws the consequence of a test.
    pub(super) fn checked(
        &mut self,
        stage: &StageName,
        answer: Option<Result<(), Unfit>>,
        myself: &ActorRef<NodeMsg>,
    ) {
        if self.draining {
            self.awaited.remove(stage);
            return;
        }
        let limits = self.config.health.faults;
        let repair = self.repair(stage);
        let complaint = repair.complaint.take();
        let (remedy, reason) = match (answer, complaint) {
            (Some(Ok(())), None) => return self.resume(stage, myself),
            // The test passed, and yet a stage had failed: what the test does not cover is broken.
            (Some(Ok(())), Some(complaint)) => {
                let unfit = Unfit::Device(complaint);
                (repair.health.failed(&unfit, limits), unfit.to_string())
            }
            (Some(Err(unfit)), _) => (repair.health.failed(&unfit, limits), unfit.to_string()),
            (None, _) => (repair.health.silent(limits), "it does not answer".to_owned()),
        };
        // The test ran without any of the volumes, so they are not to blame.
        self.judge_all(stage, &Judgement::Pool);
        self.act(stage, remedy, &reason, myself)
    }

    /// Gives the new pool the time of a progress window to show whether it works, if volumes wait for that.
    pub(super) fn is_on_trial(&self, stage: &StageName, myself: &ActorRef<NodeMsg>) {
        let repair = self.repairs.get(stage);
        if repair.is_none_or(|repair| repair.accused.is_empty()) {
            return;
        }
        let (stage, pool) = (stage.clone(), self.incarnation);
        detached::send_later(
            myself,
            self.config.health.progress_window,
            NodeMsg::Judge(stage, pool),
        );
    }

    /// Judges the volumes that stood still, once the new pool had the time to show whether it works. A pool that is at work soon
    /// will show it, so it gets more time. A pool without work cannot, and its passed test has to do.
    pub(super) fn judge(&mut self, stage: &StageName, pool: u64, myself: &ActorRef<NodeMsg>) {
        let found = self.pools.values().find(|known| {
            known.logic.info().name() == *stage && known.handle.info.worker.incarnation() == Some(pool)
        });
        match found {
            Some(found) if found.handle.in_use() > 0 => {
                let stage = stage.clone();
                detached::send_later(myself, self.config.heartbeat, NodeMsg::Judge(stage, pool));
            }
            Some(_) => self.judge_all(stage, &Judgement::Volumes),
            // It had a fault of its own, with which the volumes were judged already.
            None => {}
        }
    }

    /// Tests a stage again that was taken out of service, at an operator's order. Returns false if it was not out of service.
    pub(super) fn put_to_the_test(&mut self, stage: &str, myself: &ActorRef<NodeMsg>) -> bool {
        let found = self
            .out_of_order
            .borrow()
            .iter()
            .find(|(name, state)| name.as_str() == stage && state.out_of_service)
            .map(|(name, state)| (name.clone(), state.reason.clone()));
        let Some((stage, reason)) = found else {
            return false;
        };
        self.repairs.remove(&stage);
        self.is_out_of_order(&stage, &reason, false);
        // Fails only when this supervisor is ending.
        let _ = myself.cast(NodeMsg::Renew(stage));
        true
    }

    /// Takes the pool out of use, and returns its stage; `None` if it was out of use already.
    fn retire(&mut self, id: ActorId) -> Option<StageName> {
        let pool = self.pools.remove(&id)?;
        let stage = pool.logic.info().name();
        // First of all, so that no assignment is on its way to the pool when it ends: its lease would count as lost.
        self.config.control_plane.suspend(pool.handle.info.worker.clone());
        self.replaced.insert(id, pool);
        Some(stage)
    }

    /// Carries a remedy out.
    fn act(&mut self, stage: &StageName, remedy: Remedy, reason: &str, myself: &ActorRef<NodeMsg>) {
        self.awaited.insert(stage.clone(), Utc::now());
        let reason = match remedy {
            // What is only tested again is no fault of the device.
            Remedy::Ask { .. } => reason,
            _ => &self.with_device(stage, reason),
        };
        let later = |after: Duration, message: NodeMsg| {
            warn!(%stage, reason, ?after, "the stage is out of order; it will be tested again");
            detached::send_later(myself, after, message);
        };
        match remedy {
            Remedy::Renew { after } => {
                self.count_restart(stage);
                self.is_out_of_order(stage, reason, false);
                later(after, NodeMsg::Renew(stage.clone()));
            }
            Remedy::Ask { after } => {
                self.is_out_of_order(stage, reason, false);
                later(after, NodeMsg::Ask(stage.clone()));
            }
            Remedy::TakeOutOfService => {
                error!(%stage, reason, "the stage is taken out of service on this node");
                self.awaited.remove(stage);
                self.is_out_of_order(stage, reason, true);
            }
            Remedy::EndNode => {
                let hopeless = Hopeless::KeepsHanging {
                    stage: stage.clone(),
                    times: self.repair(stage).health.hung(),
                    reason: reason.to_owned(),
                };
                self.give_up(&hopeless, myself);
            }
        }
    }

    /// The reason, with the name of the stage's device: a machine may have several.
    fn with_device(&self, stage: &StageName, reason: &str) -> String {
        let device = self
            .config
            .registry
            .get(stage)
            .and_then(|logic| logic.info().device());
        match device {
            Some(status) => format!("{}: {reason}", status.device),
            None => reason.to_owned(),
        }
    }

    /// Releases the node's leases, as far as that is recorded in time, and ends the node: only the end of the process ends the
    /// threads that were left behind.
    fn give_up(&mut self, reason: &Hopeless, myself: &ActorRef<NodeMsg>) {
        error!(%reason, "the node is out of order; ending it");
        let stages: Vec<StageName> = self.repairs.keys().cloned().collect();
        for stage in stages {
            self.judge_all(&stage, &Judgement::Pool);
        }
        for pool in self.pools.values() {
            // One that has ended meanwhile holds no lease any more.
            let _ = pool.handle.actor.cast(PoolMsg::HandBack);
        }
        let handed_back = self.drained(Drained::Released);
        let (myself, reason) = (myself.clone(), reason.to_string());
        detached::spawn(async move {
            if tokio::time::timeout(FAREWELL, handed_back).await.is_err() {
                warn!("cannot release the leases of this node; they expire at their deadlines");
            }
            // Fails only when the supervisor has ended.
            let _ = myself.cast(NodeMsg::GiveUp(reason));
        });
    }

    /// Starts a pool again for a stage that has passed its test.
    fn resume(&mut self, stage: &StageName, myself: &ActorRef<NodeMsg>) {
        info!(%stage, "the stage works again; starting its pool");
        self.out_of_order.send_modify(|stages| drop(stages.remove(stage)));
        stage_out_of_order(stage, false);
        if let Some(logic) = self.config.registry.get(stage).cloned() {
            let slots = self.slots_of(&logic);
            // Fails only when this supervisor is ending.
            let _ = myself.cast(NodeMsg::Start(logic, slots));
        }
    }

    fn repair(&mut self, stage: &StageName) -> &mut Repair {
        self.repairs.entry(stage.clone()).or_default()
    }

    /// Sends the judgement to all pools of the stage that wait for one.
    fn judge_all(&mut self, stage: &StageName, judgement: &Judgement) {
        let accused = self
            .repairs
            .get_mut(stage)
            .map(|repair| std::mem::take(&mut repair.accused));
        for pool in accused.unwrap_or_default() {
            // One that has ended meanwhile holds no lease any more.
            let _ = pool.cast(PoolMsg::Judged(judgement.clone()));
        }
    }

    /// Publishes that the stage is out of order.
    fn is_out_of_order(&self, stage: &StageName, reason: &str, out_of_service: bool) {
        let state = OutOfOrder {
            reason: reason.to_owned(),
            out_of_service,
        };
        self.out_of_order
            .send_modify(|stages| drop(stages.insert(stage.clone(), state)));
        stage_out_of_order(stage, true);
    }
}
