//! Reader of the archive's tables: the texts of pages.

use std::collections::HashMap;

use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;
use bytes::Bytes;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::artifact::ArtifactError;
use crate::artifact::table::{guarded, off_the_async_threads};
use crate::storage::{ArtifactKey, ArtifactStore};
use parkhang_core::domain::ArchiveReading;

/// Column of the names of scans.
const NAME: &str = "img_file_name";
/// Column that tells pages that were read from those that failed, where there is one.
const OK: &str = "ok";

fn text_column(reading: ArchiveReading) -> &'static str {
    match reading {
        ArchiveReading::Vision => "text",
        ArchiveReading::Chat => "page_text",
    }
}

/// Reads the table under `key` and takes the texts of its pages out, off the async threads: see [`archive_texts`].
///
/// # Errors
///
/// [`ArtifactError`] if the store does not have it, or if it is no such table.
pub async fn read_archive_texts(
    store: &dyn ArtifactStore,
    reading: ArchiveReading,
    key: &ArtifactKey,
) -> Result<HashMap<String, String>, ArtifactError> {
    let bytes = store.get(key).await?;
    off_the_async_threads(key, move |key| archive_texts(reading, &key, bytes)).await
}

/// Texts of a table by the file names of their scans, a line of text for each line that was seen. Pages that failed and empty ones are left
/// out; of two rows with one name the first counts.
///
/// # Errors
///
/// [`ArtifactError::Unreadable`] if `bytes`, which lie under `key`, are no such table.
pub(super) fn archive_texts(
    reading: ArchiveReading,
    key: &ArtifactKey,
    bytes: Bytes,
) -> Result<HashMap<String, String>, ArtifactError> {
    guarded(key, || {
        let unreadable = |source| ArtifactError::Unreadable {
            key: key.clone(),
            source,
        };
        let builder = ParquetRecordBatchReaderBuilder::try_new(bytes).map_err(unreadable)?;
        let wanted = [NAME, OK, text_column(reading)];
        let mask = ProjectionMask::columns(builder.parquet_schema(), wanted);
        let batches = builder.with_projection(mask).build().map_err(unreadable)?;
        let mut texts = HashMap::new();
        for batch in batches {
            let batch = batch.map_err(|error| unreadable(error.into()))?;
            add(&mut texts, &batch, text_column(reading), key)?;
        }
        Ok(texts)
    })
}

fn add(
    texts: &mut HashMap<String, String>,
    batch: &RecordBatch,
    text: &str,
    key: &ArtifactKey,
) -> Result<(), ArtifactError> {
    let column = |name: &str, data_type: &DataType| {
        let array = batch
            .column_by_name(name)
            .filter(|array| array.data_type() == data_type);
        array.ok_or_else(|| ArtifactError::WrongTable {
            key: key.clone(),
            expected: format!("a table of the archive with a column {name} of {data_type}"),
            found: "another one".to_owned(),
        })
    };
    let names = column(NAME, &DataType::Utf8)?.as_string::<i32>();
    let read = column(text, &DataType::Utf8)?.as_string::<i32>();
    let ok = column(OK, &DataType::Boolean)
        .ok()
        .map(|array| array.as_boolean());
    for row in 0..batch.num_rows() {
        let is_read = ok.is_none_or(|ok| ok.is_valid(row) && ok.value(row));
        if is_read && names.is_valid(row) && read.is_valid(row) && !read.value(row).trim().is_empty() {
            let name = names.value(row).to_owned();
            texts.entry(name).or_insert_with(|| read.value(row).to_owned());
        }
    }
    Ok(())
}
