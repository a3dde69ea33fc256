//! Passive data that every other room speaks: identifiers, volumes, jobs, tasks, stages, errors. Nothing here decides,
//! reads a clock or does I/O.

mod actor;
mod adjustment;
mod error;
mod ids;
mod image;
mod job;
mod job_config;
mod lease;
mod named_model;
mod node;
mod order;
mod pipeline;
mod pool;
mod progress;
mod scaling;
mod task;
mod unfit;
mod volume;

pub use actor::{
    ActorKind, ActorRecord, ActorState, ActorWork, Level, LoadedModel, NodeActors, PageAtWork, PageStep,
};
pub use adjustment::{ADJUSTABLE, Adjustment};
pub use error::{ErrorCategory, StageError};
pub use ids::{Attempt, Epoch, Generation, JobId, JobKey, TaskId, WorkerId};
pub use image::ImageRecord;
pub use job::{Job, JobStatus, NewJob};
pub use job_config::{
    ConfigError, Decoder, ItemOrder, JobConfig, LayoutName, LineMode, OnItemError, RetryScope, TextEncoding,
};
pub use lease::{
    AssignReply, Assignment, LeaseRenewal, LeaseReport, LeaseStatus, RenewalReply, ReportReply, StageReport,
    StageVerdict,
};
pub use named_model::{InvalidModel, NamedModel, NamedModels};
pub use node::{NodeRecord, NodeState, WorkerRecord};
pub use order::{NodeOrder, OrderOutcome, PlacedOrder};
pub use pipeline::{Hardware, InvalidPipeline, Pipeline, Position, StageName};
pub use pool::PoolInfo;
pub use progress::{PageOutcome, StageProgress};
pub use scaling::ScalingRecord;
pub use task::{Fence, Lease, StageRun, StageRunStatus, Task, TaskCount, TaskStatus, VolumeResults};
pub use unfit::Unfit;
pub use volume::{InvalidName, VolumeId};
