//! State store on Postgres. This folder and `migrations/` are the only places with SQL.
//!
//! The write model is what the store promises to those that do the work, the trait [`StateStore`] above all: rows are locked,
//! decided in Rust by the same pure functions as in the memory store, and written in bulk statements within the same
//! transaction. Locks are taken in one order everywhere, so that no two writers deadlock: the epoch, then jobs, then tasks or
//! volumes, each in ascending order. Tasks of a large job are taken in transactions of moderate size, since one long
//! transaction would hold up heartbeats. A statement is written once, in the module of its subject; the functions of the trait
//! stand there too, and the `impl` below only names them, as Rust wants the methods of a trait in one block. Everything else is
//! a method of [`PostgresStore`] beside its SQL.
//!
//! The read model is the folder `browse`: the methods by which operators look at many tasks. It is kept apart because its rules
//! are others: it locks nothing, compares no epoch, may be a moment old, and goes by an index or a total, so that an answer
//! costs what it shows. Nothing is decided by it alone. The one writer that reads there, a rerun in search of its tasks, fences
//! every change that it makes of what it found.
//!
//! Lost connections and statements that cannot be carried out now are [`StateError::Unavailable`]: every method can be repeated. Values
//! that the database takes at no time are [`StateError::Refused`].

mod audit;
mod backlog;
mod browse;
mod changes;
mod claims;
mod commands;
mod commit;
mod corrections;
mod database;
mod deletion;
mod entity;
mod error;
mod filings;
mod folder_databases;
mod import;
mod inbox;
mod jobs;
mod leadership;
mod markers;
mod newest;
mod nodes;
mod outbox;
mod pooling;
mod queue_looks;
mod rerun;
mod rows;
mod scaling;
mod schema;
mod services;
mod spending;
mod statistics;
mod tasks;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};

pub use changes::{CommandChanges, JobChanges, WorkChanges};
pub(super) use database::{create_database, has_database};
pub use entity::{
    ClaimedEntity, EntityCounts, EntityDatabase, EntityError, EntityLack, EntityOutcome, EntityTable,
    Finding, QueuedRows, StageCounts, StuckEntities, SubmittedJob, UnfitEntity,
};
pub use filings::{FilingsError, FilingsTable, UnfitFilings};
pub use folder_databases::FolderDatabases;
pub use leadership::{Leadership, LeadershipTimings};

use super::{
    Change, ClaimRequest, JobTaskCount, Leases, NodeSnapshot, Outcome, Ready, RerunResult, StageStatistics,
    StateError, StateStore,
};
use parkhang_core::domain::{
    Adjustment, Epoch, Expense, Fence, Generation, Job, JobId, JobKey, LeaseStatus, NewJob, NodeRecord,
    ScalingRecord, Spending, StageName, StageRun, Task, TaskCount, TaskId, VolumeId, VolumeResults, WorkerId,
};
use parkhang_core::policy::autoscale::StageBacklog;
use parkhang_core::policy::job_action::JobAction;
use parkhang_core::policy::rerun::Rerun;

/// Largest number of connections of one store.
const MAX_CONNECTIONS: u32 = 8;

/// Longest wait for a free connection.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(10);

/// Settings of every session. A stuck statement, or a wait for a lock, ends by itself, as it would keep locks and dead rows alive.
///
/// No statement is compiled: all are short, but with indexes preferred by all means, as commits of changes do, the planner believes that one
/// which has none costs so much that compiling pays, and took 7.6 ms to compile for one of 0.02 ms, each time.
const SESSION: [(&str, &str); 3] = [
    ("statement_timeout", "60s"),
    ("lock_timeout", "30s"),
    ("jit", "off"),
];

/// Time after which the server ends a transaction that its client left open, unless the configuration sets another: a leader that
/// freezes there holds the row of the epoch, and must not hold up its successor.
const IDLE_IN_TRANSACTION: Duration = Duration::from_secs(5);

/// [`StateStore`] on Postgres 15 or later. Clones share its connections.
#[derive(Clone)]
pub struct PostgresStore {
    pool: PgPool,
    options: PgConnectOptions,
    /// Epoch of the leader whose store this is: changes are refused once another one has begun.
    epoch: Option<Epoch>,
}

/// Leaves the connection options out, as they hold the password.
impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore")
            .field("connections", &self.pool.size())
            .finish_non_exhaustive()
    }
}

