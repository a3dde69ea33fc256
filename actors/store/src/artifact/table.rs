//! Reader: Parquet bytes to rows, with the provenance they carry.

use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;
use parquet::arrow::arrow_reader::{
    ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::errors::ParquetError;

use super::columns::{Columns, check_schema};
use super::{ArtifactError, ArtifactRow, Provenance};
use crate::storage::{ArtifactKey, ArtifactStore};

/// Metadata key of `{table}/{version}`.
pub(super) const SCHEMA_KEY: &str = "parkhang.schema";
/// Metadata key of a [`Provenance`] as JSON.
pub(super) const PROVENANCE_KEY: &str = "parkhang.provenance";

pub(super) fn schema_version<R: ArtifactRow>() -> String {
    format!("{}/{}", R::TABLE, R::VERSION)
}

#[derive(Debug, Clone, PartialEq)]
pub struct Table<R> {
    pub rows: Vec<R>,
    pub provenance: Provenance,
}

/// Reader of a table, batch by batch; the iterator ends after the first error.
pub struct TableReader<R: ArtifactRow> {
    key: ArtifactKey,
    provenance: Provenance,
    batches: Option<ParquetRecordBatchReader>,
    row: PhantomData<R>,
}

impl<R: ArtifactRow> std::fmt::Debug for TableReader<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableReader")
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

impl<R: ArtifactRow> TableReader<R> {
    /// Checks that `bytes` are a table of `R` with its provenance; `key` is named in errors.
    ///
    /// # Errors
    ///
    /// [`ArtifactError`] if they are not.
    pub fn open(key: &ArtifactKey, bytes: Bytes) -> Result<Self, ArtifactError> {
        guarded(key, || Self::open_trusting(key, bytes))
    }

    fn open_trusting(key: &ArtifactKey, bytes: Bytes) -> Result<Self, ArtifactError> {
        let unreadable = |source| ArtifactError::Unreadable {
            key: key.clone(),
            source,
        };
        // The Parquet types alone decide: a file that polars rewrote differs only in the Arrow types it embeds.
        let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
        let builder =
            ParquetRecordBatchReaderBuilder::try_new_with_options(bytes, options).map_err(unreadable)?;
        let metadata = builder.metadata().file_metadata().key_value_metadata();
        let value = |name: &str| {
            let entry = metadata.into_iter().flatten().find(|entry| entry.key == name);
            entry.and_then(|entry| entry.value.clone())
        };
        let expected = schema_version::<R>();
        match value(SCHEMA_KEY) {
            Some(found) if found == expected => {}
            found => {
                return Err(ArtifactError::WrongTable {
                    key: key.clone(),
                    expected,
                    found: found.unwrap_or_else(|| "a table of another program".to_owned()),
                });
            }
        }
        check_schema(&R::fields(), builder.schema()).map_err(|source| ArtifactError::Column {
            key: key.clone(),
            source,
        })?;
        let no_provenance = |reason| ArtifactError::NoProvenance {
            key: key.clone(),
            reason,
        };
        let json = value(PROVENANCE_KEY).ok_or_else(|| no_provenance("the entry is missing".to_owned()))?;
        let provenance = serde_json::from_str(&json).map_err(|error| no_provenance(error.to_string()))?;
        Ok(Self {
            key: key.clone(),
            provenance,
            batches: Some(
                builder
                    .with_batch_size(R::BATCH_ROWS)
                    .build()
                    .map_err(unreadable)?,
            ),
            row: PhantomData,
        })
    }

    /// Provenance of the table.
    pub fn provenance(&self) -> &Provenance {
        &self.provenance
    }

    fn next_batch(&mut self) -> Option<Result<Vec<R>, ArtifactError>> {
        let batch = match self.batches.as_mut()?.next()? {
            Ok(batch) => batch,
            Err(error) => {
                return Some(Err(ArtifactError::Unreadable {
                    key: self.key.clone(),
                    source: error.into(),
                }));
            }
        };
        let rows = R::from_columns(&Columns::new(&batch));
        Some(rows.map_err(|source| ArtifactError::Column {
            key: self.key.clone(),
            source,
        }))
    }
}

impl<R: ArtifactRow> Iterator for TableReader<R> {
    type Item = Result<Vec<R>, ArtifactError>;

    fn next(&mut self) -> Option<Self::Item> {
        let key = self.key.clone();
        let next = guarded(&key, || self.next_batch().transpose()).transpose();
        if !matches!(next, Some(Ok(_))) {
            self.batches = None;
        }
        next
    }
}

/// Runs a part of the Parquet reader, which panics on some damaged files; that is an unreadable file like any other.
pub(super) fn guarded<T>(
    key: &ArtifactKey,
    read: impl FnOnce() -> Result<T, ArtifactError>,
) -> Result<T, ArtifactError> {
    // A reader that panicked is dropped, so nobody sees it half changed.
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| {
        Err(ArtifactError::Unreadable {
            key: key.clone(),
            source: ParquetError::General("the file is damaged, and the reader panicked".to_owned()),
        })
    })
}

/// Decodes all rows of a table; `key` is named in errors.
///
/// # Errors
///
/// [`ArtifactError`] if `bytes` are no table of `R`, or are damaged.
pub fn decode_table<R: ArtifactRow>(key: &ArtifactKey, bytes: Bytes) -> Result<Table<R>, ArtifactError> {
    let mut reader = TableReader::<R>::open(key, bytes)?;
    let mut rows = Vec::new();
    for batch in &mut reader {
        rows.extend(batch?);
    }
    Ok(Table {
        rows,
        provenance: reader.provenance,
    })
}

/// Reads the table under `key` and decodes it off the async threads.
///
/// # Errors
///
/// [`ArtifactError`] if the store does not have it, or if it is no table of `R` or damaged.
pub async fn read_table<R: ArtifactRow>(
    store: &dyn ArtifactStore,
    key: &ArtifactKey,
) -> Result<Table<R>, ArtifactError> {
    let bytes = store.get(key).await?;
    decoded_table(key, bytes).await
}

/// Decodes a table as [`decode_table`] does, off the async threads.
///
/// # Errors
///
/// Those of [`decode_table`].
pub async fn decoded_table<R: ArtifactRow>(
    key: &ArtifactKey,
    bytes: Bytes,
) -> Result<Table<R>, ArtifactError> {
    off_the_async_threads(key, move |key| decode_table(&key, bytes)).await
}

/// Runs work on a file where it may take its time.
pub(super) async fn off_the_async_threads<T: Send + 'static>(
    key: &ArtifactKey,
    work: impl FnOnce(ArtifactKey) -> Result<T, ArtifactError> + Send + 'static,
) -> Result<T, ArtifactError> {
    let owned = key.clone();
    let done = tokio::task::spawn_blocking(move || work(owned)).await;
    done.unwrap_or_else(|_| Err(ArtifactError::ShuttingDown { key: key.clone() }))
}
