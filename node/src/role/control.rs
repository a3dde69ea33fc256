//! Reports and commands: the actors that nodes of each role report, and the commands of operators that they carry out.

use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use parkhang_actors::cluster::{Partition, RemoteOrchestrator};
use parkhang_actors::orchestrator::OrchestratorHandle;
use parkhang_actors::source::{Dispatcher, SourceHealth};
use parkhang_actors::stage::ManifestFolder;
use parkhang_actors::supervisor::{NodeControl, NodeSupervisor};
use parkhang_actors::wire::NodePhase;
use parkhang_core::domain::{
    ActorKind, ActorRecord, ActorState, CommandOutcome, JobKey, NodeCommand, NodeState,
};
use parkhang_store::storage::StoreDelay;
use tokio::sync::watch;
use tracing::warn;

use crate::config::Loaded;

/// Delay before a link is cut, so that the answer to the command is still sent.
const ACK_GRACE: Duration = Duration::from_millis(300);
const DRAINS: &str = "it takes no more work, and releases what it has at the next checkpoints";

/// Faults that can be injected on a node.
#[derive(Debug)]
pub struct Faults {
    allowed: bool,
    /// Switch that cuts the links of a node that dials orchestrators.
    partition: Option<Partition>,
    delay: StoreDelay,
}

impl Faults {
    pub fn new(loaded: &Loaded, partition: Option<Partition>, delay: StoreDelay) -> Self {
        Self {
            allowed: loaded.config.chaos.allowed,
            partition,
            delay,
        }
    }

    /// Returns the refusal of a command, if it is refused.
    fn refuse(&self, command: &NodeCommand) -> Option<CommandOutcome> {
        let refused = command.is_fault() && !self.allowed;
        refused.then(|| CommandOutcome::refused("chaos.allowed is false in its configuration"))
    }

    /// Carries out a command on a node with a supervisor; `drain` begins the node's own way to drain.
    async fn carry_out(
        &self,
        command: NodeCommand,
        supervisor: &NodeSupervisor,
        manifests: &ManifestFolder,
        drain: impl FnOnce() + Send,
    ) -> CommandOutcome {
        // The node decides for itself: whoever could write to the database could otherwise inject faults into
        // it.
        if let Some(refused) = self.refuse(&command) {
            return refused;
        }
        match command {
            NodeCommand::Drain => {
                drain();
                CommandOutcome::done(DRAINS)
            }
            NodeCommand::Restart { actor } => supervisor.restart(&actor).await,
            NodeCommand::Kill { actor } => supervisor.kill(&actor).await,
            NodeCommand::ForgetJob { job } => forget(&job, manifests).await,
            NodeCommand::DropLink { seconds } => self.drop_link(seconds),
            NodeCommand::SlowStore { delay_ms, seconds } => self.slow_store(delay_ms, seconds),
        }
    }

    fn drop_link(&self, seconds: u64) -> CommandOutcome {
        let Some(partition) = self.partition.clone() else {
            return CommandOutcome::refused("it has no link to an orchestrator");
        };
        warn!(
            seconds,
            "the link to the orchestrators is cut at an operator's order"
        );
        tokio::spawn(async move {
            tokio::time::sleep(ACK_GRACE).await;
            partition.begin(Duration::from_secs(seconds));
        });
        CommandOutcome::done(format!("its links are cut for {seconds} s"))
    }

    fn slow_store(&self, delay_ms: u64, seconds: u64) -> CommandOutcome {
        warn!(
            delay_ms,
            seconds, "the artifact store is slowed down at an operator's order"
        );
        self.delay
            .begin(Duration::from_millis(delay_ms), Duration::from_secs(seconds));
        CommandOutcome::done(format!(
            "its artifact store takes {delay_ms} ms longer for {seconds} s"
        ))
    }
}

async fn forget(job: &JobKey, manifests: &ManifestFolder) -> CommandOutcome {
    match manifests.forget(job).await {
        Ok(true) => CommandOutcome::done(format!("its manifests of {job} are removed")),
        Ok(false) => CommandOutcome::done(format!("it has no manifests of {job}")),
        Err(error) => CommandOutcome::refused(format!("its manifests of {job} cannot be removed: {error}")),
    }
}

/// Reports and commands of a node that an orchestrator assigns work to.
#[derive(Debug)]
pub struct WorkerControl {
    pub supervisor: NodeSupervisor,
    pub orchestrator: RemoteOrchestrator,
    pub faults: Faults,
    pub manifests: ManifestFolder,
}

