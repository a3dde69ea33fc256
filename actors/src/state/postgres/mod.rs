//! The state store on Postgres. This folder and `migrations/` are the only places with SQL.
//!
//! Rows are decided in Rust by the same pure functions as in the memory store, under row locks taken in the order of
//! task ids. Lost connections and refused statements are [`StateError::Unavailable`]: every method can be repeated.

mod backlog;
mod browse;
mod by_node;
mod changes;
mod claims;
mod commit;
mod database;
mod deletion;
mod error;
mod forecast;
mod jobs;
mod leadership;
mod markers;
mod nodes;
mod orders;
mod rerun;
mod rows;
mod scaling;
mod schema;
mod statistics;
mod tasks;
mod volumes;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};

pub use changes::{JobChanges, OrderChanges, WorkChanges};
pub(super) use database::{create_database, has_database};
pub use leadership::{Leadership, LeadershipTimings};

use super::{
    AuditEntry, Census, Change, ClaimRequest, ErrorGroup, FailedPages, Heartbeat, ImportOutcome,
    JobTaskCount, Leases, Outcome, Pace, Paces, Readers, Ready, RerunPreview, Rewound, SlowVolume,
    SpoiltVolume, StageStatistics, Standing, StateError, StateStore, TaskCount, TaskPage, TaskQuery,
    VolumeImport, VolumePage, VolumeQuery, VolumeRecord, VolumeWork,
};
use crate::domain::{
    Adjustment, Epoch, Generation, ImageRecord, Job, JobId, JobKey, NewJob, NodeRecord, Pipeline,
    ScalingRecord, StageName, StageRun, Task, TaskId, VolumeId, VolumeResults, WorkerId,
};
use crate::policy::autoscale::StageBacklog;
use crate::policy::forecast::Cohort;
use crate::policy::job_action::JobAction;
use crate::policy::rerun::Rerun;

const MAX_CONNECTIONS: u32 = 8;

/// What every session asks of the server: a stuck statement or a transaction left open ends by itself, as either would
/// keep locks and dead rows alive.
const SESSION: [(&str, &str); 2] = [("statement_timeout", "60s"), ("lock_timeout", "30s")];

/// What is left inside a transaction for so long is ended by the server, unless the configuration says otherwise: a leader that
/// freezes there must not hold up its successor.
const IDLE_IN_TRANSACTION: Duration = Duration::from_secs(5);

/// A [`StateStore`] on Postgres 15 or later. Clones share its connections.
#[derive(Clone)]
pub struct PostgresStore {
    pool: PgPool,
    options: PgConnectOptions,
    /// Changes are refused when another epoch has begun.
    epoch: Option<Epoch>,
}

/// Says nothing of the connection: its options hold the password.
impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore")
            .field("connections", &self.pool.size())
            .finish_non_exhaustive()
    }
}

impl PostgresStore {
    /// Connects to a `postgres://` URL and brings its schema up to date.
    pub async fn connect(url: &str) -> Result<Self, StateError> {
        Self::connect_with(Self::options_of(url)?).await
    }

    /// As [`PostgresStore::connect`], with options.
    pub async fn connect_with(options: PgConnectOptions) -> Result<Self, StateError> {
        Self::connect_within(options, IDLE_IN_TRANSACTION).await
    }

    /// What a `postgres://` URL says.
    pub fn options_of(url: &str) -> Result<PgConnectOptions, StateError> {
        PgConnectOptions::from_str(url).map_err(|_| {
            // The parser's message may quote the URL, and with it the password.
            StateError::Unavailable("the database URL is not a valid postgres:// URL".to_owned())
        })
    }

    /// As [`PostgresStore::connect_with`]; the server ends what this process leaves inside a transaction for so long.
    pub async fn connect_within(
        options: PgConnectOptions,
        idle_in_transaction: Duration,
    ) -> Result<Self, StateError> {
        let options = options.application_name("parkhang");
        let pool = PgPoolOptions::new()
            .max_connections(MAX_CONNECTIONS)
            .acquire_timeout(Duration::from_secs(10))
            .connect_with(options.clone().options(SESSION).options([(
                "idle_in_transaction_session_timeout",
                idle_in_transaction.as_millis().to_string(),
            )]))
            .await?;
        schema::bring_up_to_date(&pool, &options).await?;
        Ok(Self {
            pool,
            options,
            epoch: None,
        })
    }

