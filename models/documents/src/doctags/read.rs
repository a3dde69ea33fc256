//! Reader of DocTags as models write them. Tags that the format does not know stay text, so that nothing of an answer is lost; a
//! structure that is none is refused.

use super::GRID;
use super::table::Grid;
use super::token::{Element, Token, tokens};
use crate::block::{Block, Role, TableError};
use crate::geometry::{Bounds, height, holds, median, middle};
use crate::page::{Page, as_they_lie, in_order};

/// Largest number of blocks of a page, and of parts within each other.
const MOST_BLOCKS: usize = 5_000;
const MOST_DEPTH: usize = 16;
/// Words with which models end, where a server does not take them away.
const ENDS: [&str; 3] = ["<|end_of_text|>", "<end_of_utterance>", "<|im_end|>"];

/// Reason for which a text is not a page in DocTags.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DocTagsError {
    #[error("the text has no tags of DocTags")]
    NoTags,
    #[error("the text ends within <{0}>")]
    Unfinished(String),
    #[error("</{found}> stands where </{open}> is due")]
    Crossed { open: String, found: String },
    #[error("the place of <{tag}> has {coordinates} coordinates and not 4")]
    Place { tag: String, coordinates: usize },
    #[error("the text is that of several pages")]
    SeveralPages,
    #[error("the page has more than {MOST_BLOCKS} blocks")]
    TooManyBlocks,
    #[error("more than {MOST_DEPTH} parts are within each other")]
    TooDeep,
    #[error(transparent)]
    Table(#[from] TableError),
}

/// The blocks of a page that a text in DocTags has: headers first, footers last, the others in the order of the text. The text is that of the
/// page with its content upright; the words of the page tell the height of the letters. A place that the text does not tell is that of the
/// part around it.
///
/// # Errors
///
/// [`DocTagsError`] for a text that is no page.
pub fn blocks_of_doctags(text: &str, page: &Page<'_>) -> Result<Vec<Block>, DocTagsError> {
    let mut read = parsed(text)?;
    Ok(as_they_lie(page, |upright| {
        let mut taken = vec![false; upright.words.len()];
        for block in &mut read {
            block.bounds = scaled(block.bounds, upright.size);
            let table = block.table.take();
            block.table = table.map(|table| table.mapped(|bounds| scaled(bounds, upright.size)));
            take_words(block, upright, &mut taken);
        }
        in_order(read)
    }))
}

/// Bounds on the grid of DocTags in the measures of a page of this size.
fn scaled(bounds: Bounds, size: [f32; 2]) -> Bounds {
    std::array::from_fn(|edge| bounds[edge] * size[edge % 2] / GRID)
}

/// Gives a block the words in its box that no other one has, and the height of their letters.
fn take_words(block: &mut Block, page: &Page<'_>, taken: &mut [bool]) {
    for (place, word) in page.words.iter().enumerate() {
        if !taken[place] && holds(&block.bounds, &word.bounds) {
            taken[place] = true;
            block.words.push(place);
        }
    }
    if block.role != Role::Figure {
        let heights = block.words.iter().map(|&place| height(&page.words[place].bounds));
        block.size = median(heights.collect()).unwrap_or(0.0);
    }
}

/// Part of the page that has not ended.
struct Part<'t> {
    tag: &'t str,
    element: Element,
    coordinates: Vec<u16>,
    /// Place of the part around it.
    around: Bounds,
    text: String,
    grid: Grid,
    /// Blocks within it.
    blocks: Vec<Block>,
}

impl<'t> Part<'t> {
    fn new(tag: &'t str, element: Element, around: Bounds) -> Self {
        Self {
            tag,
            element,
            coordinates: Vec::new(),
            around,
            text: String::new(),
            grid: Grid::default(),
            blocks: Vec::new(),
        }
    }

    fn bounds(&self) -> Result<Bounds, DocTagsError> {
        match self.coordinates[..] {
            [] => Ok(self.around),
            [x0, y0, x1, y1] => {
                let [x0, y0, x1, y1] = [x0, y0, x1, y1].map(|place| f32::from(place).min(GRID));
                Ok([x0.min(x1), y0.min(y1), x0.max(x1), y0.max(y1)])
            }
            _ => Err(DocTagsError::Place {
                tag: self.tag.to_owned(),
                coordinates: self.coordinates.len(),
            }),
        }
    }

    fn take(&mut self, token: Token<'t>) {
        match token {
            Token::Location(place) => self.coordinates.push(place),
            Token::Cell(tag) if self.element == Element::Block(Role::Table) => self.grid.push(tag),
            // The values of a drawing, say.
            Token::Cell(super::token::CellTag::EndOfRow) => self.text.push('\n'),
            Token::Cell(_) => self.text.push(' '),
            Token::Text(text) => self.grid.text().unwrap_or(&mut self.text).push_str(text),
            Token::Open(..) | Token::Close(_) | Token::PageBreak => {}
        }
    }

