//! Tables of the archive's own programs, for those who read them: `*-gv.parquet` of its job for Google Vision, and that of its job for a
//! language model. Their columns, types and codecs are theirs, and differ from those of the tables of this program.

mod texts;

use std::sync::Arc;

use arrow_array::builder::{ListBuilder, StringBuilder};
use arrow_array::{ArrayRef, BooleanArray, Float16Array, Int16Array, Int32Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use bytes::Bytes;
use half::f16;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;

pub use texts::read_archive_texts;

/// Rows of a row group in the table of the language model.
const CHAT_GROUP: usize = 256;

/// Reason why rows are no table of the archive.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    #[error("page {page}: {column} is {value}, and the archive's table has room for {most}")]
    TooLarge {
        page: String,
        column: &'static str,
        value: usize,
        most: usize,
    },
    #[error(transparent)]
    Encode(#[from] ParquetError),
}

/// Row of the table for Google Vision.
#[derive(Debug, Clone, PartialEq)]
pub struct VisionArchiveRow {
    pub img_file_name: String,
    pub img_idx: usize,
    /// Empty where it is not known.
    pub source_etag: String,
    pub nb_pages: usize,
    pub languages: Vec<String>,
    pub confidence: f64,
    pub text_len: usize,
    pub nb_lines_tib: usize,
    pub text: String,
}

/// Row of the table for a language model.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatArchiveRow {
    pub img_file_name: String,
    pub source_etag: String,
    pub ok: bool,
    pub truncated: bool,
    pub finish_reason: String,
    pub page_text: String,
    pub output_tokens: i32,
    /// Stage that failed on the page, or empty.
    pub error_stage: String,
    pub error_message: String,
    pub model_id: String,
}

/// The table for Google Vision, as a file.
///
/// # Errors
///
/// [`ArchiveError::TooLarge`] for a number that its columns have no room for.
pub fn vision_archive(rows: &[VisionArchiveRow]) -> Result<Bytes, ArchiveError> {
    let small = |column, value: fn(&VisionArchiveRow) -> usize| -> Result<ArrayRef, ArchiveError> {
        let values = rows.iter().map(|row| {
            let value = value(row);
            i16::try_from(value).map_err(|_| too_large(row, column, value, i16::MAX as usize))
        });
        Ok(Arc::new(Int16Array::from(values.collect::<Result<Vec<_>, _>>()?)))
    };
    let lengths = rows.iter().map(|row| {
        let most = i32::MAX as usize;
        i32::try_from(row.text_len).map_err(|_| too_large(row, "text_len", row.text_len, most))
    });
    let lengths = lengths.collect::<Result<Vec<_>, _>>()?;
    // The program that made these tables calls the child so in its own schema, and Parquet's writer by the name of the format.
    let child = Arc::new(Field::new("item", DataType::Utf8, true));
    let mut languages = ListBuilder::new(StringBuilder::new()).with_field(child.clone());
    for row in rows {
        row.languages
            .iter()
            .for_each(|code| languages.values().append_value(code));
        languages.append(true);
    }
    let confidences = rows.iter().map(|row| f16::from_f64(row.confidence));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("img_file_name", texts(rows, |row| &row.img_file_name)),
        ("img_idx", small("img_idx", |row| row.img_idx)?),
        ("source_etag", texts(rows, |row| &row.source_etag)),
        ("nb_pages", small("nb_pages", |row| row.nb_pages)?),
        ("languages", Arc::new(languages.finish())),
        (
            "confidence",
            Arc::new(Float16Array::from_iter_values(confidences)),
        ),
        ("text_len", Arc::new(Int32Array::from(lengths))),
        ("nb_lines_tib", small("nb_lines_tib", |row| row.nb_lines_tib)?),
        ("text", texts(rows, |row| &row.text)),
    ];
    Ok(encode(columns, Compression::SNAPPY, usize::MAX)?)
}

/// The table for a language model, as a file.
///
/// # Errors
///
/// [`ArchiveError::Encode`] if it cannot be encoded.
pub fn chat_archive(rows: &[ChatArchiveRow]) -> Result<Bytes, ArchiveError> {
    let flags = |value: fn(&ChatArchiveRow) -> bool| -> ArrayRef {
        Arc::new(rows.iter().map(|row| Some(value(row))).collect::<BooleanArray>())
    };
    let tokens = rows.iter().map(|row| row.output_tokens);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("img_file_name", texts(rows, |row| &row.img_file_name)),
        ("source_etag", texts(rows, |row| &row.source_etag)),
        ("ok", flags(|row| row.ok)),
        ("truncated", flags(|row| row.truncated)),
        ("finish_reason", texts(rows, |row| &row.finish_reason)),
        ("page_text", texts(rows, |row| &row.page_text)),
        ("output_tokens", Arc::new(Int32Array::from_iter_values(tokens))),
        ("error_stage", texts(rows, |row| &row.error_stage)),
        ("error_message", texts(rows, |row| &row.error_message)),
        ("model_id", texts(rows, |row| &row.model_id)),
    ];
    let codec = Compression::ZSTD(ZstdLevel::try_new(3)?);
    Ok(encode(columns, codec, CHAT_GROUP)?)
}

fn texts<R>(rows: &[R], text: impl Fn(&R) -> &str) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(rows.iter().map(text)))
}

fn too_large(row: &VisionArchiveRow, column: &'static str, value: usize, most: usize) -> ArchiveError {
    ArchiveError::TooLarge {
        page: row.img_file_name.clone(),
        column,
        value,
        most,
    }
}

fn encode(columns: Vec<(&str, ArrayRef)>, codec: Compression, group: usize) -> Result<Bytes, ParquetError> {
    let fields = columns
        .iter()
        .map(|(name, array)| Field::new(*name, array.data_type().clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    let properties = WriterProperties::builder()
        .set_compression(codec)
        .set_max_row_group_row_count(Some(group))
        // Children of lists are called as the format wants it, whatever the schema calls them.
        .set_coerce_types(true)
        .build();
    let mut writer = ArrowWriter::try_new(Vec::new(), schema.clone(), Some(properties))?;
    writer.write(&RecordBatch::try_new(schema, arrays)?)?;
    Ok(writer.into_inner()?.into())
}

#[cfg(test)]
mod tests;
