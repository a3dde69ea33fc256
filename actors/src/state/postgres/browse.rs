//! Lists for operators. Each goes by an index, so that a page costs what it shows, however many tasks there are.

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::Value;
use sqlx::postgres::{PgPool, PgRow};
use sqlx::types::Json;
use sqlx::{FromRow, Row};

use super::rows::{TaskRow, stage_name, task_columns, unreadable, volume_id};
use crate::domain::{ErrorCategory, Job, JobId, Position, Task, TaskId, TaskStatus};
use crate::state::{
    AuditEntry, ErrorGroup, FailedPages, ListedPhase, Pace, SlowVolume, SpoiltVolume, StateError, TaskPage,
    TaskQuery,
};

/// Volumes that a group of errors names.
const SAMPLES: i64 = 5;

/// By the index `tasks_by_job`.
pub(super) const ALL: &str = concat!(
    "select ",
    task_columns!(),
    " from tasks t join volumes v on v.id = t.volume_id where t.job_id = $1 and t.id > $2 order by t.id limit $3"
);

/// By the partial index `tasks_done`.
pub(super) const DONE: &str = concat!(
    "select ",
    task_columns!(),
    " from tasks t join volumes v on v.id = t.volume_id \
     where t.job_id = $1 and t.current_stage = 'done' and t.id > $2 order by t.id limit $3"
);

/// By the partial index `tasks_terminal_by_stage`, a place at a time. Volumes are looked up one by one, for the server not to read
/// all of them.
pub(super) const FAILED: &str = concat!(
    "select ",
    task_columns!(),
    " from ( \
         select of_lane.* from unnest($4::text[]) as lane (stage) \
         cross join lateral ( \
             select * from tasks w \
             where w.job_id = $1 and w.current_stage = lane.stage and w.terminal and w.id > $2 \
             order by w.id limit $3 \
         ) of_lane \
         order by of_lane.id limit $3 \
     ) t \
     cross join lateral (select * from volumes where id = t.volume_id offset 0) v order by t.id"
);

/// By the partial index `tasks_open`, a place and status at a time.
pub(super) const OPEN: &str = concat!(
    "select ",
    task_columns!(),
    " from ( \
         select of_lane.* from unnest($4::text[], $5::text[]) as lane (stage, status) \
         cross join lateral ( \
             select * from tasks w \
             where w.job_id = $1 and w.current_stage = lane.stage and w.status = lane.status::task_status \
                 and w.current_stage <> 'done' and not w.terminal and w.id > $2 \
             order by w.id limit $3 \
         ) of_lane \
         order by of_lane.id limit $3 \
     ) t \
     cross join lateral (select * from volumes where id = t.volume_id offset 0) v order by t.id"
);

pub(super) async fn tasks(pool: &PgPool, job: &Job, query: &TaskQuery) -> Result<TaskPage, StateError> {
    let phases = match query.phase {
        Some(phase) => {
            let phases = phase.of_tasks(job.status).iter();
            phases.copied().map(Some).collect()
        }
        None if query.stage.is_none() => vec![None],
        None => [
            ListedPhase::Waiting,
            ListedPhase::Running,
            ListedPhase::Retrying,
            ListedPhase::Failed,
        ]
        .map(Some)
        .to_vec(),
    };
    let mut tasks = Vec::new();
    for phase in phases {
        tasks.extend(of_phase(pool, job, query, phase).await?);
    }
    tasks.sort_by_key(|task| task.id);
    Ok(TaskPage::of(tasks, query.limit))
}

/// One more than the limit, if there are so many.
async fn of_phase(
    pool: &PgPool,
    job: &Job,
    query: &TaskQuery,
    phase: Option<ListedPhase>,
) -> Result<Vec<Task>, StateError> {
    let after = query.after.map_or(0, |task| task.0);
    let limit = i64::from(query.limit) + 1;
    let rows: Vec<TaskRow> = match phase {
        None => {
            sqlx::query_as(ALL)
                .bind(job.id.0)
                .bind(after)
                .bind(limit)
                .fetch_all(pool)
                .await?
        }
        Some(ListedPhase::Done) if query.stage.is_some() => Vec::new(),
        Some(ListedPhase::Done) => {
            sqlx::query_as(DONE)
                .bind(job.id.0)
                .bind(after)
                .bind(limit)
                .fetch_all(pool)
                .await?
        }
        Some(ListedPhase::Failed) => {
            let places = places(job, query);
            let places: Vec<&str> = places.iter().map(Position::as_str).collect();
            let failed = sqlx::query_as(FAILED).bind(job.id.0).bind(after).bind(limit);
            failed.bind(places).fetch_all(pool).await?
        }
        Some(
            ListedPhase::Waiting | ListedPhase::Running | ListedPhase::Retrying | ListedPhase::Cancelled,
        ) => {
            let lanes = lanes(job, query, phase);
            let (stages, statuses): (Vec<&str>, Vec<&str>) = lanes
                .iter()
                .map(|(position, status)| (position.as_str(), status.as_str()))
                .unzip();
            let open = sqlx::query_as(OPEN).bind(job.id.0).bind(after).bind(limit);
            open.bind(stages).bind(statuses).fetch_all(pool).await?
        }
    };
    Ok(rows.into_iter().map(|row| row.0).collect())
}

