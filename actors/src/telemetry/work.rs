//! Events of a node that works.

use std::time::Duration;

use tracing::{debug, info, warn};

use super::catalogue::{
    CONNECTIONS, CONNECTIONS_LOST, HEARTBEATS, HEARTBEATS_MISSED, INFERENCE_HALVED, INFERENCE_REQUESTS,
    INFERENCE_SECONDS, OUT_OF_ORDER, SLOTS, SLOTS_IN_USE, SOURCE_OBJECTS_UNREADABLE, STAGE_RUN_SECONDS,
    STAGE_RUNS, STAGE_RUNS_STARTED, STORAGE_BYTES, STORAGE_REQUESTS, STORAGE_SECONDS,
};
use parkhang_core::domain::{StageName, StageVerdict, WorkerId};

/// A slot was taken. To be emitted inside the span of the assignment.
pub(crate) struct StageStarted<'a> {
    pub stage: &'a StageName,
}

impl StageStarted<'_> {
    pub(crate) fn emit(self) {
        STAGE_RUNS_STARTED.add(1, [self.stage.as_str()]);
        info!("stage starts");
    }
}

/// A stage run is over. To be emitted inside the span of the assignment.
pub(crate) struct StageEnded<'a> {
    pub stage: &'a StageName,
    /// `None` when the actor that ran it died.
    pub verdict: Option<&'a StageVerdict>,
    pub took: Duration,
}

impl StageEnded<'_> {
    pub(crate) fn emit(self) {
        let took = self.took;
        let outcome = match self.verdict {
            Some(StageVerdict::Succeeded(_)) => "done",
            Some(StageVerdict::Failed(_)) => "failed",
            Some(StageVerdict::Interrupted) => "interrupted",
            None => "died",
        };
        STAGE_RUNS.add(1, [self.stage.as_str(), outcome]);
        STAGE_RUN_SECONDS.record(took.as_secs_f64(), [self.stage.as_str(), outcome]);
        match self.verdict {
            Some(StageVerdict::Failed(error)) => {
                warn!(?took, %error, category = error.category.as_str(), "stage failed");
            }
            Some(_) => info!(?took, outcome, "stage ended"),
            None => warn!(?took, "stage actor died"),
        }
    }
}

/// Sets the levels of a pool's slots; to be called whenever they may have changed.
pub(crate) fn slots_in_use(stage: &StageName, in_use: usize, slots: usize) {
    SLOTS.set(slots, [stage.as_str()]);
    SLOTS_IN_USE.set(in_use, [stage.as_str()]);
}

/// Sets whether this node can run the stage.
pub(crate) fn stage_out_of_order(stage: &StageName, out_of_order: bool) {
    OUT_OF_ORDER.set(usize::from(out_of_order), [stage.as_str()]);
}

/// A part of a job in the storage was passed over.
pub(crate) struct ObjectUnreadable<'a> {
    pub error: &'a dyn std::fmt::Display,
    /// True if it has been reported before.
    pub known: bool,
}

impl ObjectUnreadable<'_> {
    pub(crate) fn emit(self) {
        SOURCE_OBJECTS_UNREADABLE.add(1, []);
        if self.known {
            debug!(error = %self.error, "a part of a job is passed over again");
        } else {
            warn!(error = %self.error, "a part of a job is passed over until its object is mended");
        }
    }
}

/// The orchestrator has answered a heartbeat.
pub(crate) struct HeartbeatAnswered;

impl HeartbeatAnswered {
    pub(crate) fn emit(self) {
        HEARTBEATS.add(1, []);
    }
}

/// No orchestrator has renewed the leases of a pool.
pub(crate) struct HeartbeatUnanswered<'a> {
    pub worker: &'a WorkerId,
    pub reason: &'a dyn std::fmt::Display,
}

impl HeartbeatUnanswered<'_> {
    pub(crate) fn emit(self) {
        HEARTBEATS_MISSED.add(1, []);
        warn!(worker = %self.worker, reason = %self.reason, "heartbeat not answered");
    }
}

/// A session with a peer is ready.
pub(crate) struct Connected<'a> {
    pub peer: &'a dyn std::fmt::Display,
}

impl Connected<'_> {
    pub(crate) fn emit(self) {
        CONNECTIONS.add(1, []);
        info!(peer = %self.peer, "connected");
    }
}

/// A session with a peer has ended, after so long.
pub(crate) struct Disconnected<'a> {
    pub peer: &'a dyn std::fmt::Display,
    pub after: Duration,
}

impl Disconnected<'_> {
    pub(crate) fn emit(self) {
        CONNECTIONS_LOST.add(1, []);
        warn!(peer = %self.peer, after_s = self.after.as_secs(), "connection lost");
    }
}

/// A network has answered a batch.
pub(crate) struct BatchInferred<'a> {
    /// Name of the thread that owns the network.
    pub network: &'a str,
    pub requests: usize,
    pub took: Duration,
}

impl BatchInferred<'_> {
    pub(crate) fn emit(self) {
        INFERENCE_SECONDS.record(self.took.as_secs_f64(), [self.network]);
        INFERENCE_REQUESTS.record(self.requests as f64, [self.network]);
        debug!(network = self.network, requests = self.requests, took = ?self.took, "batch inferred");
    }
}

/// A device had too little memory for a batch; from now on no batch of this network is larger than `limit`.
pub(crate) struct BatchHalved<'a> {
    pub network: &'a str,
    /// Tiles, or pixels of lines.
    pub limit: usize,
}

impl BatchHalved<'_> {
    pub(crate) fn emit(self) {
        INFERENCE_HALVED.add(1, [self.network]);
        warn!(
            network = self.network,
            limit = self.limit,
            "the device has too little memory for a batch of this size"
        );
    }
}

/// The artifact store has answered, or failed.
pub(crate) struct StorageAnswered {
    pub operation: &'static str,
    /// `ok`, or the category of the error.
    pub result: &'static str,
    pub read: u64,
    pub written: u64,
    pub took: Duration,
}

impl StorageAnswered {
    pub(crate) fn emit(self) {
        STORAGE_REQUESTS.add(1, [self.operation, self.result]);
        STORAGE_SECONDS.record(self.took.as_secs_f64(), [self.operation]);
        for (bytes, direction) in [(self.read, "read"), (self.written, "written")] {
            if bytes > 0 {
                STORAGE_BYTES.add(bytes, [direction]);
            }
        }
        debug!(operation = self.operation, result = self.result, took = ?self.took, "storage answered");
    }
}
