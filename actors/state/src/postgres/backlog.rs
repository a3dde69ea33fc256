//! Leases, and the tasks that wait for stages: the reads of a reconciler pass. Each statement goes by a partial index of open or
//! leased tasks, so that a pass costs what runs and what has room to begin. The planner knows neither the number of lanes nor their room, and
//! takes ten lanes with a tenth of a job's tasks each for granted: where a table could be read whole instead, a `limit` or an order that only
//! the index has keeps it from that.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use chrono::{DateTime, Utc};
use sqlx::postgres::PgPool;
use sqlx::{FromRow, PgExecutor, Row};

use super::jobs;
use super::rows::{TaskRow, stage_name, task_columns, volume_of_task};
use crate::backlog::{may_back_off, waiting_for};
use crate::{Leases, Ready, StateError};
use parkhang_core::domain::{Job, JobId, Position, StageName, Task, TaskStatus, WorkerId};
use parkhang_core::policy::placement::Held;
use parkhang_core::policy::poison::SUSPECT_AFTER;

/// Leases in force, counted by worker, job and stage. This statement, [`TO_END`] and [`LEASED_TO`] go by the partial index
/// `tasks_leased`.
pub(super) const HELD: &str = "select t.worker_id, t.job_id, t.current_stage, count(*) as leases, \
         count(*) filter (where t.interruptions >= $2) as suspects \
     from tasks t where t.status = 'running' and t.lease_until > $1 group by t.worker_id, t.job_id, t.current_stage \
     order by t.worker_id, t.job_id";

/// Leases that ran out, or whose job was cancelled.
pub(super) const TO_END: &str = concat!(
    "select ",
    task_columns!(),
    ", j.status = 'cancelled' as unwanted \
     from tasks t join jobs j on j.id = t.job_id ",
    volume_of_task!(),
    " where t.status = 'running' and (t.lease_until <= $1 or j.status = 'cancelled') order by t.id"
);

/// Tasks that are leased to a worker.
const LEASED_TO: &str = concat!(
    "select ",
    task_columns!(),
    " from tasks t join volumes v on v.id = t.volume_id \
     where t.status = 'running' and t.worker_id = $1 order by t.id"
);

/// First tasks of each lane that are due, up to the lane's room. A lane is a place where tasks of a job wait for a stage. The
/// condition on `stage` and `terminal` is word for word that of the partial index `tasks_open`, whose columns are those of a
/// lane.
pub(super) const READY: &str = concat!(
    "select ",
    task_columns!(),
    " from unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[]) as lane (job_id, stage, status, room) \
     cross join lateral ( \
         select * from tasks w \
         where w.job_id = lane.job_id and w.current_stage = lane.stage and w.status = lane.status::task_status \
             and w.current_stage <> 'done' and not w.terminal and (w.not_before is null or w.not_before <= $5) \
         order by w.id limit lane.room \
     ) t ",
    volume_of_task!(),
    " order by t.id"
);

/// Time at which the first task of the lanes that is backing off becomes due, by the partial index `tasks_backing_off`.
pub(super) const NEXT_DUE: &str = "select min(f.not_before) \
     from unnest($1::bigint[], $2::text[], $3::text[]) as lane (job_id, stage, status) \
     cross join lateral ( \
         select t.not_before from tasks t \
         where t.job_id = lane.job_id and t.current_stage = lane.stage and t.status = lane.status::task_status \
             and t.current_stage <> 'done' and not t.terminal and t.not_before > $4 \
         order by t.not_before limit 1 \
     ) f";