/// Where tasks of the phase stand, and what their status is there.
fn lanes(job: &Job, query: &TaskQuery, phase: Option<ListedPhase>) -> Vec<(Position, TaskStatus)> {
    let statuses: &[TaskStatus] = match phase {
        Some(ListedPhase::Waiting) => &[TaskStatus::Pending, TaskStatus::Done],
        Some(ListedPhase::Running) => &[TaskStatus::Running],
        Some(ListedPhase::Retrying) => &[TaskStatus::Failed],
        Some(ListedPhase::Done | ListedPhase::Failed | ListedPhase::Cancelled) | None => &[],
    };
    let each = |position: Position| statuses.iter().map(move |status| (position.clone(), *status));
    let lanes = places(job, query).into_iter().flat_map(each);
    let Some(stage) = &query.stage else {
        return lanes.collect();
    };
    // What has done the stage waits for the one after it.
    let begun = lanes.filter(|(_, status)| *status != TaskStatus::Done);
    let waiting = stage.waiting(&job.pipeline);
    let waiting = waiting.filter(|_| phase == Some(ListedPhase::Waiting));
    begun.chain(waiting).collect()
}

/// Where tasks stand that have begun with the stage of the query, or all that are not done.
fn places(job: &Job, query: &TaskQuery) -> Vec<Position> {
    match &query.stage {
        Some(stage) => vec![Position::At(stage.name().clone())],
        None => {
            let stages = job.pipeline.stages().iter().cloned().map(Position::At);
            std::iter::once(Position::Pending).chain(stages).collect()
        }
    }
}

/// The groups from their totals, and the samples of each by the partial index `tasks_failed`.
pub(super) const ERRORS: &str = "with cause as ( \
         select current_stage, cause, sum(tasks)::bigint as tasks, \
             coalesce(sum(tasks) filter (where terminal), 0)::bigint as terminal, max(latest) as latest \
         from task_counts where job_id = $1 and status = 'failed' \
         group by current_stage, cause having sum(tasks) <> 0 \
         order by sum(tasks) desc, current_stage, cause limit $3 \
     ) \
     select c.*, sample.* from cause c cross join lateral ( \
         select (array_agg(f.last_error order by f.id))[1] as error, array_agg(f.volume order by f.id) as volumes \
         from ( \
             select t.id, t.last_error, v.bdrc_w_id || '-' || v.bdrc_i_id as volume \
             from tasks t join volumes v on v.id = t.volume_id \
             where t.job_id = $1 and t.current_stage = c.current_stage and error_cause(t.last_error) = c.cause \
                 and t.status = 'failed' \
             order by t.id limit $2 \
         ) f \
     ) sample \
     order by c.tasks desc, c.current_stage, c.cause";

pub(super) async fn errors(pool: &PgPool, job: JobId, limit: u32) -> Result<Vec<ErrorGroup>, StateError> {
    let groups: Vec<ErrorGroupRow> = sqlx::query_as(ERRORS)
        .bind(job.0)
        .bind(SAMPLES)
        .bind(i64::from(limit))
        .fetch_all(pool)
        .await?;
    Ok(groups.into_iter().map(|row| row.0).collect())
}

struct ErrorGroupRow(ErrorGroup);

impl FromRow<'_, PgRow> for ErrorGroupRow {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        let error: Option<Json<Value>> = row.try_get("error")?;
        let error = error.map(|json| json.0).unwrap_or_default();
        let category = error["category"].as_str();
        let known = ErrorCategory::ALL
            .into_iter()
            .find(|known| Some(known.as_str()) == category);
        let count = |column| -> sqlx::Result<u64> {
            u64::try_from(row.try_get::<i64, _>(column)?).map_err(|error| unreadable(column, error))
        };
        Ok(Self(ErrorGroup {
            stage: row.try_get("current_stage")?,
            category: known.unwrap_or(ErrorCategory::Unknown),
            cause: row.try_get::<Option<String>, _>("cause")?.unwrap_or_default(),
            message: error["message"].as_str().unwrap_or_default().to_owned(),
            tasks: count("tasks")?,
            terminal: count("terminal")?,
            volumes: row.try_get::<Option<_>, _>("volumes")?.unwrap_or_default(),
            last: row.try_get("latest")?,
        }))
    }
}

