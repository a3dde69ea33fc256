//! Blocks, which pages consist of.

use serde::{Deserialize, Serialize};

use crate::geometry::Bounds;

/// Purpose of a block on its page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    Title,
    Heading,
    Text,
    /// Lines of verse.
    Verse,
    ListItem,
    Table,
    Figure,
    Caption,
    /// Text above the page's own, such as a running title.
    Header,
    /// Text below the page's own, such as its number.
    Footer,
    Footnote,
    Formula,
}

impl Role {
    pub const ALL: [Self; 12] = [
        Self::Title,
        Self::Heading,
        Self::Text,
        Self::Verse,
        Self::ListItem,
        Self::Table,
        Self::Figure,
        Self::Caption,
        Self::Header,
        Self::Footer,
        Self::Footnote,
        Self::Formula,
    ];

    /// Name in tables and files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Title => "title",
            Self::Heading => "heading",
            Self::Text => "text",
            Self::Verse => "verse",
            Self::ListItem => "list_item",
            Self::Table => "table",
            Self::Figure => "figure",
            Self::Caption => "caption",
            Self::Header => "header",
            Self::Footer => "footer",
            Self::Footnote => "footnote",
            Self::Formula => "formula",
        }
    }

    /// The role of a name.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == name)
    }

    /// True for what belongs to the page and not to the text: headers and footers.
    pub fn is_furniture(self) -> bool {
        matches!(self, Self::Header | Self::Footer)
    }
}

/// Part of a page.
#[derive(Debug, Clone, PartialEq)]
pub struct Block {
    pub role: Role,
    /// Left, top, right and bottom in points.
    pub bounds: Bounds,
    /// Lines of the text in reading order, of verse its own ones; none for a figure without letters. Those of a table are in its cells.
    pub lines: Vec<String>,
    /// Places of the words in the page's list of words, in reading order.
    pub words: Vec<usize>,
    /// Mean height of the letters of its lines in points; 0 without any.
    pub size: f32,
    pub table: Option<Table>,
}

/// Largest number of rows and of columns of a table, beyond which its cells are those of no page.
const MAX_SIDE: usize = 2_000;

/// Cells of a table, no two of which lie on one place of its grid.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    rows: usize,
    columns: usize,
    cells: Vec<Cell>,
}

/// Reason for which cells are no table.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    #[error("a cell spans no row or no column")]
    Empty,
    #[error("a cell reaches beyond row or column {MAX_SIDE}")]
    TooLarge,
    #[error("two cells are at row {row}, column {column}")]
    Overlap { row: usize, column: usize },
}

impl Table {
    /// The table of these cells, as large as they reach.
    ///
    /// # Errors
    /// [`TableError`] for cells that are no table.
    pub fn new(cells: Vec<Cell>) -> Result<Self, TableError> {
        let (mut rows, mut columns) = (0, 0);
        for cell in &cells {
            if cell.row_span == 0 || cell.column_span == 0 {
                return Err(TableError::Empty);
            }
            rows = rows.max(cell.row.saturating_add(cell.row_span));
            columns = columns.max(cell.column.saturating_add(cell.column_span));
            if rows > MAX_SIDE || columns > MAX_SIDE {
                return Err(TableError::TooLarge);
            }
        }
        let mut taken = vec![false; rows * columns];
        for cell in &cells {
            for row in cell.row..cell.row + cell.row_span {
                for column in cell.column..cell.column + cell.column_span {
                    let place = &mut taken[row * columns + column];
                    if *place {
                        return Err(TableError::Overlap { row, column });
                    }
                    *place = true;
                }
            }
        }
        Ok(Self { rows, columns, cells })
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Cells row by row, as they were given.
    pub fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// The cells alone.
    pub fn into_cells(self) -> Vec<Cell> {
        self.cells
    }

    /// The table with the boxes of its cells as `to` gives them.
    #[must_use]
    pub(crate) fn mapped(mut self, to: impl Fn(Bounds) -> Bounds) -> Self {
        for cell in &mut self.cells {
            cell.bounds = to(cell.bounds);
        }
        self
    }
}

/// A cell of a table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    pub row: usize,
    pub column: usize,
    pub row_span: usize,
    pub column_span: usize,
    pub is_header: bool,
    /// Left, top, right and bottom in points.
    pub bounds: Bounds,
    pub text: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(row: usize, column: usize, row_span: usize, column_span: usize) -> Cell {
        Cell {
            row,
            column,
            row_span,
            column_span,
            is_header: false,
            bounds: [0.0; 4],
            text: String::new(),
        }
    }

    #[test]
    fn cells_of_no_grid_are_refused() {
        let table = Table::new(vec![cell(0, 0, 2, 1), cell(0, 1, 1, 2), cell(1, 1, 1, 1)]).unwrap();
        assert_eq!((table.rows(), table.columns()), (2, 3));
        for (cells, refused) in [
            (vec![cell(0, 0, 0, 1)], TableError::Empty),
            (vec![cell(0, 0, usize::MAX, 1)], TableError::TooLarge),
            (vec![cell(usize::MAX, 0, 1, 1)], TableError::TooLarge),
            (
                vec![cell(0, 0, 1, 2), cell(0, 1, 1, 1)],
                TableError::Overlap { row: 0, column: 1 },
            ),
        ] {
            assert_eq!(Table::new(cells), Err(refused));
        }
    }

    #[test]
    fn roles_are_found_by_their_names() {
        for role in Role::ALL {
            assert_eq!(Role::of(role.as_str()), Some(role));
            assert_eq!(serde_json::to_value(role).unwrap(), role.as_str());
        }
        assert_eq!(Role::of("chapter"), None);
    }
}
