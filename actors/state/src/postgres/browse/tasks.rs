//! Lists of the tasks of a job.

use sqlx::postgres::PgPool;

use crate::postgres::PostgresStore;
use crate::postgres::rows::{TaskRow, task_columns, volume_of_task};
use crate::{ListedPhase, StateError, TaskListing, TaskQuery};
use parkhang_core::domain::{Job, JobId, Position, Task, TaskStatus, VolumeId};

/// Tasks of a job, by the index `tasks_by_job`.
pub(super) const ALL: &str = concat!(
    "select ",
    task_columns!(),
    " from tasks t join volumes v on v.id = t.volume_id where t.job_id = $1 and t.id > $2 order by t.id limit $3"
);

/// Done tasks, by the partial index `tasks_done`.
pub(super) const DONE: &str = concat!(
    "select ",
    task_columns!(),
    " from tasks t join volumes v on v.id = t.volume_id \
     where t.job_id = $1 and t.current_stage = 'done' and t.id > $2 order by t.id limit $3"
);

/// Tasks that failed for good, by the partial index `tasks_terminal_by_stage`, a place at a time.
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
     ) t ",
    volume_of_task!(),
    " order by t.id"
);

/// Open tasks, by the partial index `tasks_open`, a place and status at a time.
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
     ) t ",
    volume_of_task!(),
    " order by t.id"
);

impl PostgresStore {
    /// Returns a page of the tasks of a job.
    ///
    /// # Errors
    ///
    /// Those of every method, see [`StateError`].
    pub async fn list_tasks(&self, job: &Job, query: &TaskQuery) -> Result<TaskListing, StateError> {
        let phases: Vec<Option<ListedPhase>> = match query.phase {
            Some(phase) => phase.of_tasks(job.status).iter().copied().map(Some).collect(),
            None if query.stage.is_none() => vec![None],
            None => vec![
                Some(ListedPhase::Waiting),
                Some(ListedPhase::Running),
                Some(ListedPhase::Retrying),
                Some(ListedPhase::Failed),
            ],
        };
        // Each phase has an index of its own in the order of ids, so a full page of each holds the first tasks of all of them.
        let mut tasks = Vec::new();
        for phase in phases {
            tasks.extend(of_phase(&self.pool, job, query, phase).await?);
        }
        tasks.sort_by_key(|task| task.id);
        Ok(TaskListing::of(tasks, query.limit))
    }

    /// Returns the task of a volume in a job.
    ///
    /// # Errors
    ///
    /// Those of every method, see [`StateError`].
    pub async fn task_of(&self, job: JobId, volume: &VolumeId) -> Result<Option<Task>, StateError> {
        let row: Option<TaskRow> = sqlx::query_as(concat!(
            "select ",
            task_columns!(),
            " from tasks t join volumes v on v.id = t.volume_id \
             where t.job_id = $1 and v.bdrc_w_id = $2 and v.bdrc_i_id = $3"
        ))
        .bind(job.0)
        .bind(volume.w_id())
        .bind(volume.i_id())
        .fetch_optional(&self.pool)
        .await?;
        Ok(row.map(|row| row.0))
    }
}

/// Tasks of one phase, or of all where there is none: one more than the limit, if there are so many.
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
        // A task that is done stands at no stage any more.
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
            sqlx::query_as(FAILED)
                .bind(job.id.0)
                .bind(after)
                .bind(limit)
                .bind(places.iter().map(Position::as_str).collect::<Vec<_>>())
                .fetch_all(pool)
                .await?
        }
        Some(
            ListedPhase::Waiting | ListedPhase::Running | ListedPhase::Retrying | ListedPhase::Cancelled,
        ) => {
            let lanes = lanes(job, query, phase);
            let (stages, statuses): (Vec<&str>, Vec<&str>) = lanes
                .iter()
                .map(|(position, status)| (position.as_str(), status.as_str()))
                .unzip();
            sqlx::query_as(OPEN)
                .bind(job.id.0)
                .bind(after)
                .bind(limit)
                .bind(stages)
                .bind(statuses)
                .fetch_all(pool)
                .await?
        }
    };
    Ok(rows.into_iter().map(|row| row.0).collect())
}

/// Places and statuses of the tasks of a phase.
fn lanes(job: &Job, query: &TaskQuery, phase: Option<ListedPhase>) -> Vec<(Position, TaskStatus)> {
    let statuses: &[TaskStatus] = match phase {
        Some(ListedPhase::Waiting) => &[TaskStatus::Pending, TaskStatus::Done],
        Some(ListedPhase::Running) => &[TaskStatus::Running],
        Some(ListedPhase::Retrying) => &[TaskStatus::Failed],
        Some(ListedPhase::Done | ListedPhase::Failed | ListedPhase::Cancelled) | None => &[],
    };
    let mut lanes: Vec<(Position, TaskStatus)> = places(job, query)
        .into_iter()
        .flat_map(|position| statuses.iter().map(move |status| (position.clone(), *status)))
        .collect();
    if let Some(stage) = &query.stage {
        // A task that has done the stage waits for the one after it.
        lanes.retain(|(_, status)| *status != TaskStatus::Done);
        if phase == Some(ListedPhase::Waiting) {
            lanes.extend(stage.waiting(&job.pipeline));
        }
    }
    lanes
}

/// Position of the tasks that have begun with the stage of the query, or positions of all that are not done.
fn places(job: &Job, query: &TaskQuery) -> Vec<Position> {
    match &query.stage {
        Some(stage) => vec![Position::At(stage.name().clone())],
        None => {
            let stages = job.pipeline.stages().iter().cloned().map(Position::At);
            std::iter::once(Position::Pending).chain(stages).collect()
        }
    }
}
