//! Documents in TEI P5 (Text Encoding Initiative): sections with their headings, paragraphs and verse in the lines of the pages, tables, notes,
//! and for each of them its place on the page.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::block::{Block, Role, Table};
use crate::captions::unit_at;
use crate::chunk::language;
use crate::document::{DocumentPage, goes_together, joined_lines, parts};
use crate::headings::paths;

/// A document in TEI. Its pages follow each other, so that a paragraph that goes on over the end of a page is in fragments.
pub fn tei(title: &str, pages: &[DocumentPage]) -> String {
    let mut writer = Writer {
        text: String::new(),
        depth: 0,
        is_empty: true,
    };
    let fragments = fragments(pages);
    for page in pages {
        writer.page(page, &fragments);
    }
    writer.end_sections(0);
    if writer.is_empty {
        writer.text.push_str("<p/>\n");
    }
    let all = pages
        .iter()
        .flat_map(|page| &page.blocks)
        .flat_map(|block| &block.lines);
    let all: Vec<&str> = all.map(String::as_str).collect();
    let language = language(&all.join(" "));
    let language = language.map_or_else(String::new, |tag| format!(" xml:lang=\"{tag}\""));
    let mut text = String::from(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<TEI xmlns=\"http://www.tei-c.org/ns/1.0\">\n",
    );
    write_header(&mut text, title);
    write_facsimile(&mut text, pages);
    let _ = write!(
        text,
        "<text{language}>\n<body>\n{}</body>\n</text>\n</TEI>\n",
        writer.text
    );
    text
}

fn write_header(text: &mut String, title: &str) {
    let title = escaped(title);
    let version = env!("CARGO_PKG_VERSION");
    let _ = write!(
        text,
        "<teiHeader>\n<fileDesc>\n<titleStmt><title>{title}</title></titleStmt>\n\
         <publicationStmt><p>Unpublished</p></publicationStmt>\n\
         <sourceDesc><p>Page images of {title}</p></sourceDesc>\n</fileDesc>\n\
         <encodingDesc>\n<appInfo><application ident=\"parkhang\" version=\"{version}\"><label>Parkhang</label></application></appInfo>\n\
         <editorialDecl><p>Read by a machine and not corrected. Coordinates are points, 72 to the inch, or pixels of image files.</p></editorialDecl>\n\
         </encodingDesc>\n</teiHeader>\n"
    );
}

fn write_facsimile(text: &mut String, pages: &[DocumentPage]) {
    if pages.is_empty() {
        return;
    }
    text.push_str("<facsimile>\n");
    for page in pages {
        let DocumentPage {
            number,
            size: [width, height],
            ..
        } = page;
        let _ = writeln!(
            text,
            "<surface xml:id=\"p{number}\" n=\"{number}\" ulx=\"0\" uly=\"0\" lrx=\"{width}\" lry=\"{height}\">"
        );
        if !page.image.is_empty() {
            let _ = writeln!(text, "<graphic url=\"{}\"/>", address(&page.image));
        }
        for (place, block) in page.blocks.iter().enumerate() {
            let [x0, y0, x1, y1] = block.bounds;
            let _ = writeln!(
                text,
                "<zone xml:id=\"p{number}b{place}\" ulx=\"{x0:.1}\" uly=\"{y0:.1}\" lrx=\"{x1:.1}\" lry=\"{y1:.1}\"/>"
            );
        }
        text.push_str("</surface>\n");
    }
    text.push_str("</facsimile>\n");
}

/// A block's part of the document.
#[derive(Debug, Clone, Copy)]
struct Fragment {
    /// Number of open headings from here on, where the block is one.
    level: usize,
    /// Value of the attribute `part` of a paragraph in fragments.
    part: Option<char>,
}

/// Fragments by number of the page and place of the block.
fn fragments(pages: &[DocumentPage]) -> BTreeMap<(u32, usize), Fragment> {
    let parts = parts(pages);
    let paths = paths(&parts);
    let mut fragments = BTreeMap::new();
    for (part, path) in parts.iter().zip(&paths) {
        let last = part.places.len() - 1;
        for (number, place) in part.places.iter().enumerate() {
            let letter = match number {
                0 => 'I',
                number if number == last => 'F',
                _ => 'M',
            };
            let fragment = Fragment {
                level: path.len(),
                part: (last > 0).then_some(letter),
            };
            fragments.insert((place.page, place.block), fragment);
        }
    }
    fragments
}

struct Writer {
    text: String,
    /// Number of open sections.
    depth: usize,
    /// True until there is more than page breaks.
    is_empty: bool,
}

