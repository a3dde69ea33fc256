//! Column types: the Rust types that a column can have, and the layout of each in Arrow.

use std::sync::Arc;

use arrow_array::types::{Float32Type, Int32Type, UInt32Type};
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, BinaryArray, BooleanArray, PrimitiveArray, RecordBatch, StringArray,
    new_null_array,
};
use arrow_schema::{ArrowError, DataType, Field, Schema};

/// Reason for which a column cannot be read as its Rust type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ColumnError {
    #[error("column {column} is missing")]
    Missing { column: String },
    #[error("column {column} is {found}, not {expected}")]
    WrongType {
        column: String,
        expected: DataType,
        found: DataType,
    },
    #[error("column {column} holds a null where there must be a value")]
    Null { column: String },
    #[error("column {column}, row {row} of its batch: {reason}")]
    Malformed {
        column: String,
        row: usize,
        reason: String,
    },
}

/// Columns of a batch, found by name.
#[derive(Debug, Clone, Copy)]
pub struct Columns<'a> {
    batch: &'a RecordBatch,
}

impl<'a> Columns<'a> {
    pub(super) fn new(batch: &'a RecordBatch) -> Self {
        Self { batch }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.batch.num_rows()
    }

    pub(super) fn values<T: ColumnValue>(&self, column: &str) -> Result<Vec<T>, ColumnError> {
        let Some(array) = self.batch.column_by_name(column) else {
            if !T::NULLABLE {
                return Err(ColumnError::Missing {
                    column: column.to_owned(),
                });
            }
            // The table was written before the column was added.
            return T::from_array(column, &new_null_array(&T::data_type(), self.rows()));
        };
        if !T::NULLABLE {
            refuse_nulls(column, array)?;
        }
        T::from_array(column, array)
    }
}

/// Type of one column of a table.
pub trait ColumnValue: Sized {
    const NULLABLE: bool = false;

    fn data_type() -> DataType;

    fn to_array<'a>(values: impl Iterator<Item = &'a Self>) -> Result<ArrayRef, ArrowError>
    where
        Self: 'a;

    /// Values of `array`, which has this type's layout, and no nulls unless the type is nullable.
    fn from_array(column: &str, array: &dyn Array) -> Result<Vec<Self>, ColumnError>;
}

/// Implements [`ColumnValue`] for a type of a few named values, `ALL`, which stand in the column under the names that `as_str` gives.
macro_rules! named_column {
    ($type:ty, $what:literal) => {
        impl $crate::artifact::ColumnValue for $type {
            fn data_type() -> arrow_schema::DataType {
                arrow_schema::DataType::Utf8
            }

            fn to_array<'a>(
                values: impl Iterator<Item = &'a Self>,
            ) -> Result<arrow_array::ArrayRef, arrow_schema::ArrowError> {
                let names = values.map(|value| value.as_str());
                Ok(std::sync::Arc::new(
                    arrow_array::StringArray::from_iter_values(names),
                ))
            }

            fn from_array(
                column: &str,
                array: &dyn arrow_array::Array,
            ) -> Result<Vec<Self>, $crate::artifact::ColumnError> {
                let names = String::from_array(column, array)?;
                let value = |(row, name): (usize, String)| {
                    let known = Self::ALL.into_iter().find(|value| value.as_str() == name);
                    known.ok_or_else(|| $crate::artifact::ColumnError::Malformed {
                        column: column.to_owned(),
                        row,
                        reason: format!("{name:?} is no {}", $what),
                    })
                };
                names.into_iter().enumerate().map(value).collect()
            }
        }
    };
}

pub(super) use named_column;

pub(super) fn field<T: ColumnValue>(name: &str) -> Field {
    Field::new(name, T::data_type(), T::NULLABLE)
}

/// Refuses a schema that lacks one of `fields` or has it with another layout. A column that may be null may be missing: tables
/// written before it was added have nothing there. The names of the children of lists, and which of them may be null, differ
/// between writers and are no difference of type.
pub(super) fn check_schema(fields: &[Field], found: &Schema) -> Result<(), ColumnError> {
    for field in fields {
        let Ok(same_name) = found.field_with_name(field.name()) else {
            if field.is_nullable() {
                continue;
            }
            return Err(ColumnError::Missing {
                column: field.name().clone(),
            });
        };
        if !same_layout(field.data_type(), same_name.data_type()) {
            return Err(ColumnError::WrongType {
                column: field.name().clone(),
                expected: field.data_type().clone(),
                found: same_name.data_type().clone(),
            });
        }
    }
    Ok(())
}

fn same_layout(a: &DataType, b: &DataType) -> bool {
    match (a, b) {
        (DataType::List(a), DataType::List(b)) => same_layout(a.data_type(), b.data_type()),
        (DataType::Struct(a), DataType::Struct(b)) => {
            let same_field = |(a, b): (&Arc<Field>, &Arc<Field>)| {
                a.name() == b.name() && same_layout(a.data_type(), b.data_type())
            };
            a.len() == b.len() && a.iter().zip(b).all(same_field)
        }
        (a, b) => a == b,
    }
}

pub(super) fn refuse_nulls(column: &str, array: &dyn Array) -> Result<(), ColumnError> {
    if array.null_count() == 0 {
        return Ok(());
    }
    Err(ColumnError::Null {
        column: column.to_owned(),
    })
}

