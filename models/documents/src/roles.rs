//! Roles of blocks: by their place, size and words, and by the regions of the layout network.

use crate::block::{Block, Role};
use crate::geometry::{Bounds, area, common, intersection, middle, width};
use crate::layout::{LayoutClass, Region};
use crate::markers::{
    Marker, ends_sentence, has_leader, is_caption, is_formula, is_note, is_page_number, marker,
};

/// Share of the height of a page above which there are headers, and below which there are footers, with or without the network.
const HEADER_ZONE: f32 = 0.07;
const FOOTER_ZONE: f32 = 0.93;
/// Share up to which there are any where the network sees them.
const NEAR_HEADER: f32 = 0.14;
const NEAR_FOOTER: f32 = 0.86;
/// Gap between headers or footers and the text, in heights of their letters.
const APART: f32 = 0.8;
/// Largest number of lines of a header or footer, and of a heading.
const FEW_LINES: usize = 4;
/// Largest number of characters of a heading.
const SHORT_TEXT: usize = 140;
/// Ratio to the size of the page's text from which letters are large, and up to which they are small.
const LARGE: f32 = 1.12;
const SMALL: f32 = 0.93;
/// Probability from which a line no larger than the text is a heading.
const SURE_TITLE: f32 = 0.6;
/// Distance between a caption and what it belongs to, in heights of its letters.
const NEAR: f32 = 3.0;

/// Surroundings of the blocks of a page.
pub(crate) struct Neighbourhood<'p> {
    /// Width and height of the page in points.
    pub(crate) page: [f32; 2],
    pub(crate) regions: &'p [Region],
}

impl Neighbourhood<'_> {
    /// The region that covers most of a box, if it covers more than half; of several the surest.
    pub(crate) fn region_of(&self, bounds: &Bounds) -> Option<&Region> {
        let least = 0.5 * area(bounds);
        let covers = |region: &&Region| {
            !matches!(region.kind, LayoutClass::Figure | LayoutClass::Table)
                && intersection(&region.bounds, bounds) > least
        };
        let covering = self.regions.iter().filter(covers);
        covering.max_by(|one, other| one.score.total_cmp(&other.score))
    }
}

/// Gives the blocks of a page, which are in reading order, their roles.
pub(crate) fn give_roles(blocks: &mut [Block], page: &Neighbourhood<'_>) {
    let body = BodySize::of(blocks);
    for place in 0..blocks.len() {
        if blocks[place].role == Role::Text {
            blocks[place].role = role(blocks, place, body, page);
        }
    }
    title(blocks, body);
}

/// Heights of the letters of a page's text.
#[derive(Debug, Clone, Copy, Default)]
struct BodySize {
    /// Height of most words.
    usual: f32,
    /// Ratio from which letters are larger than all that vary about the usual: 1.12, and more where the heights are those of ink.
    large: f32,
}

/// Words of a table for one of the text: a page with a large table is not one of small letters.
const TABLE_WORDS: usize = 4;

impl BodySize {
    fn of(blocks: &[Block]) -> Self {
        let mut sizes: Vec<(f32, usize)> = blocks
            .iter()
            .filter(|block| block.size > 0.0)
            .map(|block| match block.table {
                Some(_) => (block.size, block.words.len().div_ceil(TABLE_WORDS)),
                None => (block.size, block.words.len()),
            })
            .collect();
        sizes.sort_by(|one, other| one.0.total_cmp(&other.0));
        let usual = at_share(&sizes, 0.5);
        sizes.retain(|(size, _)| (0.7 * usual..1.4 * usual).contains(size));
        let spread = at_share(&sizes, 0.85) / at_share(&sizes, 0.5).max(f32::MIN_POSITIVE);
        Self {
            usual,
            large: LARGE * spread.max(1.0),
        }
    }
}

