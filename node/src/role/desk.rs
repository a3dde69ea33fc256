//! Reports and orders: the actors that nodes of each role report, and the orders of operators that they carry out.

use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use parkhang_actors::cluster::{Cut, RemoteOrchestrator};
use parkhang_actors::orchestrator::OrchestratorHandle;
use parkhang_actors::source::{Dispatcher, SourceHealth};
use parkhang_actors::stage::ManifestFolder;
use parkhang_actors::supervisor::{NodeDesk, NodeSupervisor};
use parkhang_actors::wire::NodePhase;
use parkhang_core::domain::{ActorKind, ActorRecord, ActorState, JobKey, NodeOrder, NodeState, OrderOutcome};
use parkhang_store::storage::StoreDelay;
use tokio::sync::watch;
use tracing::warn;

use crate::config::Loaded;

/// Delay before a link is cut, so that the answer to the order is still sent.
const LAST_WORDS: Duration = Duration::from_millis(300);
const DRAINS: &str = "it takes no more work, and releases what it has at the next checkpoints";

/// Faults that can be injected on a node.
#[derive(Debug)]
pub struct Faults {
    allowed: bool,
    /// Switch that cuts the links of a node that dials orchestrators.
    cut: Option<Cut>,
    delay: StoreDelay,
}

impl Faults {
    pub fn new(loaded: &Loaded, cut: Option<Cut>, delay: StoreDelay) -> Self {
        Self {
            allowed: loaded.config.chaos.allowed,
            cut,
            delay,
        }
    }

    /// Returns the refusal of an order, if it is refused.
    fn refuse(&self, order: &NodeOrder) -> Option<OrderOutcome> {
        let refused = order.is_fault() && !self.allowed;
        refused.then(|| OrderOutcome::refused("chaos.allowed is false in its configuration"))
    }

    /// Carries out an order on a node with a supervisor; `drain` begins the node's own way to drain.
    async fn carry_out(
        &self,
        order: NodeOrder,
        supervisor: &NodeSupervisor,
        manifests: &ManifestFolder,
        drain: impl FnOnce() + Send,
    ) -> OrderOutcome {
        if let Some(refused) = self.refuse(&order) {
            return refused;
        }
        match order {
            NodeOrder::Drain => {
                drain();
                OrderOutcome::done(DRAINS)
            }
            NodeOrder::Restart { actor } => supervisor.restart(&actor).await,
            NodeOrder::Kill { actor } => supervisor.kill(&actor).await,
            NodeOrder::ForgetJob { job } => forget(&job, manifests).await,
            NodeOrder::DropLink { seconds } => self.drop_link(seconds),
            NodeOrder::SlowStore { delay_ms, seconds } => self.slow_store(delay_ms, seconds),
        }
    }

    fn drop_link(&self, seconds: u64) -> OrderOutcome {
        let Some(cut) = self.cut.clone() else {
            return OrderOutcome::refused("it has no link to an orchestrator");
        };
        warn!(
            seconds,
            "the link to the orchestrators is cut at an operator's order"
        );
        tokio::spawn(async move {
            tokio::time::sleep(LAST_WORDS).await;
            cut.begin(Duration::from_secs(seconds));
        });
        OrderOutcome::done(format!("its links are cut for {seconds} s"))
    }

    fn slow_store(&self, delay_ms: u64, seconds: u64) -> OrderOutcome {
        warn!(
            delay_ms,
            seconds, "the artifact store is slowed down at an operator's order"
        );
        self.delay
            .begin(Duration::from_millis(delay_ms), Duration::from_secs(seconds));
        OrderOutcome::done(format!(
            "its artifact store takes {delay_ms} ms longer for {seconds} s"
        ))
    }
}

async fn forget(job: &JobKey, manifests: &ManifestFolder) -> OrderOutcome {
    match manifests.forget(job).await {
        Ok(true) => OrderOutcome::done(format!("its manifests of {job} are removed")),
        Ok(false) => OrderOutcome::done(format!("it has no manifests of {job}")),
        Err(error) => OrderOutcome::refused(format!("its manifests of {job} cannot be removed: {error}")),
    }
}

/// Reports and orders of a node that an orchestrator assigns work to.
#[derive(Debug)]
pub struct WorkerDesk {
    pub supervisor: NodeSupervisor,
    pub orchestrator: RemoteOrchestrator,
    pub faults: Faults,
    pub manifests: ManifestFolder,
}

