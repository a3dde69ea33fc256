//! Throughput of stages, and the volumes that took longest.

use chrono::{DateTime, TimeDelta, Utc};
use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::postgres::PostgresStore;
use crate::postgres::rows::{number, stage_name};
use crate::{Pace, SlowVolume, StateError};
use parkhang_core::domain::JobId;
use parkhang_core::policy::slow_nodes::NodePace;

/// Time before now whose ended runs make up a pace.
pub(super) const LATELY: TimeDelta = TimeDelta::minutes(10);

/// Runs that ended after a time, by the partial index `stage_runs_done`.
pub(super) const PACES: &str = "with run as ( \
         select r.stage, r.started_at, \
             coalesce((r.metrics ->> 'read')::bigint, 0) + coalesce((r.metrics ->> 'failed')::bigint, 0) as pages \
         from stage_runs r \
         where r.status = 'done' and r.done_at > $1 \
             and ($2::bigint is null or exists (select from tasks t where t.id = r.task_id and t.job_id = $2)) \
     ) \
     select stage, count(*) as runs, sum(pages)::bigint as pages, min(started_at) as since from run group by stage";

/// Runs that ended after a time, by node and stage: as those of [`PACES`].
pub(super) const OF_NODES: &str = "select split_part(r.worker_id, '/', 1) as node, r.stage, \
         sum(metric(r.metrics, 'read') + metric(r.metrics, 'failed'))::bigint as pages, \
         sum(extract(epoch from r.done_at - r.started_at))::float8 as seconds \
     from stage_runs r \
     where r.status = 'done' and r.done_at > $1 group by 1, 2 order by 2, 1";

/// Finished volumes by duration, by the index `volume_results_slowest`.
pub(super) const SLOWEST: &str = "select v.bdrc_w_id || '-' || v.bdrc_i_id as volume, r.processing_duration_ms, r.total_images \
     from volume_results r join tasks t on t.id = r.task_id join volumes v on v.id = t.volume_id \
     where r.job_id = $1 order by r.processing_duration_ms desc limit $2";

impl PostgresStore {
    /// Returns the paces of stages in the last ten minutes, of one job or of all: of the runs that ended in them, over that
    /// time or the time since the first of those runs began.
    ///
    /// # Errors
    ///
    /// Those of every method, see [`StateError`].
    pub async fn recent_paces(
        &self,
        job: Option<JobId>,
        now: DateTime<Utc>,
    ) -> Result<Vec<Pace>, StateError> {
        let rows = sqlx::query(PACES)
            .bind(now - LATELY)
            .bind(job.map(|job| job.0))
            .fetch_all(&self.pool)
            .await?;
        rows.iter().map(|row| pace(row, now)).collect()
    }

    /// Returns what each node has done at each stage in the last ten minutes, by the runs that ended in them.
    ///
    /// # Errors
    ///
    /// Those of every method, see [`StateError`].
    pub async fn paces_of_nodes(&self, now: DateTime<Utc>) -> Result<Vec<NodePace>, StateError> {
        let rows = sqlx::query(OF_NODES)
            .bind(now - LATELY)
            .fetch_all(&self.pool)
            .await?;
        rows.iter()
            .map(|row| {
                Ok(NodePace {
                    node: row.try_get("node")?,
                    stage: stage_name(row, "stage")?,
                    pages: number(row, "pages")?,
                    seconds: row.try_get("seconds")?,
                })
            })
            .collect()
    }

    /// Returns the finished volumes of a job that took longest, the slowest first.
    ///
    /// # Errors
    ///
    /// Those of every method, see [`StateError`].
    pub async fn slowest_volumes(&self, job: JobId, limit: u32) -> Result<Vec<SlowVolume>, StateError> {
        let rows = sqlx::query(SLOWEST)
            .bind(job.0)
            .bind(i64::from(limit))
            .fetch_all(&self.pool)
            .await?;
        rows.iter()
            .map(|row| {
                Ok(SlowVolume {
                    volume: row.try_get("volume")?,
                    seconds: f64::from(row.try_get::<f32, _>("processing_duration_ms")?) / 1e3,
                    pages: u64::try_from(row.try_get::<i32, _>("total_images")?).unwrap_or(0),
                })
            })
            .collect()
    }
}

/// Pace of the runs that a row counts, over the time from the first of them until `until`, but over no more than [`LATELY`] and
/// no less than a second.
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
