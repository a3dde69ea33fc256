//! Domain: the passive data that every other room speaks of, such as identifiers, volumes, jobs, tasks, stages and errors.
//!
//! Nothing here decides, reads a clock or does I/O. Types are checked where a value is made, so that a value that exists is
//! legal: a [`VolumeId`] is safe as a path segment, a [`Pipeline`] has at least one stage and none twice, a [`JobConfig`] has
//! passed [`JobConfig::validated`]. Stages are names and not an enumeration, as they come and go without a migration of the
//! database or a change of the wire. Data that have no invariant have public fields and no accessors.
//!
//! Many of these types are stored or sent as they are: their serde form is the content of database columns, of objects in the
//! storage and of messages between nodes. A renamed variant or field is a change of those formats. Rules about the data, such
//! as which status may follow which, belong to [`crate::policy`].

mod actor;
mod adjustment;
mod amount;
mod correction;
mod document;
mod entity;
mod error;
mod ids;
mod image;
mod inputs;
mod job;
mod job_config;
mod lease;
mod listed;
mod named_model;
mod node;
mod node_command;
mod page_set;
mod pipeline;
mod pool;
mod progress;
mod queue;
mod scaling;
mod service;
mod spending;
mod suggestion;
mod task;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod trusts;
mod unfit;
mod unknown_stage;
mod volume;

pub use actor::{
    ActorKind, ActorRecord, ActorState, ActorWork, Level, LoadedModel, NodeActors, PageAtWork, PageStep,
};
pub use adjustment::{ADJUSTABLE, Adjustment};
pub use amount::{Amount, InvalidAmount};
pub use correction::{Edit, InvalidEdit, MOST_CORNERS, PageLine, RecordedEdit};
pub use document::DocumentKey;
pub use entity::{
    EntityPipeline, EntityStage, EntityStatus, FailureKind, InvalidEntity, StageLimits, UnknownEntityStatus,
};
pub use error::{ErrorCategory, StageError};
pub use ids::{Attempt, Epoch, Generation, JobId, JobKey, TaskId, WorkerId};
pub use image::ImageRecord;
pub use inputs::{ArchiveReading, Input, Inputs, InvalidInputs, MOST_INPUTS};
pub use job::{Job, JobStatus, NewJob};
pub use job_config::{
    Artifacts, ConfigError, Decoder, JobConfig, LayoutName, LineMode, OnItemError, ReadPages, RetryScope,
    SchedulingOrder, TextEncoding, Verify,
};
pub use lease::{
    AssignReply, Assignment, LeaseRenewal, LeaseReport, LeaseStatus, RenewalReply, ReportReply, StageReport,
    StageVerdict,
};
pub use named_model::{InvalidModel, NamedModel, NamedModels};
pub use node::{NodeRecord, NodeState, WorkerRecord};
pub use node_command::{CommandOutcome, IssuedCommand, NodeCommand};
pub use page_set::PageSet;
pub use pipeline::{Hardware, InvalidPipeline, Pipeline, Position, StageName};
pub use pool::PoolInfo;
pub use progress::{PageOutcome, StageProgress};
pub use queue::{Alarm, AlarmKind, MOST_IN_FRONT, Publication, QueuePurpose, QueueRecord};
pub use scaling::ScalingRecord;
pub use service::{EngineRecord, ServiceJob, ServiceLease, ServiceMessage, ServiceRecord};
pub use spending::{Expense, Prices, SpendReply, Spending, Usage};
pub use suggestion::{did_you_mean, nearest};
pub use task::{Fence, Lease, StageRun, StageRunStatus, Task, TaskCount, TaskStatus, VolumeResults};
pub use trusts::{InputTrust, InvalidTrusts, Trusts};
pub use unfit::Unfit;
pub use unknown_stage::UnknownStage;
pub use volume::{InvalidName, VolumeId};
