//! The messages, as plain data. Content that grows from release to release (configuration, metrics, results) travels as a JSON
//! document, so that its reader decides about keys that it does not know.

use serde::{Deserialize, Serialize};

use parkhang_core::domain::{
    Amount, Epoch, Expense, Fence, JobKey, LeaseRenewal, PoolInfo, RenewalReply, Usage, VolumeId, WorkerId,
};

/// Sender of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peer {
    /// [`super::PROTOCOL`] of the sender.
    pub protocol: u16,
    /// Version of the sender's program.
    pub build: String,
    /// Name of the node, unique per process start.
    pub node: String,
}

/// First message to an endpoint, which introduces the sender. Answered with [`EndpointInfo`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handshake {
    pub peer: Peer,
}

/// Introduction of an endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndpointInfo {
    pub peer: Peer,
    pub role: EndpointRole,
}

/// Part of a node that an endpoint belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum EndpointRole {
    /// A pool of a stage.
    Stage(PoolInfo),
    /// An orchestrator that leads.
    Orchestrator { epoch: Epoch },
}

/// A lease, and the work under it. Answered with [`AssignReply`](parkhang_core::domain::AssignReply); sending it twice is harmless.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assign {
    /// Epoch of the sender, by which a leader that was replaced is refused.
    pub epoch: Epoch,
    /// The lease.
    pub fence: Fence,
    /// Deadline of the lease, in microseconds since 1970, UTC.
    pub lease_until: i64,
    pub volume: VolumeId,
    pub job: JobKey,
    /// The job's configuration, all keys, as JSON.
    pub config: String,
}

/// [`Assign`] of a volume whose pages come from a PDF that is not named after it. A node that does not know such volumes refuses it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssignDocument {
    pub assign: Assign,
    /// Key of the PDF.
    pub document: String,
}

/// Renewal of the leases of one pool. Answered with [`HeartbeatReply`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heartbeat {
    pub worker: WorkerId,
    pub leases: Vec<LeaseRenewal>,
}

/// Leases that are lost or cancelled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeartbeatReply {
    /// Epoch of the orchestrator that answers.
    pub epoch: Epoch,
    pub leases: RenewalReply,
}

/// End of a lease. Answered with [`ReportReply`](parkhang_core::domain::ReportReply), repeated until that says `Recorded` or `Fenced`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    pub fence: Fence,
    pub outcome: ReportedOutcome,
}

/// End of a lease, as data that any build can decode.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReportedOutcome {
    /// The stage is done.
    Succeeded {
        /// Measurements of the stage, as JSON.
        metrics: String,
        /// Fingerprint of the artifact.
        fingerprint: Option<String>,
        /// Results of the volume from `reduce`, as JSON.
        results: Option<String>,
    },
    /// The stage failed.
    Failed {
        stage: String,
        item: Option<String>,
        /// Name of the error category.
        category: String,
        message: String,
        retryable: bool,
    },
    /// Drained before the end.
    Interrupted,
    /// The actor that ran the stage died without a verdict.
    Died,
}

/// Use that a stage has made of a service under a lease so far. Answered with [`SpendReply`](parkhang_core::domain::SpendReply), repeated
/// until that does not say `Unrecorded`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spend {
    pub fence: Fence,
    pub service: String,
    pub calls: u64,
    pub input_tokens: u64,
    pub output_tokens: u64,
    /// Cost, in billionths of the operator's currency.
    pub cost: u64,
}

impl From<&Expense> for Spend {
    fn from(expense: &Expense) -> Self {
        Self {
            fence: expense.fence.clone(),
            service: expense.service.clone(),
            calls: expense.usage.calls,
            input_tokens: expense.usage.input_tokens,
            output_tokens: expense.usage.output_tokens,
            cost: expense.cost.nanos(),
        }
    }
}

impl From<Spend> for Expense {
    fn from(spend: Spend) -> Self {
        Self {
            fence: spend.fence,
            service: spend.service,
            usage: Usage {
                calls: spend.calls,
                input_tokens: spend.input_tokens,
                output_tokens: spend.output_tokens,
            },
            cost: Amount::from_nanos(spend.cost),
        }
    }
}

/// Request to start nothing more, and to stop the stages at their next checkpoints. Answered with [`DrainReply`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drain;

/// Request to stop the stages under these leases at their next checkpoints: the leases are over, and the work is no longer wanted.
/// Answered with [`CancelReply`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cancel {
    pub epoch: Epoch,
    pub fences: Vec<Fence>,
}

/// Confirmation that the stages have been told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CancelReply;

/// Confirmation that the drain has begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrainReply;

/// Description of a node, sent to the leading orchestrator at every heartbeat and when the phase changes. Answered with
/// [`NoticeReply`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeNotice {
    pub peer: Peer,
    pub phase: NodePhase,
    /// [`NodeAbout`](super::NodeAbout) as JSON.
    pub about: String,
}

/// Phase in the life of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum NodePhase {
    /// Takes work.
    Working,
    /// Takes no more work, and releases its leases.
    Draining,
    /// All leases are released; the process ends.
    Leaving,
}

/// Confirmation that the notice has been taken in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoticeReply;

/// Question how many nodes ask each of these services while their stages wait. Answered with [`AskersReply`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Askers {
    pub services: Vec<String>,
}

/// Numbers of the nodes that are there and have told that they ask the services, in the order of the question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskersReply {
    pub nodes: Vec<u32>,
}

/// What the operator of a node wants it to do, sent to any of its endpoints. Answered with [`CommandReply`]; repeated until it is, and
/// carried out once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command {
    pub epoch: Epoch,
    /// Number of the command, by which it is carried out once.
    pub id: i64,
    /// [`NodeCommand`](parkhang_core::domain::NodeCommand) as JSON.
    pub command: String,
}

/// Outcome of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandReply {
    /// [`CommandOutcome`](parkhang_core::domain::CommandOutcome) as JSON.
    pub outcome: String,
}