    /// Makes a block of what stands in a group beside its parts, and gives the place of the group to these.
    fn flush(&mut self) -> Result<(), DocTagsError> {
        if self.element != Element::Group {
            return Ok(());
        }
        let bounds = self.bounds()?;
        self.coordinates.clear();
        let lines = lines(&std::mem::take(&mut self.text));
        if lines.is_empty() {
            self.around = bounds;
        } else {
            self.blocks.push(block(Role::Text, bounds, lines));
        }
        Ok(())
    }

    /// The blocks of a part that has ended.
    fn ended(mut self) -> Result<Vec<Block>, DocTagsError> {
        self.flush()?;
        let bounds = self.bounds()?;
        let mut lines = lines(&self.text);
        let own: Vec<Block> = match self.element {
            Element::Group => return Ok(self.blocks),
            Element::Checkbox { is_marked } => {
                let mark = if is_marked { "☒" } else { "☐" };
                match lines.first_mut() {
                    Some(first) if !first.starts_with(['☒', '☐']) => *first = format!("{mark} {first}"),
                    Some(_) => {}
                    None => lines.push(mark.to_owned()),
                }
                vec![block(Role::Text, bounds, lines)]
            }
            Element::Block(Role::Table) => {
                let table = self.grid.table(bounds, |text| self::lines(text).join(" "))?;
                // What stands before the first cell is no cell.
                let before = (!lines.is_empty()).then(|| block(Role::Text, bounds, lines));
                let table = table.map(|table| Block {
                    table: Some(table),
                    ..block(Role::Table, bounds, Vec::new())
                });
                before.into_iter().chain(table).collect()
            }
            Element::Block(Role::Figure) => vec![block(Role::Figure, bounds, lines)],
            Element::Block(_) if lines.is_empty() => Vec::new(),
            Element::Block(role) => vec![block(role, bounds, lines)],
        };
        // A caption stands where it is on the page.
        let is_above = |inner: &Block| middle(&inner.bounds, 1) < middle(&bounds, 1);
        let (above, below): (Vec<Block>, Vec<Block>) = self.blocks.into_iter().partition(is_above);
        Ok(above.into_iter().chain(own).chain(below).collect())
    }
}

fn block(role: Role, bounds: Bounds, lines: Vec<String>) -> Block {
    Block {
        role,
        bounds,
        lines,
        words: Vec::new(),
        size: 0.0,
        table: None,
    }
}

/// The lines of a text, without the signs that stand for those of tags.
fn lines(text: &str) -> Vec<String> {
    let plain = text
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&amp;", "&");
    let lines = plain.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.map(str::to_owned).collect()
}

/// The blocks of a text with their places on the grid, in the order of the text.
fn parsed(text: &str) -> Result<Vec<Block>, DocTagsError> {
    let mut text = text.trim();
    while let Some(before) = ENDS.iter().find_map(|end| text.strip_suffix(end)) {
        text = before.trim_end();
    }
    let mut around: Vec<Part<'_>> = Vec::new();
    let mut part = Part::new("", Element::Group, [0.0, 0.0, GRID, GRID]);
    let (mut has_tags, mut blocks) = (text.is_empty(), 0);
    for token in tokens(text) {
        match token {
            Token::PageBreak => return Err(DocTagsError::SeveralPages),
            Token::Open(tag, element) => {
                if around.len() == MOST_DEPTH {
                    return Err(DocTagsError::TooDeep);
                }
                part.flush()?;
                has_tags = true;
                blocks += usize::from(element != Element::Group);
                let inner = Part::new(tag, element, part.bounds()?);
                around.push(std::mem::replace(&mut part, inner));
            }
            Token::Close(tag) if tag == part.tag => {
                let Some(outer) = around.pop() else { break };
                let ended = std::mem::replace(&mut part, outer).ended()?;
                part.blocks.extend(ended);
            }
            Token::Close(tag) => {
                return Err(DocTagsError::Crossed {
                    open: part.tag.to_owned(),
                    found: tag.to_owned(),
                });
            }
            token => part.take(token),
        }
        if blocks > MOST_BLOCKS {
            return Err(DocTagsError::TooManyBlocks);
        }
    }
    if !has_tags {
        return Err(DocTagsError::NoTags);
    }
    // A server that stops at the last tag takes it away.
    if part.tag == "doctag"
        && let Some(outer) = around.pop()
    {
        let ended = std::mem::replace(&mut part, outer).ended()?;
        part.blocks.extend(ended);
    }
    match around.is_empty() {
        true => part.ended(),
        false => Err(DocTagsError::Unfinished(part.tag.to_owned())),
    }
}

#[cfg(test)]
mod tests;
