//! Blocks of documents with the corrections of people.
//!
//! Of scans whose lines were read the blocks are made anew, as the stage `line_blocks` makes them. Those of a page of words are found with
//! networks that are not here: what stands in their lines and cells is replaced where it is what was read.

use parkhang_documents::{Block, Cell, DocumentPage, Role, ScanLine, Table, tibetan_blocks};
use parkhang_models::page::geometry::{Rect, bounding_rect};

use super::apply::line_id;
use crate::export::document::{LineDocument, PageDocument};

/// The blocks of a page of Tibetan lines.
pub fn blocks_of_lines(page: &PageDocument) -> Vec<Block> {
    let texts: Vec<_> = page.lines.iter().map(LineDocument::unicode).collect();
    let lines = page.lines.iter().zip(&texts).map(|(line, text)| ScanLine {
        text,
        bounds: bounds(line),
    });
    tibetan_blocks(&lines.collect::<Vec<_>>())
}

/// Left, top, right and bottom in pixels of the scan.
fn bounds(line: &LineDocument) -> [f32; 4] {
    let Rect { x, y, width, height } = bounding_rect(&line.polygon);
    [x, y, x + width - 1, y + height - 1].map(|edge| edge as f32)
}

/// Puts what people have corrected into the blocks of a page of words; returns how many lines were not found in any.
pub fn correct_blocks(blocks: &mut DocumentPage, read: &PageDocument, now: &PageDocument) -> usize {
    let scale = blocks.size[0] / now.width.max(1) as f32;
    let mut page = Blocks {
        blocks: std::mem::take(&mut blocks.blocks),
        scale,
    };
    let missed = changes(read, now).iter().map(|change| page.apply(change)).sum();
    blocks.blocks = page.blocks;
    missed
}

/// Lines that follow each other as they were read, and what stands in their place.
#[derive(Debug, Default, PartialEq)]
struct Change<'p> {
    /// The line before them, which is as it was read.
    after: Option<&'p LineDocument>,
    read: Vec<&'p LineDocument>,
    now: Vec<&'p LineDocument>,
}

/// What has changed between two states of a page, in reading order.
fn changes<'p>(read: &'p PageDocument, now: &'p PageDocument) -> Vec<Change<'p>> {
    let ids = |page: &'p PageDocument| page.lines.iter().map(|line| (line_id(line), line));
    let (before, after): (Vec<_>, Vec<_>) = (ids(read).collect(), ids(now).collect());
    let mut changes = Vec::new();
    let mut change = Change::default();
    let mut rest = before.iter().peekable();
    for (id, line) in &after {
        // A line that was moved behind this one is no longer before it: it counts as one that is new.
        let is_kept = rest.clone().any(|(known, _)| known == id);
        if !is_kept {
            change.now.push(line);
            continue;
        }
        while let Some((_, gone)) = rest.next_if(|(known, _)| known != id) {
            change.read.push(gone);
        }
        rest.next();
        let next = Change {
            after: Some(line),
            ..Change::default()
        };
        changes.push(std::mem::replace(&mut change, next));
    }
    change.read.extend(rest.map(|(_, line)| *line));
    changes.push(change);
    changes.retain(|change| !(change.read.is_empty() && change.now.is_empty()));
    changes
}

struct Blocks {
    blocks: Vec<Block>,
    /// Points to the pixel.
    scale: f32,
}

impl Blocks {
    /// Returns how many lines were not found.
    fn apply(&mut self, change: &Change<'_>) -> usize {
        let now = change.now.iter().map(|line| line.unicode().into_owned());
        let now: Vec<String> = now.collect();
        if change.read.is_empty() {
            return match self.add(change, now) {
                true => 0,
                false => change.now.len(),
            };
        }
        if let Some((block, line)) = self.find(&change.read) {
            let lines = &mut self.blocks[block].lines;
            lines.splice(line..line + change.read.len(), now);
            if lines.is_empty() && self.blocks[block].role != Role::Figure {
                self.blocks.remove(block);
            }
            return 0;
        }
        if change.read.len() != now.len() {
            return change.read.len();
        }
        let pairs = change.read.iter().zip(now);
        pairs.filter(|(read, now)| !self.replace(read, now)).count()
    }

    fn add(&mut self, change: &Change<'_>, now: Vec<String>) -> bool {
        let Some(before) = change.after else {
            return false;
        };
        let Some((block, line)) = self.find(&[before]) else {
            return false;
        };
        self.blocks[block].lines.splice(line + 1..line + 1, now);
        true
    }