    /// Which database this is, without secrets: `HOST/NAME`, with a port that is not the usual one.
    pub fn place(&self) -> String {
        database::place(&self.options)
    }

    /// Hears of jobs that other processes create or change, from now on.
    pub async fn job_changes(&self) -> Result<JobChanges, StateError> {
        JobChanges::listen(&self.pool).await
    }

    /// Hears from now on that there may be work, for workers that take it themselves.
    pub async fn work_changes(&self) -> Result<WorkChanges, StateError> {
        WorkChanges::listen(&self.pool).await
    }

    /// Waits until this process leads among all that call this on the database. `holder` names it for operators.
    pub async fn lead(&self, holder: &str, timings: LeadershipTimings) -> Result<Leadership, StateError> {
        leadership::lead(&self.options, holder, timings).await
    }

    /// This store as the leader uses it: what it commits is refused with [`StateError::Deposed`] once another leads.
    pub fn led_by(&self, leadership: &Leadership) -> Self {
        Self {
            pool: self.pool.clone(),
            options: self.options.clone(),
            epoch: Some(leadership.epoch()),
        }
    }

    /// Name of the process that leads, if one does.
    pub async fn leader(&self) -> Result<Option<String>, StateError> {
        leadership::holder(&self.pool).await
    }

    /// A page of the tasks of a job.
    pub async fn task_page(&self, job: &Job, query: &TaskQuery) -> Result<TaskPage, StateError> {
        browse::tasks(&self.pool, job, query).await
    }

    /// The task of a volume in a job.
    pub async fn task_of(&self, job: JobId, volume: &VolumeId) -> Result<Option<Task>, StateError> {
        browse::task_of(&self.pool, job, volume.w_id(), volume.i_id()).await
    }

    /// What a rerun would do, with the tasks as they are.
    pub async fn preview_rerun(&self, job: &Job, rerun: &Rerun) -> Result<RerunPreview, StateError> {
        rerun::preview(&self.pool, job, rerun).await
    }

    /// Tasks of a job whose last try failed, by cause, the most frequent first.
    pub async fn error_groups(&self, job: &Job, limit: u32) -> Result<Vec<ErrorGroup>, StateError> {
        browse::errors(&self.pool, job.id, limit).await
    }

    /// Pages of a job's finished volumes that could not be read.
    pub async fn failed_pages(&self, job: JobId) -> Result<FailedPages, StateError> {
        browse::failed_pages(&self.pool, job).await
    }

    /// Those of a job's finished volumes that have such pages, in the order of their tasks, from behind one if it is given.
    pub async fn spoilt_volumes(
        &self,
        job: JobId,
        after: Option<TaskId>,
        limit: u32,
    ) -> Result<Vec<SpoiltVolume>, StateError> {
        browse::spoilt_volumes(&self.pool, job, after, i64::from(limit)).await
    }

    /// The finished volumes of a job that took longest, the slowest first.
    pub async fn slowest_volumes(&self, job: JobId, limit: u32) -> Result<Vec<SlowVolume>, StateError> {
        browse::slowest(&self.pool, job, limit).await
    }

    /// How fast stages were in the last ten minutes, of one job or of all.
    pub async fn recent_paces(
        &self,
        job: Option<JobId>,
        now: DateTime<Utc>,
    ) -> Result<Vec<Pace>, StateError> {
        browse::paces(&self.pool, job, now).await
    }

    /// A text that differs once something that operators are shown has changed.
    pub async fn change_mark(&self) -> Result<String, StateError> {
        browse::change_mark(&self.pool).await
    }

