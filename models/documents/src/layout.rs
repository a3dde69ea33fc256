//! Findings of the layout networks on a page: regions, and the cells of tables. `parkhang-words` has the networks.

use serde::{Deserialize, Serialize};

/// Kind of a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LayoutClass {
    Text,
    Title,
    Figure,
    FigureCaption,
    Table,
    TableCaption,
    Header,
    Footer,
    Reference,
    Equation,
}

/// A region of a page.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Region {
    pub kind: LayoutClass,
    /// Left, top, right and bottom in the unit of the layout.
    pub bounds: [f32; 4],
    /// Probability of its kind.
    pub score: f32,
}

/// A cell of a table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TableCell {
    pub row: usize,
    pub column: usize,
    pub row_span: usize,
    pub column_span: usize,
    pub is_header: bool,
    /// Left, top, right and bottom, too inexact to be drawn.
    pub bounds: [f32; 4],
}

/// Grid of a table. No two cells lie on one place of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TableStructure {
    pub rows: usize,
    pub columns: usize,
    /// Row by row.
    pub cells: Vec<TableCell>,
    /// Mean probability of the tokens.
    pub score: f32,
}

/// A table on a page.
#[derive(Debug, Clone, PartialEq)]
pub struct PlacedTable {
    /// Left, top, right and bottom on the page.
    pub bounds: [f32; 4],
    /// The cells, with their places on the page.
    pub structure: TableStructure,
}

/// Regions and tables of a page, in pixels of its picture unless [`mapped`](Self::mapped).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PageLayout {
    /// All regions but tables, the surest first.
    pub regions: Vec<Region>,
    pub tables: Vec<PlacedTable>,
}

impl PageLayout {
    /// The layout with all boxes as `to` gives them.
    #[must_use]
    pub fn mapped(mut self, to: impl Fn([f32; 4]) -> [f32; 4]) -> Self {
        let of_tables = self.tables.iter_mut().flat_map(|table| {
            let cells = table.structure.cells.iter_mut().map(|cell| &mut cell.bounds);
            std::iter::once(&mut table.bounds).chain(cells)
        });
        let regions = self.regions.iter_mut().map(|region| &mut region.bounds);
        for bounds in regions.chain(of_tables) {
            *bounds = to(*bounds);
        }
        self
    }
}
