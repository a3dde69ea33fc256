//! Lists for operators. Each goes by an index, so that a page costs what it shows, however many tasks there are.

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::Value;
use sqlx::postgres::{PgPool, PgRow};
use sqlx::types::Json;
use sqlx::{FromRow, Row};

use super::rows::{TaskRow, stage_name, task_columns, unreadable};
use crate::domain::{ErrorCategory, Job, JobId, Position, Task, TaskStatus};
use crate::state::{AuditEntry, ErrorGroup, FailedPages, ListedPhase, Pace, StateError, TaskPage, TaskQuery};

/// Volumes that a group of errors names.
const SAMPLES: i32 = 5;

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

/// By the partial index `tasks_terminal`.
pub(super) const FAILED: &str = concat!(
    "select ",
    task_columns!(),
    " from tasks t join volumes v on v.id = t.volume_id \
     where t.job_id = $1 and t.terminal and t.id > $2 and ($4::text is null or t.current_stage = $4) \
     order by t.id limit $3"
);

/// By the partial index `tasks_open`, a place and status at a time.
pub(super) const OPEN: &str = concat!(
    "select ",
    task_columns!(),
    " from unnest($4::text[], $5::text[]) as lane (stage, status) \
     cross join lateral ( \
         select * from tasks w \
         where w.job_id = $1 and w.current_stage = lane.stage and w.status = lane.status::task_status \
             and w.current_stage <> 'done' and not w.terminal and w.id > $2 \
         order by w.id limit $3 \
     ) t \
     join volumes v on v.id = t.volume_id order by t.id limit $3"
);

pub(super) async fn tasks(pool: &PgPool, job: &Job, query: &TaskQuery) -> Result<TaskPage, StateError> {
    let phases = match query.phase {
        Some(phase) => vec![Some(phase)],
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
    let limit = usize::try_from(query.limit).unwrap_or(usize::MAX);
    let mut tasks = Vec::new();
    for phase in phases {
        tasks.extend(of_phase(pool, job, query, phase).await?);
    }
    tasks.sort_by_key(|task| task.id);
    let next = (tasks.len() > limit).then(|| limit.checked_sub(1).and_then(|last| Some(tasks.get(last)?.id)));
    tasks.truncate(limit);
    Ok(TaskPage {
        tasks,
        next: next.flatten(),
    })
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
    let stage = query.stage.as_ref();
    let rows: Vec<TaskRow> = match phase {
        None => {
            sqlx::query_as(ALL)
                .bind(job.id.0)
                .bind(after)
                .bind(limit)
                .fetch_all(pool)
                .await?
        }
        Some(ListedPhase::Done) if stage.is_some() => Vec::new(),
        Some(ListedPhase::Done) => {
            sqlx::query_as(DONE)
                .bind(job.id.0)
                .bind(after)
                .bind(limit)
                .fetch_all(pool)
                .await?
        }
        Some(ListedPhase::Failed) => {
            let failed = sqlx::query_as(FAILED).bind(job.id.0).bind(after).bind(limit);
            failed
                .bind(stage.map(|stage| stage.as_str()))
                .fetch_all(pool)
                .await?
        }
        Some(ListedPhase::Waiting | ListedPhase::Running | ListedPhase::Retrying) => {
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
        Some(ListedPhase::Done | ListedPhase::Failed) | None => &[],
    };
    let positions: Vec<Position> = match &query.stage {
        Some(stage) => vec![Position::At(stage.clone())],
        None => {
            let stages = job.pipeline.stages().iter().cloned().map(Position::At);
            std::iter::once(Position::Pending).chain(stages).collect()
        }
    };
    let places = positions.into_iter();
    places
        .flat_map(|position| statuses.iter().map(move |status| (position.clone(), *status)))
        .collect()
}

/// By the partial indexes `tasks_terminal` and `tasks_open`.
pub(super) const ERRORS: &str = "with failed as ( \
         select t.id, t.volume_id, t.current_stage, t.terminal, t.last_error \
         from tasks t where t.job_id = $1 and t.terminal \
         union all \
         select t.id, t.volume_id, t.current_stage, t.terminal, t.last_error \
         from unnest($2::text[]) as lane (stage) \
         join tasks t on t.job_id = $1 and t.current_stage = lane.stage and t.status = 'failed' \
             and t.current_stage <> 'done' and not t.terminal \
     ), cause as ( \
         select f.*, coalesce(f.last_error ->> 'message', '') as message, \
             coalesce(f.last_error ->> 'category', 'unknown') as category, \
             (select max(r.done_at) from stage_runs r where r.task_id = f.id and r.status = 'failed') as at \
         from failed f \
     ) \
     select current_stage, category, min(message) as message, count(*) as tasks, \
         count(*) filter (where terminal) as terminal, max(at) as last, \
         (array_agg(v.bdrc_w_id || '-' || v.bdrc_i_id order by c.id))[1:$3] as volumes \
     from cause c join volumes v on v.id = c.volume_id \
     group by current_stage, category, \
         regexp_replace(regexp_replace(message, '\"[^\"]*\"|''[^'']*''', '_', 'g'), '[0-9]+', '0', 'g') \
     order by count(*) desc, current_stage, category, min(message) limit $4";

pub(super) async fn errors(pool: &PgPool, job: &Job, limit: u32) -> Result<Vec<ErrorGroup>, StateError> {
    let stages: Vec<&str> = job.pipeline.stages().iter().map(|stage| stage.as_str()).collect();
    let groups: Vec<ErrorGroupRow> = sqlx::query_as(ERRORS)
        .bind(job.id.0)
        .bind(stages)
        .bind(SAMPLES)
        .bind(i64::from(limit))
        .fetch_all(pool)
        .await?;
    Ok(groups.into_iter().map(|row| row.0).collect())
}

struct ErrorGroupRow(ErrorGroup);

impl FromRow<'_, PgRow> for ErrorGroupRow {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        let category: String = row.try_get("category")?;
        let known = ErrorCategory::ALL
            .into_iter()
            .find(|known| known.as_str() == category);
        let count = |column| -> sqlx::Result<u64> {
            u64::try_from(row.try_get::<i64, _>(column)?).map_err(|error| unreadable(column, error))
        };
        Ok(Self(ErrorGroup {
            stage: row.try_get("current_stage")?,
            category: known.unwrap_or(ErrorCategory::Unknown),
            message: row.try_get("message")?,
            tasks: count("tasks")?,
            terminal: count("terminal")?,
            volumes: row.try_get("volumes")?,
            last: row.try_get("last")?,
        }))
    }
}

