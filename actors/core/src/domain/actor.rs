use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::{Attempt, Generation, JobKey, VolumeId};

/// An actor of a node, or a thread that works as one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActorRecord {
    /// Name by which commands address it, unique within its node.
    pub name: String,
    /// Name of the actor that watches over it.
    #[serde(default)]
    pub parent: Option<String>,
    pub kind: ActorKind,
    pub state: ActorState,
    #[serde(default)]
    pub since: Option<DateTime<Utc>>,
    /// How often another has taken its place since the node began.
    #[serde(default)]
    pub restarts: u64,
    /// Number of pools that the node has started up to this one, for a pool.
    #[serde(default, rename = "generation")]
    pub incarnation: Option<u64>,
    /// Of a pool.
    #[serde(default)]
    pub slots: Option<Level>,
    /// What waits for it, where it has a queue of its own: mailboxes cannot be asked for their length.
    #[serde(default)]
    pub inbox: Option<Level>,
    /// Of a worker.
    #[serde(default)]
    pub work: Option<ActorWork>,
    /// Networks that it keeps loaded.
    #[serde(default)]
    pub models: Vec<LoadedModel>,
    /// Actors below it that are there and not told of.
    #[serde(default)]
    pub left_out: u64,
}

/// How much of something is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Level {
    pub used: u64,
    /// None where there is no bound.
    pub capacity: Option<u64>,
}

/// A volume in the hands of a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActorWork {
    pub job: JobKey,
    pub volume: VolumeId,
    pub attempt: Attempt,
    pub generation: Generation,
    /// Absent until the stage knows its pages.
    pub pages: Option<u64>,
    pub pages_finished: Option<u64>,
    /// Pages that are worked on, or the first of them: those that have been at their step for longest.
    #[serde(default)]
    pub at_work: Vec<PageAtWork>,
}

/// What is being done to a page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageAtWork {
    /// Name of its image.
    pub page: String,
    pub step: PageStep,
    /// When the step began.
    pub since: DateTime<Utc>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PageStep {
    /// What it is made of is read.
    Fetching,
    /// On a processor, or waiting for one.
    Computing,
    /// In a network, or waiting for one.
    Inferring,
    /// A service is asked about it, or left alone for a while.
    Asking,
    /// Its images are written.
    Storing,
}

impl PageStep {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fetching => "fetching",
            Self::Computing => "computing",
            Self::Inferring => "inferring",
            Self::Asking => "asking",
            Self::Storing => "storing",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadedModel {
    pub name: String,
    /// Of its weights.
    pub digest: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ActorKind {
    /// The root of a node's stages.
    Supervisor,
    /// Owns the slots of a stage.
    Pool,
    /// Runs a stage on one volume.
    Worker,
    /// The thread that owns a network.
    Device,
    /// A node's end of the line to the orchestrator.
    Uplink,
    /// Takes work from a source.
    Dispatcher,
    /// Stands for the leadership.
    Candidate,
    Orchestrator,
    Mirror,
}

impl ActorKind {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Supervisor => "supervisor",
            Self::Pool => "pool",
            Self::Worker => "worker",
            Self::Device => "device",
            Self::Uplink => "uplink",
            Self::Dispatcher => "dispatcher",
            Self::Candidate => "candidate",
            Self::Orchestrator => "orchestrator",
            Self::Mirror => "mirror",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ActorState {
    Idle,
    Working,
    /// Its work has ended, and nobody has recorded that yet.
    Reporting,
    /// Takes no more work.
    Draining,
    /// Ended, and soon to be replaced.
    Restarting,
    /// It does not work on its node, and is not replaced before an operator restarts it.
    #[serde(rename = "out of service")]
    OutOfService,
    /// Did not answer in time.
    Silent,
}

impl ActorState {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Working => "working",
            Self::Reporting => "reporting",
            Self::Draining => "draining",
            Self::Restarting => "restarting",
            Self::OutOfService => "out of service",
            Self::Silent => "silent",
        }
    }

    pub const fn busy(is_busy: bool) -> Self {
        if is_busy { Self::Working } else { Self::Idle }
    }
}

impl ActorRecord {
    /// One of which nothing more is known.
    pub fn new(name: impl Into<String>, kind: ActorKind, state: ActorState) -> Self {
        Self {
            name: name.into(),
            parent: None,
            kind,
            state,
            since: None,
            restarts: 0,
            incarnation: None,
            slots: None,
            inbox: None,
            work: None,
            models: Vec::new(),
            left_out: 0,
        }
    }
}

/// The actors of a node, parents before their children, as it told of them last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeActors {
    pub node: String,
    pub told_at: DateTime<Utc>,
    pub actors: Vec<ActorRecord>,
}
