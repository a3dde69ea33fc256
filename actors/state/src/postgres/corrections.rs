//! Corrections of pages: the edits that people made, each kept as it was made.

use std::collections::BTreeMap;

use sqlx::postgres::PgRow;
use sqlx::types::Json;
use sqlx::{FromRow, PgExecutor, Row};
use uuid::Uuid;

use super::PostgresStore;
use super::newest::{newest, newest_rows};
use crate::browse::MOST_ANSWERED;
use crate::{EditOutcome, EditQuery, NewEdit, Newest, StateError};
use parkhang_core::domain::{Edit, JobKey, RecordedEdit, VolumeId};
use parkhang_core::policy::correction::PageCorrections;

/// Bytes from which a volume takes no more edits: ten edits of each line of a thousand pages.
const MOST_OF_VOLUME: i64 = 128 << 20;

/// Select list of [`EditRow`].
macro_rules! edit_columns {
    () => {
        "edit_id, bdrc_w_id, bdrc_i_id, image_name, revision, job_key, who, at, replaces, lines"
    };
}

/// Row of `corrections`.
struct EditRow(RecordedEdit);

impl FromRow<'_, PgRow> for EditRow {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        let text = |column: &str| row.try_get::<String, _>(column);
        let decoded = |column: &str, error: String| sqlx::Error::ColumnDecode {
            index: column.to_owned(),
            source: error.into(),
        };
        let volume = VolumeId::new(text("bdrc_w_id")?, text("bdrc_i_id")?);
        let job = JobKey::new(text("job_key")?);
        let id = text("edit_id")?.parse();
        let revision = u32::try_from(row.try_get::<i32, _>("revision")?);
        Ok(Self(RecordedEdit {
            volume: volume.map_err(|error| decoded("bdrc_w_id", error.to_string()))?,
            image: text("image_name")?,
            revision: revision.map_err(|error| decoded("revision", error.to_string()))?,
            job: job.map_err(|error| decoded("job_key", error.to_string()))?,
            who: text("who")?,
            at: row.try_get("at")?,
            edit: Edit {
                id: id.map_err(|error: uuid::Error| decoded("edit_id", error.to_string()))?,
                replaces: row.try_get::<Json<_>, _>("replaces")?.0,
                lines: row.try_get::<Json<_>, _>("lines")?.0,
            },
        }))
    }
}

impl PostgresStore {
    /// Keeps an edit of a page, unless it changes lines that are not any more as its author saw them, or the page or its volume has no room for it. An edit that was kept already is not kept
    /// again.
    ///
    /// # Errors
    ///
    /// Those of every method, see [`StateError`].
    pub async fn record_edit(&self, new: &NewEdit) -> Result<EditOutcome, StateError> {
        let (w_id, i_id) = (new.volume.w_id(), new.volume.i_id());
        let mut transaction = self.pool.begin().await?;
        // Edits of one page are made one after the other.
        sqlx::query("select pg_advisory_xact_lock(hashtextextended($1, 0))")
            .bind(format!("correction {} {}", new.volume, new.image))
            .execute(&mut *transaction)
            .await?;
        let edits = of_page(&mut *transaction, &new.volume, &new.image).await?;
        if edits.iter().any(|known| known.edit.id == new.edit.id) {
            return Ok(EditOutcome::Recorded);
        }
        let corrections = PageCorrections::of(&edits);
        if let Some(conflict) = corrections.conflict(&new.edit) {
            return Ok(EditOutcome::Conflict(conflict));
        }
        if !corrections.has_room(&new.edit) {
            return Ok(EditOutcome::Full);
        }
        // All edits of a volume are read where its text is.
        let bytes: i64 = sqlx::query_scalar(
            "select coalesce(sum(octet_length(replaces::text) + octet_length(lines::text)), 0)::bigint
             from corrections where bdrc_w_id = $1 and bdrc_i_id = $2",
        )
        .bind(w_id)
        .bind(i_id)
        .fetch_one(&mut *transaction)
        .await?;
        if bytes >= MOST_OF_VOLUME {
            return Ok(EditOutcome::Full);
        }
        let inserted = sqlx::query(
            "insert into corrections
                 (edit_id, bdrc_w_id, bdrc_i_id, image_name, revision, job_key, who, replaces, lines)
             values ($1, $2, $3, $4, $5, $6, $7, $8, $9) on conflict (edit_id) do nothing",
        )
        .bind(new.edit.id.to_string())
        .bind(w_id)
        .bind(i_id)
        .bind(&new.image)
        .bind(
            i32::try_from(corrections.revision)
                .unwrap_or(i32::MAX)
                .saturating_add(1),
        )
        .bind(new.job.as_str())
        .bind(&new.who)
        .bind(Json(&new.edit.replaces))
        .bind(Json(&new.edit.lines))
        .execute(&mut *transaction)
        .await?;
        transaction.commit().await?;
        Ok(match inserted.rows_affected() {
            // The id of an edit of another page.
            0 => EditOutcome::Taken,
            _ => EditOutcome::Recorded,
        })
    }

