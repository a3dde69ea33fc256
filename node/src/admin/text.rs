//! Formatting of answers as text.

use std::fmt::Display;
use std::time::Duration;

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use comfy_table::{CellAlignment, Table, presets};

/// Formats a table. Columns from index `first_number` on hold numbers and are aligned to the right.
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

/// Adds to a page of a list the option that shows the next one, if there is one.
pub fn page(mut shown: String, next: Option<impl Display>) -> String {
    if let Some(next) = next {
        shown.push_str(&format!("\nmore: --after {next}"));
    }
    shown
}

/// Adds to the newest entries of a list the option that shows those before, if there are some.
pub fn newest(mut shown: String, next: Option<DateTime<Utc>>) -> String {
    if let Some(next) = next {
        let next = next.to_rfc3339_opts(SecondsFormat::AutoSi, true);
        shown.push_str(&format!("\nmore: --before {next}"));
    }
    shown
}

/// Formats the distance of a time from now, such as `5m ago` or `in 3s`.
pub fn away(time: DateTime<Utc>, now: DateTime<Utc>) -> String {
    let whole = lasting(time - now);
    if time > now {
        format!("in {whole}")
    } else {
        format!("{whole} ago")
    }
}

/// Formats the length of a time, such as `5m 3s`, whatever its direction.
pub fn lasting(time: TimeDelta) -> String {
    let length = time.abs().to_std().unwrap_or_default();
    humantime::format_duration(Duration::from_secs(length.as_secs())).to_string()
}
