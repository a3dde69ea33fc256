//! The structure of a table: the reader's input, and the grid of cells that its tokens say.

use image::{RgbImage, imageops};
use parkhang_cv::resize::{resize_area, resize_linear};
use parkhang_documents::{TableCell, TableStructure};

use crate::imagenet::normalized;
use crate::inference::{ImageBatch, InferenceError, TableReader, TableStep};

/// Side of the reader's input in pixels.
const SIDE: u32 = 488;
/// Largest number of columns of a table; cells beyond are left out.
const MAX_COLUMNS: usize = 200;

/// Token of a table, a piece of HTML, by its class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    BeginHead,
    EndHead,
    BeginRow,
    /// A cell that spans no other ones.
    Cell,
    /// Beginning of a cell whose spans follow.
    BeginSpanning,
    ColumnSpan(usize),
    RowSpan(usize),
    /// End of the spans.
    EndSpans,
    Other,
}

impl Token {
    /// The token of a class, in the order of the reader's dictionary.
    fn of(class: usize) -> Self {
        match class {
            1 => Self::BeginHead,
            2 => Self::EndHead,
            5 => Self::BeginRow,
            7 => Self::BeginSpanning,
            8 => Self::EndSpans,
            10..=28 => Self::ColumnSpan(class - 8),
            29..=47 => Self::RowSpan(class - 27),
            48 => Self::Cell,
            _ => Self::Other,
        }
    }
}

/// The structure of a table, of a picture of it that is upright. A picture without a table may have any.
///
/// # Errors
/// [`InferenceError`] of the network.
pub fn table_structure(table: &RgbImage, reader: &dyn TableReader) -> Result<TableStructure, InferenceError> {
    if table.width() == 0 || table.height() == 0 {
        return Ok(TableStructure::default());
    }
    let answers = reader.steps(&input(table))?;
    let side = table.width().max(table.height()) as f32;
    Ok(answers.first().map(|steps| grid(steps, side)).unwrap_or_default())
}

/// A table as the reader takes it: its longer side fills the input.
fn input(table: &RgbImage) -> ImageBatch {
    let (width, height) = table.dimensions();
    let longer = width.max(height);
    let scaled = |side: u32| ((f64::from(side) * f64::from(SIDE) / f64::from(longer)) as u32).max(1);
    let (columns, rows) = (scaled(width), scaled(height));
    if longer > SIDE {
        padded(&resize_area(table, columns, rows))
    } else {
        padded(&resize_linear(table, columns, rows))
    }
}

/// A picture no larger than the input, with zeros to the right of it and below.
pub(crate) fn padded(picture: &RgbImage) -> ImageBatch {
    // Black pixels are not zero after the means are taken away, so planes are padded and not the picture.
    let whole = {
        let mut whole = RgbImage::new(SIDE, SIDE);
        imageops::replace(&mut whole, picture, 0, 0);
        whole
    };
    let mut values = normalized(whole.as_raw());
    let (width, height) = (picture.width() as usize, picture.height() as usize);
    for (row, values) in values.chunks_exact_mut(SIDE as usize).enumerate() {
        let inside = if row % SIDE as usize >= height { 0 } else { width };
        values[inside..].fill(0.0);
    }
    ImageBatch {
        count: 1,
        height: SIDE as usize,
        width: SIDE as usize,
        values,
    }
}

/// The grid that tokens say: as HTML lays out a table, each cell goes to the first place of its row that no cell above reaches into.
fn grid(steps: &[TableStep], side: f32) -> TableStructure {
    let mut grid = Grid::default();
    let mut in_head = false;
    let mut spans = (1, 1);
    let mut spanning: Option<&TableStep> = None;
    for step in steps {
        match Token::of(step.class) {
            Token::BeginHead => in_head = true,
            Token::EndHead => in_head = false,
            Token::BeginRow => grid.begin_row(),
            Token::Cell => grid.place(step, (1, 1), in_head, side),
            Token::BeginSpanning => {
                spans = (1, 1);
                spanning = Some(step);
            }
            Token::RowSpan(rows) => spans.0 = rows,
            Token::ColumnSpan(columns) => spans.1 = columns,
            Token::EndSpans => {
                if let Some(step) = spanning.take() {
                    grid.place(step, spans, in_head, side);
                }
            }
            Token::Other => {}
        }
    }
    let sum: f32 = steps.iter().map(|step| step.probability).sum();
    grid.finish(sum / steps.len().max(1) as f32)
}

/// A grid that is being filled.
#[derive(Debug, Default)]
struct Grid {
    /// Rows begun.
    rows: usize,
    /// Number of further rows that a cell reaches into, by column.
    reach: Vec<usize>,
    /// Column behind the last cell of this row.
    column: usize,
    cells: Vec<TableCell>,
}

