//! docs/artifacts.md against the tables.

use arrow::datatypes::{DataType, Field};

use super::nested::list_of;
use super::{ArtifactRow, ErrorRow, LineDetectionRow, LineImageRow, OcrResultRow};

/// A type in the words of the page.
fn spelled(data_type: &DataType) -> String {
    match data_type {
        DataType::Utf8 => "string".to_owned(),
        DataType::Boolean => "bool".to_owned(),
        DataType::Struct(_) => "struct".to_owned(),
        DataType::List(points) if points.data_type() == &list_of(DataType::Int32) => "contour".to_owned(),
        DataType::List(child) => format!("list of {}", spelled(child.data_type())),
        plain => plain.to_string().to_lowercase(),
    }
}

/// Name and version of a table, and of each column name, type and whether it may be null.
fn columns<R: ArtifactRow>() -> (String, Vec<(String, String, bool)>) {
    let column = |field: Field| {
        (
            field.name().clone(),
            spelled(field.data_type()),
            field.is_nullable(),
        )
    };
    let columns = R::fields().into_iter().map(column).collect();
    (format!("{}/{}", R::TABLE, R::VERSION), columns)
}

#[test]
fn the_documented_columns_are_those_of_the_tables() {
    let page = include_str!("../../../../docs/artifacts.md");
    for (table, columns) in [
        columns::<LineDetectionRow>(),
        columns::<LineImageRow>(),
        columns::<OcrResultRow>(),
        columns::<ErrorRow>(),
    ] {
        let section = page.split("\n## ").find(|section| section.starts_with(&table));
        let section = section.unwrap_or_else(|| panic!("{table} has no section"));
        let mut documented = Vec::new();
        for line in section.lines().filter(|line| line.starts_with("| `")) {
            let cells: Vec<&str> = line.split(" | ").collect();
            let (names, data_type) = (cells[0].trim_start_matches("| "), cells[1]);
            let plain = data_type.split([',', ';', ':', '`']).next().unwrap_or_default();
            for name in names.split(", ") {
                documented.push((
                    name.trim_matches('`').to_owned(),
                    plain.trim().to_owned(),
                    data_type.contains("nullable"),
                ));
            }
        }
        assert_eq!(documented, columns, "{table}");
    }
}
