//! Column of a page's regions.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, ListArray, StructArray};
use arrow_buffer::NullBuffer;
use arrow_schema::{ArrowError, DataType, Field, Fields};

use super::columns::{ColumnError, ColumnValue, downcast, refuse_nulls};
use super::nested::{Contour, list, list_of};

/// Part of a page that is not its text.
#[derive(Debug, Clone, PartialEq)]
pub struct PageRegion {
    /// Kind of the region: `image`, `margin` or `caption`.
    pub kind: String,
    /// Outer border.
    pub contour: Contour,
}

fn fields() -> Fields {
    Fields::from(vec![
        Field::new("kind", DataType::Utf8, true),
        Field::new("contour", Contour::data_type(), true),
    ])
}

impl ColumnValue for Option<Vec<PageRegion>> {
    const NULLABLE: bool = true;

    fn data_type() -> DataType {
        list_of(DataType::Struct(fields()))
    }

    fn to_array<'a>(values: impl Iterator<Item = &'a Self>) -> Result<ArrayRef, ArrowError> {
        let pages: Vec<&Self> = values.collect();
        let regions = || pages.iter().flat_map(|page| page.iter().flatten());
        let columns = vec![
            String::to_array(regions().map(|region| &region.kind))?,
            Contour::to_array(regions().map(|region| &region.contour))?,
        ];
        let structs = StructArray::try_new(fields(), columns, None)?;
        let lengths = pages.iter().map(|page| page.as_ref().map_or(0, Vec::len));
        let present: Vec<bool> = pages.iter().map(|page| page.is_some()).collect();
        Ok(Arc::new(list(
            lengths,
            Arc::new(structs),
            Some(NullBuffer::from(present)),
        )?))
    }

    fn from_array(column: &str, array: &dyn Array) -> Result<Vec<Self>, ColumnError> {
        let lists: &ListArray = downcast(column, Self::data_type(), array)?;
        let regions = |row| read_regions(column, &lists.value(row));
        (0..lists.len())
            .map(|row| lists.is_valid(row).then(|| regions(row)).transpose())
            .collect()
    }
}

fn read_regions(column: &str, array: &dyn Array) -> Result<Vec<PageRegion>, ColumnError> {
    let structs: &StructArray = downcast(column, DataType::Struct(fields()), array)?;
    refuse_nulls(column, structs)?;
    for child in structs.columns() {
        refuse_nulls(column, child)?;
    }
    // By place, as `check_schema` has found the fields under these names and in this order.
    let kinds = String::from_array(column, structs.column(0))?;
    let contours = Contour::from_array(column, structs.column(1))?;
    let region = |(kind, contour)| PageRegion { kind, contour };
    Ok(kinds.into_iter().zip(contours).map(region).collect())
}
