//! Where an orchestrator, leading or not, takes commands of operators on other nodes.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use ractor::SpawnErr;
use serde_json::{Map, Value};
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::debug;

use super::answers::Answers;
use super::gate::{Answer, Gate, OPERATORS, introduction, open_lone_gate, request, seal, unexpected};
use super::name::NodeName;
use crate::wire::{
    Command, CommandOutcome, CommandPart, CommandPartReply, CommandReply, Envelope, Fault, GateInfo,
    GateRole, Hello, Kind, Message, Unusable,
};
use parkhang_core::domain::Epoch;

/// Carries out what operators ask and order.
#[async_trait]
pub trait OperatorDesk: Send + Sync + 'static {
    /// `operator` is the name of the node at which the operator sits, as that node gives it.
    async fn carry_out(
        &self,
        operator: &str,
        words: &[String],
        arguments: Map<String, Value>,
    ) -> CommandOutcome;
}

/// What opens an orchestrator to operators.
#[derive(Clone)]
pub struct OperatorsConfig {
    pub node: NodeName,
    /// Name of the cluster: other ones do not see the gate.
    pub scope: String,
    pub desk: Arc<dyn OperatorDesk>,
    /// The leadership of this node, while it leads.
    pub leads: watch::Receiver<Option<Epoch>>,
}

impl fmt::Debug for OperatorsConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OperatorsConfig")
            .field("node", &self.node)
            .field("scope", &self.scope)
            .finish_non_exhaustive()
    }
}

/// Handle on the gate.
#[derive(Debug, Clone)]
pub struct Operators(Gate);

impl Operators {
    /// Takes commands from now on.
    pub async fn welcome(config: OperatorsConfig) -> Result<Self, SpawnErr> {
        let scope = config.scope.clone();
        let gate = OperatorGate {
            config: Arc::new(config),
            answers: Arc::default(),
        };
        Ok(Self(open_lone_gate(gate, &scope).await?))
    }

    /// Takes no more commands.
    pub async fn stop(self) {
        // Already stopped is as good.
        let _ = self.0.stop_and_wait(None, None).await;
    }
}

#[derive(Clone)]
struct OperatorGate {
    config: Arc<OperatorsConfig>,
    answers: Arc<Mutex<Answers>>,
}

impl Answer for OperatorGate {
    const GROUP: &'static str = OPERATORS;

    async fn answer(&self, envelope: &Envelope) -> Result<Envelope, Fault> {
        match envelope.kind()? {
            Kind::Hello => {
                let Hello { peer } = request(envelope)?;
                debug!(peer = %peer.node, build = %peer.build, "an operator greets");
                // Who stands by leads under no epoch, and epochs begin with 1.
                let epoch = self.config.leads.borrow().unwrap_or_default();
                seal(&GateInfo {
                    peer: introduction(&self.config.node),
                    role: GateRole::Orchestrator { epoch },
                })
            }
            Kind::Command => seal(&self.carry_out(request(envelope)?).await?),
            Kind::CommandPart => {
                let CommandPart { answer, part } = request(envelope)?;
                let text = self.answers().part(answer, part, Instant::now());
                seal(&CommandPartReply { text })
            }
            kind => Err(unexpected(kind)),
        }
    }
}

impl OperatorGate {
    async fn carry_out(&self, command: Command) -> Result<CommandReply, Fault> {
        let arguments = command
            .arguments()
            .map_err(|unusable| malformed::<Command>(&unusable))?;
        let desk = &self.config.desk;
        let outcome = desk
            .carry_out(&command.peer.node, &command.words, arguments)
            .await;
        let mut parts = outcome
            .into_parts()
            .map_err(|unusable| malformed::<CommandReply>(&unusable))?;
        let count = u32::try_from(parts.len()).unwrap_or(u32::MAX);
        if count == 1 {
            return Ok(CommandReply {
                answer: 0,
                parts: count,
                text: parts.swap_remove(0),
            });
        }
        let text = parts[0].clone();
        let answer = self.answers().keep(parts, Instant::now());
        Ok(CommandReply {
            answer,
            parts: count,
            text,
        })
    }

    /// Every holder leaves the answers whole.
    fn answers(&self) -> MutexGuard<'_, Answers> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn malformed<M: Message>(unusable: &Unusable) -> Fault {
    Fault::Malformed {
        kind: M::KIND.number(),
        reason: unusable.to_string(),
    }
}
