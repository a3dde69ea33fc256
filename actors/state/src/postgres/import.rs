//! Import of volumes with the lists of their images.

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, Utc};
use sqlx::Row;
use sqlx::postgres::PgConnection;

use super::PostgresStore;
use super::jobs::add_names;
use super::rows::{i_ids, volume_id, w_ids};
use crate::{ImportOutcome, StateError, VolumeImport};
use parkhang_core::domain::{ImageRecord, VolumeId};

/// Number of images per statement.
const BATCH: usize = 20_000;

impl PostgresStore {
    /// Stores the lists of the volumes, all or none; returns for each what the import changed. A list that is there already
    /// stays as it is.
    ///
    /// # Errors
    ///
    /// Those of every method, see [`StateError`].
    pub async fn import_volumes(
        &self,
        imports: &[VolumeImport],
        now: DateTime<Utc>,
    ) -> Result<Vec<ImportOutcome>, StateError> {
        let mut transaction = self.pool.begin().await?;
        let volumes: Vec<&VolumeId> = imports.iter().map(|import| &import.volume).collect();
        // Inserted first, so that every volume has a row that can be locked.
        add_names(&mut transaction, volumes.iter().copied()).await?;
        let known = lock(&mut transaction, &volumes).await?;
        let mut seen = HashSet::new();
        let (mut outcomes, mut changed) = (Vec::new(), Vec::new());
        for import in imports {
            let Some((id, etag)) = known.get(&import.volume) else {
                return Err(StateError::Corrupt(format!("{} was not kept", import.volume)));
            };
            let outcome = match etag {
                // A second list of the same volume in one batch: the first one counts.
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
}

/// Id and ETag of volumes that are there, locked in the order of their ids, so that two imports cannot deadlock.
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
    rows.iter()
        .map(|row| Ok((volume_id(row)?, (row.try_get("id")?, row.try_get("etag")?))))
        .collect()
}

/// Writes the ETags of lists and removes the images of those that they replace.
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

/// Writes the images of lists, in batches.
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

/// Column of a batch of images.
fn column<'a, T>(batch: &[(i64, i32, &'a ImageRecord)], value: impl Fn(&'a ImageRecord) -> T) -> Vec<T> {
    batch.iter().map(|(_, _, image)| value(image)).collect()
}