    /// Returns whether an edit of a page was kept already.
    ///
    /// # Errors
    ///
    /// Those of every method, see [`StateError`].
    pub async fn has_edit(&self, volume: &VolumeId, image: &str, id: &Uuid) -> Result<bool, StateError> {
        let known = sqlx::query_scalar(
            "select exists (select from corrections
                 where edit_id = $1 and bdrc_w_id = $2 and bdrc_i_id = $3 and image_name = $4)",
        )
        .bind(id.to_string())
        .bind(volume.w_id())
        .bind(volume.i_id())
        .bind(image)
        .fetch_one(&self.pool)
        .await?;
        Ok(known)
    }

    /// Returns the corrections of a page of a volume, by the name of its image.
    ///
    /// # Errors
    ///
    /// Those of every method, see [`StateError`].
    pub async fn corrections_of_page(
        &self,
        volume: &VolumeId,
        image: &str,
    ) -> Result<PageCorrections, StateError> {
        Ok(PageCorrections::of(&of_page(&self.pool, volume, image).await?))
    }

    /// Returns the corrections of the pages of a volume, by the names of their images.
    ///
    /// # Errors
    ///
    /// Those of every method, see [`StateError`].
    pub async fn corrections(
        &self,
        volume: &VolumeId,
    ) -> Result<BTreeMap<String, PageCorrections>, StateError> {
        let edits: Vec<EditRow> = sqlx::query_as(concat!(
            "select ",
            edit_columns!(),
            " from corrections where bdrc_w_id = $1 and bdrc_i_id = $2 order by image_name, revision"
        ))
        .bind(volume.w_id())
        .bind(volume.i_id())
        .fetch_all(&self.pool)
        .await?;
        let edits: Vec<RecordedEdit> = edits.into_iter().map(|row| row.0).collect();
        let pages = edits.chunk_by(|one, next| one.image == next.image);
        let page = |edits: &[RecordedEdit]| Some((edits.first()?.image.clone(), PageCorrections::of(edits)));
        Ok(pages.filter_map(page).collect())
    }

    /// Returns the volumes with edits, each with their number.
    ///
    /// # Errors
    ///
    /// Those of every method, see [`StateError`].
    pub async fn edited_volumes(&self) -> Result<BTreeMap<VolumeId, u64>, StateError> {
        let rows: Vec<(String, String, i64)> = sqlx::query_as(
            "select bdrc_w_id, bdrc_i_id, count(*) from corrections group by bdrc_w_id, bdrc_i_id",
        )
        .fetch_all(&self.pool)
        .await?;
        let volume = |(w_id, i_id, edits): (String, String, i64)| {
            let volume = VolumeId::new(w_id, i_id).map_err(|error| StateError::Corrupt(error.to_string()))?;
            Ok((volume, u64::try_from(edits).unwrap_or(0)))
        };
        rows.into_iter().map(volume).collect()
    }

    /// Returns edits, no more of them than an answer may hold.
    ///
    /// # Errors
    ///
    /// Those of every method, see [`StateError`].
    pub async fn edits(&self, query: &EditQuery) -> Result<Newest<RecordedEdit>, StateError> {
        let volume = query.volume.as_ref();
        let rows = sqlx::query(newest_rows!(
            bytes: "octet_length(replaces::text) + octet_length(lines::text)",
            order: "at desc, edit_id",
            limit: "$5",
            most: "$6",
            of: "select ",
            edit_columns!(),
            " from corrections
                 where ($1::text is null or bdrc_w_id = $1 and bdrc_i_id = $2)
                   and ($3::text is null or who = $3)
                   and ($4::timestamptz is null or at < $4)"
        ))
        .bind(volume.map(VolumeId::w_id))
        .bind(volume.map(VolumeId::i_id))
        .bind(&query.who)
        .bind(query.before)
        .bind(i64::from(query.limit))
        .bind(MOST_ANSWERED)
        .fetch_all(&self.pool)
        .await?;
        newest(&rows, |row| Ok(EditRow::from_row(row)?.0))
    }
}

/// Edits of a page, the oldest first.
async fn of_page(
    executor: impl PgExecutor<'_>,
    volume: &VolumeId,
    image: &str,
) -> Result<Vec<RecordedEdit>, StateError> {
    let edits: Vec<EditRow> = sqlx::query_as(concat!(
        "select ",
        edit_columns!(),
        " from corrections where bdrc_w_id = $1 and bdrc_i_id = $2 and image_name = $3 order by revision"
    ))
    .bind(volume.w_id())
    .bind(volume.i_id())
    .bind(image)
    .fetch_all(executor)
    .await?;
    Ok(edits.into_iter().map(|row| row.0).collect())
}

#[cfg(test)]
mod tests;
