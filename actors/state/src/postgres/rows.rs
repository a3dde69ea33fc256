//! Rows of the database as values of the domain.
//!
//! The conversions are written by hand, since the domain knows nothing of a database: its enumerations and identifiers carry no
//! derived `sqlx` types. Enumerations travel as text in both directions, and arrays of them as `text[]` that the statement casts.
//! A value that does not fit is an error of its column, which becomes `StateError::Corrupt`.

use std::fmt;

use serde::Serialize;
use serde_json::Value;
use sqlx::postgres::PgRow;
use sqlx::types::Json;
use sqlx::{FromRow, Row};

use crate::JobTaskCount;
use parkhang_core::domain::{
    Attempt, DocumentKey, Fence, Generation, Job, JobId, JobKey, JobStatus, Lease, Pipeline, Position,
    StageName, StageRun, StageRunStatus, Task, TaskId, TaskStatus, VolumeId, VolumeResults, WorkerId,
};

/// Select list of [`JobRow`], from `jobs j`.
macro_rules! job_columns {
    () => {
        "j.id, j.job_key, j.operation, j.pipeline, j.config, j.status::text as status, j.standing, j.created_at, \
         j.finished_at"
    };
}

/// Select list of [`TaskRow`], from `tasks t join volumes v`.
macro_rules! task_columns {
    () => {
        "t.id, t.job_id, v.bdrc_w_id, v.bdrc_i_id, v.document_key, t.current_stage, t.status::text as status, t.attempts, \
         t.max_attempts, t.allowance, t.stage_attempts, t.stage_tries, t.generation, t.interruptions, t.outages, t.not_before, t.worker_id, \
         t.lease_until, t.last_error, t.started_at, t.done_at, t.forced"
    };
}

/// Join with the volume `v` of each task `t`. Volumes are looked up one by one, for the server not to read all of them.
macro_rules! volume_of_task {
    () => {
        "cross join lateral (select * from volumes where id = t.volume_id offset 0) v"
    };
}

pub(super) use {job_columns, task_columns, volume_of_task};

/// Row of `jobs`.
pub(super) struct JobRow(pub(super) Job);

/// Row of `tasks` with the name of its volume.
pub(super) struct TaskRow(pub(super) Task);

/// Sum of rows of `task_counts`.
pub(super) struct JobTaskCountRow(pub(super) JobTaskCount);

/// Row of `stage_runs`.
pub(super) struct StageRunRow(pub(super) StageRun);

/// Row of `volume_results`.
pub(super) struct VolumeResultsRow(pub(super) VolumeResults);

impl FromRow<'_, PgRow> for JobRow {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        let stages = row
            .try_get::<Vec<String>, _>("pipeline")?
            .into_iter()
            .map(StageName::new)
            .collect::<Result<Vec<StageName>, _>>()
            .map_err(|error| unreadable("pipeline", error))?;
        Ok(Self(Job {
            id: JobId(row.try_get("id")?),
            key: JobKey::new(row.try_get::<String, _>("job_key")?)
                .map_err(|error| unreadable("job_key", error))?,
            operation: row.try_get("operation")?,
            pipeline: Pipeline::new(stages).map_err(|error| unreadable("pipeline", error))?,
            config: row.try_get::<Json<_>, _>("config")?.0,
            status: word(row, &JobStatus::ALL, JobStatus::as_str)?,
            standing: row.try_get("standing")?,
            created_at: row.try_get("created_at")?,
            finished_at: row.try_get("finished_at")?,
        }))
    }
}

impl FromRow<'_, PgRow> for TaskRow {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        let worker: Option<String> = row.try_get("worker_id")?;
        let until = row.try_get("lease_until")?;
        Ok(Self(Task {
            id: TaskId(row.try_get("id")?),
            job_id: JobId(row.try_get("job_id")?),
            volume: volume_id(row)?,
            document: row
                .try_get::<Option<String>, _>("document_key")?
                .map(DocumentKey::new)
                .transpose()
                .map_err(|error| unreadable("document_key", error))?,
            position: row
                .try_get::<&str, _>("current_stage")?
                .parse::<Position>()
                .map_err(|error| unreadable("current_stage", error))?,
            status: word(row, &TaskStatus::ALL, TaskStatus::as_str)?,
            attempts: row.try_get("attempts")?,
            max_attempts: row.try_get("max_attempts")?,
            retry_budget: row.try_get("allowance")?,
            stage_attempts: row.try_get("stage_attempts")?,
            stage_tries: row.try_get("stage_tries")?,
            generation: Generation(row.try_get("generation")?),
            interruptions: row.try_get("interruptions")?,
            outages: row.try_get("outages")?,
            not_before: row.try_get("not_before")?,
            lease: worker.zip(until).map(|(worker, until)| Lease {
                worker: WorkerId(worker),
                until,
            }),
            last_error: row
                .try_get::<Option<Json<_>>, _>("last_error")?
                .map(|json| json.0),
            started_at: row.try_get("started_at")?,
            done_at: row.try_get("done_at")?,
            forced: row.try_get("forced")?,
        }))
    }
}