impl Grid {
    fn begin_row(&mut self) {
        if self.rows > 0 {
            for reach in &mut self.reach {
                *reach = reach.saturating_sub(1);
            }
        }
        self.rows += 1;
        self.column = 0;
    }

    fn place(
        &mut self,
        step: &TableStep,
        (row_span, column_span): (usize, usize),
        is_header: bool,
        side: f32,
    ) {
        if self.rows == 0 {
            self.begin_row();
        }
        // A reach of 1 is that of a cell of this row itself.
        while self.reach.get(self.column).is_some_and(|&reach| reach > 0) {
            self.column += 1;
        }
        let column = self.column;
        let free = (column..MAX_COLUMNS)
            .take(column_span)
            .take_while(|&column| self.reach.get(column).is_none_or(|&reach| reach == 0));
        let column_span = free.count();
        if column_span == 0 {
            return;
        }
        self.column += column_span;
        if self.reach.len() < self.column {
            self.reach.resize(self.column, 0);
        }
        self.reach[column..self.column].fill(row_span);
        let corner = |first: usize, pick: fn(f32, f32) -> f32| {
            let corners = step.corners.iter().skip(first).step_by(2);
            corners.copied().reduce(pick).unwrap_or_default() * side
        };
        self.cells.push(TableCell {
            row: self.rows - 1,
            column,
            row_span,
            column_span,
            is_header,
            bounds: [
                corner(0, f32::min),
                corner(1, f32::min),
                corner(0, f32::max),
                corner(1, f32::max),
            ],
        });
    }

    fn finish(mut self, score: f32) -> TableStructure {
        for cell in &mut self.cells {
            // A span beyond the last row is one of nothing.
            cell.row_span = cell.row_span.min(self.rows - cell.row);
        }
        TableStructure {
            rows: self.rows,
            columns: self.reach.len(),
            cells: self.cells,
            score,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn steps(classes: &[usize]) -> Vec<TableStep> {
        let step = |&class: &usize| TableStep {
            class,
            probability: 0.5,
            corners: [0.125, 0.25, 0.5, 0.25, 0.5, 0.75, 0.125, 0.75],
        };
        classes.iter().map(step).collect()
    }

    fn places(structure: &TableStructure) -> Vec<[usize; 4]> {
        let cells = structure.cells.iter();
        cells
            .map(|cell| [cell.row, cell.column, cell.row_span, cell.column_span])
            .collect()
    }

    #[test]
    fn cells_go_round_those_that_reach_down() {
        // <thead><tr><td rowspan=2></td><td colspan=2></td></tr></thead><tbody><tr><td></td><td></td></tr><tr>3 cells</tr></tbody>
        let table = [
            1, 5, 7, 29, 8, 9, 7, 10, 8, 9, 6, 2, 3, 5, 48, 48, 6, 5, 48, 48, 48, 6, 4,
        ];
        let structure = grid(&steps(&table), 100.0);
        assert_eq!((structure.rows, structure.columns), (3, 3));
        assert_eq!(
            places(&structure),
            [
                [0, 0, 2, 1],
                [0, 1, 1, 2],
                [1, 1, 1, 1],
                [1, 2, 1, 1],
                [2, 0, 1, 1],
                [2, 1, 1, 1],
                [2, 2, 1, 1]
            ]
        );
        let header: Vec<bool> = structure.cells.iter().map(|cell| cell.is_header).collect();
        assert_eq!(header, [true, true, false, false, false, false, false]);
        assert_eq!(structure.cells[0].bounds, [12.5, 25.0, 50.0, 75.0]);
    }

    #[test]
    fn a_picture_is_padded_with_zeros_after_the_means() {
        let batch = padded(&RgbImage::new(2, 1));
        let plane = (SIDE * SIDE) as usize;
        for channel in 0..3 {
            let values = &batch.values[channel * plane..(channel + 1) * plane];
            assert!(values[..2].iter().all(|value| *value < -1.0));
            assert!(values[2..].iter().all(|value| *value == 0.0));
        }
    }

    proptest! {
        #[test]
        fn whatever_is_said_no_two_cells_share_a_place(
            classes in prop::collection::vec(prop_oneof![0_usize..50, prop::sample::select(vec![5, 7, 8, 28, 47])], 0..300),
        ) {
            let structure = grid(&steps(&classes), 100.0);
            let mut taken = std::collections::HashSet::new();
            for cell in &structure.cells {
                prop_assert!(cell.row + cell.row_span <= structure.rows);
                prop_assert!(cell.column + cell.column_span <= structure.columns);
                prop_assert!(structure.columns <= MAX_COLUMNS);
                for row in cell.row..cell.row + cell.row_span {
                    for column in cell.column..cell.column + cell.column_span {
                        prop_assert!(taken.insert((row, column)), "{row} {column}");
                    }
                }
            }
        }
    }
}
