//! Volumes with their images: imported in batches, listed by name, and asked about before a job is made of them.

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, Utc};
use sqlx::postgres::{PgConnection, PgPool, PgRow};
use sqlx::{FromRow, Row};

use super::jobs::{self, add_names};
use super::rows::{TaskRow, task_columns, unreadable, volume_id};
use super::tasks;
use crate::domain::{ImageRecord, Job, Pipeline, VolumeId};
use crate::state::{
    ImportOutcome, ListRecord, Readers, StateError, VolumeImport, VolumePage, VolumeQuery, VolumeRecord,
    VolumeWork,
};

/// Images per statement.
const BATCH: usize = 20_000;

/// All or nothing, with one statement for each table. Volumes are locked in the order of their ids, so that two imports cannot
/// deadlock.
pub(super) async fn import(
    pool: &PgPool,
    imports: &[VolumeImport],
    now: DateTime<Utc>,
) -> Result<Vec<ImportOutcome>, StateError> {
    let mut transaction = pool.begin().await?;
    let volumes: Vec<&VolumeId> = imports.iter().map(|import| &import.volume).collect();
    add_names(&mut transaction, volumes.iter().copied()).await?;
    let known = lock(&mut transaction, &volumes).await?;
    let mut seen = HashSet::new();
    let (mut outcomes, mut changed) = (Vec::new(), Vec::new());
    for import in imports {
        let Some((id, etag)) = known.get(&import.volume) else {
            return Err(StateError::Corrupt(format!("{} was not kept", import.volume)));
        };
        let outcome = match etag {
            _ if !seen.insert(*id) => ImportOutcome::Unchanged,
            None => ImportOutcome::New,
            Some(etag) if *etag == import.etag => ImportOutcome::Unchanged,
            Some(_) => ImportOutcome::Changed,
        };
        if outcome != ImportOutcome::Unchanged {
            changed.push((*id, import));
        }
        outcomes.push(outcome);
    }
    if !changed.is_empty() {
        write_lists(&mut transaction, &changed, now).await?;
        write_images(&mut transaction, &changed).await?;
    }
    transaction.commit().await?;
    Ok(outcomes)
}

/// Id and ETag of volumes that are there.
async fn lock(
    connection: &mut PgConnection,
    volumes: &[&VolumeId],
) -> Result<HashMap<VolumeId, (i64, Option<String>)>, StateError> {
    let rows = sqlx::query(
        "select v.id, v.bdrc_w_id, v.bdrc_i_id, v.etag
         from unnest($1::text[], $2::text[]) as n (w_id, i_id)
         join volumes v on v.bdrc_w_id = n.w_id and v.bdrc_i_id = n.i_id
         order by v.id for no key update of v",
    )
    .bind(w_ids(volumes))
    .bind(i_ids(volumes))
    .fetch_all(connection)
    .await?;
    let known = rows
        .iter()
        .map(|row| Ok((volume_id(row)?, (row.try_get("id")?, row.try_get("etag")?))));
    known.collect()
}

async fn write_lists(
    connection: &mut PgConnection,
    changed: &[(i64, &VolumeImport)],
    now: DateTime<Utc>,
) -> Result<(), StateError> {
    let ids: Vec<i64> = changed.iter().map(|(id, _)| *id).collect();
    let images = |import: &VolumeImport| i32::try_from(import.images.len()).unwrap_or(i32::MAX);
    sqlx::query(
        "update volumes v set etag = n.etag, nb_images = n.images, imported_at = $4
         from unnest($1::bigint[], $2::text[], $3::int[]) as n (id, etag, images) where v.id = n.id",
    )
    .bind(&ids)
    .bind(
        changed
            .iter()
            .map(|(_, import)| import.etag.as_str())
            .collect::<Vec<_>>(),
    )
    .bind(
        changed
            .iter()
            .map(|(_, import)| images(import))
            .collect::<Vec<_>>(),
    )
    .bind(now)
    .execute(&mut *connection)
    .await?;
    sqlx::query("delete from images where volume_id = any($1)")
        .bind(&ids)
        .execute(connection)
        .await?;
    Ok(())
}