    /// Closes a job that is to go, so that nothing else can be done to it; says how many of its stages still run. While there are
    /// any, the job stays as it is.
    pub async fn begin_deletion(&self, id: JobId, now: DateTime<Utc>) -> Result<u64, StateError> {
        deletion::begin(&self.pool, id, now).await
    }

    /// The first tasks of a job, in task order.
    pub async fn first_tasks(&self, id: JobId, limit: u32) -> Result<Vec<Task>, StateError> {
        deletion::first(&self.pool, id, limit).await
    }

    /// Deletes tasks of a job with their history and results.
    pub async fn delete_tasks(&self, job: JobId, tasks: &[TaskId]) -> Result<(), StateError> {
        deletion::delete_tasks(&self.pool, job, tasks).await
    }

    /// Deletes a job that was closed to go.
    pub async fn finish_deletion(&self, job: &Job) -> Result<(), StateError> {
        deletion::finish(&self.pool, job).await
    }

    /// Writes down what an operator does, or was not let do; returns the number of the entry.
    pub async fn record_audit(&self, entry: &AuditEntry) -> Result<i64, StateError> {
        browse::record(&self.pool, entry).await
    }

    /// Writes down how it ended, and why it was refused if it was.
    pub async fn complete_audit(
        &self,
        entry: i64,
        refusal: Option<&str>,
        now: DateTime<Utc>,
    ) -> Result<(), StateError> {
        browse::complete(&self.pool, entry, refusal, now).await
    }

    /// What operators did, the newest first, from before a time if one is given.
    pub async fn audit(
        &self,
        before: Option<DateTime<Utc>>,
        limit: u32,
    ) -> Result<Vec<AuditEntry>, StateError> {
        browse::audit(&self.pool, before, limit).await
    }

    /// As [`StateStore::create_job`], in a transaction for each chunk of volumes. The job runs once it has the last of them; one
    /// that was cut off stays created, and can be resumed or cancelled.
    pub async fn create_job_in_chunks(
        &self,
        job: &NewJob,
        chunk: usize,
        now: DateTime<Utc>,
    ) -> Result<Job, StateError> {
        jobs::create_in_chunks(&self.pool, job, chunk, now).await
    }

    /// Keeps the lists of volumes, all or none; says of each what it changed. A list that is there already stays as it is.
    pub async fn import_volumes(
        &self,
        imports: &[VolumeImport],
        now: DateTime<Utc>,
    ) -> Result<Vec<ImportOutcome>, StateError> {
        volumes::import(&self.pool, imports, now).await
    }

    /// ETags of the lists of those volumes that were imported.
    pub async fn list_etags(&self, volumes: &[VolumeId]) -> Result<HashMap<VolumeId, String>, StateError> {
        volumes::etags(&self.pool, volumes).await
    }

    /// A page of the volumes that are known.
    pub async fn volume_page(&self, query: &VolumeQuery) -> Result<VolumePage, StateError> {
        volumes::page(&self.pool, query).await
    }

    pub async fn volume(&self, volume: &VolumeId) -> Result<Option<VolumeRecord>, StateError> {
        volumes::volume(&self.pool, volume).await
    }

    /// Images of a volume, in their order, from the one at place `from` (0 is the first) on.
    pub async fn images(
        &self,
        volume: &VolumeId,
        from: u32,
        limit: u32,
    ) -> Result<Vec<ImageRecord>, StateError> {
        volumes::images(&self.pool, volume, from, limit).await
    }

    /// The jobs in which a volume is, the newest first.
    pub async fn work_on(&self, volume: &VolumeId, limit: u32) -> Result<Vec<VolumeWork>, StateError> {
        volumes::work(&self.pool, volume, limit).await
    }

    /// Those of the volumes whose latest imported version was read whole by one of the readers, whose jobs are of `pipeline`.
    pub async fn already_read(
        &self,
        volumes: &[VolumeId],
        pipeline: &Pipeline,
        readers: &Readers,
    ) -> Result<HashSet<VolumeId>, StateError> {
        volumes::read(&self.pool, volumes, pipeline, readers).await
    }

