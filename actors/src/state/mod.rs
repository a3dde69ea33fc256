//! Where jobs and tasks live. Postgres is the truth and the only place with SQL; the memory twin passes the same
//! conformance suite and serves unit tests. Neither decides anything: they apply [`crate::policy::transition`] to the
//! rows that a fence matches, in one transaction.

mod backlog;
mod browse;
mod change;
mod claim;
pub mod conformance;
mod embedded;
mod memory;
mod postgres;
mod statistics;
mod volumes;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use crate::domain::{
    Adjustment, ConfigError, Epoch, Fence, Generation, Job, JobId, JobKey, NewJob, NodeRecord, Position,
    ScalingRecord, StageName, StageRun, Task, TaskId, TaskStatus, VolumeResults, WorkerId,
};
use crate::policy::autoscale::StageBacklog;
use crate::policy::job_action::{Forbidden, JobAction};
use crate::policy::rerun::Rerun;
use crate::policy::transition::Event;

pub use backlog::{Leases, Ready};
pub use browse::{
    AtStage, AuditEntry, ErrorGroup, FailedPages, ListedPhase, Pace, SlowVolume, SpoiltVolume, TaskPage,
    TaskQuery,
};
pub(crate) use change::apply;
pub use claim::ClaimRequest;
pub use embedded::{EmbeddedError, EmbeddedPostgres, data_folder};
pub use memory::MemoryStore;
#[cfg(test)]
pub(crate) use postgres::testing::with_clock_ahead;
pub use postgres::{JobChanges, Leadership, LeadershipTimings, OrderChanges, PostgresStore, WorkChanges};
pub use statistics::{DURATION_BOUNDS_S, Paces, StageStatistics};
pub use volumes::{
    ImportOutcome, ListRecord, Readers, VolumeImport, VolumePage, VolumeQuery, VolumeRecord, VolumeWork,
};

/// Why the store could not answer.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    #[error("job {0} exists already")]
    JobExists(JobKey),
    #[error("there is no job {0}")]
    NoSuchJob(String),
    #[error(transparent)]
    Forbidden(#[from] Forbidden),
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The database is away or refused a statement; asking again later may work.
    #[error("state store: {0}")]
    Unavailable(String),
    /// Another orchestrator leads; nothing was written, and nothing will be.
    #[error("epoch {0} is over: another orchestrator leads")]
    Deposed(Epoch),
    /// A row does not fit the domain, or the schema is not the one this build knows.
    #[error("state store holds what this build cannot read: {0}")]
    Corrupt(String),
}

/// Which state a change expects to find; if the row differs, the change is fenced off and nothing is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expected {
    /// The lease that the writer holds.
    Lease(Fence),
    /// The unleased state that the writer read.
    Idle {
        task: TaskId,
        position: Position,
        status: TaskStatus,
        attempts: i32,
        generation: Generation,
    },
}

impl Expected {
    /// What a writer that read `task` just now expects.
    pub fn of(task: &Task) -> Self {
        match task.fence() {
            Some(fence) => Self::Lease(fence),
            None => Self::Idle {
                task: task.id,
                position: task.position.clone(),
                status: task.status,
                attempts: task.attempts,
                generation: task.generation,
            },
        }
    }

    pub fn task(&self) -> TaskId {
        match self {
            Self::Lease(fence) => fence.task,
            Self::Idle { task, .. } => *task,
        }
    }
}

/// One state change, written with everything that must become visible with it.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    pub expected: Expected,
    pub event: Event,
    /// Stored in the `stage_runs` row that the event ends.
    pub metrics: Option<serde_json::Value>,
    pub fingerprint: Option<String>,
    /// What `reduce` found; written in the same transaction as its success.
    pub results: Option<VolumeResults>,
}

impl Change {
    /// A change that carries nothing but its event.
    pub fn new(expected: Expected, event: Event) -> Self {
        Self {
            expected,
            event,
            metrics: None,
            fingerprint: None,
            results: None,
        }
    }
}

/// What became of a change.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    Applied(Task),
    /// The row was not in the expected state; it is returned as it is now.
    Fenced(Option<Task>),
    /// The transition table has no such row for the state found.
    Illegal(String),
}