impl PostgresStore {
    /// Connects to a `postgres://` URL and brings its schema up to date.
    ///
    /// # Errors
    ///
    /// [`StateError::Unavailable`] if the URL is not valid or the server does not answer, [`StateError::Corrupt`] if the schema
    /// is one of a later build.
    pub async fn connect(url: &str) -> Result<Self, StateError> {
        Self::connect_with(Self::options_of(url)?).await
    }

    /// Connects with options and brings the schema up to date.
    ///
    /// # Errors
    ///
    /// [`StateError::Unavailable`] if the server does not answer, [`StateError::Corrupt`] if the schema is one of a later build.
    pub async fn connect_with(options: PgConnectOptions) -> Result<Self, StateError> {
        Self::connect_within(options, IDLE_IN_TRANSACTION).await
    }

    /// Connection options that a `postgres://` URL spells.
    ///
    /// # Errors
    ///
    /// [`StateError::Unavailable`] if the URL is not valid; the message does not quote it.
    pub fn options_of(url: &str) -> Result<PgConnectOptions, StateError> {
        PgConnectOptions::from_str(url).map_err(|_| {
            // The parser's message may quote the URL, and with it the password.
            StateError::Unavailable("the database URL is not a valid postgres:// URL".to_owned())
        })
    }

    /// Connects with options; the server ends a transaction that this process leaves open for longer than `idle_in_transaction`.
    ///
    /// # Errors
    ///
    /// [`StateError::Unavailable`] if the server does not answer, [`StateError::Pooled`] if a pooler is in front of it that keeps no
    /// sessions, [`StateError::Corrupt`] if the schema is one of a later build.
    pub async fn connect_within(
        options: PgConnectOptions,
        idle_in_transaction: Duration,
    ) -> Result<Self, StateError> {
        let options = options.application_name("parkhang");
        let pool = PgPoolOptions::new()
            .max_connections(MAX_CONNECTIONS)
            .acquire_timeout(ACQUIRE_TIMEOUT)
            .connect_with(options.clone().options(SESSION).options([(
                "idle_in_transaction_session_timeout",
                idle_in_transaction.as_millis().to_string(),
            )]))
            .await?;
        pooling::check_settings(&pool).await?;
        schema::bring_up_to_date(&pool, &options).await?;
        Ok(Self {
            pool,
            options,
            epoch: None,
        })
    }

    /// Name of the database without secrets: `HOST/NAME`, with the port if it is not the usual one.
    pub fn place(&self) -> String {
        database::place(&self.options)
    }

    /// Asks the database for an answer, and for nothing else.
    ///
    /// # Errors
    ///
    /// [`StateError::Unavailable`] if there is none.
    pub async fn ping(&self) -> Result<(), StateError> {
        sqlx::query("select 1").execute(&self.pool).await?;
        Ok(())
    }

    /// Closes all connections and waits for those in use.
    pub async fn close(&self) {
        self.pool.close().await;
    }
}

#[async_trait]
impl StateStore for PostgresStore {
    /// Time of the server's clock, which goes on within a transaction too.
    async fn now(&self) -> Result<DateTime<Utc>, StateError> {
        Ok(sqlx::query_scalar("select clock_timestamp()")
            .fetch_one(&self.pool)
            .await?)
    }

    async fn create_job(&self, job: &NewJob, now: DateTime<Utc>) -> Result<Job, StateError> {
        jobs::create(&self.pool, job, now).await
    }

    async fn reopen_job(&self, job: &NewJob) -> Result<Job, StateError> {
        jobs::reopen(&self.pool, job).await
    }

    async fn job(&self, key: &JobKey) -> Result<Option<Job>, StateError> {
        jobs::by_key(&self.pool, key).await
    }

    async fn job_by_id(&self, id: JobId) -> Result<Option<Job>, StateError> {
        jobs::by_id(&self.pool, id).await
    }

    async fn add_volumes(&self, id: JobId, volumes: &[VolumeId]) -> Result<u64, StateError> {
        jobs::add_volumes(&self.pool, id, volumes).await
    }

    async fn jobs(&self) -> Result<Vec<Job>, StateError> {
        jobs::all(&self.pool).await
    }

    async fn running_jobs(&self) -> Result<Vec<Arc<Job>>, StateError> {
        jobs::running(&self.pool).await
    }

    async fn job_task_counts(&self, job: Option<JobId>) -> Result<Vec<JobTaskCount>, StateError> {
        statistics::job_task_counts(&self.pool, job).await
    }

    async fn act_on_job(&self, id: JobId, action: JobAction) -> Result<Job, StateError> {
        jobs::act(&self.pool, id, action).await
    }

    async fn adjust_job(&self, id: JobId, adjustment: &Adjustment) -> Result<Job, StateError> {
        jobs::adjust(&self.pool, id, adjustment).await
    }

