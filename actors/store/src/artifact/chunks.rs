//! Table of the chunks of documents: the texts that are embedded and searched.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, ListArray, StructArray};
use arrow_schema::{ArrowError, DataType, Field, Fields};
use parkhang_documents::ChunkKind;

use super::columns::{ColumnError, ColumnValue, downcast, named_column, refuse_nulls};
use super::nested::{list, list_of};
use super::row::artifact_row;

artifact_row! {
    /// Row of `chunks.parquet`: a chunk of a document, which belongs to the page that it begins on.
    pub struct ChunkRow = "chunks", version 2, batches of 256 {
        image_name: String,
        /// Position of the page in its volume, from 0.
        page_index: i32,
        /// Number of the page in its volume, from 1, as names of files and addresses have it.
        page: i32,
        /// Number of the chunk among those of the page, from 0, in reading order.
        chunk: i32,
        /// The text that is embedded and searched.
        text: String,
        /// Length of the text in tokens of the tokenizer that it was cut for.
        tokens: i32,
        /// Language of the text, a tag of BCP 47; absent where it is not known.
        lang: Option<String>,
        kind: ChunkKind,
        /// Headings that the chunk stands below, from the title down.
        headings: Vec<String>,
        /// Numbers of the pages that the chunk has text of, from 1, in order.
        pages: Vec<i32>,
        /// Boxes of the blocks that the text is of, in reading order.
        boxes: Vec<ChunkBox>,
    }
}

named_column!(ChunkKind, "kind of a chunk");

/// Box of a block of a chunk, in the lengths of the table of blocks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChunkBox {
    /// Number of the page in its volume, from 1.
    pub page: i32,
    /// Left, top, right and bottom edge.
    pub bounds: [f32; 4],
}

const EDGES: [&str; 4] = ["bbox_x0", "bbox_y0", "bbox_x1", "bbox_y1"];

fn fields() -> Fields {
    let edges = EDGES.map(|name| Field::new(name, DataType::Float32, true));
    let page = Field::new("page", DataType::Int32, true);
    Fields::from_iter(std::iter::once(page).chain(edges))
}

impl ColumnValue for Vec<ChunkBox> {
    fn data_type() -> DataType {
        list_of(DataType::Struct(fields()))
    }

    fn to_array<'a>(values: impl Iterator<Item = &'a Self>) -> Result<ArrayRef, ArrowError> {
        let chunks: Vec<&Self> = values.collect();
        let boxes = || chunks.iter().flat_map(|chunk| chunk.iter());
        let mut columns = vec![i32::to_array(boxes().map(|part| &part.page))?];
        for edge in 0..EDGES.len() {
            columns.push(f32::to_array(boxes().map(|part| &part.bounds[edge]))?);
        }
        let structs = StructArray::try_new(fields(), columns, None)?;
        let lengths = chunks.iter().map(|chunk| chunk.len());
        Ok(Arc::new(list(lengths, Arc::new(structs), None)?))
    }

    fn from_array(column: &str, array: &dyn Array) -> Result<Vec<Self>, ColumnError> {
        let lists: &ListArray = downcast(column, Self::data_type(), array)?;
        refuse_nulls(column, lists)?;
        (0..lists.len())
            .map(|row| read_boxes(column, &lists.value(row)))
            .collect()
    }
}

fn read_boxes(column: &str, array: &dyn Array) -> Result<Vec<ChunkBox>, ColumnError> {
    let structs: &StructArray = downcast(column, DataType::Struct(fields()), array)?;
    refuse_nulls(column, structs)?;
    for child in structs.columns() {
        refuse_nulls(column, child)?;
    }
    // By place, as `check_schema` has found the fields under these names and in this order.
    let pages = i32::from_array(column, structs.column(0))?;
    let edges = (1..=EDGES.len())
        .map(|place| f32::from_array(column, structs.column(place)))
        .collect::<Result<Vec<_>, _>>()?;
    let part = |(place, page)| ChunkBox {
        page,
        bounds: std::array::from_fn(|edge| edges[edge][place]),
    };
    Ok(pages.into_iter().enumerate().map(part).collect())
}