impl Writer {
    fn page(&mut self, page: &DocumentPage, fragments: &BTreeMap<(u32, usize), Fragment>) {
        let number = page.number;
        let _ = writeln!(self.text, "<pb n=\"{number}\" facs=\"#p{number}\"/>");
        let role = |place: usize| page.blocks.get(place).map(|block| block.role);
        let mut place = 0;
        let mut in_list = false;
        while let Some(block) = page.blocks.get(place) {
            let is_item = block.role == Role::ListItem;
            if in_list && !is_item {
                self.text.push_str("</list>\n");
            } else if is_item && !in_list {
                self.text.push_str("<list>\n");
            }
            in_list = is_item;
            self.is_empty &= block.role.is_furniture();
            let fragment = fragments.get(&(number, place)).copied();
            let facs = |place: usize| format!(" facs=\"#p{number}b{place}\"");
            let unit = unit_at(role, place);
            match block.role {
                Role::Title | Role::Heading => {
                    let level = fragment.map_or(self.depth + 1, |fragment| fragment.level.max(1));
                    self.end_sections(level - 1);
                    self.text.push_str("<div>\n");
                    self.depth += 1;
                    self.element("head", &facs(place), block);
                }
                Role::Verse => {
                    let _ = writeln!(self.text, "<lg{}>", facs(place));
                    for line in &block.lines {
                        let _ = writeln!(self.text, "<l>{}</l>", escaped(line));
                    }
                    self.text.push_str("</lg>\n");
                }
                Role::ListItem => self.element("item", &facs(place), block),
                Role::Footnote => self.element("note", &format!(" place=\"bottom\"{}", facs(place)), block),
                Role::Header => self.element(
                    "fw",
                    &format!(" type=\"header\" place=\"top\"{}", facs(place)),
                    block,
                ),
                Role::Footer => self.element(
                    "fw",
                    &format!(" type=\"footer\" place=\"bottom\"{}", facs(place)),
                    block,
                ),
                Role::Formula => {
                    let formula = escaped(&joined_lines(&block.lines));
                    let _ = writeln!(self.text, "<p{}><formula>{formula}</formula></p>", facs(place));
                }
                Role::Caption if unit == 1 => {
                    self.element("ab", &format!(" type=\"caption\"{}", facs(place)), block)
                }
                Role::Caption | Role::Figure | Role::Table => {
                    let places = place..place + unit;
                    let is_caption = |place: &usize| role(*place) == Some(Role::Caption);
                    let caption = places.clone().find(is_caption).map(|place| &page.blocks[place]);
                    if let Some(shown) = places.clone().find(|place| !is_caption(place)) {
                        self.captioned(&facs(shown), &page.blocks[shown], caption);
                    }
                }
                Role::Text => {
                    let part = fragment.and_then(|fragment| fragment.part);
                    let part = part.map_or_else(String::new, |part| format!(" part=\"{part}\""));
                    self.element("p", &format!("{part}{}", facs(place)), block);
                }
            }
            place += unit;
        }
        if in_list {
            self.text.push_str("</list>\n");
        }
    }

    /// Writes a block line by line.
    fn element(&mut self, name: &str, attributes: &str, block: &Block) {
        let _ = write!(self.text, "<{name}{attributes}>");
        let mut before: Option<&str> = None;
        for line in &block.lines {
            let together = before.is_some_and(|before| goes_together(before, line));
            let _ = write!(
                self.text,
                "<lb{}/>{}",
                if together { " break=\"no\"" } else { "" },
                escaped(line)
            );
            before = Some(line);
        }
        let _ = writeln!(self.text, "</{name}>");
    }

    /// Writes a table or figure with its caption.
    fn captioned(&mut self, facs: &str, block: &Block, caption: Option<&Block>) {
        let head = caption.map_or_else(String::new, |caption| {
            format!("<head>{}</head>\n", escaped(&joined_lines(&caption.lines)))
        });
        if let Some(table) = block.table.as_ref().filter(|table| !table.cells().is_empty()) {
            let (rows, columns) = (table.rows(), table.columns());
            let _ = write!(
                self.text,
                "<table rows=\"{rows}\" cols=\"{columns}\"{facs}>\n{head}"
            );
            self.rows(table);
            self.text.push_str("</table>\n");
            return;
        }
        let _ = write!(self.text, "<figure{facs}>\n{head}");
        if !block.lines.is_empty() {
            self.element("p", "", block);
        }
        self.text.push_str("</figure>\n");
    }

    fn rows(&mut self, table: &Table) {
        for row in 0..table.rows() {
            self.text.push_str("<row>");
            for cell in table.cells().iter().filter(|cell| cell.row == row) {
                let mut attributes = String::new();
                if cell.is_header {
                    attributes.push_str(" role=\"label\"");
                }
                for (name, span) in [("rows", cell.row_span), ("cols", cell.column_span)] {
                    if span > 1 {
                        let _ = write!(attributes, " {name}=\"{span}\"");
                    }
                }
                let _ = write!(self.text, "<cell{attributes}>{}</cell>", escaped(&cell.text));
            }
            self.text.push_str("</row>\n");
        }
    }

    /// Ends sections until `depth` of them are open.
    fn end_sections(&mut self, depth: usize) {
        for _ in depth..self.depth {
            self.text.push_str("</div>\n");
        }
        self.depth = self.depth.min(depth);
    }
}

/// A text whose signs are not taken for tags, without the characters that XML has no form of.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\t' | '\n' | '\r' => escaped.push(' '),
            '\u{FFFE}' | '\u{FFFF}' => {}
            letter if letter.is_control() => {}
            letter => escaped.push(letter),
        }
    }
    escaped
}

