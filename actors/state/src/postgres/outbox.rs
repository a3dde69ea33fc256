//! Outbox: the messages for tasks that wait for a stage. Statements that write many rows lock them in the order of tasks, as commits do.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use sqlx::postgres::PgConnection;
use sqlx::{FromRow, Row};

use super::backlog::held;
use super::rows::{Fences, TaskRow, number, stage_name, task_columns};
use super::scaling::BY_INDEX;
use super::{PostgresStore, jobs};
use crate::backlog::waiting_for;
use crate::outbox::{Out, room};
use crate::{Outbox, Outgoing, StateError};
use parkhang_core::domain::{Fence, Job, JobId, MOST_IN_FRONT, Publication, StageName};
use parkhang_core::policy::placement::next_fence;

/// Condition that a row `o` stands for the next lease of its task `t`. The last part leaves out a message of the stage before, whose
/// attempt and generation the next stage shares.
macro_rules! stands {
    () => {
        "t.id = o.task_id and t.status <> 'running' and t.current_stage <> 'done' and not t.terminal \
         and t.attempts + 1 = o.attempt and t.generation = o.generation \
         and not (t.status = 'done' and t.current_stage = o.stage)"
    };
}

/// Writes rows for the first tasks of each job that have none for their next lease; returns the job of each. A lane is a place where
/// tasks of a job wait for the stage `$6`; the lanes of a job share its room.
pub(super) const INTEND: &str = "with chosen as ( \
         select w.* from ( \
         select t.*, lane.job_id, lane.room, row_number() over (partition by lane.job_id order by t.id) as turn \
         from unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[]) as lane (job_id, place, status, room) \
         cross join lateral ( \
             select t.id, t.attempts, t.generation from tasks t \
             where t.job_id = lane.job_id and t.current_stage = lane.place and t.status = lane.status::task_status \
                 and t.current_stage <> 'done' and not t.terminal and (t.not_before is null or t.not_before <= $5) \
                 and not exists (select from outbox k where k.task_id = t.id and k.stage = $6 \
                     and k.attempt = t.attempts + 1 and k.generation = t.generation) \
             order by t.id limit lane.room \
         ) t) w where w.turn <= w.room \
     ), written as ( \
         insert into outbox as o (task_id, stage, attempt, generation) \
         select c.id, $6, c.attempts + 1, c.generation from chosen c order by c.id \
         on conflict (task_id) do update set stage = excluded.stage, attempt = excluded.attempt, \
             generation = excluded.generation, repetition = 0, not_before = null, published_at = null \
         returning o.task_id) \
     select c.job_id from written join chosen c on c.id = written.task_id";

/// Numbers of messages for tasks that still wait, by job and stage, of jobs with a limit.
const OUT: &str = concat!(
    "select t.job_id, o.stage, count(*) as messages from outbox o join tasks t on ",
    stands!(),
    " where t.job_id = any($1) group by t.job_id, o.stage"
);

/// Messages that are due and not sent.
const UNSENT: &str = concat!(
    "select ",
    task_columns!(),
    ", o.stage, o.repetition, v.id as volume_number \
     from outbox o join tasks t on ",
    stands!(),
    " join volumes v on v.id = t.volume_id \
     where o.published_at is null and (o.not_before is null or o.not_before <= $1) and o.stage = any($2) \
         and t.job_id = any($3) \
     order by t.id limit $4"
);

const REPUBLISH: &str = concat!(
    "with lost as (select o.task_id from outbox o join tasks t on ",
    stands!(),
    " where o.stage = $1 and o.published_at < $2 order by o.task_id for update of o) \
     update outbox o set published_at = null, not_before = null, repetition = o.repetition + 1 \
     from lost where o.task_id = lost.task_id"
);

/// First message of each stage by the time of its publication, of those whose tasks wait and whose jobs run. It goes along the index
/// `outbox_published`, or by `tasks_open` where few wait.
pub(super) const OLDEST: &str = concat!(
    "select s.stage, w.published_at from unnest($1::text[]) as s (stage) cross join lateral ( \
         select o.published_at from outbox o join tasks t on ",
    stands!(),
    "    join jobs j on j.id = t.job_id and j.status = 'running' \
         where o.stage = s.stage and o.published_at is not null order by o.published_at limit 1 \
     ) w"
);

/// Messages of a stage in front of one, up to a number, by the same index.
pub(super) const IN_FRONT: &str = concat!(
    "select count(*) as messages from ( \
         select from outbox o join tasks t on ",
    stands!(),
    "    where o.stage = $1 and o.published_at <= $2 and (o.published_at < $2 or o.task_id < $3) \
         order by o.published_at limit $4 \
     ) w"
);

