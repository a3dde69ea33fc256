//! Inbox: the messages that asked for volumes of standing jobs.

use std::collections::{BTreeMap, HashMap, HashSet};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{FromRow, Row};

use super::rows::{TaskRow, i_ids, storable_text, task_columns, w_ids};
use super::{PostgresStore, commit, jobs};
use crate::inbox::KNOWN_FOR;
use crate::{Change, Expected, Inbox, OpenRequests, Outcome, Settled, StateError, Taken, VolumeRequest};
use parkhang_core::domain::{DocumentKey, JobId, Task, TaskId, VolumeId};
use parkhang_core::policy::job_action::{self, JobAction};
use parkhang_core::policy::request::{self, Arrival};

/// Tasks of a job by the names of their volumes, by `tasks`' key of job and volume.
const BY_VOLUME: &str = concat!(
    "select ",
    task_columns!(),
    " from unnest($2::text[], $3::text[]) as n (w_id, i_id) \
     join volumes v on v.bdrc_w_id = n.w_id and v.bdrc_i_id = n.i_id \
     join tasks t on t.job_id = $1 and t.volume_id = v.id"
);

/// Tasks with open requests, with the version that their first stage has read last.
const OPEN: &str = concat!(
    "select ",
    task_columns!(),
    ", i.until, first.version \
     from ( \
         select task_id, max(taken_at) as until from inbox \
         where job_id = $1 and open and task_id > $2 group by task_id order by task_id limit $3 \
     ) i \
     join tasks t on t.id = i.task_id \
     join jobs j on j.id = t.job_id \
     join volumes v on v.id = t.volume_id \
     left join lateral ( \
         select r.metrics ->> 'version' as version from stage_runs r \
         where r.task_id = t.id and r.stage = j.pipeline[1] and r.status = 'done' order by r.id desc limit 1 \
     ) as first on true \
     order by t.id"
);

#[async_trait]
impl Inbox for PostgresStore {
    async fn take_in(
        &self,
        job: JobId,
        requests: &[VolumeRequest],
        now: DateTime<Utc>,
    ) -> Result<Vec<Taken>, StateError> {
        let mut transaction = self.begin().await?;
        // With the job locked it is neither closed nor finished meanwhile, and nobody else takes requests of it.
        let job = jobs::lock(&mut transaction, job).await?;
        if !job.standing {
            return Err(StateError::NotStanding(job.key));
        }
        forget(&mut transaction, job.id, now).await?;
        let mut known = known_messages(&mut transaction, job.id, requests).await?;
        let first_time: Vec<&VolumeRequest> = requests
            .iter()
            .filter(|request| !known.contains(&storable_text(&request.message)))
            .collect();
        let mut tasks = by_volume(&mut transaction, job.id, &first_time).await?;
        let (mut taken, mut rows, mut added, mut changes) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for request in requests {
            if !known.insert(storable_text(&request.message)) {
                taken.push(Taken::Repeated);
                continue;
            }
            let task = tasks.get(&request.volume);
            let arrival = request::on_arrival(task, &job);
            let answer = match (arrival, task) {
                (Arrival::Add, _) => {
                    added.push(request.volume.clone());
                    Taken::Added
                }
                (Arrival::Retry, Some(task)) => {
                    changes.push(Change::new(Expected::of(task), request::again(&job)));
                    Taken::Retried
                }
                (Arrival::Retry | Arrival::Open | Arrival::Known, _) => Taken::Known,
            };
            if answer != Taken::Known {
                // As good as the row that is going to be written, for a second request among these.
                let fresh = Task::fresh(TaskId(0), job.id, request.volume.clone(), job.config.max_attempts);
                tasks.insert(request.volume.clone(), fresh);
            }
            taken.push(answer);
            rows.push((request, arrival == Arrival::Open));
        }
        jobs::insert_tasks(&mut transaction, job.id.0, &added).await?;
        place(&mut transaction, &rows).await?;
        commit::apply_all(&mut transaction, &changes, now).await?;
        write(&mut transaction, job.id, &rows, now).await?;
        if !changes.is_empty() {
            // Nothing of it changes, but the orchestrator is told, as it is of new tasks.
            let status = job.status;
            jobs::set_status(&mut transaction, job, status).await?;
        }
        transaction.commit().await?;
        Ok(taken)
    }

    async fn open_requests(
        &self,
        job: JobId,
        after: Option<TaskId>,
        limit: usize,
    ) -> Result<Vec<OpenRequests>, StateError> {
        let rows = sqlx::query(OPEN)
            .bind(job.0)
            .bind(after.map_or(i64::MIN, |task| task.0))
            .bind(i64::try_from(limit).unwrap_or(i64::MAX))
            .fetch_all(&self.pool)
            .await?;
        let read = |row: &PgRow| {
            Ok(OpenRequests {
                task: TaskRow::from_row(row)?.0,
                read: row.try_get("version")?,
                until: row.try_get("until")?,
            })
        };
        rows.iter().map(read).collect()
    }