/// The address of a file that lies beside the document.
fn address(name: &str) -> String {
    let mut address = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'/') {
            address.push(char::from(byte));
        } else {
            let _ = write!(address, "%{byte:02X}");
        }
    }
    address
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::Cell;

    fn block(role: Role, lines: &[&str]) -> Block {
        Block {
            role,
            bounds: [60.0, 80.5, 540.0, 400.0],
            lines: lines.iter().map(|&line| line.to_owned()).collect(),
            words: Vec::new(),
            size: 10.0,
            table: None,
        }
    }

    fn page(number: u32, blocks: Vec<Block>) -> DocumentPage {
        DocumentPage {
            number,
            size: [600.0, 800.0],
            image: "a scan.jpg".to_owned(),
            blocks,
        }
    }

    fn body(pages: &[DocumentPage]) -> String {
        let text = tei("A & B", pages);
        let (_, body) = text.split_once("<body>\n").unwrap();
        body.split_once("</body>")
            .unwrap()
            .0
            .replace(" facs=\"#", " f=\"")
    }

    #[test]
    fn sections_stand_in_each_other_and_paragraphs_go_on() {
        let pages = [
            page(
                1,
                vec![
                    block(Role::Header, &["running"]),
                    block(Role::Title, &["Title"]),
                    block(Role::Heading, &["1 One"]),
                    block(Role::Text, &["The velo-", "city that is", "not"]),
                    block(Role::Footnote, &["* < note"]),
                ],
            ),
            page(
                2,
                vec![
                    block(Role::Text, &["at its end."]),
                    block(Role::Heading, &["2 Two"]),
                    block(Role::Verse, &["ཀ།", "ཁ།"]),
                ],
            ),
        ];
        let expected = "<pb n=\"1\" f=\"p1\"/>\n\
            <fw type=\"header\" place=\"top\" f=\"p1b0\"><lb/>running</fw>\n\
            <div>\n<head f=\"p1b1\"><lb/>Title</head>\n\
            <div>\n<head f=\"p1b2\"><lb/>1 One</head>\n\
            <p part=\"I\" f=\"p1b3\"><lb/>The velo-<lb break=\"no\"/>city that is<lb/>not</p>\n\
            <note place=\"bottom\" f=\"p1b4\"><lb/>* &lt; note</note>\n\
            <pb n=\"2\" f=\"p2\"/>\n\
            <p part=\"F\" f=\"p2b0\"><lb/>at its end.</p>\n\
            </div>\n<div>\n<head f=\"p2b1\"><lb/>2 Two</head>\n\
            <lg f=\"p2b2\">\n<l>ཀ།</l>\n<l>ཁ།</l>\n</lg>\n</div>\n</div>\n";
        assert_eq!(body(&pages), expected);
        let whole = tei("A & B", &pages);
        assert!(whole.contains("<title>A &amp; B</title>"));
        assert!(whole.contains("<graphic url=\"a%20scan.jpg\"/>"));
        assert!(
            whole.contains("<zone xml:id=\"p1b0\" ulx=\"60.0\" uly=\"80.5\" lrx=\"540.0\" lry=\"400.0\"/>")
        );
    }

    #[test]
    fn tables_lists_and_figures_have_their_forms() {
        let cell = |row, column, column_span, text: &str| Cell {
            row,
            column,
            row_span: 1,
            column_span,
            is_header: row == 0,
            bounds: [0.0; 4],
            text: text.to_owned(),
        };
        let table = Table::new(vec![
            cell(0, 0, 2, "both"),
            cell(1, 0, 1, "a"),
            cell(1, 1, 1, "b\u{1}"),
        ])
        .ok();
        let pages = [page(
            1,
            vec![
                block(Role::ListItem, &["• one"]),
                block(Role::ListItem, &["• two"]),
                block(Role::Caption, &["Table 1"]),
                Block {
                    table,
                    ..block(Role::Table, &[])
                },
                block(Role::Figure, &["label"]),
                block(Role::Caption, &["Figure 1"]),
                block(Role::Formula, &["a < b"]),
            ],
        )];
        let expected = "<pb n=\"1\" f=\"p1\"/>\n\
            <list>\n<item f=\"p1b0\"><lb/>• one</item>\n<item f=\"p1b1\"><lb/>• two</item>\n</list>\n\
            <table rows=\"2\" cols=\"2\" f=\"p1b3\">\n<head>Table 1</head>\n\
            <row><cell role=\"label\" cols=\"2\">both</cell></row>\n<row><cell>a</cell><cell>b</cell></row>\n</table>\n\
            <figure f=\"p1b4\">\n<head>Figure 1</head>\n<p><lb/>label</p>\n</figure>\n\
            <p f=\"p1b6\"><formula>a &lt; b</formula></p>\n";
        assert_eq!(body(&pages), expected);
    }

    #[test]
    fn a_document_without_text_is_one() {
        assert_eq!(body(&[]), "<p/>\n");
        assert_eq!(
            body(&[page(1, vec![block(Role::Footer, &["1"])])]).lines().last(),
            Some("<p/>")
        );
    }
}
