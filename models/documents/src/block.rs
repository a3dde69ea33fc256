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
    pub const ALL: [Self; 11] = [
        Self::Title,
        Self::Heading,
        Self::Text,
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
    /// Lines of the text in reading order; none for a figure without letters. Those of a table are in its cells.
    pub lines: Vec<String>,
    /// Places of the words in the page's list of words, in reading order.
    pub words: Vec<usize>,
    /// Mean height of the letters of its lines in points; 0 without any.
    pub size: f32,
    pub table: Option<Table>,
}

/// Cells of a table.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Table {
    pub rows: usize,
    pub columns: usize,
    /// Row by row; no two of them lie on one place of the grid.
    pub cells: Vec<Cell>,
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