/// By the partial index `volume_results_errors`.
pub(super) const SPOILT: &str = "select r.task_id, r.nb_errors, v.bdrc_w_id, v.bdrc_i_id \
     from volume_results r join tasks t on t.id = r.task_id join volumes v on v.id = t.volume_id \
     where r.nb_errors > 0 and r.job_id = $1 and r.task_id > $2 order by r.task_id limit $3";

pub(super) async fn failed_pages(pool: &PgPool, job: JobId) -> Result<FailedPages, StateError> {
    let row = sqlx::query(
        "select coalesce(sum(pages), 0)::bigint as pages, coalesce(sum(tasks), 0)::bigint as tasks
         from failed_page_counts where job_id = $1",
    )
    .bind(job.0)
    .fetch_one(pool)
    .await?;
    let count = |column| -> sqlx::Result<u64> {
        u64::try_from(row.try_get::<i64, _>(column)?).map_err(|error| unreadable(column, error))
    };
    let (pages, tasks) = (count("pages")?, count("tasks")?);
    let volumes = match tasks {
        0 => Vec::new(),
        _ => {
            let samples = spoilt_volumes(pool, job, None, SAMPLES).await?;
            samples.iter().map(|spoilt| spoilt.volume.to_string()).collect()
        }
    };
    Ok(FailedPages {
        pages,
        tasks,
        volumes,
    })
}

/// In task order, from behind a task if one is given.
pub(super) async fn spoilt_volumes(
    pool: &PgPool,
    job: JobId,
    after: Option<TaskId>,
    limit: i64,
) -> Result<Vec<SpoiltVolume>, StateError> {
    let rows = sqlx::query(SPOILT)
        .bind(job.0)
        .bind(after.map_or(0, |task| task.0))
        .bind(limit)
        .fetch_all(pool)
        .await?;
    let spoilt = rows.iter().map(|row| {
        Ok(SpoiltVolume {
            task: TaskId(row.try_get("task_id")?),
            volume: volume_id(row)?,
            failed_pages: u64::try_from(row.try_get::<i32, _>("nb_errors")?).unwrap_or(0),
        })
    });
    Ok(spoilt.collect::<sqlx::Result<_>>()?)
}

/// By the index `volume_results_slowest`.
pub(super) const SLOWEST: &str = "select v.bdrc_w_id || '-' || v.bdrc_i_id as volume, r.processing_duration_ms, r.total_images \
     from volume_results r join tasks t on t.id = r.task_id join volumes v on v.id = t.volume_id \
     where r.job_id = $1 order by r.processing_duration_ms desc limit $2";

pub(super) async fn slowest(pool: &PgPool, job: JobId, limit: u32) -> Result<Vec<SlowVolume>, StateError> {
    let rows = sqlx::query(SLOWEST)
        .bind(job.0)
        .bind(i64::from(limit))
        .fetch_all(pool)
        .await?;
    let slowest = rows.iter().map(|row| {
        Ok(SlowVolume {
            volume: row.try_get("volume")?,
            seconds: f64::from(row.try_get::<f32, _>("processing_duration_ms")?) / 1e3,
            pages: u64::try_from(row.try_get::<i32, _>("total_images")?).unwrap_or(0),
        })
    });
    slowest.collect()
}

/// What a pace is taken of.
pub(super) const LATELY: TimeDelta = TimeDelta::minutes(10);

/// By the partial index `stage_runs_done`.
pub(super) const PACES: &str = "with run as ( \
         select r.stage, r.started_at, \
             coalesce((r.metrics ->> 'read')::bigint, 0) + coalesce((r.metrics ->> 'failed')::bigint, 0) as pages \
         from stage_runs r \
         where r.status = 'done' and r.done_at > $1 \
             and ($2::bigint is null or exists (select from tasks t where t.id = r.task_id and t.job_id = $2)) \
     ) \
     select stage, count(*) as runs, sum(pages)::bigint as pages, min(started_at) as since from run group by stage";

