//! How answers look to people.

use std::fmt::Display;
use std::time::Duration;

use chrono::{DateTime, Utc};
use comfy_table::{CellAlignment, Table, presets};

/// A table whose columns from `first_number` on hold numbers.
pub fn table<const N: usize>(
    header: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
    first_number: usize,
) -> String {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED).set_header(header);
    table.add_rows(rows);
    for column in table.column_iter_mut().skip(first_number) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string()
}

/// A page of a list, with how to ask for the next one if there is one.
pub fn page(mut shown: String, next: Option<impl Display>) -> String {
    if let Some(next) = next {
        shown.push_str(&format!("\nmore: --after {next}"));
    }
    shown
}

/// How long ago a time was, or how far away it is.
pub fn away(time: DateTime<Utc>, now: DateTime<Utc>) -> String {
    let distance = (time - now).abs().to_std().unwrap_or_default();
    let whole = humantime::format_duration(Duration::from_secs(distance.as_secs()));
    if time > now {
        format!("in {whole}")
    } else {
        format!("{whole} ago")
    }
}
