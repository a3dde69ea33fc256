//! Table of what pages say of themselves: their size, and the text that their file holds beside its picture.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, ListArray, StructArray};
use arrow_schema::{ArrowError, DataType, Field, Fields};
use parkhang_pdf::VerdictKind;

use super::columns::{ColumnError, ColumnValue, downcast, named_column, refuse_nulls};
use super::nested::{list, list_of};
use super::row::artifact_row;

artifact_row! {
    /// Row of `page_text.parquet`: a page. Lengths are in points, 72 to the inch, of the page as it is displayed, from its top left
    /// corner.
    pub struct PageTextRow = "page_text", version 1, batches of 32 {
        image_name: String,
        /// Position of the page in its volume, from 0.
        page_index: i32,
        /// Name of the page as its source gave it.
        source_name: String,
        width: f32,
        height: f32,
        /// Quarter turns by which the page is displayed, in degrees clockwise.
        rotation: i32,
        /// Pixels to the inch of the page's picture: 72 for an image file, a pixel of which counts as a point.
        dpi: f32,
        verdict: TextVerdict,
        /// Trust in the page's own text, 0 to 1.
        score: f32,
        /// Reason of the verdict, in words.
        reason: String,
        /// Text that the file of the page holds, whatever it is worth.
        words: Vec<LayerWord>,
        /// Share of the page that its largest picture covers, 0 to 1; absent in tables from before it was noted.
        picture_share: Option<f32>,
    }
}

/// Verdict on the text that the file of a page holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TextVerdict {
    /// The text is that of the page.
    Good,
    /// There is no text, but something to be seen.
    None,
    /// The text is not that of the page.
    Broken,
    /// There is nothing on the page.
    Blank,
}

impl TextVerdict {
    pub const ALL: [Self; 4] = [Self::Good, Self::None, Self::Broken, Self::Blank];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::None => "none",
            Self::Broken => "broken",
            Self::Blank => "blank",
        }
    }

    /// True for a page whose picture has to be read to know what it says.
    pub const fn needs_reading(self) -> bool {
        match self {
            Self::None | Self::Broken => true,
            Self::Good | Self::Blank => false,
        }
    }
}

impl From<VerdictKind> for TextVerdict {
    fn from(kind: VerdictKind) -> Self {
        match kind {
            VerdictKind::Good => Self::Good,
            VerdictKind::None => Self::None,
            VerdictKind::Broken => Self::Broken,
            VerdictKind::Blank => Self::Blank,
        }
    }
}

named_column!(TextVerdict, "verdict on a text");

/// Word of a page's own text, with its box.
#[derive(Debug, Clone, PartialEq)]
pub struct LayerWord {
    pub text: String,
    /// Left, top, right and bottom edge.
    pub bounds: [f32; 4],
    /// Line of the page that the word stands on, from 0.
    pub line: i32,
}

fn word_fields() -> Fields {
    let edges = ["bbox_x0", "bbox_y0", "bbox_x1", "bbox_y1"];
    let edges = edges.map(|name| Field::new(name, DataType::Float32, true));
    let mut fields = vec![Field::new("text", DataType::Utf8, true)];
    fields.extend(edges);
    fields.push(Field::new("line", DataType::Int32, true));
    Fields::from(fields)
}

impl ColumnValue for Vec<LayerWord> {
    fn data_type() -> DataType {
        list_of(DataType::Struct(word_fields()))
    }

    fn to_array<'a>(values: impl Iterator<Item = &'a Self>) -> Result<ArrayRef, ArrowError> {
        let pages: Vec<&Self> = values.collect();
        let words = || pages.iter().flat_map(|page| page.iter());
        let mut columns = vec![String::to_array(words().map(|word| &word.text))?];
        for edge in 0..4 {
            columns.push(f32::to_array(words().map(|word| &word.bounds[edge]))?);
        }
        columns.push(i32::to_array(words().map(|word| &word.line))?);
        let structs = StructArray::try_new(word_fields(), columns, None)?;
        Ok(Arc::new(list(
            pages.iter().map(|page| page.len()),
            Arc::new(structs),
            None,
        )?))
    }

    fn from_array(column: &str, array: &dyn Array) -> Result<Vec<Self>, ColumnError> {
        let lists: &ListArray = downcast(column, Self::data_type(), array)?;
        refuse_nulls(column, lists)?;
        (0..lists.len())
            .map(|row| read_words(column, &lists.value(row)))
            .collect()
    }
}

fn read_words(column: &str, array: &dyn Array) -> Result<Vec<LayerWord>, ColumnError> {
    let structs: &StructArray = downcast(column, DataType::Struct(word_fields()), array)?;
    refuse_nulls(column, structs)?;
    for child in structs.columns() {
        refuse_nulls(column, child)?;
    }
    // By place, as `check_schema` has found the fields under these names and in this order.
    let texts = String::from_array(column, structs.column(0))?;
    let edges: Result<Vec<Vec<f32>>, _> = (1..5)
        .map(|place| f32::from_array(column, structs.column(place)))
        .collect();
    let edges = edges?;
    let lines = i32::from_array(column, structs.column(5))?;
    let word = |(place, (text, line))| LayerWord {
        text,
        bounds: std::array::from_fn(|edge| edges[edge][place]),
        line,
    };
    Ok(texts.into_iter().zip(lines).enumerate().map(word).collect())
}
