//! Volumes that are known, their images, and what was done with them.

use std::collections::{HashMap, HashSet};

use sqlx::postgres::PgRow;
use sqlx::{FromRow, Row};

use crate::postgres::rows::{
    JobRow, TaskRow, i_ids, job_columns, task_columns, unreadable, volume_id, w_ids,
};
use crate::postgres::{PostgresStore, jobs, tasks};
use crate::{ListRecord, Readers, StateError, VolumeListing, VolumeQuery, VolumeRecord, VolumeWork};
use parkhang_core::domain::{ImageRecord, Job, Pipeline, VolumeId};

/// Volumes by name, by the index `volumes_by_name`. Ids hold no character behind `~`.
pub(super) const LIST: &str = "select v.bdrc_w_id, v.bdrc_i_id, v.etag, v.nb_images, v.imported_at from volumes v \
     where v.bdrc_w_id collate \"C\" >= coalesce($1, '') and v.bdrc_w_id collate \"C\" < coalesce($1, '') || '~' \
         and (v.bdrc_w_id collate \"C\", v.bdrc_i_id collate \"C\") > (coalesce($2, ''), coalesce($3, '')) \
         and ($4::text is null or strpos(lower(v.bdrc_w_id || '-' || v.bdrc_i_id), lower($4)) > 0) \
         and ($5::timestamptz is null or v.imported_at >= $5) \
         and ($7::real is null or ( \
             select r.perplexity from tasks t join volume_results r on r.task_id = t.id \
             where t.volume_id = v.id and r.perplexity is not null order by t.id desc limit 1) > $7) \
         and ($8::real is null or ( \
             select r.confidence_mean from tasks t join volume_results r on r.task_id = t.id \
             where t.volume_id = v.id and r.confidence_mean is not null order by t.id desc limit 1) < $8) \
     order by v.bdrc_w_id collate \"C\", v.bdrc_i_id collate \"C\" limit $6";

/// Parts of a document, by the index `volumes_by_name`: `@` stands before their pages, and `A` behind `@`.
pub(super) const PARTS: &str = "select v.bdrc_w_id, v.bdrc_i_id from volumes v \
     where v.bdrc_w_id collate \"C\" = $1 \
         and v.bdrc_i_id collate \"C\" > $2 || '@' and v.bdrc_i_id collate \"C\" < $2 || 'A' \
     order by v.bdrc_i_id collate \"C\" limit $3";

/// Documents of an I id, of which they or parts of them are known, by the index `volumes_by_source`.
pub(super) const OF_SOURCE: &str = "select v.bdrc_w_id, split_part(v.bdrc_i_id, '@', 1) as bdrc_i_id from volumes v \
     where split_part(v.bdrc_i_id, '@', 1) = $1 group by 1, 2 order by v.bdrc_w_id collate \"C\" limit $2";

/// Images of a volume, by the primary key.
pub(super) const IMAGES: &str = "select i.file_name, i.width, i.height, i.mode, i.format, i.compression, i.size, i.error \
     from images i join volumes v on v.id = i.volume_id \
     where v.bdrc_w_id = $1 and v.bdrc_i_id = $2 and i.position >= $3 order by i.position limit $4";

/// Tasks of a volume, by the index `tasks_by_volume`.
pub(super) const WORK: &str = concat!(
    "select ",
    task_columns!(),
    " from tasks t join volumes v on v.id = t.volume_id \
     where v.bdrc_w_id = $1 and v.bdrc_i_id = $2 order by t.id desc limit $3"
);

/// Jobs of volumes, so many of each at most, by the index `tasks_by_volume`.
pub(super) const JOBS_OF: &str = concat!(
    "select v.bdrc_w_id, v.bdrc_i_id, ",
    job_columns!(),
    " from unnest($1::text[], $2::text[]) as n (w_id, i_id) \
     join volumes v on v.bdrc_w_id = n.w_id and v.bdrc_i_id = n.i_id \
     cross join lateral ( \
         select t.id, t.job_id from tasks t where t.volume_id = v.id order by t.id desc limit $3 \
     ) as t \
     join jobs j on j.id = t.job_id order by t.id desc"
);

/// Volumes whose latest imported version was read. A task has read a version if its latest run of the first stage says so, or,
/// where the run does not say what it read because its pages come without versions, if it began when this version was known
/// already. By an index of the tasks, and that of `one_row_per_fence`.
pub(super) const READ: &str = "select v.bdrc_w_id, v.bdrc_i_id \
     from unnest($1::text[], $2::text[]) as n (w_id, i_id) \
     join volumes v on v.bdrc_w_id = n.w_id and v.bdrc_i_id = n.i_id \
     where v.etag is not null and exists ( \
         select from tasks t \
         cross join lateral ( \
             select r.metrics ->> 'version' as version, r.started_at \
             from stage_runs r where r.task_id = t.id and r.stage = $4 and r.status = 'done' \
             order by r.id desc limit 1 \
         ) as first \
         where t.volume_id = v.id and t.job_id = any($3) and t.current_stage = 'done' \
             and coalesce(first.version = v.version, first.started_at >= v.imported_at) \
             and ($5::text is null or exists ( \
                 select from stage_runs r \
                 where r.task_id = t.id and r.status = 'done' and r.metrics -> 'models' ? $5 \
             )) \
     )";

