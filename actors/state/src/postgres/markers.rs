use std::collections::HashMap;
use std::sync::Arc;

use sqlx::postgres::PgPool;
use sqlx::types::Json;

use super::rows::{TaskRow, task_columns};
use super::{jobs, leadership};
use crate::StateError;
use parkhang_core::domain::{Epoch, Generation, Job, JobId, LayoutName, Task, TaskId};

/// By the partial index `tasks_to_mark`: what is marked, or not finished, costs nothing.
pub(super) async fn due(
    pool: &PgPool,
    after: Option<TaskId>,
    limit: usize,
) -> Result<Vec<(Task, Arc<Job>)>, StateError> {
    let rows: Vec<TaskRow> = sqlx::query_as(concat!(
        "select ",
        task_columns!(),
        " from tasks t
         join jobs j on j.id = t.job_id
         join volumes v on v.id = t.volume_id
         where $1 @> (j.config -> 'layout')
             and (t.current_stage = 'done' or t.terminal) and t.marked is distinct from t.generation
             and t.id > $2
         order by t.id limit $3"
    ))
    .bind(Json(LayoutName::WITH_MARKERS))
    .bind(after.map_or(i64::MIN, |task| task.0))
    .bind(i64::try_from(limit).unwrap_or(i64::MAX))
    .fetch_all(pool)
    .await?;
    let mut known: HashMap<JobId, Arc<Job>> = HashMap::new();
    let mut due = Vec::with_capacity(rows.len());
    for TaskRow(task) in rows {
        if !known.contains_key(&task.job_id)
            && let Some(job) = jobs::by_id(pool, task.job_id).await?
        {
            known.insert(job.id, Arc::new(job));
        }
        // A job that was deleted meanwhile took its tasks with it.
        if let Some(job) = known.get(&task.job_id) {
            due.push((task, Arc::clone(job)));
        }
    }
    Ok(due)
}

/// A task that was begun anew meanwhile is left alone: its next end will be marked.
pub(super) async fn note(
    pool: &PgPool,
    epoch: Option<Epoch>,
    ends: &[(TaskId, Generation)],
) -> Result<(), StateError> {
    if ends.is_empty() {
        return Ok(());
    }
    let (ids, generations): (Vec<i64>, Vec<i64>) = ends
        .iter()
        .map(|(task, generation)| (task.0, generation.0))
        .unzip();
    let statement = sqlx::query(
        "with held as materialized (
             select t.id, t.generation
             from tasks t
             join unnest($1::bigint[], $2::bigint[]) as n (id, generation)
                 on n.id = t.id and n.generation = t.generation
             order by t.id
             for update of t
         )
         update tasks t set marked = held.generation from held where t.id = held.id",
    )
    .bind(ids)
    .bind(generations);
    leadership::execute(pool, epoch, statement).await?;
    Ok(())
}