#[async_trait]
impl NodeControl for WorkerControl {
    async fn actors(&self) -> Vec<ActorRecord> {
        let state = ActorState::busy(self.orchestrator.has_leader());
        let mut actors = vec![ActorRecord::new("uplink", ActorKind::Uplink, state)];
        actors.extend(self.supervisor.actors().await);
        actors
    }

    async fn carry_out(&self, command: NodeCommand) -> CommandOutcome {
        let drain = || {
            let (supervisor, orchestrator) = (self.supervisor.clone(), self.orchestrator.clone());
            tokio::spawn(async move {
                // In a task, because the answer to the command must not wait for checkpoints that may take
                // minutes.
                tokio::join!(supervisor.drain(), orchestrator.announce(NodePhase::Draining))
            });
        };
        self.faults
            .carry_out(command, &self.supervisor, &self.manifests, drain)
            .await
    }
}

/// Reports and commands of a node that takes its work itself.
#[derive(Debug)]
pub struct PullControl {
    pub supervisor: NodeSupervisor,
    pub dispatcher: Dispatcher,
    /// State of the node that is recorded in the database.
    pub state: watch::Sender<NodeState>,
    pub faults: Faults,
    pub manifests: ManifestFolder,
}

#[async_trait]
impl NodeControl for PullControl {
    async fn actors(&self) -> Vec<ActorRecord> {
        let state = ActorState::busy(self.dispatcher.health() == SourceHealth::Answers);
        let mut actors = vec![ActorRecord::new("dispatcher", ActorKind::Dispatcher, state)];
        actors.extend(self.supervisor.actors().await);
        actors
    }

    async fn carry_out(&self, command: NodeCommand) -> CommandOutcome {
        let drain = || {
            self.state.send_replace(NodeState::Draining);
            let (supervisor, dispatcher) = (self.supervisor.clone(), self.dispatcher.clone());
            tokio::spawn(async move { tokio::join!(supervisor.drain(), dispatcher.drain()) });
        };
        self.faults
            .carry_out(command, &self.supervisor, &self.manifests, drain)
            .await
    }
}

/// Reports and commands of an orchestrator, leading or standby.
#[derive(Debug)]
pub struct OrchestratorControl {
    /// Orchestrator that runs while this process leads.
    pub orchestrator: watch::Receiver<Option<OrchestratorHandle>>,
    pub since: DateTime<Utc>,
    pub faults: Faults,
}

/// Name of the actor that campaigns for the leadership.
const CANDIDATE: &str = "candidate";

impl OrchestratorControl {
    fn end(&self, actor: &str) -> CommandOutcome {
        let orchestrator = self.orchestrator.borrow().clone();
        match orchestrator {
            // The two live and die together, so killing either ends the leadership.
            Some(orchestrator) if ["orchestrator", "mirror"].contains(&actor) => {
                orchestrator.kill();
                CommandOutcome::done(
                    "the orchestrator and its mirror end; the next standby takes the leadership",
                )
            }
            Some(_) => CommandOutcome::refused(format!("there is no actor {actor} that can be ended")),
            None => CommandOutcome::refused("it is a standby and does not lead"),
        }
    }
}

#[async_trait]
impl NodeControl for OrchestratorControl {
    async fn actors(&self) -> Vec<ActorRecord> {
        let orchestrator = self.orchestrator.borrow().clone();
        let mut actors = vec![ActorRecord {
            since: Some(self.since),
            ..ActorRecord::new(
                CANDIDATE,
                ActorKind::Candidate,
                ActorState::busy(orchestrator.is_some()),
            )
        }];
        if let Some(orchestrator) = orchestrator {
            actors.extend(orchestrator.actors().await.into_iter().map(|actor| ActorRecord {
                // The orchestrator's own actors know no candidate, but it is the candidate that starts them.
                parent: actor.parent.or_else(|| Some(CANDIDATE.to_owned())),
                ..actor
            }));
        }
        actors
    }

    async fn carry_out(&self, command: NodeCommand) -> CommandOutcome {
        if let Some(refused) = self.faults.refuse(&command) {
            return refused;
        }
        match command {
            NodeCommand::Restart { actor } | NodeCommand::Kill { actor } => self.end(&actor),
            NodeCommand::Drain => {
                CommandOutcome::refused("an orchestrator holds no work to release; stop its process instead")
            }
            NodeCommand::ForgetJob { .. } => CommandOutcome::refused("an orchestrator has no manifests"),
            NodeCommand::DropLink { .. } => {
                CommandOutcome::refused("an orchestrator dials no node; cut the link at the other node")
            }
            NodeCommand::SlowStore { .. } => {
                CommandOutcome::refused("an orchestrator neither reads nor writes artifacts")
            }
        }
    }
}