/// Volumes that failed for good, by the partial index `tasks_terminal`.
pub(super) const FAILED: &str = "select v.bdrc_w_id, v.bdrc_i_id from tasks t join volumes v on v.id = t.volume_id \
     where t.job_id = $1 and t.terminal and ($2::text is null or t.last_error ->> 'category' = $2 \
         or strpos(lower(t.last_error ->> 'message'), lower($2)) > 0) \
     order by t.id";

impl PostgresStore {
    /// Returns the ETags of the lists of those volumes that were imported.
    ///
    /// # Errors
    ///
    /// Those of every method, see [`StateError`].
    pub async fn list_etags(&self, volumes: &[VolumeId]) -> Result<HashMap<VolumeId, String>, StateError> {
        let volumes: Vec<&VolumeId> = volumes.iter().collect();
        let rows = sqlx::query(
            "select v.bdrc_w_id, v.bdrc_i_id, v.etag
             from unnest($1::text[], $2::text[]) as n (w_id, i_id)
             join volumes v on v.bdrc_w_id = n.w_id and v.bdrc_i_id = n.i_id
             where v.etag is not null",
        )
        .bind(w_ids(&volumes))
        .bind(i_ids(&volumes))
        .fetch_all(&self.pool)
        .await?;
        rows.iter()
            .map(|row| Ok((volume_id(row)?, row.try_get("etag")?)))
            .collect()
    }

    /// Returns a page of the volumes that are known.
    ///
    /// # Errors
    ///
    /// Those of every method, see [`StateError`].
    pub async fn list_volumes(&self, query: &VolumeQuery) -> Result<VolumeListing, StateError> {
        let rows: Vec<VolumeRow> = sqlx::query_as(LIST)
            .bind(&query.collection)
            .bind(query.after.as_ref().map(|after| after.w_id()))
            .bind(query.after.as_ref().map(|after| after.i_id()))
            .bind(&query.text)
            .bind(query.imported_since)
            .bind(query.limit.map(|limit| i64::from(limit) + 1))
            .bind(query.perplexity_above)
            .bind(query.confidence_below)
            .fetch_all(&self.pool)
            .await?;
        let mut volumes: Vec<VolumeRecord> = rows.into_iter().map(|row| row.0).collect();
        let limit = query
            .limit
            .and_then(|limit| usize::try_from(limit).ok())
            .unwrap_or(usize::MAX);
        let more = volumes.len() > limit;
        volumes.truncate(limit);
        let next = volumes.last().filter(|_| more).map(|last| last.volume.clone());
        Ok(VolumeListing { volumes, next })
    }

    /// Returns a volume that is known.
    ///
    /// # Errors
    ///
    /// Those of every method, see [`StateError`].
    pub async fn volume(&self, volume: &VolumeId) -> Result<Option<VolumeRecord>, StateError> {
        let row: Option<VolumeRow> = sqlx::query_as(
            "select v.bdrc_w_id, v.bdrc_i_id, v.etag, v.nb_images, v.imported_at from volumes v
             where v.bdrc_w_id = $1 and v.bdrc_i_id = $2",
        )
        .bind(volume.w_id())
        .bind(volume.i_id())
        .fetch_optional(&self.pool)
        .await?;
        Ok(row.map(|row| row.0))
    }

    /// Returns the documents of an I id that are known, whole or in parts, in the order of their W ids.
    ///
    /// # Errors
    ///
    /// Those of every method, see [`StateError`].
    pub async fn documents_of_source(&self, i_id: &str, limit: u32) -> Result<Vec<VolumeId>, StateError> {
        let rows = sqlx::query(OF_SOURCE)
            .bind(i_id)
            .bind(i64::from(limit))
            .fetch_all(&self.pool)
            .await?;
        rows.iter().map(|row| Ok(volume_id(row)?)).collect()
    }

    /// Returns images of a volume, in their order, from the one at place `from` (0 is the first) on.
    ///
    /// # Errors
    ///
    /// Those of every method, see [`StateError`].
    pub async fn images(
        &self,
        volume: &VolumeId,
        from: u32,
        limit: u32,
    ) -> Result<Vec<ImageRecord>, StateError> {
        let rows: Vec<ImageRow> = sqlx::query_as(IMAGES)
            .bind(volume.w_id())
            .bind(volume.i_id())
            .bind(i64::from(from))
            .bind(i64::from(limit))
            .fetch_all(&self.pool)
            .await?;
        Ok(rows.into_iter().map(|row| row.0).collect())
    }

