//! The messages, as plain data. What may grow from release to release (configuration, metrics, results) travels as a JSON
//! document, so that its reader decides what it makes of a key that it does not know.

use serde::{Deserialize, Serialize};

use parkhang_core::domain::{Epoch, Fence, JobKey, LeaseRenewal, PoolInfo, RenewalReply, VolumeId, WorkerId};

/// Who speaks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peer {
    /// [`super::PROTOCOL`] of the sender.
    pub protocol: u16,
    /// Version of the sender's program.
    pub build: String,
    /// Name of the node, unique per process start.
    pub node: String,
}

/// First message to a gate: who asks. Answered with [`GateInfo`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    pub peer: Peer,
}

/// What a gate is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateInfo {
    pub peer: Peer,
    pub role: GateRole,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum GateRole {
    Stage(PoolInfo),
    Orchestrator { epoch: Epoch },
}

/// A lease, and what to do under it. Answered with [`AssignReply`](parkhang_core::domain::AssignReply); sending it twice is harmless.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assign {
    pub epoch: Epoch,
    pub fence: Fence,
    /// Microseconds since 1970, UTC.
    pub lease_until: i64,
    pub volume: VolumeId,
    pub job: JobKey,
    /// The job's configuration, all keys, as JSON.
    pub config: String,
}

/// Renewal of the leases of one pool. Answered with [`HeartbeatReply`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heartbeat {
    pub worker: WorkerId,
    pub leases: Vec<LeaseRenewal>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeartbeatReply {
    pub epoch: Epoch,
    pub leases: RenewalReply,
}

/// How a lease ended. Answered with [`ReportReply`](parkhang_core::domain::ReportReply), repeated until that says `Recorded` or `Fenced`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    pub fence: Fence,
    pub outcome: ReportedOutcome,
}

/// End of a lease, as data that any build can decode.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReportedOutcome {
    Succeeded {
        /// What the stage measured about itself, as JSON.
        metrics: String,
        fingerprint: Option<String>,
        /// What `reduce` found, as JSON.
        results: Option<String>,
    },
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
    /// The actor that ran the stage died without a word.
    Died,
}

/// Start nothing more, stop what runs at its next checkpoint. Answered with [`DrainReply`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drain;

/// The work of these leases is no longer wanted, and the leases are over: stop at the next checkpoint. Answered with
/// [`CancelReply`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cancel {
    pub epoch: Epoch,
    pub fences: Vec<Fence>,
}

/// The stages have been told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CancelReply;

/// The drain has begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrainReply;

/// What a node tells of itself, to whoever leads, at every heartbeat and when its phase changes. Answered with [`NoticeReply`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeNotice {
    pub peer: Peer,
    pub phase: NodePhase,
    /// [`NodeAbout`](super::NodeAbout) as JSON.
    pub about: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum NodePhase {
    Working,
    /// Takes no more work and hands back what it has.
    Draining,
    /// All is handed back; the process ends.
    Leaving,
}

/// The notice has been taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoticeReply;

/// What the operator of a node wants it to do, sent to any of its gates. Answered with [`OrderReply`]; repeated until it is, and
/// carried out once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    pub epoch: Epoch,
    /// Names the order, for ever.
    pub id: i64,
    /// [`NodeOrder`](parkhang_core::domain::NodeOrder) as JSON.
    pub order: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderReply {
    /// [`OrderOutcome`](parkhang_core::domain::OrderOutcome) as JSON.
    pub outcome: String,
}