    async fn rerun(&self, id: JobId, rerun: &Rerun, now: DateTime<Utc>) -> Result<RerunResult, StateError> {
        rerun::rerun(self, id, rerun, now).await
    }

    async fn tasks(&self, job: JobId) -> Result<Vec<Task>, StateError> {
        tasks::of_job(&self.pool, job).await
    }

    async fn tasks_by_id(&self, ids: &[TaskId]) -> Result<Vec<Task>, StateError> {
        let ids: Vec<i64> = ids.iter().map(|id| id.0).collect();
        tasks::by_ids(&self.pool, &ids).await
    }

    async fn leases(&self, now: DateTime<Utc>) -> Result<Leases, StateError> {
        backlog::leases(&self.pool, now).await
    }

    async fn leased_to(&self, worker: &WorkerId) -> Result<Vec<Task>, StateError> {
        backlog::leased_to(&self.pool, worker).await
    }

    async fn ready_tasks(
        &self,
        room: &BTreeMap<StageName, usize>,
        now: DateTime<Utc>,
    ) -> Result<Ready, StateError> {
        backlog::ready_tasks(&self.pool, room, now).await
    }

    async fn backlog(&self) -> Result<Vec<StageBacklog>, StateError> {
        scaling::backlog(&self.pool).await
    }

    async fn count_tasks(&self) -> Result<Vec<TaskCount>, StateError> {
        statistics::count_tasks(&self.pool).await
    }

    async fn commit(&self, changes: &[Change], now: DateTime<Utc>) -> Result<Vec<Outcome>, StateError> {
        commit::commit(&self.pool, self.epoch, changes, now).await
    }

    async fn claim(
        &self,
        request: &ClaimRequest,
        now: DateTime<Utc>,
    ) -> Result<Vec<(Task, Arc<Job>)>, StateError> {
        claims::claim(&self.pool, request, now).await
    }

    async fn announce_work(&self, stage: &StageName) -> Result<(), StateError> {
        changes::announce_work(&self.pool, stage).await
    }

    async fn renew_leases(
        &self,
        fences: &[Fence],
        until: DateTime<Utc>,
    ) -> Result<Vec<LeaseStatus>, StateError> {
        tasks::renew(&self.pool, self.epoch, fences, until).await
    }

    async fn note_progress(&self, finished: &[(Fence, i32)]) -> Result<(), StateError> {
        tasks::note_progress(&self.pool, self.epoch, finished).await
    }

    async fn spend(&self, expense: &Expense) -> Result<bool, StateError> {
        spending::spend(&self.pool, expense).await
    }

    async fn spending(&self, job: Option<JobId>) -> Result<Vec<Spending>, StateError> {
        spending::of_jobs(&self.pool, job).await
    }

    async fn finish_jobs(&self, now: DateTime<Utc>) -> Result<Vec<Job>, StateError> {
        jobs::finish(&self.pool, self.epoch, now).await
    }

    async fn stage_runs(&self, task: TaskId) -> Result<Vec<StageRun>, StateError> {
        tasks::stage_runs(&self.pool, task).await
    }

    async fn volume_results(&self, task: TaskId) -> Result<Option<VolumeResults>, StateError> {
        tasks::volume_results(&self.pool, task).await
    }

    async fn volumes_to_mark(
        &self,
        after: Option<TaskId>,
        limit: usize,
    ) -> Result<Vec<(Task, Arc<Job>)>, StateError> {
        markers::due(&self.pool, after, limit).await
    }

    async fn volumes_marked(&self, ends: &[(TaskId, Generation)]) -> Result<(), StateError> {
        markers::note(&self.pool, self.epoch, ends).await
    }

    async fn stage_statistics(&self, job: JobId) -> Result<Vec<StageStatistics>, StateError> {
        statistics::stage_statistics(&self.pool, job).await
    }

    async fn record_nodes(&self, snapshot: &NodeSnapshot) -> Result<(), StateError> {
        nodes::record(&self.pool, self.epoch, snapshot).await
    }

    async fn nodes(&self) -> Result<Vec<NodeRecord>, StateError> {
        nodes::all(&self.pool).await
    }

    async fn record_scaling(&self, record: &ScalingRecord) -> Result<(), StateError> {
        scaling::record(&self.pool, self.epoch, record).await
    }

    async fn scaling(&self) -> Result<Vec<ScalingRecord>, StateError> {
        scaling::all(&self.pool).await
    }
}

#[cfg(any(test, feature = "testing"))]
pub(super) mod testing;
#[cfg(test)]
mod tests;
