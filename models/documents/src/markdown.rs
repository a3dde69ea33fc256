//! Documents as Markdown, in the dialect of GitHub: paragraphs without breaks, tables with pipes, or in HTML where cells span others.

use std::fmt::Write;

use crate::block::{Role, Table};
use crate::document::{DocumentPage, parts};
use crate::html::table_html;
use crate::markers::{Marker, marker};

/// A document in Markdown. Headers and footers are left out.
pub fn markdown(pages: &[DocumentPage]) -> String {
    let mut text = String::new();
    let mut in_list = false;
    for part in parts(pages) {
        let is_item = part.role == Role::ListItem;
        if !text.is_empty() && !(in_list && is_item) {
            text.push('\n');
        }
        in_list = is_item;
        let written = escaped(&part.text);
        let _ = match part.role {
            Role::Title => writeln!(text, "# {written}"),
            Role::Heading => writeln!(text, "## {written}"),
            Role::ListItem => writeln!(text, "{}", item(&part.text)),
            Role::Caption => writeln!(text, "*{written}*"),
            Role::Footnote => writeln!(text, "<small>{written}</small>"),
            Role::Formula => writeln!(text, "    {}", part.text),
            Role::Figure => writeln!(
                text,
                "<!-- figure on page {} -->",
                part.places.first().map_or(0, |place| place.page)
            ),
            Role::Table => writeln!(text, "{}", part.table.as_ref().map(table).unwrap_or_default()),
            Role::Text | Role::Header | Role::Footer => writeln!(text, "{written}"),
        };
    }
    text
}

/// An item of a list with the mark that Markdown knows.
fn item(text: &str) -> String {
    match marker(text) {
        Some(Marker::Bullet) => {
            let mut letters = text.trim_start().chars();
            letters.next();
            format!("- {}", escaped(letters.as_str().trim_start()))
        }
        _ => format!("- {}", escaped(text)),
    }
}

fn table(table: &Table) -> String {
    let spans = table
        .cells
        .iter()
        .any(|cell| cell.row_span > 1 || cell.column_span > 1);
    if spans || table.rows == 0 || table.columns == 0 {
        return table_html(table);
    }
    let mut grid = vec![String::new(); table.rows * table.columns];
    for cell in &table.cells {
        if let Some(place) = grid.get_mut(cell.row * table.columns + cell.column) {
            *place = escaped(&cell.text).replace('|', "\\|");
        }
    }
    let mut text = String::new();
    for (number, row) in grid.chunks(table.columns).enumerate() {
        let _ = writeln!(text, "| {} |", row.join(" | "));
        if number == 0 {
            let _ = writeln!(text, "|{}", " --- |".repeat(table.columns));
        }
    }
    text.trim_end().to_owned()
}

/// A text whose signs are not taken for those of Markdown.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for (place, letter) in text.char_indices() {
        let is_sign = matches!(letter, '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>')
            || place == 0 && matches!(letter, '#' | '+' | '-' | '=' | '~');
        if is_sign {
            escaped.push('\\');
        }
        escaped.push(letter);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::{Block, Cell};

    fn cell(row: usize, column: usize, column_span: usize, text: &str) -> Cell {
        Cell {
            row,
            column,
            row_span: 1,
            column_span,
            is_header: row == 0,
            bounds: [0.0; 4],
            text: text.to_owned(),
        }
    }

    fn block(role: Role, lines: &[&str], table: Option<Table>) -> Block {
        Block {
            role,
            bounds: [0.0; 4],
            lines: lines.iter().map(|&line| line.to_owned()).collect(),
            words: Vec::new(),
            size: 10.0,
            table,
        }
    }

    #[test]
    fn a_document_is_written_part_by_part() {
        let plain = Table {
            rows: 2,
            columns: 2,
            cells: vec![
                cell(0, 0, 1, "a"),
                cell(0, 1, 1, "b"),
                cell(1, 0, 1, "1|2"),
                cell(1, 1, 1, ""),
            ],
        };
        let spanning = Table {
            rows: 1,
            columns: 2,
            cells: vec![cell(0, 0, 2, "both")],
        };
        let pages = [DocumentPage {
            number: 1,
            size: [600.0, 800.0],
            blocks: vec![
                block(Role::Header, &["running"], None),
                block(Role::Title, &["Title"], None),
                block(Role::Text, &["Some *text* in", "two lines."], None),
                block(Role::ListItem, &["• one"], None),
                block(Role::ListItem, &["(1) two"], None),
                block(Role::Table, &[], Some(plain)),
                block(Role::Table, &[], Some(spanning)),
            ],
        }];
        let expected = "# Title\n\nSome \\*text\\* in two lines.\n\n- one\n- (1) two\n\n\
                        | a | b |\n| --- | --- |\n| 1\\|2 |  |\n\n\
                        <table>\n<tr><th colspan=\"2\">both</th></tr>\n</table>\n";
        assert_eq!(markdown(&pages), expected);
    }
}
