//! Documents as Markdown, in the dialect of GitHub: paragraphs without breaks, tables with pipes, or in HTML where cells span others.

use std::fmt::Write;

use crate::block::{Role, Table};
use crate::document::{DocumentPage, parts};
use crate::html::table_html;
use crate::markers::without_bullet;

/// A document in Markdown. Headers and footers are left out.
pub fn markdown(pages: &[DocumentPage]) -> String {
    let mut text = String::new();
    let mut in_list = false;
    for part in parts(pages) {
        let is_item = part.role == Role::ListItem;
        let follows_item = in_list && is_item;
        if !text.is_empty() && !follows_item {
            text.push('\n');
        }
        in_list = is_item;
        let written = escaped(&part.text);
        let _ = match part.role {
            Role::Title => writeln!(text, "# {written}"),
            Role::Heading => writeln!(text, "## {written}"),
            Role::ListItem => writeln!(text, "- {}", escaped(without_bullet(&part.text))),
            Role::Caption => writeln!(text, "*{written}*"),
            Role::Footnote => writeln!(text, "<small>{written}</small>"),
            Role::Formula => writeln!(text, "```text\n{}\n```", part.text),
            Role::Figure => writeln!(
                text,
                "<!-- figure on page {} -->",
                part.places.first().map_or(0, |place| place.page)
            ),
            Role::Table => writeln!(text, "{}", part.table.as_ref().map(table).unwrap_or_default()),
            // A line's end that is to stay has a backslash before it.
            Role::Verse => writeln!(text, "{}", written.replace('\n', "\\\n")),
            Role::Text | Role::Header | Role::Footer => writeln!(text, "{written}"),
        };
    }
    text
}

fn table(table: &Table) -> String {
    let columns = table.columns();
    let spans = table
        .cells()
        .iter()
        .any(|cell| cell.row_span > 1 || cell.column_span > 1);
    if spans || columns == 0 {
        return table_html(table, "");
    }
    let mut grid = vec![String::new(); table.rows() * columns];
    for cell in table.cells() {
        // A line's end would end the row.
        let text = escaped(&cell.text).replace('|', "\\|").replace('\n', " ");
        grid[cell.row * columns + cell.column] = text;
    }
    let mut text = String::new();
    for (number, row) in grid.chunks(columns).enumerate() {
        let _ = writeln!(text, "| {} |", row.join(" | "));
        if number == 0 {
            let _ = writeln!(text, "|{}", " --- |".repeat(columns));
        }
    }
    text.trim_end().to_owned()
}

/// A text whose signs are not taken for those of Markdown.
fn escaped(text: &str) -> String {
    let digits = text.chars().take_while(char::is_ascii_digit).count();
    let mut escaped = String::with_capacity(text.len());
    for (place, letter) in text.char_indices() {
        let is_sign = matches!(
            letter,
            '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '&' | '~' | '$'
        );
        // Signs of headings and items at the beginning, and the one behind a number that makes it an item.
        let begins = place == 0 && matches!(letter, '#' | '+' | '-' | '=')
            || digits > 0 && place == digits && matches!(letter, '.' | ')');
        if is_sign || begins {
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
        let plain = Table::new(vec![
            cell(0, 0, 1, "a"),
            cell(0, 1, 1, "b"),
            cell(1, 0, 1, "1|2"),
            cell(1, 1, 1, ""),
        ])
        .unwrap();
        let spanning = Table::new(vec![cell(0, 0, 2, "both")]).unwrap();
        let pages = [DocumentPage {
            number: 1,
            size: [600.0, 800.0],
            image: String::new(),
            blocks: vec![
                block(Role::Header, &["running"], None),
                block(Role::Title, &["Title"], None),
                block(Role::Text, &["2. Some *text* in", "two lines & US$5."], None),
                block(Role::ListItem, &["• one"], None),
                block(Role::ListItem, &["(1) two"], None),
                block(Role::Table, &[], Some(plain)),
                block(Role::Table, &[], Some(spanning)),
            ],
        }];
        let expected = "# Title\n\n2\\. Some \\*text\\* in two lines \\& US\\$5.\n\n- one\n- (1) two\n\n\
                        | a | b |\n| --- | --- |\n| 1\\|2 |  |\n\n\
                        <table>\n<tr><th colspan=\"2\">both</th></tr>\n</table>\n";
        assert_eq!(markdown(&pages), expected);
    }
}