impl FromRow<'_, PgRow> for JobTaskCountRow {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        Ok(Self(JobTaskCount {
            job: JobId(row.try_get("job_id")?),
            position: row
                .try_get::<&str, _>("current_stage")?
                .parse::<Position>()
                .map_err(|error| unreadable("current_stage", error))?,
            status: word(row, &TaskStatus::ALL, TaskStatus::as_str)?,
            terminal: row.try_get("terminal")?,
            tasks: number(row, "tasks")?,
        }))
    }
}

impl FromRow<'_, PgRow> for StageRunRow {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        Ok(Self(StageRun {
            fence: Fence {
                task: TaskId(row.try_get("task_id")?),
                stage: stage_name(row, "stage")?,
                attempt: Attempt(row.try_get("attempt")?),
                generation: Generation(row.try_get("generation")?),
            },
            status: word(row, &StageRunStatus::ALL, StageRunStatus::as_str)?,
            worker: WorkerId(row.try_get("worker_id")?),
            started_at: row.try_get("started_at")?,
            ended_at: row.try_get("done_at")?,
            error: row.try_get::<Option<Json<_>>, _>("error")?.map(|json| json.0),
            metrics: row.try_get("metrics")?,
            fingerprint: row.try_get("fingerprint")?,
        }))
    }
}

impl FromRow<'_, PgRow> for VolumeResultsRow {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        Ok(Self(VolumeResults {
            total_images: row.try_get("total_images")?,
            total_lines: row.try_get("total_lines")?,
            total_characters: row.try_get("total_characters")?,
            processing_duration_ms: row.try_get("processing_duration_ms")?,
            dewarping_applied_count: row.try_get("dewarping_applied_count")?,
            nb_errors: row.try_get("nb_errors")?,
            confidence_mean: row.try_get("confidence_mean")?,
            confidence_p10: row.try_get("confidence_p10")?,
            confidence_p50: row.try_get("confidence_p50")?,
            confidence_p90: row.try_get("confidence_p90")?,
            perplexity: row.try_get("perplexity")?,
        }))
    }
}

/// Volume that a row names.
pub(super) fn volume_id(row: &PgRow) -> sqlx::Result<VolumeId> {
    let (w_id, i_id): (String, String) = (row.try_get("bdrc_w_id")?, row.try_get("bdrc_i_id")?);
    VolumeId::new(w_id, i_id).map_err(|error| unreadable("volume", error))
}

/// Stage that a column names.
pub(super) fn stage_name(row: &PgRow, column: &str) -> sqlx::Result<StageName> {
    StageName::new(row.try_get::<String, _>(column)?).map_err(|error| unreadable(column, error))
}

/// Value of `all` that the `status` column spells.
pub(super) fn word<T: Copy>(row: &PgRow, all: &[T], as_str: impl Fn(T) -> &'static str) -> sqlx::Result<T> {
    let text: &str = row.try_get("status")?;
    all.iter()
        .copied()
        .find(|value| as_str(*value) == text)
        .ok_or_else(|| unreadable("status", format!("unknown status {text:?}")))
}

/// Count in a column; a negative one is an error.
pub(super) fn number(row: &PgRow, column: &str) -> sqlx::Result<u64> {
    let number: i64 = row.try_get(column)?;
    u64::try_from(number).map_err(|error| unreadable(column, error))
}

/// First parts of volume names, as a column for `unnest`.
pub(super) fn w_ids<'a>(volumes: &[&'a VolumeId]) -> Vec<&'a str> {
    volumes.iter().map(|volume| volume.w_id()).collect()
}

/// Second parts of volume names, as a column for `unnest`.
pub(super) fn i_ids<'a>(volumes: &[&'a VolumeId]) -> Vec<&'a str> {
    volumes.iter().map(|volume| volume.i_id()).collect()
}

/// Error of a column whose value does not fit the domain.
pub(super) fn unreadable(column: &str, error: impl fmt::Display) -> sqlx::Error {
    sqlx::Error::ColumnDecode {
        index: column.to_owned(),
        source: error.to_string().into(),
    }
}

/// Text in a form that Postgres can hold: it refuses the character zero, wherever it comes from.
pub(super) fn storable_text(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// Value in a form that jsonb can hold, in its texts and in the names of its members: one odd text must not hold up a batch.
pub(super) fn storable(value: &impl Serialize) -> Value {
    fn clean(value: Value) -> Value {
        match value {
            Value::String(text) if text.contains('\0') => Value::String(storable_text(&text)),
            Value::Array(values) => Value::Array(values.into_iter().map(clean).collect()),
            Value::Object(members) => {
                let members = members.into_iter();
                Value::Object(
                    members
                        .map(|(name, value)| (storable_text(&name), clean(value)))
                        .collect(),
                )
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value,
        }
    }
    clean(serde_json::to_value(value).unwrap_or_default())
}

/// Fences as columns for `unnest`.
pub(super) struct Fences {
    pub tasks: Vec<i64>,
    pub stages: Vec<String>,
    pub attempts: Vec<i32>,
    pub generations: Vec<i64>,
}

impl Fences {
    pub(super) fn of<'a>(fences: impl Iterator<Item = &'a Fence> + Clone) -> Self {
        Self {
            tasks: fences.clone().map(|fence| fence.task.0).collect(),
            stages: fences.clone().map(|fence| fence.stage.to_string()).collect(),
            attempts: fences.clone().map(|fence| fence.attempt.0).collect(),
            generations: fences.map(|fence| fence.generation.0).collect(),
        }
    }
}
