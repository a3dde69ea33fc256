use std::sync::Arc;

use arrow::array::{Array, ArrayRef, StringArray};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;

use super::columns::{ColumnError, ColumnValue};
use super::row::artifact_row;
use parkhang_core::domain::ErrorCategory;

artifact_row! {
    /// Row of `errors.parquet`: a page that a stage gave up on.
    pub struct ErrorRow = "errors", version 1, batches of 512 {
        image_name: String,
        /// Position of the page in its volume, from 0.
        page_index: i32,
        category: ErrorCategory,
        message: String,
        /// Number of tries that the page had.
        attempts: i32,
    }
}

impl ColumnValue for ErrorCategory {
    fn data_type() -> DataType {
        DataType::Utf8
    }

    fn to_array<'a>(values: impl Iterator<Item = &'a Self>) -> Result<ArrayRef, ArrowError> {
        Ok(Arc::new(StringArray::from_iter_values(
            values.map(|category| category.as_str()),
        )))
    }

    fn from_array(column: &str, array: &dyn Array) -> Result<Vec<Self>, ColumnError> {
        let names = String::from_array(column, array)?;
        let category = |(row, name): (usize, String)| {
            let found = Self::ALL.into_iter().find(|category| category.as_str() == name);
            found.ok_or_else(|| ColumnError::Malformed {
                column: column.to_owned(),
                row,
                reason: format!("{name:?} is no error category"),
            })
        };
        names.into_iter().enumerate().map(category).collect()
    }
}
