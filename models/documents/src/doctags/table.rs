//! Tables of DocTags, from the tokens of their rows to cells.

use super::token::CellTag;
use crate::block::{Cell, Table, TableError};
use crate::geometry::Bounds;

/// Places of a grid, row by row, of which rows may be shorter than others.
#[derive(Debug, Default)]
pub(super) struct Grid {
    rows: Vec<Vec<(CellTag, String)>>,
    is_row_open: bool,
}

impl Grid {
    /// Takes the next token of the table.
    pub(super) fn push(&mut self, tag: CellTag) {
        if !self.is_row_open {
            self.rows.push(Vec::new());
        }
        self.is_row_open = tag != CellTag::EndOfRow;
        if let Some(row) = self.rows.last_mut()
            && self.is_row_open
        {
            row.push((tag, String::new()));
        }
    }

    /// The text of the last place; `None` where there is none yet, or its row has ended.
    pub(super) fn text(&mut self) -> Option<&mut String> {
        let row = self.rows.last_mut().filter(|_| self.is_row_open)?;
        row.last_mut().map(|(_, text)| text)
    }

    fn at(&self, row: usize, column: usize) -> Option<CellTag> {
        self.rows.get(row)?.get(column).map(|(tag, _)| *tag)
    }

    /// Number of places from `start` on, the first included, as long as `goes_on` holds for the further ones.
    fn run(start: usize, goes_on: impl Fn(usize) -> bool) -> usize {
        1 + (start + 1..).take_while(|&place| goes_on(place)).count()
    }

    /// The table, all cells with the box of the whole, as models give them no own ones; `None` without cells.
    ///
    /// # Errors
    ///
    /// [`TableError`] for one that is larger than tables are.
    pub(super) fn table(
        self,
        bounds: Bounds,
        clean: impl Fn(&str) -> String,
    ) -> Result<Option<Table>, TableError> {
        let mut taken: Vec<Vec<bool>> = self.rows.iter().map(|row| vec![false; row.len()]).collect();
        let mut cells = Vec::new();
        for (row, places) in self.rows.iter().enumerate() {
            for (column, (tag, text)) in places.iter().enumerate() {
                if taken[row][column] {
                    continue;
                }
                // A part of a cell that is none is a place of its own.
                let is_cell = matches!(tag, CellTag::Header | CellTag::Filled | CellTag::Empty);
                let column_span = match is_cell {
                    true => Self::run(column, |place| {
                        self.at(row, place) == Some(CellTag::Left) && !taken[row][place]
                    }),
                    false => 1,
                };
                let is_below = |place: usize| {
                    (column..column + column_span).all(|at| {
                        let expected = if at == column {
                            CellTag::Above
                        } else {
                            CellTag::Across
                        };
                        self.at(place, at) == Some(expected) && !taken[place][at]
                    })
                };
                let row_span = if is_cell { Self::run(row, is_below) } else { 1 };
                for taken in &mut taken[row..row + row_span] {
                    taken[column..column + column_span].fill(true);
                }
                cells.push(Cell {
                    row,
                    column,
                    row_span,
                    column_span,
                    is_header: *tag == CellTag::Header,
                    bounds,
                    text: clean(text),
                });
            }
        }
        match cells.is_empty() {
            true => Ok(None),
            false => Table::new(cells).map(Some),
        }
    }
}