#[async_trait]
impl Outbox for PostgresStore {
    async fn outgoing(
        &self,
        stages: &[StageName],
        limit: usize,
        now: DateTime<Utc>,
    ) -> Result<Vec<Outgoing>, StateError> {
        // Each stage has a transaction of its own. Rows of one stage must not be held while those of the next are waited for: tasks
        // of both may be locked in between by a commit.
        let mut connection = self.pool.acquire().await?;
        let connection = &mut *connection;
        let jobs = jobs::running(&mut *connection).await?;
        let mut out = out(connection, &jobs, now).await?;
        for stage in stages {
            let mut transaction = self.begin().await?;
            for job in intend(&mut transaction, &jobs, stage, &out, limit, now).await? {
                *out.entry((job, stage.clone())).or_default() += 1;
            }
            transaction.commit().await?;
        }
        unsent(connection, &jobs, stages, limit, now).await
    }

    async fn published(&self, sent: &[(Fence, i32)], now: DateTime<Utc>) -> Result<(), StateError> {
        if sent.is_empty() {
            return Ok(());
        }
        let fences = Fences::of(sent.iter().map(|(fence, _)| fence));
        let repetitions: Vec<i32> = sent.iter().map(|(_, repetition)| *repetition).collect();
        let statement = sqlx::query(
            "with sent as (
                 select o.task_id from outbox o
                 join unnest($1::bigint[], $2::text[], $3::int[], $4::bigint[], $5::int[])
                     as s (task_id, stage, attempt, generation, repetition)
                 using (task_id, stage, attempt, generation, repetition)
                 order by o.task_id for update of o)
             update outbox o set published_at = $6 from sent where o.task_id = sent.task_id",
        )
        .bind(fences.tasks)
        .bind(fences.stages)
        .bind(fences.attempts)
        .bind(fences.generations)
        .bind(repetitions)
        .bind(now);
        self.execute(statement).await?;
        Ok(())
    }

    async fn withdraw(&self, fences: &[Fence], until: DateTime<Utc>) -> Result<(), StateError> {
        if fences.is_empty() {
            return Ok(());
        }
        let fences = Fences::of(fences.iter());
        let statement = sqlx::query(
            "with withdrawn as (
                 select o.task_id from outbox o
                 join unnest($1::bigint[], $2::text[], $3::int[], $4::bigint[])
                     as s (task_id, stage, attempt, generation)
                 using (task_id, stage, attempt, generation)
                 where o.published_at is not null order by o.task_id for update of o)
             update outbox o set published_at = null, not_before = $5, repetition = o.repetition + 1
             from withdrawn where o.task_id = withdrawn.task_id",
        )
        .bind(fences.tasks)
        .bind(fences.stages)
        .bind(fences.attempts)
        .bind(fences.generations)
        .bind(until);
        self.execute(statement).await?;
        Ok(())
    }

    async fn republish(&self, stage: &StageName, before: DateTime<Utc>) -> Result<u64, StateError> {
        let statement = sqlx::query(REPUBLISH).bind(stage.as_str()).bind(before);
        let done = self.execute(statement).await?;
        Ok(done.rows_affected())
    }

    async fn publication(
        &self,
        job: &Job,
        fence: &Fence,
        now: DateTime<Utc>,
    ) -> Result<Publication, StateError> {
        let mut transaction = self.pool.begin_with(BY_INDEX).await?;
        let connection = &mut *transaction;
        let own = sqlx::query(
            "select published_at, not_before from outbox
             where task_id = $1 and stage = $2 and attempt = $3 and generation = $4",
        )
        .bind(fence.task.0)
        .bind(fence.stage.as_str())
        .bind(fence.attempt.0)
        .bind(fence.generation.0)
        .fetch_optional(&mut *connection)
        .await?;
        let time = |column| -> sqlx::Result<Option<DateTime<Utc>>> {
            Ok(own.as_ref().map(|row| row.try_get(column)).transpose()?.flatten())
        };
        let Some(at) = time("published_at")? else {
            let out = out(connection, &[Arc::new(job.clone())], now).await?;
            return Ok(Publication::Unsent {
                due: time("not_before")?,
                has_room: own.is_some() || room(job, &fence.stage, &out, 1) > 0,
            });
        };
        let row = sqlx::query(IN_FRONT)
            .bind(fence.stage.as_str())
            .bind(at)
            .bind(fence.task.0)
            .bind(i64::try_from(MOST_IN_FRONT).unwrap_or(i64::MAX))
            .fetch_one(connection)
            .await?;
        let in_front = number(&row, "messages")?;
        Ok(Publication::Sent { at, in_front })
    }

    async fn oldest(&self, stages: &[StageName]) -> Result<BTreeMap<StageName, DateTime<Utc>>, StateError> {
        let mut transaction = self.pool.begin_with(BY_INDEX).await?;
        let rows = sqlx::query(OLDEST)
            .bind(stages.iter().map(StageName::as_str).collect::<Vec<_>>())
            .fetch_all(&mut *transaction)
            .await?;
        let oldest = rows
            .iter()
            .map(|row| Ok((stage_name(row, "stage")?, row.try_get("published_at")?)));
        Ok(oldest.collect::<sqlx::Result<_>>()?)
    }

    async fn forget_done(&self, stage: &StageName, before: DateTime<Utc>) -> Result<u64, StateError> {
        let statement = sqlx::query(
            "with done as (
                 select o.task_id from outbox o join tasks t on o.task_id = t.id
                 where t.current_stage = 'done' and o.stage = $1 and o.published_at < $2
                 order by o.task_id for update of o)
             delete from outbox o using done where o.task_id = done.task_id",
        )
        .bind(stage.as_str())
        .bind(before);
        let done = self.execute(statement).await?;
        Ok(done.rows_affected())
    }
}