/// Of the runs that ended in the last ten minutes, over that time or that since the first of them began.
pub(super) async fn paces(
    pool: &PgPool,
    job: Option<JobId>,
    now: DateTime<Utc>,
) -> Result<Vec<Pace>, StateError> {
    let rows = sqlx::query(PACES)
        .bind(now - LATELY)
        .bind(job.map(|job| job.0))
        .fetch_all(pool)
        .await?;
    rows.iter().map(|row| pace(row, now)).collect()
}

/// Of the runs of a row over the time that they took together until `until`, as far as it is of interest.
pub(super) fn pace(row: &PgRow, until: DateTime<Utc>) -> Result<Pace, StateError> {
    let since: DateTime<Utc> = row.try_get("since")?;
    let seconds = (until - since)
        .as_seconds_f64()
        .clamp(1.0, LATELY.as_seconds_f64());
    let (runs, pages): (i64, i64) = (row.try_get("runs")?, row.try_get("pages")?);
    Ok(Pace {
        stage: stage_name(row, "stage")?,
        runs_a_second: runs as f64 / seconds,
        pages_a_second: pages as f64 / seconds,
    })
}

/// A text that differs when something that operators are shown has changed; cheap however many tasks there are.
pub(super) async fn change_mark(pool: &PgPool) -> Result<String, StateError> {
    let row = sqlx::query(
        "select concat_ws(' ',
             (select max(id) from stage_runs),
             (select max(done_at) from stage_runs where status = 'done'),
             (select count(*) from tasks where status = 'running'),
             (select max(id) from audit),
             (select md5(string_agg(concat_ws(' ', id, status, config), ',' order by id)) from jobs where finished_at is null),
             (select max(finished_at) from jobs),
             (select md5(string_agg(concat_ws(' ', name, state), ',' order by name)) from nodes)) as mark",
    )
    .fetch_one(pool)
    .await?;
    Ok(row.try_get("mark")?)
}

/// The task of a volume in a job, by its name `W-I`.
pub(super) async fn task_of(
    pool: &PgPool,
    job: JobId,
    w_id: &str,
    i_id: &str,
) -> Result<Option<Task>, StateError> {
    let row: Option<TaskRow> = sqlx::query_as(concat!(
        "select ",
        task_columns!(),
        " from tasks t join volumes v on v.id = t.volume_id \
         where t.job_id = $1 and v.bdrc_w_id = $2 and v.bdrc_i_id = $3"
    ))
    .bind(job.0)
    .bind(w_id)
    .bind(i_id)
    .fetch_optional(pool)
    .await?;
    Ok(row.map(|row| row.0))
}

pub(super) async fn record(pool: &PgPool, entry: &AuditEntry) -> Result<i64, StateError> {
    let id = sqlx::query_scalar(
        "insert into audit (at, done_at, who, via, command, arguments, refusal)
         values ($1, $2, $3, $4, $5, $6, $7) returning id",
    )
    .bind(entry.at)
    .bind(entry.done_at)
    .bind(&entry.who)
    .bind(&entry.via)
    .bind(&entry.command)
    .bind(Json(&entry.arguments))
    .bind(&entry.refusal)
    .fetch_one(pool)
    .await?;
    Ok(id)
}

/// Writes how a command ended. The first end stands.
pub(super) async fn complete(
    pool: &PgPool,
    entry: i64,
    refusal: Option<&str>,
    now: DateTime<Utc>,
) -> Result<(), StateError> {
    sqlx::query("update audit set done_at = $2, refusal = $3 where id = $1 and done_at is null")
        .bind(entry)
        .bind(now)
        .bind(refusal)
        .execute(pool)
        .await?;
    Ok(())
}

/// The newest first.
pub(super) async fn audit(
    pool: &PgPool,
    before: Option<DateTime<Utc>>,
    limit: u32,
) -> Result<Vec<AuditEntry>, StateError> {
    let rows = sqlx::query(
        "select at, done_at, who, via, command, arguments::text as arguments, refusal from audit
         where $1::timestamptz is null or at < $1 order by at desc, id desc limit $2",
    )
    .bind(before)
    .bind(i64::from(limit))
    .fetch_all(pool)
    .await?;
    let entries = rows.iter().map(|row| {
        let arguments: String = row.try_get("arguments")?;
        Ok(AuditEntry {
            at: row.try_get("at")?,
            done_at: row.try_get("done_at")?,
            who: row.try_get("who")?,
            via: row.try_get("via")?,
            command: row.try_get("command")?,
            // Postgres keeps numbers that are too large for us; whoever sent one is to be found all the same.
            arguments: serde_json::from_str(&arguments).unwrap_or(Value::String(arguments)),
            refusal: row.try_get("refusal")?,
        })
    });
    entries.collect()
}

#[cfg(test)]
mod tests;