/// The size that a share of the words do not exceed; sizes ascend.
fn at_share(sizes: &[(f32, usize)], share: f32) -> f32 {
    let wanted = share * sizes.iter().map(|(_, words)| words).sum::<usize>() as f32;
    let mut seen = 0;
    let found = sizes.iter().find(|(_, words)| {
        seen += words;
        seen as f32 > wanted
    });
    found.or(sizes.last()).map_or(0.0, |(size, _)| *size)
}

fn role(blocks: &[Block], place: usize, body: BodySize, page: &Neighbourhood<'_>) -> Role {
    let block = &blocks[place];
    let region = page.region_of(&block.bounds);
    let kind = region.map(|region| region.kind);
    if is_header(blocks, block, kind, body, page) {
        return Role::Header;
    }
    if is_footer(blocks, block, kind, body, page) {
        return Role::Footer;
    }
    let text = block.lines.join(" ");
    if is_caption_of(blocks, block, &text, kind, body.usual) {
        return Role::Caption;
    }
    if is_footnote(blocks, place, &text, body.usual, page) {
        return Role::Footnote;
    }
    if block.lines.len() == 1 && (kind == Some(LayoutClass::Equation) || is_formula(&text)) {
        return Role::Formula;
    }
    if is_heading(blocks, place, &text, region, body) {
        return Role::Heading;
    }
    match marker(&text) {
        Some(Marker::Bullet) => Role::ListItem,
        // An entry of a table of contents is no item.
        Some(Marker::Bracketed | Marker::Dotted) if has_item_beside(blocks, place) && !has_leader(&text) => {
            Role::ListItem
        }
        _ => Role::Text,
    }
}

/// Gap between a block and the nearest one below it, or above, of those outside a zone; infinite where there is none.
fn gap(blocks: &[Block], block: &Block, is_below: bool, is_in_zone: impl Fn(&Bounds) -> bool) -> f32 {
    let gaps = blocks.iter().filter_map(|other| {
        let apart = middle(&other.bounds, 1) - middle(&block.bounds, 1);
        let lies_there = if is_below { apart > 0.0 } else { apart < 0.0 };
        (lies_there && !is_in_zone(&other.bounds)).then(|| -common(&block.bounds, &other.bounds, 1))
    });
    gaps.fold(f32::INFINITY, f32::min)
}

fn is_header(
    blocks: &[Block],
    block: &Block,
    kind: Option<LayoutClass>,
    body: BodySize,
    page: &Neighbourhood<'_>,
) -> bool {
    let [_, height] = page.page;
    let is_in_zone = |bounds: &Bounds| bounds[1] < HEADER_ZONE * height && bounds[3] < NEAR_HEADER * height;
    let is_likely = kind == Some(LayoutClass::Header)
        && block.bounds[3] < NEAR_HEADER * height
        && block.size < body.large * body.usual;
    block.lines.len() <= FEW_LINES
        && (is_in_zone(&block.bounds) || is_likely)
        && gap(blocks, block, true, is_in_zone) > APART * block.size
}

fn is_footer(
    blocks: &[Block],
    block: &Block,
    kind: Option<LayoutClass>,
    body: BodySize,
    page: &Neighbourhood<'_>,
) -> bool {
    let [_, height] = page.page;
    if block.lines.len() > FEW_LINES || block.bounds[1] < NEAR_FOOTER * height {
        return false;
    }
    let is_in_zone = |bounds: &Bounds| bounds[3] > FOOTER_ZONE * height && bounds[1] > NEAR_FOOTER * height;
    let is_number = block.lines.len() == 1 && is_page_number(&block.lines[0]);
    let is_likely = kind == Some(LayoutClass::Footer) && block.size < body.large * body.usual;
    (is_in_zone(&block.bounds) || is_number || is_likely)
        && gap(blocks, block, false, is_in_zone) > APART * block.size
}