async fn write_images(
    connection: &mut PgConnection,
    changed: &[(i64, &VolumeImport)],
) -> Result<(), StateError> {
    let images: Vec<(i64, i32, &ImageRecord)> = changed
        .iter()
        .flat_map(|(id, import)| {
            (0..)
                .zip(&import.images)
                .map(|(place, image)| (*id, place, image))
        })
        .collect();
    let number = |number: Option<u32>| number.and_then(|number| i32::try_from(number).ok());
    for batch in images.chunks(BATCH) {
        sqlx::query(
            "insert into images (volume_id, position, file_name, width, height, mode, format, compression, size, error)
             select * from unnest(
                 $1::bigint[], $2::int[], $3::text[], $4::int[], $5::int[], $6::text[], $7::text[], $8::text[], $9::bigint[],
                 $10::text[]
             )",
        )
        .bind(batch.iter().map(|(id, ..)| *id).collect::<Vec<_>>())
        .bind(batch.iter().map(|(_, place, _)| *place).collect::<Vec<_>>())
        .bind(column(batch, |image| image.name.as_str()))
        .bind(column(batch, |image| number(image.width)))
        .bind(column(batch, |image| number(image.height)))
        .bind(column(batch, |image| image.mode.as_deref()))
        .bind(column(batch, |image| image.format.as_deref()))
        .bind(column(batch, |image| image.compression.as_deref()))
        .bind(column(batch, |image| image.size.and_then(|size| i64::try_from(size).ok())))
        .bind(column(batch, |image| image.error.as_deref()))
        .execute(&mut *connection)
        .await?;
    }
    Ok(())
}

fn column<'a, T>(batch: &[(i64, i32, &'a ImageRecord)], value: impl Fn(&'a ImageRecord) -> T) -> Vec<T> {
    batch.iter().map(|(_, _, image)| value(image)).collect()
}

fn w_ids<'a>(volumes: &[&'a VolumeId]) -> Vec<&'a str> {
    volumes.iter().map(|volume| volume.w_id()).collect()
}

fn i_ids<'a>(volumes: &[&'a VolumeId]) -> Vec<&'a str> {
    volumes.iter().map(|volume| volume.i_id()).collect()
}

/// Of those that were imported.
pub(super) async fn etags(
    pool: &PgPool,
    volumes: &[VolumeId],
) -> Result<HashMap<VolumeId, String>, StateError> {
    let volumes: Vec<&VolumeId> = volumes.iter().collect();
    let rows = sqlx::query(
        "select v.bdrc_w_id, v.bdrc_i_id, v.etag
         from unnest($1::text[], $2::text[]) as n (w_id, i_id)
         join volumes v on v.bdrc_w_id = n.w_id and v.bdrc_i_id = n.i_id
         where v.etag is not null",
    )
    .bind(w_ids(&volumes))
    .bind(i_ids(&volumes))
    .fetch_all(pool)
    .await?;
    rows.iter()
        .map(|row| Ok((volume_id(row)?, row.try_get("etag")?)))
        .collect()
}

/// By the index `volumes_by_name`. Ids hold no character behind `~`.
pub(super) const LIST: &str = "select v.bdrc_w_id, v.bdrc_i_id, v.etag, v.nb_images, v.imported_at from volumes v \
     where v.bdrc_w_id collate \"C\" >= coalesce($1, '') and v.bdrc_w_id collate \"C\" < coalesce($1, '') || '~' \
         and (v.bdrc_w_id collate \"C\", v.bdrc_i_id collate \"C\") > (coalesce($2, ''), coalesce($3, '')) \
         and ($4::text is null or strpos(lower(v.bdrc_w_id || '-' || v.bdrc_i_id), lower($4)) > 0) \
         and ($5::timestamptz is null or v.imported_at >= $5) \
     order by v.bdrc_w_id collate \"C\", v.bdrc_i_id collate \"C\" limit $6";

pub(super) async fn page(pool: &PgPool, query: &VolumeQuery) -> Result<VolumePage, StateError> {
    let rows: Vec<VolumeRow> = sqlx::query_as(LIST)
        .bind(&query.collection)
        .bind(query.after.as_ref().map(|after| after.w_id()))
        .bind(query.after.as_ref().map(|after| after.i_id()))
        .bind(&query.text)
        .bind(query.imported_since)
        .bind(query.limit.map(|limit| i64::from(limit) + 1))
        .fetch_all(pool)
        .await?;
    let mut volumes: Vec<VolumeRecord> = rows.into_iter().map(|row| row.0).collect();
    let limit = query.limit.and_then(|limit| usize::try_from(limit).ok());
    let limit = limit.unwrap_or(usize::MAX);
    let more = volumes.len() > limit;
    volumes.truncate(limit);
    let next = volumes.last().filter(|_| more).map(|last| last.volume.clone());
    Ok(VolumePage { volumes, next })
}

