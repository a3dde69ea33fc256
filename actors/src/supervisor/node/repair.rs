//! What a supervisor does about a pool that stands still or says that the node is out of order. The decisions are
//! [`policy::pool_health`](parkhang_core::policy::pool_health)'s.

use std::time::Duration;

use chrono::Utc;
use ractor::{ActorId, ActorRef};
use tracing::{error, info, warn};

use super::{NodeMsg, NodeState, OutOfOrder, Pool};
use crate::supervisor::pool::{Drained, Judgement, PoolMsg};
use crate::telemetry::stage_out_of_order;
use parkhang_core::domain::{StageName, Unfit};
use parkhang_core::policy::pool_health::{PoolHealth, Remedy};

/// For a node that ends itself to hand back its leases.
const FAREWELL: Duration = Duration::from_secs(10);

/// What a stage's pools have been through on this node.
#[derive(Debug, Default)]
pub(super) struct Repair {
    health: PoolHealth,
    /// What a stage said of the node, until it has been looked at.
    complaint: Option<String>,
    /// Pools that stood still, whose volumes wait for the judgement.
    accused: Vec<ActorRef<PoolMsg>>,
}

/// Why a node ends itself.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum Hopeless {
    #[error("{stage} hung {times} times in a row without a page in between: {reason}")]
    KeepsHanging {
        stage: StageName,
        times: u32,
        reason: String,
    },
    #[error("{stage} cannot be renewed: {reason}")]
    NotRenewed { stage: StageName, reason: String },
}

impl NodeState {
    pub(super) fn stalled(&mut self, id: ActorId, myself: &ActorRef<NodeMsg>) {
        let Some(stage) = self.retire(id) else {
            return;
        };
        let actor = self.replaced.get(&id).map(|pool| pool.handle.actor.clone());
        // A fault of the pool that was to tell speaks for those before.
        self.judge_all(&stage, &Judgement::Pool);
        let limits = self.config.health.faults;
        let repair = self.repair(&stage);
        repair.accused.extend(actor);
        let remedy = repair.health.stalled(limits);
        self.act(&stage, remedy, "it finished no page", myself)
    }

    pub(super) fn faulted(&mut self, id: ActorId, reason: String, myself: &ActorRef<NodeMsg>) {
        let Some(stage) = self.retire(id) else {
            return;
        };
        if let Some(Pool { handle, .. }) = self.replaced.get(&id) {
            // One that has ended meanwhile holds no lease any more.
            let _ = handle.actor.cast(PoolMsg::Retire);
        }
        self.judge_all(&stage, &Judgement::Pool);
        self.count_restart(&stage);
        self.awaited.insert(stage.clone(), Utc::now());
        self.is_out_of_order(&stage, &reason, false);
        self.repair(&stage).complaint = Some(reason);
        self.ask(&stage, myself);
    }

    pub(super) fn progressed(&mut self, id: ActorId) {
        let Some(stage) = self.pools.get(&id).map(|pool| pool.logic.info().name()) else {
            return;
        };
        if let Some(repair) = self.repairs.get_mut(&stage) {
            repair.health.page_read();
            self.judge_all(&stage, &Judgement::Volumes);
            self.repairs.remove(&stage);
        }
    }

    /// Gives the stage a new thread for its network, and asks whether it works.
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

