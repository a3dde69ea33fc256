//! Telemetry: the progress board that a person or a console looks at, and the events that emit a log line and a metric together,
//! so that the two cannot contradict each other.
//!
//! An event is a value with an `emit`, which needs no handle: metrics go through a facade to a recorder that only nodes install,
//! so an event can be emitted from anywhere, and costs a branch where nobody listens. The metrics themselves are one list of
//! constants (`catalogue`), from which the documentation is made; their labels have few values, never volumes or pages. Log lines
//! about a volume get its name from the span that the work runs in (`span`). Traces need nothing more: their identifiers are
//! digests of job, volume, task and lease, so every node derives the same ones and no message carries them.
//!
//! The room decides nothing and nothing depends on it, but for one thing: the progress board is also what tells a stage run that
//! makes progress from one that hangs.

mod catalogue;
mod entities;
mod memory;
mod metered_store;
mod metric;
mod orchestration;
mod page_steps;
mod pages;
mod progress;
mod queues;
mod scaling;
mod services;
mod span;
mod work;

#[cfg(test)]
pub(crate) mod testing;

pub use catalogue::definitions;
pub use entities::entity_rows;
pub use memory::resident_bytes;
pub use metered_store::MeteredStore;
pub use metric::{Definition, Kind, describe};
pub(crate) use orchestration::{
    AdvanceClock, AssignmentAnswered, BatchCommitted, BatchRefused, JobFinished, LeaseLost, PassEnded,
    PoolJoined, PoolLeft, ReportAnswered, StageDeserted, StageServed, TaskReported, pools_registered,
};
pub use orchestration::{ModelsMissed, TaskLevels};
pub(crate) use page_steps::at_step;
pub(crate) use pages::PageEnded;
pub use progress::{Followed, ProgressBoard, RunProgress, RunSnapshot, StageState};
pub use queues::QueueLevels;
pub(crate) use scaling::{Scaled, ScalingFailed, WorkerEnded, WorkerStarted, WorkerStopping};
pub use services::{ServiceLevel, ServiceLevels};
pub(crate) use services::{service_failed, service_took};
pub(crate) use span::{assign_span, report_span, stage_span};
pub(crate) use work::{
    BatchHalved, BatchInferred, Connected, Disconnected, HeartbeatAnswered, HeartbeatUnanswered,
    ObjectUnreadable, StageEnded, StageStarted, StorageAnswered, slots_in_use, stage_out_of_order,
};