pub(super) async fn volume(pool: &PgPool, volume: &VolumeId) -> Result<Option<VolumeRecord>, StateError> {
    let row: Option<VolumeRow> = sqlx::query_as(
        "select v.bdrc_w_id, v.bdrc_i_id, v.etag, v.nb_images, v.imported_at from volumes v
         where v.bdrc_w_id = $1 and v.bdrc_i_id = $2",
    )
    .bind(volume.w_id())
    .bind(volume.i_id())
    .fetch_optional(pool)
    .await?;
    Ok(row.map(|row| row.0))
}

/// By the primary key.
pub(super) const IMAGES: &str = "select i.file_name, i.width, i.height, i.mode, i.format, i.compression, i.size, i.error \
     from images i join volumes v on v.id = i.volume_id \
     where v.bdrc_w_id = $1 and v.bdrc_i_id = $2 and i.position >= $3 order by i.position limit $4";

pub(super) async fn images(
    pool: &PgPool,
    volume: &VolumeId,
    from: u32,
    limit: u32,
) -> Result<Vec<ImageRecord>, StateError> {
    let rows: Vec<ImageRow> = sqlx::query_as(IMAGES)
        .bind(volume.w_id())
        .bind(volume.i_id())
        .bind(i64::from(from))
        .bind(i64::from(limit))
        .fetch_all(pool)
        .await?;
    Ok(rows.into_iter().map(|row| row.0).collect())
}

/// By the index `tasks_by_volume`.
pub(super) const WORK: &str = concat!(
    "select ",
    task_columns!(),
    " from tasks t join volumes v on v.id = t.volume_id \
     where v.bdrc_w_id = $1 and v.bdrc_i_id = $2 order by t.id desc limit $3"
);

pub(super) async fn work(
    pool: &PgPool,
    volume: &VolumeId,
    limit: u32,
) -> Result<Vec<VolumeWork>, StateError> {
    let rows: Vec<TaskRow> = sqlx::query_as(WORK)
        .bind(volume.w_id())
        .bind(volume.i_id())
        .bind(i64::from(limit))
        .fetch_all(pool)
        .await?;
    let mut work = Vec::new();
    for TaskRow(task) in rows {
        // A job that goes takes its tasks along.
        if let Some(job) = jobs::by_id(pool, task.job_id).await? {
            let results = tasks::volume_results(pool, task.id).await?;
            work.push(VolumeWork { job, task, results });
        }
    }
    Ok(work)
}

/// A task has read a version if its latest run of the first stage says so; if the run does not say what it read, as its pages
/// come without versions, if it began when this version was known already. By an index of the
/// tasks, and that of `one_row_per_fence`.
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

pub(super) async fn read(
    pool: &PgPool,
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
        .fetch_all(pool)
        .await?;
    rows.iter().map(|row| Ok(volume_id(row)?)).collect()
}

/// By the partial index `tasks_terminal`.
pub(super) const FAILED: &str = "select v.bdrc_w_id, v.bdrc_i_id from tasks t join volumes v on v.id = t.volume_id \
     where t.job_id = $1 and t.terminal and ($2::text is null or t.last_error ->> 'category' = $2 \
         or strpos(lower(t.last_error ->> 'message'), lower($2)) > 0) \
     order by t.id";

pub(super) async fn failed(
    pool: &PgPool,
    job: &Job,
    cause: Option<&str>,
) -> Result<Vec<VolumeId>, StateError> {
    let rows = sqlx::query(FAILED)
        .bind(job.id.0)
        .bind(cause)
        .fetch_all(pool)
        .await?;
    rows.iter().map(|row| Ok(volume_id(row)?)).collect()
}

struct VolumeRow(VolumeRecord);

impl FromRow<'_, PgRow> for VolumeRow {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        let etag: Option<String> = row.try_get("etag")?;
        let list = etag.map(|etag| {
            let images: i32 = row.try_get("nb_images")?;
            let images = u32::try_from(images).map_err(|error| unreadable("nb_images", error))?;
            let imported_at = row.try_get("imported_at")?;
            Ok::<_, sqlx::Error>(ListRecord {
                etag,
                images,
                imported_at,
            })
        });
        Ok(Self(VolumeRecord {
            volume: volume_id(row)?,
            list: list.transpose()?,
        }))
    }
}

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
