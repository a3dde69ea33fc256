//! Columns of polygons and point lists.

use std::iter::repeat_n;
use std::sync::Arc;

use arrow_array::types::{Float32Type, Int32Type};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, ListArray, PrimitiveArray};
use arrow_buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, Field, FieldRef};

use super::columns::{ColumnError, ColumnValue, downcast, numbers, refuse_nulls};

/// Closed polygon: `[x, y]` in pixels.
pub type Contour = Vec<[i32; 2]>;

/// Control point of a thin-plate spline: `[input_x, input_y, output_x, output_y]`.
pub type TpsPoint = [f32; 4];

/// Child of a list, by the name that pyarrow and duckdb give it.
pub(super) fn element(data_type: DataType) -> FieldRef {
    Arc::new(Field::new("element", data_type, true))
}

pub(super) fn list_of(data_type: DataType) -> DataType {
    DataType::List(element(data_type))
}

/// List array whose lists have `lengths`, one after the other in `values`.
pub(super) fn list(
    lengths: impl IntoIterator<Item = usize>,
    values: ArrayRef,
    nulls: Option<NullBuffer>,
) -> Result<ListArray, ArrowError> {
    let offsets = OffsetBuffer::from_lengths(lengths);
    ListArray::try_new(element(values.data_type().clone()), offsets, values, nulls)
}

/// Column of points, of `N` coordinates each, as `list<number>`.
fn points<T: ArrowPrimitiveType, const N: usize>(flat: Vec<T::Native>) -> Result<ListArray, ArrowError> {
    let count = flat.len() / N;
    let values = PrimitiveArray::<T>::new(ScalarBuffer::from(flat), None);
    list(repeat_n(N, count), Arc::new(values), None)
}

/// Points of such a column, the reverse of [`points`].
fn read_points<T: ArrowPrimitiveType, const N: usize>(
    column: &str,
    row: usize,
    array: &dyn Array,
) -> Result<Vec<[T::Native; N]>, ColumnError> {
    let lists: &ListArray = downcast(column, list_of(T::DATA_TYPE), array)?;
    refuse_nulls(column, lists)?;
    let offsets = lists.value_offsets();
    if let Some(odd) = offsets.windows(2).find(|pair| (pair[1] - pair[0]) as usize != N) {
        return Err(ColumnError::Malformed {
            column: column.to_owned(),
            row,
            reason: format!("a point has {} coordinates, not {N}", odd[1] - odd[0]),
        });
    }
    // The array may be a slice of a larger one, whose offsets do not begin at 0.
    let (first, last) = (offsets[0] as usize, offsets[offsets.len() - 1] as usize);
    let values = lists.values().slice(first, last - first);
    refuse_nulls(column, &values)?;
    // Nothing is left over, as every point was found to have `N` coordinates.
    let (whole, _) = numbers::<T>(column, &values)?.as_chunks::<N>();
    Ok(whole.to_vec())
}

/// Implements [`ColumnValue`] for lists of a plain type.
macro_rules! list_column {
    ($($type:ty),+) => {$(
        impl ColumnValue for Vec<$type> {
            fn data_type() -> DataType {
                list_of(<$type>::data_type())
            }

            fn to_array<'a>(values: impl Iterator<Item = &'a Self>) -> Result<ArrayRef, ArrowError> {
                let lists: Vec<&Self> = values.collect();
                let values = <$type>::to_array(lists.iter().flat_map(|list| list.iter()))?;
                Ok(Arc::new(list(lists.iter().map(|list| list.len()), values, None)?))
            }

            fn from_array(column: &str, array: &dyn Array) -> Result<Vec<Self>, ColumnError> {
                let lists: &ListArray = downcast(column, Self::data_type(), array)?;
                refuse_nulls(column, lists)?;
                let list = |row| {
                    let values = lists.value(row);
                    refuse_nulls(column, &values)?;
                    <$type>::from_array(column, &values)
                };
                (0..lists.len()).map(list).collect()
            }
        }
    )+};
}

list_column!(String, i32, u32, f32);

impl ColumnValue for Option<Vec<i32>> {
    const NULLABLE: bool = true;

    fn data_type() -> DataType {
        Vec::<i32>::data_type()
    }