    fn replace(&mut self, read: &LineDocument, now: &str) -> bool {
        if letters(&read.text) == letters(now) {
            return true;
        }
        if let Some((block, line)) = self.find(&[read]) {
            self.blocks[block].lines[line] = now.to_owned();
            return true;
        }
        let mut tables = self.blocks.iter_mut().filter_map(|block| block.table.as_mut());
        tables.any(|table| replace_in_row(table, &read.text, now))
    }

    /// Block and number of the line at which these stand, one below the other; of several the nearest to their place.
    fn find(&self, lines: &[&LineDocument]) -> Option<(usize, usize)> {
        let wanted: Vec<String> = lines.iter().map(|line| letters(&line.text)).collect();
        let place = bounds(lines.first()?).map(|edge| edge * self.scale);
        let middle = [(place[0] + place[2]) / 2.0, (place[1] + place[3]) / 2.0];
        let found = self.blocks.iter().enumerate().flat_map(|(number, block)| {
            let texts: Vec<String> = block.lines.iter().map(|line| letters(line)).collect();
            let starts: Vec<usize> = texts
                .windows(wanted.len())
                .enumerate()
                .filter(|(_, window)| *window == wanted)
                .map(|(start, _)| start)
                .collect();
            let distance = distance(block.bounds, middle);
            starts.into_iter().map(move |start| (distance, number, start))
        });
        let nearest = found.min_by(|one, other| one.0.total_cmp(&other.0));
        nearest.map(|(_, block, line)| (block, line))
    }
}

fn distance([left, top, right, bottom]: [f32; 4], [x, y]: [f32; 2]) -> f32 {
    let outside = |low: f32, high: f32, at: f32| (low - at).max(at - high).max(0.0);
    outside(left, right, x).hypot(outside(top, bottom, y))
}

/// Letters without space, by which lines are compared: words are set apart otherwise in lines of pages than in those of blocks.
fn letters(text: &str) -> String {
    text.split_whitespace().collect()
}

/// Puts a line into the cells of the row that has it, word by word; false where none has it or the number of words is another.
fn replace_in_row(table: &mut Table, read: &str, now: &str) -> bool {
    let mut words = now.split_whitespace();
    let mut cells = table.cells().to_vec();
    for row in 0..table.rows() {
        let of_row = || cells.iter().filter(|cell| cell.row == row);
        let said: String = of_row().map(|cell| letters(&cell.text)).collect();
        let number: usize = of_row().map(|cell| count(&cell.text)).sum();
        if said.is_empty() || said != letters(read) || number != count(now) {
            continue;
        }
        for Cell { text, .. } in cells.iter_mut().filter(|cell| cell.row == row) {
            let own: Vec<&str> = words.by_ref().take(count(text)).collect();
            *text = own.join(" ");
        }
        // The grid is the same, so it is a table still.
        return Table::new(cells).map(|corrected| *table = corrected).is_ok();
    }
    false
}

fn count(text: &str) -> usize {
    text.split_whitespace().count()
}

#[cfg(test)]
mod tests {
    use parkhang_models::page::geometry::Point;

    use super::*;
    use crate::export::document::Corrected;
    use crate::export::scanned::Scanned;

    fn line(number: i32, text: &str) -> LineDocument {
        let (top, bottom) = (number * 20, number * 20 + 10);
        LineDocument {
            guid: number.to_string(),
            polygon: [(0, top), (100, top), (100, bottom), (0, bottom)]
                .map(|(x, y)| Point::new(x, y))
                .to_vec(),
            text: text.to_owned(),
            encoding: "unicode".to_owned(),
            confidence: Some(0.5),
            segments: Vec::new(),
            corrected: None,
        }
    }

    fn by_a_person(line: LineDocument, text: &str) -> LineDocument {
        LineDocument {
            text: text.to_owned(),
            corrected: Some(Corrected {
                who: "eva".to_owned(),
                at: chrono::DateTime::UNIX_EPOCH,
            }),
            ..line
        }
    }

    fn page(lines: Vec<LineDocument>) -> PageDocument {
        PageDocument {
            image_name: "p1".to_owned(),
            source_name: "p1".to_owned(),
            width: 200,
            height: 400,
            lines,
            regions: Vec::new(),
            error: None,
            scanned: Scanned::default(),
        }
    }

