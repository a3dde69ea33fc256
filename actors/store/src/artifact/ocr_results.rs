use std::sync::Arc;

use arrow_array::{Array, ArrayRef, ListArray, StringArray, StructArray};
use arrow_schema::{ArrowError, DataType, Field, Fields};

use super::columns::{ColumnError, ColumnValue, downcast, refuse_nulls};
use super::nested::{Contour, list, list_of};
use super::row::artifact_row;
use parkhang_core::domain::TextEncoding;

artifact_row! {
    /// Row of `ocr_results.parquet`: a line.
    pub struct OcrResultRow = "ocr_results", version 1, batches of 512 {
        image_name: String,
        /// Reading position of the line on its page, from 0.
        line_index: i32,
        /// Guid of the line in `line_images.parquet`.
        line_guid: String,
        text: String,
        encoding: TextEncoding,
        /// Position of the page in its volume, from 0.
        page_index: i32,
        /// Confidence of the recogniser in the line, 0 to 1; absent where the service that read it has none.
        confidence: Option<f32>,
        /// Syllables of the line in order.
        segments: Vec<Segment>,
        /// Outline of a line that a service found by itself, in pixels of the straightened page; absent where the line is that of
        /// `line_images`.
        outline: Option<Contour>,
        /// Likeness of the text to our own reading of the line, 0 to 1, by which it was found to belong there; absent where the places
        /// are those of whoever read it.
        alignment: Option<f32>,
        /// Number of stacks among which the next one would have to be guessed on average, at least 1, by the language model of the program;
        /// absent for text that is not Tibetan.
        perplexity: Option<f32>,
        /// Inputs that have the letters of each syllable, for a text that was made of several: bit 0 stands for the first input of the job.
        /// Absent where one reader has read the line.
        sources: Option<Vec<i32>>,
        /// First row with ink, and number of rows from it to the last, in pixels of the line image; absent where nobody looked for ink,
        /// and in tables of older releases.
        ink_y: Option<i32>,
        ink_h: Option<i32>,
    }
}

/// Piece of a line's text with its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Segment {
    pub text: String,
    /// Left edge in pixels of the line image, or of the box of the row's own outline.
    pub x: i32,
    /// Width in the same pixels.
    pub width: i32,
    /// Confidence, 0 to 1.
    pub confidence: f32,
}

impl ColumnValue for TextEncoding {
    fn data_type() -> DataType {
        DataType::Utf8
    }

    fn to_array<'a>(values: impl Iterator<Item = &'a Self>) -> Result<ArrayRef, ArrowError> {
        let name = |encoding: &Self| match encoding {
            Self::Unicode => "unicode",
            Self::Wylie => "wylie",
        };
        Ok(Arc::new(StringArray::from_iter_values(values.map(name))))
    }

    fn from_array(column: &str, array: &dyn Array) -> Result<Vec<Self>, ColumnError> {
        let names = String::from_array(column, array)?;
        let encoding = |(row, name): (usize, String)| match name.as_str() {
            "unicode" => Ok(Self::Unicode),
            "wylie" => Ok(Self::Wylie),
            other => Err(ColumnError::Malformed {
                column: column.to_owned(),
                row,
                reason: format!("{other:?} is no text encoding"),
            }),
        };
        names.into_iter().enumerate().map(encoding).collect()
    }
}

fn segment_fields() -> Fields {
    Fields::from(vec![
        Field::new("text", DataType::Utf8, true),
        Field::new("x", DataType::Int32, true),
        Field::new("width", DataType::Int32, true),
        Field::new("confidence", DataType::Float32, true),
    ])
}

impl ColumnValue for Vec<Segment> {
    fn data_type() -> DataType {
        list_of(DataType::Struct(segment_fields()))
    }

    fn to_array<'a>(values: impl Iterator<Item = &'a Self>) -> Result<ArrayRef, ArrowError> {
        let lines: Vec<&Self> = values.collect();
        let segments = || lines.iter().flat_map(|segments| segments.iter());
        let columns = vec![
            String::to_array(segments().map(|segment| &segment.text))?,
            i32::to_array(segments().map(|segment| &segment.x))?,
            i32::to_array(segments().map(|segment| &segment.width))?,
            f32::to_array(segments().map(|segment| &segment.confidence))?,
        ];
        let structs = StructArray::try_new(segment_fields(), columns, None)?;
        let lengths = lines.iter().map(|segments| segments.len());
        Ok(Arc::new(list(lengths, Arc::new(structs), None)?))
    }

    fn from_array(column: &str, array: &dyn Array) -> Result<Vec<Self>, ColumnError> {
        let lists: &ListArray = downcast(column, Self::data_type(), array)?;
        (0..lists.len())
            .map(|row| read_segments(column, &lists.value(row)))
            .collect()
    }
}

fn read_segments(column: &str, array: &dyn Array) -> Result<Vec<Segment>, ColumnError> {
    let structs: &StructArray = downcast(column, DataType::Struct(segment_fields()), array)?;
    refuse_nulls(column, structs)?;
    for child in structs.columns() {
        refuse_nulls(column, child)?;
    }
    // By place, as `check_schema` has found the fields under these names and in this order.
    let texts = String::from_array(column, structs.column(0))?;
    let xs = i32::from_array(column, structs.column(1))?;
    let widths = i32::from_array(column, structs.column(2))?;
    let confidences = f32::from_array(column, structs.column(3))?;
    let positions = xs.into_iter().zip(widths).zip(confidences);
    let segment = |(text, ((x, width), confidence))| Segment {
        text,
        x,
        width,
        confidence,
    };
    Ok(texts.into_iter().zip(positions).map(segment).collect())
}
