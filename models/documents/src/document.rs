//! A document: the blocks of its pages as one text, without what belongs to pages alone.

use crate::block::{Block, Role, Table};
use crate::geometry::{Bounds, common};
use crate::lines::is_written_together;
use crate::markers::{ends_sentence, marker};
use crate::tibetan::opens;

/// Blocks of a page of a document.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DocumentPage {
    /// Number of the page, from 1.
    pub number: u32,
    /// Width and height in points.
    pub size: [f32; 2],
    /// Name of its image; empty where that is not known.
    pub image: String,
    /// In reading order.
    pub blocks: Vec<Block>,
}

/// Place of a part of a document.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Place {
    /// Number of the page, from 1.
    pub page: u32,
    /// Left, top, right and bottom in points.
    pub bounds: Bounds,
    /// Place of the block on its page.
    pub block: usize,
    /// Byte of the part's text at which that of this place begins.
    pub start: usize,
}

/// Part of a document: a block, or a paragraph that began on one page and ends on another.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    pub role: Role,
    /// The text in one line, of verse in its own lines; empty for a table.
    pub text: String,
    pub table: Option<Table>,
    /// Height of the letters of its first block in points; 0 without any.
    pub size: f32,
    /// Places of its blocks in reading order; at least one.
    pub places: Vec<Place>,
}

/// The parts of a document in reading order. Headers and footers are left out; a paragraph that goes on in the next column or on the next
/// page is one part.
pub fn parts(pages: &[DocumentPage]) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    // Place of the paragraph that may go on: figures, tables and notes may stand between its halves.
    let mut open: Option<usize> = None;
    for page in pages {
        for (number, block) in page.blocks.iter().enumerate() {
            if block.role.is_furniture() {
                continue;
            }
            let place = Place {
                page: page.number,
                bounds: block.bounds,
                block: number,
                start: 0,
            };
            let text = match block.role {
                Role::Verse => block.lines.join("\n"),
                _ => joined_lines(&block.lines),
            };
            match block.role {
                Role::Text => {
                    let before = open
                        .take()
                        .and_then(|open| parts.get_mut(open).map(|part| (open, part)));
                    if let Some((number, before)) = before
                        && goes_on(before, &place, &text)
                    {
                        append(&mut before.text, &text);
                        let start = before.text.len() - text.len();
                        before.places.push(Place { start, ..place });
                        open = Some(number);
                        continue;
                    }
                    open = Some(parts.len());
                }
                Role::Title | Role::Heading | Role::Verse | Role::ListItem | Role::Formula => open = None,
                _ => {}
            }
            parts.push(Part {
                role: block.role,
                text,
                table: block.table.clone(),
                size: block.size,
                places: vec![place],
            });
        }
    }
    parts
}

/// The lines of a block as one text.
pub(crate) fn joined_lines(lines: &[String]) -> String {
    let mut text = String::new();
    for line in lines {
        append(&mut text, line.trim());
    }
    text
}

/// True if a line goes on in the middle of what the one before ends with: a word, or a text of a script without spaces.
pub(crate) fn goes_together(before: &str, line: &str) -> bool {
    let (last, first) = (before.chars().next_back(), line.chars().next());
    last.zip(first).is_some_and(|(last, first)| {
        is_parted(before, first) || is_written_together(last) && is_written_together(first)
    })
}

/// Appends a line to a text: without a space in scripts that have none, and without the hyphen that a word was parted by.
fn append(text: &mut String, line: &str) {
    let (Some(last), Some(first)) = (text.chars().next_back(), line.chars().next()) else {
        text.push_str(line);
        return;
    };
    if is_parted(text, first) {
        text.pop();
    } else if !(is_written_together(last) && is_written_together(first)) {
        text.push(' ');
    }
    text.push_str(line);
}

/// True if a text ends in the first part of a word whose second part begins with `next`: a hyphen behind a letter, before a small one.
fn is_parted(text: &str, next: char) -> bool {
    let mut last = text.chars().rev();
    matches!(last.next(), Some('-' | '\u{00AD}' | '\u{2010}'))
        && last.next().is_some_and(char::is_lowercase)
        && next.is_lowercase()
}

/// True if a paragraph goes on with a text at another place: in the next column or on the next page, in the middle of a sentence.
fn goes_on(before: &Part, place: &Place, text: &str) -> bool {
    let Some(last) = before.places.last() else {
        return false;
    };
    // Another column lies beside this one; on a page that lies turned, the next paragraph may lie above.
    let is_beside = common(&place.bounds, &last.bounds, 0) <= 0.0;
    let is_elsewhere = place.page != last.page || is_beside && place.bounds[1] < last.bounds[1];
    let begins_anew = text
        .chars()
        .next()
        .is_none_or(|first| first.is_uppercase() || first.is_numeric() || opens(first));
    is_elsewhere
        && place.page <= last.page + 1
        && !ends_sentence(&before.text)
        && !begins_anew
        && marker(text).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(role: Role, y0: f32, lines: &[&str]) -> Block {
        Block {
            role,
            bounds: [0.0, y0, 100.0, y0 + 10.0],
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
            blocks,
            ..DocumentPage::default()
        }
    }

    #[test]
    fn a_paragraph_goes_on_over_the_end_of_a_page() {
        let pages = [
            page(
                1,
                vec![
                    block(Role::Header, 10.0, &["running title"]),
                    block(Role::Text, 700.0, &["A sentence that is not"]),
                    block(Role::Footnote, 750.0, &["1 A note."]),
                    block(Role::Footer, 780.0, &["1"]),
                ],
            ),
            page(
                2,
                vec![
                    block(Role::Header, 10.0, &["running title"]),
                    block(Role::Text, 50.0, &["at its end."]),
                    block(Role::Text, 90.0, &["Another one."]),
                ],
            ),
        ];
        let parts = parts(&pages);
        let texts: Vec<&str> = parts.iter().map(|part| part.text.as_str()).collect();
        assert_eq!(
            texts,
            ["A sentence that is not at its end.", "1 A note.", "Another one."]
        );
        assert_eq!(parts[0].places.len(), 2);
    }

    #[test]
    fn a_text_that_a_yig_mgo_opens_is_no_part_of_the_one_before() {
        let found = |second: &str| {
            let pages = [
                page(1, vec![block(Role::Text, 700.0, &["བཅོམ་ལྡན་འདས་མཉན་ཡོད་"])]),
                page(2, vec![block(Role::Text, 50.0, &[second])]),
            ];
            parts(&pages).len()
        };
        assert_eq!(found("ན་བཞུགས་སོ།"), 1);
        assert_eq!(found("༄༅། །འདི་སྐད་བདག་གིས་ཐོས་པ།"), 2);
    }

    #[test]
    fn words_that_were_parted_are_joined() {
        let text =
            |lines: &[&str]| joined_lines(&lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>());
        assert_eq!(text(&["the velo-", "city of it"]), "the velocity of it");
        assert_eq!(text(&["the Anglo-", "Saxon"]), "the Anglo- Saxon");
        assert_eq!(text(&["2019-", "2020"]), "2019- 2020");
        assert_eq!(text(&["本公司之", "董事會"]), "本公司之董事會");
        assert_eq!(text(&["བཀྲ་ཤིས་", "བདེ་ལེགས།"]), "བཀྲ་ཤིས་བདེ་ལེགས།");
    }
}