impl Outcome {
    /// The task as it is after the change, if there was one.
    pub fn applied(self) -> Option<Task> {
        match self {
            Self::Applied(task) => Some(task),
            Self::Fenced(_) | Self::Illegal(_) => None,
        }
    }
}

/// How many tasks of a job stand at one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobTaskCount {
    pub job: JobId,
    pub position: Position,
    pub status: TaskStatus,
    /// Failed, and not to be tried again.
    pub terminal: bool,
    pub tasks: u64,
}

/// Tasks, of which there may be very many: how many, and the first of them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sample {
    pub number: u64,
    pub first: Vec<Task>,
}

impl Sample {
    /// Tasks that a sample holds at most.
    pub const SIZE: usize = 1_000;
}

impl Extend<Task> for Sample {
    fn extend<T: IntoIterator<Item = Task>>(&mut self, tasks: T) {
        for task in tasks {
            self.number += 1;
            if self.first.len() < Self::SIZE {
                self.first.push(task);
            }
        }
    }
}

/// What a rerun did.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rewound {
    /// The tasks that will be done again, as they are now.
    pub tasks: Sample,
    /// Tasks that were meant, but have not come as far as the stage and will run it anyway.
    pub not_reached: Sample,
}

/// What a rerun would do.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RerunPreview {
    pub rewound: Rewound,
    /// All tasks that would be done again.
    pub reached: Vec<TaskId>,
}

/// What a heartbeat found its lease to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// In force, and renewed.
    Held,
    /// In force, and not renewed: the job has been cancelled. To be given back.
    Unwanted,
    /// Over.
    Lost,
}

/// Proof of life from a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heartbeat {
    pub fence: Fence,
    pub until: DateTime<Utc>,
}

/// How many tasks of jobs that are not over stand at one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskCount {
    pub position: Position,
    pub status: TaskStatus,
    pub tasks: u64,
}

/// Who takes part in the cluster, as far as one orchestrator can say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Census {
    /// Each replaces what is known of the node of its name.
    pub nodes: Vec<NodeRecord>,
    /// Other nodes that were not seen since then are lost.
    pub lost_before: Option<DateTime<Utc>>,
    /// Nodes that are gone and were not seen since then are forgotten.
    pub forgotten_before: Option<DateTime<Utc>>,
}

/// Jobs, tasks, leases and their history. Every method is safe to repeat.
#[async_trait]
pub trait StateStore: Send + Sync + fmt::Debug {
    /// The time by the one clock that all users of the store share.
    async fn now(&self) -> Result<DateTime<Utc>, StateError> {
        Ok(Utc::now())
    }

    /// Writes the job (running), its volumes and one pending task each, all or nothing.
    async fn create_job(&self, job: &NewJob, now: DateTime<Utc>) -> Result<Job, StateError>;

    /// Takes an existing job up again, named by `job.key`: it runs once more, with this pipeline and configuration, and with
    /// tasks for volumes that it did not have. What its tasks have reached stays. A cancelled job is refused.
    async fn reopen_job(&self, job: &NewJob) -> Result<Job, StateError>;

    async fn job(&self, key: &JobKey) -> Result<Option<Job>, StateError>;

    async fn job_by_id(&self, id: JobId) -> Result<Option<Job>, StateError>;

    /// Adds tasks for volumes that the job does not have yet; returns how many.
    async fn add_volumes(&self, id: JobId, volumes: &[crate::domain::VolumeId]) -> Result<u64, StateError>;

    /// All jobs, in the order of their ids.
    async fn jobs(&self) -> Result<Vec<Job>, StateError>;

    /// The jobs that hand out work, in the order of their ids.
    async fn running_jobs(&self) -> Result<Vec<Arc<Job>>, StateError>;

    /// The tasks of one job, or of each of all jobs, counted by position and status, in no order.
    async fn job_task_counts(&self, job: Option<JobId>) -> Result<Vec<JobTaskCount>, StateError>;

    /// Does to a job what [`crate::policy::job_action`] allows; returns it as it is then. Leases of a job that is cancelled
    /// are left to the next reconciler pass to end.
    async fn act_on_job(&self, id: JobId, action: JobAction) -> Result<Job, StateError>;

    /// Changes limits of a job. A new number of tries holds for every task that has not failed for good; one that waits for
    /// another try still gets that one.
    async fn adjust_job(&self, id: JobId, adjustment: &Adjustment) -> Result<Job, StateError>;

