//! What the process says about itself: the progress board that a person or a console looks at, and the events that emit
//! the log line and the metric together, so that the two cannot tell different stories. The room decides nothing, and
//! nothing depends on whether anybody listens: without a recorder, metrics cost a branch.

mod catalogue;
mod memory;
mod metered_store;
mod metric;
mod orchestration;
mod page_steps;
mod pages;
mod progress;
mod scaling;
mod span;
mod work;

#[cfg(test)]
pub(crate) mod testing;

pub use catalogue::definitions;
pub use memory::resident_bytes;
pub use metered_store::MeteredStore;
pub use metric::{Definition, Kind, describe};
pub(crate) use orchestration::{
    AdvanceClock, AssignmentAnswered, BatchCommitted, BatchRefused, JobSettled, LeaseLost, PassEnded,
    PoolJoined, PoolLeft, ReportAnswered, StageDeserted, StageServed, TaskReported, pools_registered,
};
pub use orchestration::{ModelsMissed, TaskLevels};
pub(crate) use page_steps::at_step;
pub(crate) use pages::PageEnded;
pub use progress::{Followed, ProgressBoard, RunProgress, RunSnapshot, StageState};
pub(crate) use scaling::{Scaled, ScalingFailed, WorkerEnded, WorkerStarted, WorkerStopping};
pub(crate) use span::{assign_span, report_span, stage_span};
pub(crate) use work::{
    BatchHalved, BatchInferred, Connected, Disconnected, HeartbeatAnswered, HeartbeatUnanswered,
    ObjectUnreadable, StageEnded, StageStarted, StorageAnswered, slots_in_use, stage_out_of_order,
};