/// True for a caption of a figure or table that stands near.
fn is_caption_of(blocks: &[Block], block: &Block, text: &str, kind: Option<LayoutClass>, body: f32) -> bool {
    let is_seen = matches!(kind, Some(LayoutClass::FigureCaption | LayoutClass::TableCaption))
        && block.size <= body
        && !(ends_sentence(text) && block.size > SMALL * body);
    if block.lines.len() > FEW_LINES || !(is_caption(text) || is_seen) {
        return false;
    }
    blocks.iter().any(|other| {
        matches!(other.role, Role::Figure | Role::Table)
            && -common(&block.bounds, &other.bounds, 1) < NEAR * block.size
            && common(&block.bounds, &other.bounds, 0) > 0.5 * width(&block.bounds).min(width(&other.bounds))
    })
}

/// True for small text below a table or at the foot of the page, and for what goes on a note before.
fn is_footnote(blocks: &[Block], place: usize, text: &str, body: f32, page: &Neighbourhood<'_>) -> bool {
    let block = &blocks[place];
    if block.size >= SMALL * body {
        return false;
    }
    let is_low = block.bounds[1] > 0.75 * page.page[1];
    let before = place.checked_sub(1).and_then(|before| blocks.get(before));
    let follows = before.is_some_and(|before| {
        matches!(before.role, Role::Table | Role::Footnote)
            && -common(&block.bounds, &before.bounds, 1) < NEAR * block.size
    });
    follows || is_note(text) || is_low && (marker(text).is_some() || begins_with_sign(text))
}

fn begins_with_sign(text: &str) -> bool {
    text.starts_with(['*', '†', '‡', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'])
}

fn is_heading(blocks: &[Block], place: usize, text: &str, region: Option<&Region>, body: BodySize) -> bool {
    let block = &blocks[place];
    let characters = text.chars().count();
    let has_letters = text.chars().any(char::is_alphabetic) && !has_leader(text);
    if block.lines.len() > FEW_LINES || characters > SHORT_TEXT || !has_letters {
        return false;
    }
    let goes_on = text.ends_with([',', '，', '、']) || text.starts_with(char::is_lowercase);
    if goes_on || block.size < SMALL * body.usual {
        return false;
    }
    if block.size > body.large * body.usual {
        return true;
    }
    if ends_sentence(text) {
        return false;
    }
    let mark = marker(text);
    let is_numbered = matches!(mark, Some(Marker::Number | Marker::Han))
        || mark == Some(Marker::Dotted) && !has_item_beside(blocks, place);
    let is_seen = region.is_some_and(|region| region.kind == LayoutClass::Title && region.score > SURE_TITLE);
    is_numbered && block.lines.len() == 1 && characters <= SHORT_TEXT / 2 || is_seen && block.lines.len() <= 2
}

/// Makes the first heading of a page its title where its letters are the largest, and larger than those of the text.
fn title(blocks: &mut [Block], body: BodySize) {
    let largest = blocks
        .iter()
        .filter(|block| block.role == Role::Heading)
        .map(|block| block.size)
        .fold(0.0, f32::max);
    let first = blocks.iter_mut().find(|block| !block.role.is_furniture());
    if let Some(first) = first
        && first.role == Role::Heading
        && first.size >= 0.95 * largest
        && first.size > body.large * body.usual
    {
        first.role = Role::Title;
    }
}

/// True if a block beside this one begins with the same kind of mark, in the same column.
fn has_item_beside(blocks: &[Block], place: usize) -> bool {
    let block = &blocks[place];
    let mark = block.lines.first().and_then(|line| marker(line));
    let is_alike = |other: &Block| {
        mark.is_some()
            && other.lines.first().and_then(|line| marker(line)) == mark
            && (other.bounds[0] - block.bounds[0]).abs() < block.size
    };
    let beside = [place.checked_sub(1), Some(place + 1)];
    beside
        .into_iter()
        .flatten()
        .filter_map(|beside| blocks.get(beside))
        .any(is_alike)
}