    /// Sends tasks back to a stage, each in one transaction with its job's being open again; the tasks of a large job go in
    /// several. Workers that hold leases on them are fenced off.
    async fn rerun(&self, id: JobId, rerun: &Rerun, now: DateTime<Utc>) -> Result<Rewound, StateError>;

    async fn tasks(&self, job: JobId) -> Result<Vec<Task>, StateError>;

    async fn task(&self, id: TaskId) -> Result<Option<Task>, StateError>;

    /// The leases of all jobs at `now`: those in force counted, those that ran out as tasks.
    async fn leases(&self, now: DateTime<Utc>) -> Result<Leases, StateError>;

    /// Tasks that are leased to the worker, in task order, whether the lease is in force or has run out.
    async fn leased_to(&self, worker: &WorkerId) -> Result<Vec<Task>, StateError>;

    /// Tasks of running jobs that may begin one of these stages at `now`: of each job and stage at least the first `room`,
    /// in task order, where there are so many.
    async fn ready_tasks(
        &self,
        room: &BTreeMap<StageName, usize>,
        now: DateTime<Utc>,
    ) -> Result<Ready, StateError>;

    /// What running jobs ask of their stages, by job and then in the order of the pipeline. Stages that have nothing to do are
    /// left out.
    async fn backlog(&self) -> Result<Vec<StageBacklog>, StateError>;

    /// Tasks of jobs that are not over, counted by position and status, in no order.
    async fn count_tasks(&self) -> Result<Vec<TaskCount>, StateError>;

    /// Applies the changes in one transaction, each fenced by itself; outcomes in the order of the changes.
    async fn commit(&self, changes: &[Change], now: DateTime<Utc>) -> Result<Vec<Outcome>, StateError>;

    /// Leases what the offers have room for, for workers that take work themselves; returns the tasks as leased. Leases that
    /// ran out, or that nobody wants any more, are ended first, whatever their stage. No two callers get the same task; a
    /// caller may get less than there is while others look at it.
    async fn claim(
        &self,
        request: &ClaimRequest,
        now: DateTime<Utc>,
    ) -> Result<Vec<(Task, Arc<Job>)>, StateError>;

    /// Tells those that wait for work that there is some for this stage. A hint, which may get lost.
    async fn announce_work(&self, stage: &StageName) -> Result<(), StateError> {
        let _ = stage;
        Ok(())
    }

    /// Moves the deadlines of the leases that are still in force and wanted; says of each beat what became of its lease.
    async fn renew_leases(&self, beats: &[Heartbeat]) -> Result<Vec<Standing>, StateError>;

    /// Completes or fails the running jobs whose tasks are all finished, and finishes the cancelled ones that hold no lease
    /// any more; returns those that changed.
    async fn settle_jobs(&self, now: DateTime<Utc>) -> Result<Vec<Job>, StateError>;

    async fn stage_runs(&self, task: TaskId) -> Result<Vec<StageRun>, StateError>;

    async fn volume_results(&self, task: TaskId) -> Result<Option<VolumeResults>, StateError>;

    /// Finished tasks of jobs whose [layout](crate::domain::LayoutName::has_markers) has markers, where the end they have come
    /// to is not marked yet, in task order; so many at most.
    async fn volumes_to_mark(&self, limit: usize) -> Result<Vec<(Task, Arc<Job>)>, StateError>;

    /// Notes that the ends of these tasks are marked, each in the generation in which it was found.
    async fn volumes_marked(&self, ends: &[(TaskId, Generation)]) -> Result<(), StateError>;

    /// The runs of a job summed up by stage, in the order of the stages' names.
    async fn stage_statistics(&self, job: JobId) -> Result<Vec<StageStatistics>, StateError>;

    /// Writes down who takes part in the cluster.
    async fn record_nodes(&self, census: &Census) -> Result<(), StateError>;

    /// The nodes that are not forgotten, by name.
    async fn nodes(&self) -> Result<Vec<NodeRecord>, StateError>;

    /// Writes down what the autoscaler decided, in the place of what it decided for the same hardware before.
    async fn record_scaling(&self, record: &ScalingRecord) -> Result<(), StateError>;

    /// What the autoscaler decided last, by hardware.
    async fn scaling(&self) -> Result<Vec<ScalingRecord>, StateError>;
}
