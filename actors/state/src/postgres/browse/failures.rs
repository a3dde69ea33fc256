//! Failures of a job: tasks by cause, and pages that could not be read.

use serde_json::Value;
use sqlx::postgres::PgRow;
use sqlx::types::Json;
use sqlx::{FromRow, Row};

use crate::postgres::PostgresStore;
use crate::postgres::rows::{number, volume_id};
use crate::{ErrorGroup, FailedPages, StateError, VolumeWithFailedPages};
use parkhang_core::domain::{ErrorCategory, Job, JobId, TaskId};

/// Number of volumes that a group of errors names.
const SAMPLES: u32 = 5;

/// Groups from their totals, and the samples of each by the partial index `tasks_failed`.
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

/// Finished volumes with failed pages, by the partial index `volume_results_errors`.
pub(super) const WITH_FAILED_PAGES: &str = "select r.task_id, r.nb_errors, v.bdrc_w_id, v.bdrc_i_id \
     from volume_results r join tasks t on t.id = r.task_id join volumes v on v.id = t.volume_id \
     where r.nb_errors > 0 and r.job_id = $1 and r.task_id > $2 order by r.task_id limit $3";

impl PostgresStore {
    /// Returns the tasks of a job whose last try failed, by stage and cause, the most frequent first.
    ///
    /// # Errors
    ///
    /// Those of every method, see [`StateError`].
    pub async fn error_groups(&self, job: &Job, limit: u32) -> Result<Vec<ErrorGroup>, StateError> {
        let groups: Vec<ErrorGroupRow> = sqlx::query_as(ERRORS)
            .bind(job.id.0)
            .bind(i64::from(SAMPLES))
            .bind(i64::from(limit))
            .fetch_all(&self.pool)
            .await?;
        Ok(groups.into_iter().map(|row| row.0).collect())
    }

    /// Counts the pages of a job's finished volumes that could not be read.
    ///
    /// # Errors
    ///
    /// Those of every method, see [`StateError`].
    pub async fn failed_pages(&self, job: JobId) -> Result<FailedPages, StateError> {
        let row = sqlx::query(
            "select coalesce(sum(pages), 0)::bigint as pages, coalesce(sum(tasks), 0)::bigint as tasks
             from failed_page_counts where job_id = $1",
        )
        .bind(job.0)
        .fetch_one(&self.pool)
        .await?;
        let tasks = number(&row, "tasks")?;
        let samples = if tasks == 0 {
            Vec::new()
        } else {
            self.volumes_with_failed_pages(job, None, SAMPLES).await?
        };
        Ok(FailedPages {
            pages: number(&row, "pages")?,
            tasks,
            volumes: samples.iter().map(|sample| sample.volume.to_string()).collect(),
        })
    }

    /// Returns finished volumes of a job with such pages, in the order of their tasks, from behind one if it is given.
    ///
    /// # Errors
    ///
    /// Those of every method, see [`StateError`].
    pub async fn volumes_with_failed_pages(
        &self,
        job: JobId,
        after: Option<TaskId>,
        limit: u32,
    ) -> Result<Vec<VolumeWithFailedPages>, StateError> {
        let rows = sqlx::query(WITH_FAILED_PAGES)
            .bind(job.0)
            .bind(after.map_or(0, |task| task.0))
            .bind(i64::from(limit))
            .fetch_all(&self.pool)
            .await?;
        rows.iter()
            .map(|row| {
                Ok(VolumeWithFailedPages {
                    task: TaskId(row.try_get("task_id")?),
                    volume: volume_id(row)?,
                    failed_pages: u64::try_from(row.try_get::<i32, _>("nb_errors")?).unwrap_or(0),
                })
            })
            .collect()
    }
}

/// Row of [`ERRORS`].
struct ErrorGroupRow(ErrorGroup);

impl FromRow<'_, PgRow> for ErrorGroupRow {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        let error: Option<Json<Value>> = row.try_get("error")?;
        let error = error.map(|json| json.0).unwrap_or_default();
        let category = error["category"].as_str();
        let known = ErrorCategory::ALL
            .into_iter()
            .find(|known| Some(known.as_str()) == category);
        Ok(Self(ErrorGroup {
            stage: row.try_get("current_stage")?,
            category: known.unwrap_or(ErrorCategory::Unknown),
            cause: row.try_get::<Option<String>, _>("cause")?.unwrap_or_default(),
            message: error["message"].as_str().unwrap_or_default().to_owned(),
            tasks: number(row, "tasks")?,
            terminal: number(row, "terminal")?,
            volumes: row.try_get::<Option<_>, _>("volumes")?.unwrap_or_default(),
            last: row.try_get("latest")?,
        }))
    }
}