/// By the partial index `volume_results_errors`.
pub(super) const FAILED_PAGES: &str = "select coalesce(sum(r.nb_errors), 0)::bigint as pages, count(*) as tasks, \
         coalesce((array_agg(v.bdrc_w_id || '-' || v.bdrc_i_id order by t.id))[1:$2], '{}') as volumes \
     from volume_results r join tasks t on t.id = r.task_id join volumes v on v.id = t.volume_id \
     where r.nb_errors > 0 and t.job_id = $1";

pub(super) async fn failed_pages(pool: &PgPool, job: JobId) -> Result<FailedPages, StateError> {
    let row = sqlx::query(FAILED_PAGES)
        .bind(job.0)
        .bind(SAMPLES)
        .fetch_one(pool)
        .await?;
    let count = |column| -> sqlx::Result<u64> {
        u64::try_from(row.try_get::<i64, _>(column)?).map_err(|error| unreadable(column, error))
    };
    Ok(FailedPages {
        pages: count("pages")?,
        tasks: count("tasks")?,
        volumes: row.try_get("volumes")?,
    })
}

/// What a pace is taken of.
const LATELY: TimeDelta = TimeDelta::minutes(10);

/// By the partial index `stage_runs_done`.
pub(super) const PACES: &str = "with run as ( \
         select r.stage, r.done_at, \
             coalesce((r.metrics ->> 'read')::bigint, 0) + coalesce((r.metrics ->> 'failed')::bigint, 0) as pages \
         from stage_runs r \
         where r.status = 'done' and r.done_at > $1 \
             and ($2::bigint is null or exists (select from tasks t where t.id = r.task_id and t.job_id = $2)) \
     ) \
     select stage, count(*) as runs, sum(pages)::bigint as pages, min(done_at) as since from run group by stage";

/// Of the runs that ended in the last ten minutes, over that time or that since the first of them.
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
    let paces = rows.iter().map(|row| {
        let since: DateTime<Utc> = row.try_get("since")?;
        let seconds = (now - since).as_seconds_f64().clamp(1.0, LATELY.as_seconds_f64());
        let (runs, pages): (i64, i64) = (row.try_get("runs")?, row.try_get("pages")?);
        Ok(Pace {
            stage: stage_name(row, "stage")?,
            runs_a_second: runs as f64 / seconds,
            pages_a_second: pages as f64 / seconds,
        })
    });
    paces.collect()
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

pub(super) async fn record(pool: &PgPool, entry: &AuditEntry) -> Result<(), StateError> {
    sqlx::query(
        "insert into audit (at, who, via, command, arguments, refusal) values ($1, $2, $3, $4, $5, $6)",
    )
    .bind(entry.at)
    .bind(&entry.who)
    .bind(&entry.via)
    .bind(&entry.command)
    .bind(Json(&entry.arguments))
    .bind(&entry.refusal)
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
        "select at, who, via, command, arguments::text as arguments, refusal from audit
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