    pub(super) fn ask(&self, stage: &StageName, myself: &ActorRef<NodeMsg>) {
        let Some(logic) = self.config.registry.get(stage).cloned() else {
            return;
        };
        let (stage, myself, limit) = (stage.clone(), myself.clone(), self.config.health.check_limit);
        tokio::spawn(async move {
            let answer = tokio::time::timeout(limit, logic.check()).await.ok();
            // Fails only when the supervisor is ending.
            let _ = myself.cast(NodeMsg::Checked(stage, answer));
        });
    }

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
            // What is known to work here does, and what a stage tried did not.
            (Some(Ok(())), Some(complaint)) => {
                let unfit = Unfit::Device(complaint);
                (repair.health.failed(&unfit, limits), unfit.to_string())
            }
            (Some(Err(unfit)), _) => (repair.health.failed(&unfit, limits), unfit.to_string()),
            (None, _) => (repair.health.silent(limits), "it does not answer".to_owned()),
        };
        self.judge_all(stage, &Judgement::Pool);
        self.act(stage, remedy, &reason, myself)
    }

    /// From now on the new pool shows whether it works.
    pub(super) fn is_on_trial(&self, stage: &StageName, myself: &ActorRef<NodeMsg>) {
        let repair = self.repairs.get(stage);
        if repair.is_none_or(|repair| repair.accused.is_empty()) {
            return;
        }
        let (stage, pool) = (stage.clone(), self.incarnation);
        myself.send_after(self.config.health.progress_window, move || {
            NodeMsg::Judge(stage, pool)
        });
    }

    /// The new pool had the time to show whether it works. One that has work in hand soon will; one that has none cannot.
    pub(super) fn judge(&mut self, stage: &StageName, pool: u64, myself: &ActorRef<NodeMsg>) {
        let mut pools = self.pools.values();
        let is_same = |known: &&Pool| {
            known.logic.info().name() == *stage && known.handle.info.worker.incarnation() == Some(pool)
        };
        match pools.find(is_same) {
            Some(found) if found.handle.in_use() > 0 => {
                let stage = stage.clone();
                myself.send_after(self.config.heartbeat, move || NodeMsg::Judge(stage, pool));
            }
            Some(_) => self.judge_all(stage, &Judgement::Volumes),
            // It had a fault of its own, which spoke for the volumes.
            None => {}
        }
    }

    /// Puts a stage that was taken out of service to the test again, at an operator's order. Returns whether it was.
    pub(super) fn put_to_the_test(&mut self, stage: &str, myself: &ActorRef<NodeMsg>) -> bool {
        let stages = self.out_of_order.borrow().clone();
        let mut stages = stages.into_iter();
        let found = stages.find(|(name, state)| name.as_str() == stage && state.out_of_service);
        let Some((stage, OutOfOrder { reason, .. })) = found else {
            return false;
        };
        self.repairs.remove(&stage);
        self.is_out_of_order(&stage, &reason, false);
        // Fails only when this supervisor is ending.
        let _ = myself.cast(NodeMsg::Renew(stage));
        true
    }

    /// The pool takes no more part; its stage, if it was in use.
    fn retire(&mut self, id: ActorId) -> Option<StageName> {
        let pool = self.pools.remove(&id)?;
        let stage = pool.logic.info().name();
        // Nothing is on its way to it when it ends: that would count as lost.
        self.config.control_plane.suspend(pool.handle.info.worker.clone());
        self.replaced.insert(id, pool);
        Some(stage)
    }

    fn act(&mut self, stage: &StageName, remedy: Remedy, reason: &str, myself: &ActorRef<NodeMsg>) {
        self.awaited.insert(stage.clone(), Utc::now());
        let later = |after: Duration, message: NodeMsg| {
            warn!(%stage, reason, ?after, "the stage is out of order; it will be looked at again");
            myself.send_after(after, move || message);
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

    /// Hands back what the node has, as far as anybody takes it back in time, and ends it.
    fn give_up(&mut self, reason: &Hopeless, myself: &ActorRef<NodeMsg>) {
        error!(%reason, "the node gives up");
        let stages: Vec<StageName> = self.repairs.keys().cloned().collect();
        for stage in stages {
            self.judge_all(&stage, &Judgement::Pool);
        }
        for pool in self.pools.values() {
            // One that has ended meanwhile holds no lease any more.
            let _ = pool.handle.actor.cast(PoolMsg::HandBack);
        }
        let handed_back = self.drained(Drained::HandedBack);
        let (myself, reason) = (myself.clone(), reason.to_string());
        tokio::spawn(async move {
            if tokio::time::timeout(FAREWELL, handed_back).await.is_err() {
                warn!("nobody took back what the node had; its leases run out");
            }
            // Fails only when the supervisor has ended.
            let _ = myself.cast(NodeMsg::GiveUp(reason));
        });
    }

    /// The stage works.
    fn resume(&mut self, stage: &StageName, myself: &ActorRef<NodeMsg>) {
        info!(%stage, "the stage answers; it gets a pool again");
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