    async fn settle(&self, job: JobId, settled: &[Settled], now: DateTime<Utc>) -> Result<u64, StateError> {
        let mut transaction = self.begin().await?;
        let job = jobs::lock(&mut transaction, job).await?;
        let status = job_action::after(job.status, JobAction::Rerun)?;
        let again: Vec<Change> = settled
            .iter()
            .filter(|settled| settled.again)
            .map(|settled| Change::new(Expected::of(&settled.requests.task), request::again(&job)))
            .collect();
        let outcomes = commit::apply_all(&mut transaction, &again, now).await?;
        let sent_back: HashSet<TaskId> = outcomes
            .into_iter()
            .filter_map(Outcome::applied)
            .map(|task| task.id)
            .collect();
        let closed = settled
            .iter()
            .filter(|settled| !settled.again || sent_back.contains(&settled.requests.task.id));
        let (tasks, untils): (Vec<i64>, Vec<DateTime<Utc>>) = closed
            .map(|settled| (settled.requests.task.id.0, settled.requests.until))
            .unzip();
        sqlx::query(
            "update inbox i set open = false from unnest($2::bigint[], $3::timestamptz[]) as n (task_id, until)
             where i.job_id = $1 and i.open and i.task_id = n.task_id and i.taken_at <= n.until",
        )
        .bind(job.id.0)
        .bind(tasks)
        .bind(untils)
        .execute(&mut *transaction)
        .await?;
        if !sent_back.is_empty() {
            jobs::set_status(&mut transaction, job, status).await?;
        }
        transaction.commit().await?;
        Ok(sent_back.len() as u64)
    }
}

/// Deletes messages that no queue can deliver any more.
async fn forget(connection: &mut PgConnection, job: JobId, now: DateTime<Utc>) -> Result<(), StateError> {
    sqlx::query("delete from inbox where job_id = $1 and not open and taken_at < $2")
        .bind(job.0)
        .bind(now - KNOWN_FOR)
        .execute(connection)
        .await?;
    Ok(())
}

/// Ids of those of the messages that were taken before.
async fn known_messages(
    connection: &mut PgConnection,
    job: JobId,
    requests: &[VolumeRequest],
) -> Result<HashSet<String>, StateError> {
    let messages: Vec<String> = requests
        .iter()
        .map(|request| storable_text(&request.message))
        .collect();
    let known: Vec<String> =
        sqlx::query_scalar("select message_id from inbox where job_id = $1 and message_id = any($2)")
            .bind(job.0)
            .bind(messages)
            .fetch_all(connection)
            .await?;
    Ok(known.into_iter().collect())
}

async fn by_volume(
    connection: &mut PgConnection,
    job: JobId,
    requests: &[&VolumeRequest],
) -> Result<HashMap<VolumeId, Task>, StateError> {
    let volumes: Vec<&VolumeId> = requests.iter().map(|request| &request.volume).collect();
    let rows: Vec<TaskRow> = sqlx::query_as(BY_VOLUME)
        .bind(job.0)
        .bind(w_ids(&volumes))
        .bind(i_ids(&volumes))
        .fetch_all(connection)
        .await?;
    Ok(rows
        .into_iter()
        .map(|row| (row.0.volume.clone(), row.0))
        .collect())
}

/// Writes where the documents are that the volumes of requests are pages of; of two places of one volume the last counts.
async fn place(connection: &mut PgConnection, rows: &[(&VolumeRequest, bool)]) -> Result<(), StateError> {
    let placed: BTreeMap<&VolumeId, &DocumentKey> = rows
        .iter()
        .filter_map(|(request, _)| Some((&request.volume, request.document.as_ref()?)))
        .collect();
    if placed.is_empty() {
        return Ok(());
    }
    let (volumes, keys): (Vec<&VolumeId>, Vec<&str>) = placed
        .into_iter()
        .map(|(volume, key)| (volume, key.as_str()))
        .unzip();
    // Locked in the order of their names, as those are that add names.
    sqlx::query(
        "with named as (
             select v.id, n.key from unnest($1::text[], $2::text[], $3::text[]) as n (w_id, i_id, key)
             join volumes v on v.bdrc_w_id = n.w_id and v.bdrc_i_id = n.i_id
             where v.document_key is distinct from n.key
             order by v.bdrc_w_id, v.bdrc_i_id for no key update of v
         )
         update volumes v set document_key = named.key from named where v.id = named.id",
    )
    .bind(w_ids(&volumes))
    .bind(i_ids(&volumes))
    .bind(keys)
    .execute(connection)
    .await?;
    Ok(())
}

/// Writes requests, each with whether it is open. The tasks of their volumes are there.
async fn write(
    connection: &mut PgConnection,
    job: JobId,
    rows: &[(&VolumeRequest, bool)],
    now: DateTime<Utc>,
) -> Result<(), StateError> {
    let volumes: Vec<&VolumeId> = rows.iter().map(|(request, _)| &request.volume).collect();
    let messages: Vec<String> = rows
        .iter()
        .map(|(request, _)| storable_text(&request.message))
        .collect();
    let open: Vec<bool> = rows.iter().map(|(_, is_open)| *is_open).collect();
    sqlx::query(
        "insert into inbox (job_id, message_id, task_id, open, taken_at)
         select t.job_id, n.message, t.id, n.open, $6
         from unnest($2::text[], $3::text[], $4::text[], $5::bool[]) as n (w_id, i_id, message, open)
         join volumes v on v.bdrc_w_id = n.w_id and v.bdrc_i_id = n.i_id
         join tasks t on t.job_id = $1 and t.volume_id = v.id",
    )
    .bind(job.0)
    .bind(w_ids(&volumes))
    .bind(i_ids(&volumes))
    .bind(messages)
    .bind(open)
    .bind(now)
    .execute(connection)
    .await?;
    Ok(())
}