    fn to_array<'a>(values: impl Iterator<Item = &'a Self>) -> Result<ArrayRef, ArrowError> {
        let lists: Vec<&Self> = values.collect();
        let numbers = i32::to_array(lists.iter().flat_map(|list| list.iter().flatten()))?;
        let lengths = lists.iter().map(|list| list.as_ref().map_or(0, Vec::len));
        let present: Vec<bool> = lists.iter().map(|list| list.is_some()).collect();
        Ok(Arc::new(list(lengths, numbers, Some(NullBuffer::from(present)))?))
    }

    fn from_array(column: &str, array: &dyn Array) -> Result<Vec<Self>, ColumnError> {
        let lists: &ListArray = downcast(column, Self::data_type(), array)?;
        let list = |row| {
            let values = lists.value(row);
            refuse_nulls(column, &values)?;
            i32::from_array(column, &values)
        };
        (0..lists.len())
            .map(|row| lists.is_valid(row).then(|| list(row)).transpose())
            .collect()
    }
}

impl ColumnValue for Contour {
    fn data_type() -> DataType {
        list_of(list_of(DataType::Int32))
    }

    fn to_array<'a>(values: impl Iterator<Item = &'a Self>) -> Result<ArrayRef, ArrowError> {
        let (mut flat, mut lengths) = (Vec::new(), Vec::new());
        for contour in values {
            lengths.push(contour.len());
            flat.extend_from_slice(contour.as_flattened());
        }
        Ok(Arc::new(list(
            lengths,
            Arc::new(points::<Int32Type, 2>(flat)?),
            None,
        )?))
    }

    fn from_array(column: &str, array: &dyn Array) -> Result<Vec<Self>, ColumnError> {
        let lists: &ListArray = downcast(column, Self::data_type(), array)?;
        refuse_nulls(column, lists)?;
        let contour = |row| read_points::<Int32Type, 2>(column, row, &lists.value(row));
        (0..lists.len()).map(contour).collect()
    }
}

impl ColumnValue for Option<Contour> {
    const NULLABLE: bool = true;

    fn data_type() -> DataType {
        Contour::data_type()
    }

    fn to_array<'a>(values: impl Iterator<Item = &'a Self>) -> Result<ArrayRef, ArrowError> {
        let (mut flat, mut lengths, mut present) = (Vec::new(), Vec::new(), Vec::new());
        for contour in values {
            let points = contour.as_deref().unwrap_or_default();
            lengths.push(points.len());
            present.push(contour.is_some());
            flat.extend_from_slice(points.as_flattened());
        }
        let points = Arc::new(points::<Int32Type, 2>(flat)?);
        Ok(Arc::new(list(lengths, points, Some(NullBuffer::from(present)))?))
    }

    fn from_array(column: &str, array: &dyn Array) -> Result<Vec<Self>, ColumnError> {
        let lists: &ListArray = downcast(column, Self::data_type(), array)?;
        let contour = |row| read_points::<Int32Type, 2>(column, row, &lists.value(row));
        (0..lists.len())
            .map(|row| lists.is_valid(row).then(|| contour(row)).transpose())
            .collect()
    }
}

impl ColumnValue for Vec<Contour> {
    fn data_type() -> DataType {
        list_of(Contour::data_type())
    }

    fn to_array<'a>(values: impl Iterator<Item = &'a Self>) -> Result<ArrayRef, ArrowError> {
        let values: Vec<&Self> = values.collect();
        let contours = Contour::to_array(values.iter().flat_map(|contours| contours.iter()))?;
        Ok(Arc::new(list(
            values.iter().map(|contours| contours.len()),
            contours,
            None,
        )?))
    }

    fn from_array(column: &str, array: &dyn Array) -> Result<Vec<Self>, ColumnError> {
        let lists: &ListArray = downcast(column, Self::data_type(), array)?;
        (0..lists.len())
            .map(|row| Contour::from_array(column, &lists.value(row)))
            .collect()
    }
}

impl ColumnValue for Option<Vec<TpsPoint>> {
    const NULLABLE: bool = true;

    fn data_type() -> DataType {
        list_of(list_of(DataType::Float32))
    }

    fn to_array<'a>(values: impl Iterator<Item = &'a Self>) -> Result<ArrayRef, ArrowError> {
        let (mut flat, mut lengths, mut present) = (Vec::new(), Vec::new(), Vec::new());
        for points in values {
            let coordinates = points.as_deref().unwrap_or_default().as_flattened();
            lengths.push(coordinates.len() / 4);
            present.push(points.is_some());
            flat.extend_from_slice(coordinates);
        }
        let points = Arc::new(points::<Float32Type, 4>(flat)?);
        Ok(Arc::new(list(lengths, points, Some(NullBuffer::from(present)))?))
    }

    fn from_array(column: &str, array: &dyn Array) -> Result<Vec<Self>, ColumnError> {
        let lists: &ListArray = downcast(column, Self::data_type(), array)?;
        let points = |row| read_points::<Float32Type, 4>(column, row, &lists.value(row));
        (0..lists.len())
            .map(|row| lists.is_valid(row).then(|| points(row)).transpose())
            .collect()
    }
}