    fn block(top: f32, lines: &[&str]) -> Block {
        Block {
            role: Role::Text,
            bounds: [0.0, top, 50.0, top + 5.0],
            lines: lines.iter().map(|line| (*line).to_owned()).collect(),
            words: Vec::new(),
            size: 5.0,
            table: None,
        }
    }

    /// The lines of the blocks after edits of lines that were read as `a b`, `same`, `c`, `same`, `x 1 y 2`, the last of them the row of a table.
    fn corrected(edit: impl FnOnce(&mut Vec<LineDocument>)) -> (Vec<Vec<String>>, usize) {
        let texts = ["a b", "same", "c", "same", "x 1 y 2"];
        let read = page(
            (0..)
                .zip(texts)
                .map(|(number, text)| line(number, text))
                .collect(),
        );
        let mut now = read.clone();
        edit(&mut now.lines);
        let cell = |column: usize, text: &str| Cell {
            row: 0,
            column,
            row_span: 1,
            column_span: 1,
            is_header: false,
            bounds: [0.0; 4],
            text: text.to_owned(),
        };
        let table = Table::new(vec![cell(0, "x 1"), cell(1, "y 2")]).unwrap();
        let mut blocks = DocumentPage {
            number: 1,
            size: [100.0, 200.0],
            image: "p1".to_owned(),
            blocks: vec![
                block(0.0, &["ab", "same"]),
                block(20.0, &["c"]),
                block(30.0, &["same"]),
                Block {
                    role: Role::Table,
                    table: Some(table),
                    ..block(40.0, &[])
                },
            ],
        };
        let missed = correct_blocks(&mut blocks, &read, &now);
        let lines = |block: Block| match block.table {
            Some(table) => table.cells().iter().map(|cell| cell.text.clone()).collect(),
            None => block.lines,
        };
        (blocks.blocks.into_iter().map(lines).collect(), missed)
    }

    #[test]
    fn what_was_read_is_replaced_at_its_place() {
        let (lines, missed) = corrected(|lines| lines[3] = by_a_person(lines[3].clone(), "other"));
        assert_eq!(missed, 0);
        assert_eq!(lines[0], ["ab", "same"]);
        assert_eq!(lines[2], ["other"], "of two lines that are alike the nearer one");
    }

    #[test]
    fn lines_are_joined_added_and_deleted() {
        let (lines, missed) = corrected(|lines| {
            let joined = by_a_person(lines[0].clone(), "a b same");
            lines.splice(0..2, [joined]);
            let added = by_a_person(line(9, ""), "note");
            lines.insert(2, added);
            lines.remove(3);
        });
        assert_eq!(missed, 0);
        assert_eq!(
            lines,
            [vec!["a b same"], vec!["c"], vec!["note"], vec!["x 1", "y 2"]]
        );
        let (lines, missed) = corrected(|lines| {
            lines.remove(2);
            lines.insert(1, by_a_person(line(9, ""), "note"));
        });
        assert_eq!(missed, 0);
        assert_eq!(lines[..2], [vec!["ab", "note", "same"], vec!["same"]]);
    }

    #[test]
    fn cells_take_words_where_as_many_are_there_and_all_else_is_counted() {
        let (lines, missed) = corrected(|lines| lines[4] = by_a_person(lines[4].clone(), "x 7 why 2"));
        assert_eq!(
            (lines[3].as_slice(), missed),
            (["x 7".to_owned(), "why 2".to_owned()].as_slice(), 0)
        );
        let (lines, missed) = corrected(|lines| lines[4] = by_a_person(lines[4].clone(), "x 7 y"));
        assert_eq!(
            (lines[3].as_slice(), missed),
            (["x 1".to_owned(), "y 2".to_owned()].as_slice(), 1)
        );
    }

    #[test]
    fn pages_of_lines_have_the_blocks_of_what_is_there_now() {
        let mut lines: Vec<LineDocument> = (0..3).map(|number| line(number, "བཀྲ་ཤིས་བདེ་ལེགས།")).collect();
        lines[1] = by_a_person(lines[1].clone(), "བདེ་བར་ཤོག");
        let blocks = blocks_of_lines(&page(lines));
        let text: String = blocks
            .iter()
            .flat_map(|block| block.lines.concat().chars().collect::<Vec<_>>())
            .collect();
        assert!(text.contains("བདེ་བར་ཤོག"), "{text}");
    }
}