#[async_trait]
impl NodeDesk for WorkerDesk {
    async fn actors(&self) -> Vec<ActorRecord> {
        let state = ActorState::busy(self.orchestrator.has_leader());
        let mut actors = vec![ActorRecord::new("uplink", ActorKind::Uplink, state)];
        actors.extend(self.supervisor.actors().await);
        actors
    }

    async fn carry_out(&self, order: NodeOrder) -> OrderOutcome {
        let drain = || {
            let (supervisor, orchestrator) = (self.supervisor.clone(), self.orchestrator.clone());
            tokio::spawn(async move {
                tokio::join!(supervisor.drain(), orchestrator.announce(NodePhase::Draining))
            });
        };
        self.faults
            .carry_out(order, &self.supervisor, &self.manifests, drain)
            .await
    }
}

/// Reports and orders of a node that takes its work itself.
#[derive(Debug)]
pub struct PullDesk {
    pub supervisor: NodeSupervisor,
    pub dispatcher: Dispatcher,
    /// State of the node that is recorded in the database.
    pub state: watch::Sender<NodeState>,
    pub faults: Faults,
    pub manifests: ManifestFolder,
}

#[async_trait]
impl NodeDesk for PullDesk {
    async fn actors(&self) -> Vec<ActorRecord> {
        let state = ActorState::busy(self.dispatcher.health() == SourceHealth::Answers);
        let mut actors = vec![ActorRecord::new("dispatcher", ActorKind::Dispatcher, state)];
        actors.extend(self.supervisor.actors().await);
        actors
    }

    async fn carry_out(&self, order: NodeOrder) -> OrderOutcome {
        let drain = || {
            self.state.send_replace(NodeState::Draining);
            let (supervisor, dispatcher) = (self.supervisor.clone(), self.dispatcher.clone());
            tokio::spawn(async move { tokio::join!(supervisor.drain(), dispatcher.drain()) });
        };
        self.faults
            .carry_out(order, &self.supervisor, &self.manifests, drain)
            .await
    }
}

/// Reports and orders of an orchestrator, leading or standby.
#[derive(Debug)]
pub struct OrchestratorDesk {
    /// Orchestrator that runs while this process leads.
    pub reign: watch::Receiver<Option<OrchestratorHandle>>,
    pub since: DateTime<Utc>,
    pub faults: Faults,
}

/// Name of the actor that campaigns for the leadership.
const CANDIDATE: &str = "candidate";

impl OrchestratorDesk {
    fn end(&self, actor: &str) -> OrderOutcome {
        let reign = self.reign.borrow().clone();
        match reign {
            Some(orchestrator) if ["orchestrator", "mirror"].contains(&actor) => {
                orchestrator.kill();
                OrderOutcome::done(
                    "the orchestrator and its mirror end; the next standby takes the leadership",
                )
            }
            Some(_) => OrderOutcome::refused(format!("there is no actor {actor} that can be ended")),
            None => OrderOutcome::refused("it is a standby and does not lead"),
        }
    }
}

#[async_trait]
impl NodeDesk for OrchestratorDesk {
    async fn actors(&self) -> Vec<ActorRecord> {
        let reign = self.reign.borrow().clone();
        let mut actors = vec![ActorRecord {
            since: Some(self.since),
            ..ActorRecord::new(CANDIDATE, ActorKind::Candidate, ActorState::busy(reign.is_some()))
        }];
        if let Some(orchestrator) = reign {
            actors.extend(orchestrator.actors().await.into_iter().map(|actor| ActorRecord {
                parent: actor.parent.or_else(|| Some(CANDIDATE.to_owned())),
                ..actor
            }));
        }
        actors
    }

    async fn carry_out(&self, order: NodeOrder) -> OrderOutcome {
        if let Some(refused) = self.faults.refuse(&order) {
            return refused;
        }
        match order {
            NodeOrder::Restart { actor } | NodeOrder::Kill { actor } => self.end(&actor),
            NodeOrder::Drain => {
                OrderOutcome::refused("an orchestrator holds no work to release; stop its process instead")
            }
            NodeOrder::ForgetJob { .. } => OrderOutcome::refused("an orchestrator has no manifests"),
            NodeOrder::DropLink { .. } => {
                OrderOutcome::refused("an orchestrator dials no node; cut the link at the other node")
            }
            NodeOrder::SlowStore { .. } => {
                OrderOutcome::refused("an orchestrator neither reads nor writes artifacts")
            }
        }
    }
}