    /// Volumes that failed for good in a job: all, or those whose error is of the category `cause` or speaks of it.
    pub async fn failed_volumes(&self, job: &Job, cause: Option<&str>) -> Result<Vec<VolumeId>, StateError> {
        volumes::failed(&self.pool, job, cause).await
    }

    /// The tasks of a job, or those of them that are named, as many as stand alike together, in no order.
    pub async fn cohorts(&self, job: JobId, tasks: Option<&[TaskId]>) -> Result<Vec<Cohort>, StateError> {
        forecast::cohorts(&self.pool, job, tasks).await
    }

    /// How long stages take, by what they took in this job or else lately.
    pub async fn paces_of(&self, job: JobId) -> Result<Paces, StateError> {
        forecast::paces(&self.pool, job).await
    }

    /// Whether the database answers.
    pub async fn ping(&self) -> Result<(), StateError> {
        statistics::ping(&self.pool).await
    }

    /// Closes all connections and waits for those in use.
    pub async fn close(&self) {
        self.pool.close().await;
    }
}

#[async_trait]
impl StateStore for PostgresStore {
    async fn now(&self) -> Result<DateTime<Utc>, StateError> {
        statistics::now(&self.pool).await
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
        backlog::running_jobs(&self.pool).await
    }

    async fn job_task_counts(&self, job: Option<JobId>) -> Result<Vec<JobTaskCount>, StateError> {
        tasks::counts(&self.pool, job).await
    }

    async fn act_on_job(&self, id: JobId, action: JobAction) -> Result<Job, StateError> {
        jobs::act(&self.pool, id, action).await
    }

    async fn adjust_job(&self, id: JobId, adjustment: &Adjustment) -> Result<Job, StateError> {
        jobs::adjust(&self.pool, id, adjustment).await
    }

    async fn rerun(&self, id: JobId, rerun: &Rerun, now: DateTime<Utc>) -> Result<Rewound, StateError> {
        rerun::rerun(&self.pool, id, rerun, now).await
    }

    async fn tasks(&self, job: JobId) -> Result<Vec<Task>, StateError> {
        tasks::tasks(&self.pool, job).await
    }

    async fn task(&self, id: TaskId) -> Result<Option<Task>, StateError> {
        tasks::task(&self.pool, id).await
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

    async fn renew_leases(&self, beats: &[Heartbeat]) -> Result<Vec<Standing>, StateError> {
        tasks::renew(&self.pool, beats).await
    }

    async fn settle_jobs(&self, now: DateTime<Utc>) -> Result<Vec<Job>, StateError> {
        jobs::settle(&self.pool, now).await
    }

    async fn stage_runs(&self, task: TaskId) -> Result<Vec<StageRun>, StateError> {
        tasks::stage_runs(&self.pool, task).await
    }

    async fn volume_results(&self, task: TaskId) -> Result<Option<VolumeResults>, StateError> {
        tasks::volume_results(&self.pool, task).await
    }

    async fn volumes_to_mark(&self, limit: usize) -> Result<Vec<(Task, Arc<Job>)>, StateError> {
        markers::due(&self.pool, limit).await
    }

    async fn volumes_marked(&self, ends: &[(TaskId, Generation)]) -> Result<(), StateError> {
        markers::note(&self.pool, ends).await
    }

    async fn stage_statistics(&self, job: JobId) -> Result<Vec<StageStatistics>, StateError> {
        statistics::stage_statistics(&self.pool, job).await
    }

    async fn record_nodes(&self, census: &Census) -> Result<(), StateError> {
        nodes::record(&self.pool, self.epoch, census).await
    }

    async fn nodes(&self) -> Result<Vec<NodeRecord>, StateError> {
        nodes::nodes(&self.pool).await
    }

    async fn record_scaling(&self, record: &ScalingRecord) -> Result<(), StateError> {
        scaling::record(&self.pool, self.epoch, record).await
    }

    async fn scaling(&self) -> Result<Vec<ScalingRecord>, StateError> {
        scaling::all(&self.pool).await
    }
}

#[cfg(test)]
pub(super) mod testing;
#[cfg(test)]
mod tests;
