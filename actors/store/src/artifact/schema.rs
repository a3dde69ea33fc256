//! Tables apart from their rows: their names, versions and columns, for those who list, compare or document them.

use arrow_schema::{DataType, Field};

use super::ArtifactRow;

/// Table of artifacts, as its row type declares it.
#[derive(Debug, Clone, Copy)]
pub struct TableSchema {
    pub name: &'static str,
    pub version: u32,
    fields: fn() -> Vec<Field>,
}

/// Column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnSchema {
    pub name: String,
    /// Type in the words of `docs/artifacts.md`.
    pub kind: String,
    pub nullable: bool,
}

impl TableSchema {
    /// Schema of the tables of `R`.
    pub const fn of<R: ArtifactRow>() -> Self {
        Self {
            name: R::TABLE,
            version: R::VERSION,
            fields: R::fields,
        }
    }

    /// Columns of the table, in their order.
    pub fn columns(&self) -> Vec<ColumnSchema> {
        let fields = (self.fields)();
        let column = |field: &Field| ColumnSchema {
            name: field.name().clone(),
            kind: spelled(field.data_type()),
            nullable: field.is_nullable(),
        };
        fields.iter().map(column).collect()
    }
}

fn spelled(data_type: &DataType) -> String {
    match data_type {
        DataType::Utf8 => "string".to_owned(),
        DataType::Boolean => "bool".to_owned(),
        DataType::Struct(_) => "struct".to_owned(),
        DataType::List(child) => match spelled(child.data_type()).as_str() {
            // Points [x, y]; a list of them is an outline.
            "list of int32" => "contour".to_owned(),
            child => format!("list of {child}"),
        },
        plain => plain.to_string().to_lowercase(),
    }
}
