//! Writer: rows to Parquet bytes. The same rows and provenance make the same bytes, however the rows are handed in.

use std::marker::PhantomData;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder};
use parquet::schema::types::ColumnPath;

use super::table::{PROVENANCE_KEY, SCHEMA_KEY, off_the_async_threads, schema_version};
use super::{ArtifactError, ArtifactRow, Provenance};
use crate::storage::{ArtifactKey, ArtifactStore};

/// Size of a row group in bytes at which it is closed: it is kept in memory until then.
const ROW_GROUP_BYTES: usize = 64 << 20;
const ZSTD_LEVEL: i32 = 3;

/// Writer of a table, row by row, in memory bounded by the encoded file plus one batch of rows.
pub struct TableWriter<R: ArtifactRow> {
    writer: ArrowWriter<Vec<u8>>,
    schema: SchemaRef,
    /// Rows that do not fill a batch yet. Batches have a fixed size so that page and row group limits, which are checked per
    /// batch, do not depend on the portions in which rows come.
    pending: Vec<R>,
    row: PhantomData<R>,
}

impl<R: ArtifactRow> std::fmt::Debug for TableWriter<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableWriter")
            .field("table", &R::TABLE)
            .finish_non_exhaustive()
    }
}

impl<R: ArtifactRow> TableWriter<R> {
    /// Begins a table.
    ///
    /// # Errors
    ///
    /// [`ParquetError`] if the schema or the metadata cannot be written.
    pub fn new(provenance: &Provenance) -> Result<Self, ParquetError> {
        let schema = Arc::new(Schema::new(R::fields()));
        // Readers go by the Parquet types alone, so the Arrow schema would only be one more thing that may
        // differ.
        let options = ArrowWriterOptions::new()
            .with_properties(properties::<R>(provenance)?)
            .with_skip_arrow_metadata(true);
        Ok(Self {
            writer: ArrowWriter::try_new_with_options(Vec::new(), schema.clone(), options)?,
            schema,
            pending: Vec::new(),
            row: PhantomData,
        })
    }

    /// Adds a row.
    ///
    /// # Errors
    ///
    /// [`ParquetError`] if the batch that the row fills cannot be encoded.
    pub fn push(&mut self, row: R) -> Result<(), ParquetError> {
        self.pending.push(row);
        if self.pending.len() == R::BATCH_ROWS {
            self.write_pending()?;
        }
        Ok(())
    }

    /// Ends the table and returns its bytes.
    ///
    /// # Errors
    ///
    /// [`ParquetError`] if the rest cannot be encoded.
    pub fn finish(mut self) -> Result<Bytes, ParquetError> {
        self.write_pending()?;
        Ok(Bytes::from(self.writer.into_inner()?))
    }

    fn write_pending(&mut self) -> Result<(), ParquetError> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let columns = R::to_columns(&self.pending)?;
        self.pending.clear();
        self.writer
            .write(&RecordBatch::try_new(self.schema.clone(), columns)?)?;
        if self.writer.in_progress_size() >= ROW_GROUP_BYTES {
            self.writer.flush()?;
        }
        Ok(())
    }
}

/// Encodes `rows` as a Parquet file; `key` is named in errors.
///
/// # Errors
///
/// [`ArtifactError`] if the rows cannot be encoded.
pub fn encode_table<R: ArtifactRow>(
    key: &ArtifactKey,
    rows: impl IntoIterator<Item = R>,
    provenance: &Provenance,
) -> Result<Bytes, ArtifactError> {
    let encode = || {
        let mut writer = TableWriter::new(provenance)?;
        rows.into_iter().try_for_each(|row| writer.push(row))?;
        writer.finish()
    };
    encode().map_err(|source| ArtifactError::Encode {
        key: key.clone(),
        source,
    })
}

/// Encodes `rows` off the async threads and puts them durably under `key`.
///
/// # Errors
///
/// [`ArtifactError`] if the rows cannot be encoded or the store does not take them.
pub async fn write_table<R: ArtifactRow>(
    store: &dyn ArtifactStore,
    key: &ArtifactKey,
    rows: Vec<R>,
    provenance: &Provenance,
) -> Result<(), ArtifactError> {
    let bytes = encoded_table(key, rows, provenance).await?;
    Ok(store.put(key, bytes).await?)
}

/// Encodes `rows` as [`encode_table`] does, off the async threads.
///
/// # Errors
///
/// [`ArtifactError`] if the rows cannot be encoded.
pub async fn encoded_table<R: ArtifactRow>(
    key: &ArtifactKey,
    rows: Vec<R>,
    provenance: &Provenance,
) -> Result<Bytes, ArtifactError> {
    let provenance = provenance.clone();
    off_the_async_threads(key, move |key| encode_table(&key, rows, &provenance)).await
}

fn properties<R: ArtifactRow>(provenance: &Provenance) -> Result<WriterProperties, ParquetError> {
    let provenance = serde_json::to_string(provenance).map_err(|e| ParquetError::External(Box::new(e)))?;
    let metadata = vec![
        KeyValue::new(SCHEMA_KEY.to_owned(), schema_version::<R>()),
        KeyValue::new(PROVENANCE_KEY.to_owned(), provenance),
    ];
    let builder = WriterProperties::builder()
        .set_created_by(concat!("parkhang version ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(ZSTD_LEVEL)?))
        // Row groups are closed by their bytes, in `write_pending`.
        .set_max_row_group_row_count(None)
        .set_coerce_types(true)
        .set_key_value_metadata(Some(metadata));
    let settings =
        |builder, field: &Field| set_leaves(builder, vec![field.name().clone()], field.data_type());
    Ok(R::fields().iter().fold(builder, settings).build())
}

/// Settings of the Parquet writer, by type of leaf. Numbers are split into byte streams, which makes coordinates smaller and
/// three times quicker to read than a dictionary does; images are compressed already.
fn set_leaves(
    builder: WriterPropertiesBuilder,
    path: Vec<String>,
    data_type: &DataType,
) -> WriterPropertiesBuilder {
    match data_type {
        DataType::List(child) => {
            let path = path.into_iter().chain(["list".to_owned(), "element".to_owned()]);
            set_leaves(builder, path.collect(), child.data_type())
        }
        DataType::Struct(fields) => fields.iter().fold(builder, |builder, field| {
            let path = path.iter().cloned().chain([field.name().clone()]);
            set_leaves(builder, path.collect(), field.data_type())
        }),
        DataType::Int32 | DataType::UInt32 | DataType::Float32 => {
            let path = ColumnPath::new(path);
            builder
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_encoding(path, Encoding::BYTE_STREAM_SPLIT)
        }
        DataType::Binary => {
            let path = ColumnPath::new(path);
            builder
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_compression(path.clone(), Compression::UNCOMPRESSED)
                // Nobody looks for an image by the order of its bytes.
                .set_column_statistics_enabled(path, EnabledStatistics::None)
        }
        _ => builder,
    }
}