    /// Returns the volumes that are parts of a document, so many at most.
    ///
    /// # Errors
    ///
    /// Those of every method, see [`StateError`].
    pub async fn parts_of(&self, document: &VolumeId, limit: u32) -> Result<Vec<VolumeId>, StateError> {
        let rows = sqlx::query(PARTS)
            .bind(document.w_id())
            .bind(document.i_id())
            .bind(i64::from(limit))
            .fetch_all(&self.pool)
            .await?;
        rows.iter().map(|row| Ok(volume_id(row)?)).collect()
    }

    /// Returns the work on a volume in its jobs, the newest first.
    ///
    /// # Errors
    ///
    /// Those of every method, see [`StateError`].
    pub async fn work_on(&self, volume: &VolumeId, limit: u32) -> Result<Vec<VolumeWork>, StateError> {
        let rows: Vec<TaskRow> = sqlx::query_as(WORK)
            .bind(volume.w_id())
            .bind(volume.i_id())
            .bind(i64::from(limit))
            .fetch_all(&self.pool)
            .await?;
        let mut work = Vec::new();
        for TaskRow(task) in rows {
            // A job that is deleted meanwhile takes its tasks along.
            if let Some(job) = jobs::by_id(&self.pool, task.job_id).await? {
                let results = tasks::volume_results(&self.pool, task.id).await?;
                work.push(VolumeWork { job, task, results });
            }
        }
        Ok(work)
    }

    /// Returns the jobs of some volumes, of each so many at most, with the volume of each; the newest work comes first.
    ///
    /// # Errors
    ///
    /// Those of every method, see [`StateError`].
    pub async fn jobs_of(
        &self,
        volumes: &[VolumeId],
        limit: u32,
    ) -> Result<Vec<(Job, VolumeId)>, StateError> {
        let volumes: Vec<&VolumeId> = volumes.iter().collect();
        let rows = sqlx::query(JOBS_OF)
            .bind(w_ids(&volumes))
            .bind(i_ids(&volumes))
            .bind(i64::from(limit))
            .fetch_all(&self.pool)
            .await?;
        rows.iter()
            .map(|row| Ok((JobRow::from_row(row)?.0, volume_id(row)?)))
            .collect()
    }

    /// Returns those of the volumes whose latest imported version was read whole by one of the readers, whose jobs are of
    /// `pipeline`.
    ///
    /// # Errors
    ///
    /// Those of every method, see [`StateError`].
    pub async fn already_read(
        &self,
        volumes: &[VolumeId],
        pipeline: &Pipeline,
        readers: &Readers,
    ) -> Result<HashSet<VolumeId>, StateError> {
        let volumes: Vec<&VolumeId> = volumes.iter().collect();
        let rows = sqlx::query(READ)
            .bind(w_ids(&volumes))
            .bind(i_ids(&volumes))
            .bind(readers.jobs.iter().map(|job| job.0).collect::<Vec<_>>())
            .bind(pipeline.first().as_str())
            .bind(&readers.model)
            .fetch_all(&self.pool)
            .await?;
        rows.iter().map(|row| Ok(volume_id(row)?)).collect()
    }

    /// Returns the volumes that failed for good in a job: all, or those whose error is of the category `cause` or whose message
    /// contains it.
    ///
    /// # Errors
    ///
    /// Those of every method, see [`StateError`].
    pub async fn failed_volumes(&self, job: &Job, cause: Option<&str>) -> Result<Vec<VolumeId>, StateError> {
        let rows = sqlx::query(FAILED)
            .bind(job.id.0)
            .bind(cause)
            .fetch_all(&self.pool)
            .await?;
        rows.iter().map(|row| Ok(volume_id(row)?)).collect()
    }
}

/// Row of `volumes`.
struct VolumeRow(VolumeRecord);

impl FromRow<'_, PgRow> for VolumeRow {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        let list = match row.try_get::<Option<String>, _>("etag")? {
            Some(etag) => Some(ListRecord {
                etag,
                images: u32::try_from(row.try_get::<i32, _>("nb_images")?)
                    .map_err(|error| unreadable("nb_images", error))?,
                imported_at: row.try_get("imported_at")?,
            }),
            None => None,
        };
        Ok(Self(VolumeRecord {
            volume: volume_id(row)?,
            list,
        }))
    }
}

/// Row of `images`.
struct ImageRow(ImageRecord);

impl FromRow<'_, PgRow> for ImageRow {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        let side = |column| -> sqlx::Result<Option<u32>> {
            let side: Option<i32> = row.try_get(column)?;
            Ok(side.and_then(|side| u32::try_from(side).ok()))
        };
        let size: Option<i64> = row.try_get("size")?;
        Ok(Self(ImageRecord {
            name: row.try_get("file_name")?,
            width: side("width")?,
            height: side("height")?,
            mode: row.try_get("mode")?,
            format: row.try_get("format")?,
            compression: row.try_get("compression")?,
            size: size.and_then(|size| u64::try_from(size).ok()),
            error: row.try_get("error")?,
        }))
    }
}

#[cfg(test)]
mod tests;
