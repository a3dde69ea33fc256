//! Documents as HTML: one file that needs no other, for reading and for programs that take a text with its structure.

use std::fmt::Write;

use crate::block::{Role, Table};
use crate::document::{DocumentPage, Part, parts};
use crate::markers::without_bullet;

/// A document in HTML. Headers and footers are left out; each part says on which pages it stands.
pub fn html(title: &str, pages: &[DocumentPage]) -> String {
    let mut text = String::from("<!DOCTYPE html>\n<html>\n<head>\n<meta charset=\"utf-8\">\n");
    let _ = writeln!(text, "<title>{}</title>\n</head>\n<body>", escaped(title));
    let mut in_list = false;
    for part in parts(pages) {
        let is_item = part.role == Role::ListItem;
        if in_list != is_item {
            text.push_str(if is_item { "<ul>\n" } else { "</ul>\n" });
            in_list = is_item;
        }
        write_part(&mut text, &part);
    }
    if in_list {
        text.push_str("</ul>\n");
    }
    text.push_str("</body>\n</html>\n");
    text
}

fn write_part(text: &mut String, part: &Part) {
    let mut numbers: Vec<String> = part.places.iter().map(|place| place.page.to_string()).collect();
    numbers.dedup();
    let pages = format!(" data-page=\"{}\"", numbers.join(" "));
    let written = escaped(&part.text);
    let _ = match part.role {
        Role::Title => writeln!(text, "<h1{pages}>{written}</h1>"),
        Role::Heading => writeln!(text, "<h2{pages}>{written}</h2>"),
        Role::ListItem => writeln!(text, "<li{pages}>{}</li>", escaped(without_bullet(&part.text))),
        Role::Caption => writeln!(text, "<p class=\"caption\"{pages}>{written}</p>"),
        Role::Footnote => writeln!(text, "<aside class=\"footnote\"{pages}>{written}</aside>"),
        Role::Formula => writeln!(text, "<p class=\"formula\"{pages}>{written}</p>"),
        Role::Figure => writeln!(text, "<figure{pages}></figure>"),
        Role::Table => {
            let table = part.table.as_ref().map(|table| table_html(table, &pages));
            writeln!(text, "{}", table.unwrap_or_default())
        }
        Role::Verse => writeln!(
            text,
            "<p class=\"verse\"{pages}>{}</p>",
            written.replace('\n', "<br>\n")
        ),
        Role::Text | Role::Header | Role::Footer => writeln!(text, "<p{pages}>{written}</p>"),
    };
}

/// A table in HTML. `attributes` are those of its element, each with a space before.
pub(crate) fn table_html(table: &Table, attributes: &str) -> String {
    let mut text = format!("<table{attributes}>\n");
    for row in 0..table.rows() {
        text.push_str("<tr>");
        for cell in table.cells().iter().filter(|cell| cell.row == row) {
            let tag = if cell.is_header { "th" } else { "td" };
            let _ = write!(text, "<{tag}");
            for (name, span) in [("rowspan", cell.row_span), ("colspan", cell.column_span)] {
                if span > 1 {
                    let _ = write!(text, " {name}=\"{span}\"");
                }
            }
            let _ = write!(text, ">{}</{tag}>", escaped(&cell.text));
        }
        text.push_str("</tr>\n");
    }
    text.push_str("</table>");
    text
}

/// A text whose signs are not taken for those of HTML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::Block;

    #[test]
    fn items_stand_in_lists_and_signs_are_escaped() {
        let block = |role, line: &str| Block {
            role,
            bounds: [0.0; 4],
            lines: vec![line.to_owned()],
            words: Vec::new(),
            size: 10.0,
            table: None,
        };
        let pages = [DocumentPage {
            number: 3,
            size: [600.0, 800.0],
            image: String::new(),
            blocks: vec![
                block(Role::Heading, "A & B"),
                block(Role::ListItem, "• one"),
                block(Role::ListItem, "two"),
                block(Role::Text, "1 < 2"),
                Block {
                    lines: vec!["ཀ།".to_owned(), "ཁ།".to_owned()],
                    ..block(Role::Verse, "")
                },
            ],
        }];
        let html = html("x", &pages);
        let body = html.split("<body>\n").nth(1).unwrap();
        assert_eq!(
            body,
            "<h2 data-page=\"3\">A &amp; B</h2>\n<ul>\n<li data-page=\"3\">one</li>\n<li data-page=\"3\">two</li>\n</ul>\n\
             <p data-page=\"3\">1 &lt; 2</p>\n<p class=\"verse\" data-page=\"3\">ཀ།<br>\nཁ།</p>\n</body>\n</html>\n"
        );
    }
}
