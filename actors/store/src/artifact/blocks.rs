//! Table of the blocks of pages.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BooleanArray, ListArray, StructArray};
use arrow_schema::{ArrowError, DataType, Field, Fields};
use parkhang_documents::{Block, Cell, Role, Table, TableError};

use super::VolumeLayout;
use super::columns::{ColumnError, ColumnValue, downcast, named_column, refuse_nulls};
use super::nested::{list, list_of};
use super::row::artifact_row;
use crate::storage::{ArtifactKey, ArtifactStore, StorageError};

artifact_row! {
    /// Row of `blocks.parquet`: a block of a page. Its box is in points, 72 to the inch, of the page as it is displayed, from its top
    /// left corner.
    pub struct BlockRow = "blocks", version 1, batches of 256 {
        image_name: String,
        /// Position of the page in its volume, from 0.
        page_index: i32,
        /// Number of the page in its volume, from 1, as names of files and addresses have it.
        page: i32,
        /// Reading position of the block on its page, from 0.
        block_index: i32,
        role: Role,
        /// Lines of the text, one below the other; empty for a table, whose text is in its cells.
        text: String,
        bbox_x0: f32,
        bbox_y0: f32,
        bbox_x1: f32,
        bbox_y1: f32,
        /// Height of the letters in points; 0 for a block without any.
        size: f32,
        /// Cells of a table, row by row, no two of them on one place of the grid; none for other blocks.
        cells: Vec<Cell>,
    }
}

/// Key of the table of blocks, whichever stage has made them; `None` where none has.
///
/// # Errors
///
/// [`StorageError`] if the store cannot be reached.
pub async fn blocks_key(
    store: &dyn ArtifactStore,
    layout: &VolumeLayout,
) -> Result<Option<ArtifactKey>, StorageError> {
    for key in [layout.blocks(), layout.line_blocks()] {
        if store.head(&key).await?.is_some() {
            return Ok(Some(key));
        }
    }
    Ok(None)
}

impl BlockRow {
    /// The row of a block at a reading position on a page.
    pub fn new(image_name: &str, page_index: i32, block_index: i32, block: Block) -> Self {
        let [bbox_x0, bbox_y0, bbox_x1, bbox_y1] = block.bounds;
        Self {
            image_name: image_name.to_owned(),
            page_index,
            page: page_index.saturating_add(1),
            block_index,
            role: block.role,
            text: block.lines.join("\n"),
            bbox_x0,
            bbox_y0,
            bbox_x1,
            bbox_y1,
            size: block.size,
            cells: block.table.map(Table::into_cells).unwrap_or_default(),
        }
    }

    /// The block of the row, without the places of its words.
    ///
    /// # Errors
    ///
    /// [`TableError`] for cells that are no table.
    pub fn into_block(self) -> Result<Block, TableError> {
        let table = (!self.cells.is_empty()).then(|| Table::new(self.cells));
        Ok(Block {
            role: self.role,
            bounds: [self.bbox_x0, self.bbox_y0, self.bbox_x1, self.bbox_y1],
            lines: self.text.lines().map(str::to_owned).collect(),
            words: Vec::new(),
            size: self.size,
            table: table.transpose()?,
        })
    }
}

named_column!(Role, "role of a block");

/// Names of the whole numbers of a cell.
const NUMBERS: [&str; 4] = ["row", "column", "row_span", "column_span"];
const EDGES: [&str; 4] = ["bbox_x0", "bbox_y0", "bbox_x1", "bbox_y1"];

fn cell_fields() -> Fields {
    let numbers = NUMBERS.map(|name| Field::new(name, DataType::Int32, true));
    let edges = EDGES.map(|name| Field::new(name, DataType::Float32, true));
    let mut fields = numbers.to_vec();
    fields.push(Field::new("is_header", DataType::Boolean, true));
    fields.extend(edges);
    fields.push(Field::new("text", DataType::Utf8, true));
    Fields::from(fields)
}

fn number(place: usize) -> Result<i32, ArrowError> {
    i32::try_from(place)
        .map_err(|_| ArrowError::InvalidArgumentError(format!("a cell has the place {place}")))
}

impl ColumnValue for Vec<Cell> {
    fn data_type() -> DataType {
        list_of(DataType::Struct(cell_fields()))
    }

    fn to_array<'a>(values: impl Iterator<Item = &'a Self>) -> Result<ArrayRef, ArrowError> {
        let tables: Vec<&Self> = values.collect();
        let cells = || tables.iter().flat_map(|table| table.iter());
        let numbers: [fn(&Cell) -> usize; 4] = [
            |cell| cell.row,
            |cell| cell.column,
            |cell| cell.row_span,
            |cell| cell.column_span,
        ];
        let mut columns = Vec::new();
        for of in numbers {
            let values: Vec<i32> = cells().map(|cell| number(of(cell))).collect::<Result<_, _>>()?;
            columns.push(i32::to_array(values.iter())?);
        }
        columns.push(bool::to_array(cells().map(|cell| &cell.is_header))?);
        for edge in 0..EDGES.len() {
            columns.push(f32::to_array(cells().map(|cell| &cell.bounds[edge]))?);
        }
        columns.push(String::to_array(cells().map(|cell| &cell.text))?);
        let structs = StructArray::try_new(cell_fields(), columns, None)?;
        let lengths = tables.iter().map(|table| table.len());
        Ok(Arc::new(list(lengths, Arc::new(structs), None)?))
    }

    fn from_array(column: &str, array: &dyn Array) -> Result<Vec<Self>, ColumnError> {
        let lists: &ListArray = downcast(column, Self::data_type(), array)?;
        refuse_nulls(column, lists)?;
        (0..lists.len())
            .map(|row| read_cells(column, row, &lists.value(row)))
            .collect()
    }
}

fn read_cells(column: &str, row: usize, array: &dyn Array) -> Result<Vec<Cell>, ColumnError> {
    let structs: &StructArray = downcast(column, DataType::Struct(cell_fields()), array)?;
    refuse_nulls(column, structs)?;
    for child in structs.columns() {
        refuse_nulls(column, child)?;
    }
    // By place, as `check_schema` has found the fields under these names and in this order.
    let mut numbers = Vec::with_capacity(NUMBERS.len());
    for place in 0..NUMBERS.len() {
        let values = i32::from_array(column, structs.column(place))?;
        let values = values
            .into_iter()
            .map(usize::try_from)
            .collect::<Result<Vec<usize>, _>>();
        numbers.push(values.map_err(|_| ColumnError::Malformed {
            column: column.to_owned(),
            row,
            reason: "a cell has a negative place".to_owned(),
        })?);
    }
    let headers: &BooleanArray = downcast(column, DataType::Boolean, structs.column(NUMBERS.len()))?;
    let first_edge = NUMBERS.len() + 1;
    let edges = (first_edge..first_edge + EDGES.len())
        .map(|place| f32::from_array(column, structs.column(place)))
        .collect::<Result<Vec<_>, _>>()?;
    let texts = String::from_array(column, structs.column(first_edge + EDGES.len()))?;
    let cell = |(place, text)| Cell {
        row: numbers[0][place],
        column: numbers[1][place],
        row_span: numbers[2][place],
        column_span: numbers[3][place],
        is_header: headers.value(place),
        bounds: std::array::from_fn(|edge| edges[edge][place]),
        text,
    };
    Ok(texts.into_iter().enumerate().map(cell).collect())
}