/// Counts the messages that are out and the leases in force of jobs that have a limit; of the others nothing is decided by it.
async fn out(
    connection: &mut PgConnection,
    jobs: &[Arc<Job>],
    now: DateTime<Utc>,
) -> Result<Out, StateError> {
    let limited: Vec<i64> = jobs
        .iter()
        .filter(|job| job.config.max_running > 0 || job.config.max_running_per_stage > 0)
        .map(|job| job.id.0)
        .collect();
    let mut out = Out::new();
    if limited.is_empty() {
        return Ok(out);
    }
    for lease in held(&mut *connection, now).await? {
        *out.entry((lease.job, lease.stage)).or_default() += lease.leases;
    }
    for row in sqlx::query(OUT).bind(limited).fetch_all(connection).await? {
        let messages: i64 = row.try_get("messages")?;
        let place = (JobId(row.try_get("job_id")?), stage_name(&row, "stage")?);
        *out.entry(place).or_default() += usize::try_from(messages).unwrap_or(0);
    }
    Ok(out)
}

/// Writes the intentions for a stage; returns the job of each.
async fn intend(
    connection: &mut PgConnection,
    jobs: &[Arc<Job>],
    stage: &StageName,
    out: &Out,
    limit: usize,
    now: DateTime<Utc>,
) -> Result<Vec<JobId>, StateError> {
    let (mut ids, mut places, mut statuses, mut rooms) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for job in jobs {
        let room = room(job, stage, out, limit);
        for (position, status) in waiting_for(&job.pipeline, stage) {
            ids.push(job.id.0);
            places.push(position.as_str().to_owned());
            statuses.push(status.as_str());
            rooms.push(i64::try_from(room).unwrap_or(i64::MAX));
        }
    }
    let written: Vec<i64> = sqlx::query_scalar(INTEND)
        .bind(ids)
        .bind(places)
        .bind(statuses)
        .bind(rooms)
        .bind(now)
        .bind(stage.as_str())
        .fetch_all(connection)
        .await?;
    Ok(written.into_iter().map(JobId).collect())
}

async fn unsent(
    connection: &mut PgConnection,
    jobs: &[Arc<Job>],
    stages: &[StageName],
    limit: usize,
    now: DateTime<Utc>,
) -> Result<Vec<Outgoing>, StateError> {
    let by_id: HashMap<JobId, &Arc<Job>> = jobs.iter().map(|job| (job.id, job)).collect();
    let rows = sqlx::query(UNSENT)
        .bind(now)
        .bind(stages.iter().map(StageName::as_str).collect::<Vec<_>>())
        .bind(by_id.keys().map(|id| id.0).collect::<Vec<_>>())
        .bind(i64::try_from(limit.saturating_mul(stages.len())).unwrap_or(i64::MAX))
        .fetch_all(connection)
        .await?;
    let outgoing = rows.iter().map(|row| {
        let TaskRow(task) = TaskRow::from_row(row)?;
        let stage = stage_name(row, "stage")?;
        let Some(job) = by_id.get(&task.job_id) else {
            return Ok(None);
        };
        // The statement knows no pipelines: a message of a stage that the task has left is none.
        let fence = next_fence(&task, job, now).filter(|fence| fence.stage == stage);
        let Some(fence) = fence else { return Ok(None) };
        Ok(Some(Outgoing {
            fence,
            repetition: row.try_get("repetition")?,
            job: job.id,
            job_key: job.key.clone(),
            volume: task.volume,
            volume_number: row.try_get("volume_number")?,
        }))
    });
    outgoing.filter_map(Result::transpose).collect()
}
