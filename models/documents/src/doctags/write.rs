//! Writer of DocTags.

use std::fmt::Write;

use super::GRID;
use crate::block::{Block, Cell, Role, Table};
use crate::document::{DocumentPage, joined_lines};
use crate::geometry::Bounds;
use crate::markers::{Marker, marker};

/// The pages of a document in DocTags.
pub fn doctags(pages: &[DocumentPage]) -> String {
    let mut text = String::from("<doctag>");
    for (number, page) in pages.iter().enumerate() {
        if number > 0 {
            text.push_str("<page_break>\n");
        }
        write_page(&mut text, page);
    }
    text.push_str("</doctag>\n");
    text
}

fn write_page(text: &mut String, page: &DocumentPage) {
    let mut blocks = page.blocks.iter().peekable();
    while let Some(block) = blocks.next() {
        if block.role != Role::ListItem {
            write_block(text, page, block);
            continue;
        }
        let tag = match block.lines.first().and_then(|line| marker(line)) {
            Some(Marker::Bullet) | None => "unordered_list",
            Some(_) => "ordered_list",
        };
        let _ = writeln!(text, "<{tag}>");
        write_block(text, page, block);
        while let Some(next) = blocks.next_if(|next| next.role == Role::ListItem) {
            write_block(text, page, next);
        }
        let _ = writeln!(text, "</{tag}>");
    }
}

fn write_block(text: &mut String, page: &DocumentPage, block: &Block) {
    let tag = tag(block.role);
    let _ = write!(text, "<{tag}>{}", location(&block.bounds, page.size));
    match &block.table {
        Some(table) => write_otsl(text, table),
        // Labels of a drawing are no text of the document.
        None if block.role == Role::Figure => {}
        None => text.push_str(&escaped(&joined_lines(&block.lines))),
    }
    let _ = writeln!(text, "</{tag}>");
}

fn tag(role: Role) -> &'static str {
    match role {
        Role::Title => "title",
        Role::Heading => "section_header_level_1",
        Role::Text | Role::Verse => "text",
        Role::ListItem => "list_item",
        Role::Table => "otsl",
        Role::Figure => "picture",
        Role::Caption => "caption",
        Role::Header => "page_header",
        Role::Footer => "page_footer",
        Role::Footnote => "footnote",
        Role::Formula => "formula",
    }
}

fn location(bounds: &Bounds, [width, height]: [f32; 2]) -> String {
    let mut text = String::new();
    for (place, edge) in bounds.iter().enumerate() {
        let side = [width, height][place % 2].max(f32::MIN_POSITIVE);
        // The cast ends at 0 and makes 0 of what is no number.
        let step = ((edge / side * GRID).round() as u32).min(GRID as u32);
        let _ = write!(text, "<loc_{step}>");
    }
    text
}

/// Writes the rows of a table: a token for each place of the grid, those that a cell reaches into included.
fn write_otsl(text: &mut String, table: &Table) {
    let columns = table.columns();
    let mut grid: Vec<Option<(&Cell, bool, bool)>> = vec![None; table.rows() * columns];
    for cell in table.cells() {
        for row in cell.row..cell.row + cell.row_span {
            for column in cell.column..cell.column + cell.column_span {
                grid[row * columns + column] = Some((cell, row > cell.row, column > cell.column));
            }
        }
    }
    for row in grid.chunks(columns.max(1)) {
        for place in row {
            match place {
                None => text.push_str("<ecel>"),
                Some((_, true, true)) => text.push_str("<xcel>"),
                Some((_, true, false)) => text.push_str("<ucel>"),
                Some((_, false, true)) => text.push_str("<lcel>"),
                Some((cell, false, false)) if cell.text.is_empty() => text.push_str("<ecel>"),
                Some((cell, false, false)) => {
                    text.push_str(if cell.is_header { "<ched>" } else { "<fcel>" });
                    text.push_str(&escaped(&cell.text));
                }
            }
        }
        text.push_str("<nl>");
    }
}

/// A text whose signs are not taken for tags.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_written_block_by_block() {
        let cell = |row, column, row_span, column_span, text: &str| Cell {
            row,
            column,
            row_span,
            column_span,
            is_header: row == 0,
            bounds: [0.0; 4],
            text: text.to_owned(),
        };
        let block = |role, lines: &[&str]| Block {
            role,
            bounds: [60.0, 80.0, 540.0, 400.0],
            lines: lines.iter().map(|&line| line.to_owned()).collect(),
            words: Vec::new(),
            size: 10.0,
            table: None,
        };
        let page = DocumentPage {
            number: 1,
            size: [600.0, 800.0],
            image: String::new(),
            blocks: vec![
                block(Role::Title, &["A < B"]),
                block(Role::ListItem, &["• one"]),
                block(Role::ListItem, &["• two"]),
                Block {
                    table: Table::new(vec![
                        cell(0, 0, 1, 2, "head"),
                        cell(1, 0, 2, 1, "side"),
                        cell(1, 1, 1, 1, ""),
                        cell(2, 1, 1, 1, "x & y"),
                    ])
                    .ok(),
                    ..block(Role::Table, &[])
                },
                block(Role::Figure, &["label"]),
            ],
        };
        let place = "<loc_50><loc_50><loc_450><loc_250>";
        assert_eq!(
            doctags(&[page.clone(), page])
                .split("<page_break>\n")
                .next()
                .unwrap(),
            format!(
                "<doctag><title>{place}A &lt; B</title>\n<unordered_list>\n<list_item>{place}• one</list_item>\n\
                 <list_item>{place}• two</list_item>\n</unordered_list>\n\
                 <otsl>{place}<ched>head<lcel><nl><fcel>side<ecel><nl><ucel><fcel>x &amp; y<nl></otsl>\n\
                 <picture>{place}</picture>\n"
            )
        );
    }

    #[test]
    fn places_outside_the_page_are_moved_to_its_edge() {
        let location = location(&[-0.1, f32::NAN, 900.0, 400.0], [600.0, 800.0]);
        assert_eq!(location, "<loc_0><loc_0><loc_500><loc_250>");
    }
}