/// Array as its concrete type.
pub(super) fn downcast<'a, A: Array + 'static>(
    column: &str,
    expected: DataType,
    array: &'a dyn Array,
) -> Result<&'a A, ColumnError> {
    array
        .as_any()
        .downcast_ref()
        .ok_or_else(|| ColumnError::WrongType {
            column: column.to_owned(),
            expected,
            found: array.data_type().clone(),
        })
}

impl ColumnValue for String {
    fn data_type() -> DataType {
        DataType::Utf8
    }

    fn to_array<'a>(values: impl Iterator<Item = &'a Self>) -> Result<ArrayRef, ArrowError> {
        Ok(Arc::new(StringArray::from_iter_values(values)))
    }

    fn from_array(column: &str, array: &dyn Array) -> Result<Vec<Self>, ColumnError> {
        let array: &StringArray = downcast(column, DataType::Utf8, array)?;
        Ok(array.iter().flatten().map(str::to_owned).collect())
    }
}

impl ColumnValue for Option<String> {
    const NULLABLE: bool = true;

    fn data_type() -> DataType {
        DataType::Utf8
    }

    fn to_array<'a>(values: impl Iterator<Item = &'a Self>) -> Result<ArrayRef, ArrowError> {
        Ok(Arc::new(StringArray::from_iter(values)))
    }

    fn from_array(column: &str, array: &dyn Array) -> Result<Vec<Self>, ColumnError> {
        let array: &StringArray = downcast(column, DataType::Utf8, array)?;
        Ok(array.iter().map(|value| value.map(str::to_owned)).collect())
    }
}

impl ColumnValue for Vec<u8> {
    fn data_type() -> DataType {
        DataType::Binary
    }

    fn to_array<'a>(values: impl Iterator<Item = &'a Self>) -> Result<ArrayRef, ArrowError> {
        Ok(Arc::new(BinaryArray::from_iter_values(values)))
    }

    fn from_array(column: &str, array: &dyn Array) -> Result<Vec<Self>, ColumnError> {
        let array: &BinaryArray = downcast(column, DataType::Binary, array)?;
        Ok(array.iter().flatten().map(<[u8]>::to_vec).collect())
    }
}

impl ColumnValue for bool {
    fn data_type() -> DataType {
        DataType::Boolean
    }

    fn to_array<'a>(values: impl Iterator<Item = &'a Self>) -> Result<ArrayRef, ArrowError> {
        Ok(Arc::new(BooleanArray::from_iter(
            values.map(|value| Some(*value)),
        )))
    }

    fn from_array(column: &str, array: &dyn Array) -> Result<Vec<Self>, ColumnError> {
        let array: &BooleanArray = downcast(column, DataType::Boolean, array)?;
        Ok(array.iter().flatten().collect())
    }
}

impl ColumnValue for Option<bool> {
    const NULLABLE: bool = true;

    fn data_type() -> DataType {
        DataType::Boolean
    }

    fn to_array<'a>(values: impl Iterator<Item = &'a Self>) -> Result<ArrayRef, ArrowError> {
        Ok(Arc::new(BooleanArray::from_iter(values.copied())))
    }

    fn from_array(column: &str, array: &dyn Array) -> Result<Vec<Self>, ColumnError> {
        let array: &BooleanArray = downcast(column, DataType::Boolean, array)?;
        Ok(array.iter().collect())
    }
}

/// Number that has a column type of its own.
pub trait Number: Copy + 'static {
    /// Type of such a column.
    type Column: ArrowPrimitiveType<Native = Self>;
}

impl Number for i32 {
    type Column = Int32Type;
}

impl Number for u32 {
    type Column = UInt32Type;
}

impl Number for f32 {
    type Column = Float32Type;
}

impl<N: Number> ColumnValue for N {
    fn data_type() -> DataType {
        N::Column::DATA_TYPE
    }

    fn to_array<'a>(values: impl Iterator<Item = &'a Self>) -> Result<ArrayRef, ArrowError> {
        Ok(Arc::new(PrimitiveArray::<N::Column>::from_iter_values(
            values.copied(),
        )))
    }

    fn from_array(column: &str, array: &dyn Array) -> Result<Vec<Self>, ColumnError> {
        Ok(numbers::<N::Column>(column, array)?.to_vec())
    }
}

impl<N: Number> ColumnValue for Option<N> {
    const NULLABLE: bool = true;

    fn data_type() -> DataType {
        N::data_type()
    }

    fn to_array<'a>(values: impl Iterator<Item = &'a Self>) -> Result<ArrayRef, ArrowError> {
        Ok(Arc::new(values.copied().collect::<PrimitiveArray<N::Column>>()))
    }

    fn from_array(column: &str, array: &dyn Array) -> Result<Vec<Self>, ColumnError> {
        let array: &PrimitiveArray<N::Column> = downcast(column, N::data_type(), array)?;
        Ok(array.iter().collect())
    }
}

pub(super) fn numbers<'a, T: ArrowPrimitiveType>(
    column: &str,
    array: &'a dyn Array,
) -> Result<&'a [T::Native], ColumnError> {
    let array: &PrimitiveArray<T> = downcast(column, T::DATA_TYPE, array)?;
    Ok(array.values())
}