/// Returns the leases in force, counted by worker, job and stage.
pub(super) async fn held<'e>(
    executor: impl PgExecutor<'e>,
    now: DateTime<Utc>,
) -> Result<Vec<Held>, StateError> {
    let rows = sqlx::query(HELD)
        .bind(now)
        .bind(SUSPECT_AFTER)
        .fetch_all(executor)
        .await?;
    rows.iter()
        .map(|row| {
            let count = |column: &str| -> sqlx::Result<usize> {
                Ok(usize::try_from(row.try_get::<i64, _>(column)?).unwrap_or(0))
            };
            Ok(Held {
                worker: WorkerId(row.try_get("worker_id")?),
                job: JobId(row.try_get("job_id")?),
                stage: stage_name(row, "current_stage")?,
                leases: count("leases")?,
                suspects: count("suspects")?,
            })
        })
        .collect()
}

/// Returns the leases of all jobs.
pub(super) async fn leases(pool: &PgPool, now: DateTime<Utc>) -> Result<Leases, StateError> {
    let mut leases = Leases {
        held: held(pool, now).await?,
        ..Leases::default()
    };
    for row in sqlx::query(TO_END).bind(now).fetch_all(pool).await? {
        let TaskRow(task) = TaskRow::from_row(&row)?;
        // A lease that both ran out and is of a cancelled job is ended as cancelled, so that no loss is counted.
        if row.try_get("unwanted")? {
            leases.unwanted.push(task);
        } else {
            leases.expired.push(task);
        }
    }
    Ok(leases)
}

/// Returns the tasks that are leased to a worker, in task order.
pub(super) async fn leased_to(pool: &PgPool, worker: &WorkerId) -> Result<Vec<Task>, StateError> {
    let rows: Vec<TaskRow> = sqlx::query_as(LEASED_TO).bind(&worker.0).fetch_all(pool).await?;
    Ok(rows.into_iter().map(|row| row.0).collect())
}

/// Places where tasks of a job wait for a stage, as columns for `unnest`.
#[derive(Default)]
struct Lanes {
    jobs: Vec<i64>,
    stages: Vec<String>,
    statuses: Vec<&'static str>,
    rooms: Vec<i64>,
}

/// Returns tasks that may begin a stage, and the time at which the next one may.
pub(super) async fn ready_tasks(
    pool: &PgPool,
    room: &BTreeMap<StageName, usize>,
    now: DateTime<Utc>,
) -> Result<Ready, StateError> {
    let jobs: HashMap<JobId, Arc<Job>> = jobs::running(pool)
        .await?
        .into_iter()
        .map(|job| (job.id, job))
        .collect();
    // Nothing is locked and the statements share no snapshot: if a task or its job changes meanwhile, the
    // lease is refused when it is written.
    let (mut lanes, mut backing_off) = (Lanes::default(), Lanes::default());
    for job in jobs.values() {
        for (stage, room) in room {
            for (position, status) in waiting_for(&job.pipeline, stage) {
                lanes.add(job.id, &position, status, *room);
                if may_back_off(&position, status) {
                    backing_off.add(job.id, &position, status, *room);
                }
            }
        }
    }
    if lanes.jobs.is_empty() {
        return Ok(Ready::default());
    }
    let rows: Vec<TaskRow> = sqlx::query_as(READY)
        .bind(lanes.jobs)
        .bind(lanes.stages)
        .bind(lanes.statuses)
        .bind(lanes.rooms)
        .bind(now)
        .fetch_all(pool)
        .await?;
    let next_due: Option<DateTime<Utc>> = sqlx::query_scalar(NEXT_DUE)
        .bind(backing_off.jobs)
        .bind(backing_off.stages)
        .bind(backing_off.statuses)
        .bind(now)
        .fetch_one(pool)
        .await?;
    let tasks = rows
        .into_iter()
        .filter_map(|row| {
            let job = Arc::clone(jobs.get(&row.0.job_id)?);
            Some((row.0, job))
        })
        .collect();
    Ok(Ready { tasks, next_due })
}

impl Lanes {
    fn add(&mut self, job: JobId, position: &Position, status: TaskStatus, room: usize) {
        self.jobs.push(job.0);
        self.stages.push(position.as_str().to_owned());
        self.statuses.push(status.as_str());
        self.rooms.push(i64::try_from(room).unwrap_or(i64::MAX));
    }
}
