//! A page, from words and regions to blocks.

use std::collections::BTreeSet;

use parkhang_cv::reading_order::reading_order;
use parkhang_cv::turn::Turn;

use crate::block::{Block, Cell, Role, Table};
use crate::cells::filled;
use crate::geometry::{Bounds, area, around, common, height, holds, intersection, median, middle, union};
use crate::layout::{LayoutClass, PageLayout, PlacedTable, Region};
use crate::lines::{TextLine, lines};
use crate::paragraphs::{Pitch, paragraphs};
use crate::roles::{Neighbourhood, give_roles};
use crate::word::PageWord;

/// Words and layout of a page.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Page<'p> {
    /// Width and height in points.
    pub size: [f32; 2],
    /// In the order in which they are read.
    pub words: Vec<PageWord<'p>>,
    /// Turn of the content; all boxes are those of the page as it lies.
    pub turn: Turn,
    /// Regions and tables, in points.
    pub layout: PageLayout,
}

/// Share of a figure that words may cover: what has more is text.
const MOST_TEXT: f32 = 0.35;
/// Height of letters in points, and in heights of a figure, beyond which they were read into the figure and are no text.
const TALLEST: f32 = 72.0;
const TALLEST_IN_FIGURE: f32 = 0.25;
/// Probability from which a region counts as a figure.
const SURE_FIGURE: f32 = 0.5;

/// A part of a page that is put in order as one.
enum Part {
    Line(TextLine),
    Block(Block),
}

impl Part {
    fn bounds(&self) -> &Bounds {
        match self {
            Self::Line(line) => &line.bounds,
            Self::Block(block) => &block.bounds,
        }
    }
}

/// The blocks of a page in reading order: headers first, footers last.
pub fn blocks(page: &Page<'_>) -> Vec<Block> {
    as_they_lie(page, blocks_of_upright)
}

/// The blocks that `of_upright` makes of the page with its content upright, at their places on the page as it lies.
pub(crate) fn as_they_lie(page: &Page<'_>, of_upright: impl FnOnce(&Page<'_>) -> Vec<Block>) -> Vec<Block> {
    let Page { turn, size, .. } = *page;
    if turn == Turn::Upright {
        return of_upright(page);
    }
    let mut blocks = of_upright(&upright(page));
    let size = (size[0], size[1]);
    for block in &mut blocks {
        block.bounds = turn.bounds_as_they_lie(block.bounds, size);
        let table = block.table.take();
        block.table = table.map(|table| table.mapped(|bounds| turn.bounds_as_they_lie(bounds, size)));
    }
    blocks
}

/// The page with its content upright.
fn upright<'p>(page: &Page<'p>) -> Page<'p> {
    let size = page.turn.upright_size((page.size[0], page.size[1]));
    let to_upright = |bounds| page.turn.back().bounds_as_they_lie(bounds, size);
    let mut upright = page.clone();
    upright.size = [size.0, size.1];
    upright.turn = Turn::Upright;
    for word in &mut upright.words {
        word.bounds = to_upright(word.bounds);
    }
    upright.layout = upright.layout.mapped(to_upright);
    upright
}

/// Turn of the content of a page, by the direction in which the words of its lines follow each other.
pub fn turn_of(words: &[PageWord<'_>]) -> Turn {
    // Each pair has one vote, so that one wide gap does not decide.
    let mut ways = [0.0_f32; 2];
    for pair in words.windows(2) {
        if let [one, other] = pair
            && one.line == other.line
        {
            let step = [0, 1].map(|axis| middle(&other.bounds, axis) - middle(&one.bounds, axis));
            let axis = usize::from(step[1].abs() > step[0].abs());
            if step[axis].is_finite() && step[axis] != 0.0 {
                ways[axis] += step[axis].signum();
            }
        }
    }
    match ways {
        [right, down] if right.abs() >= down.abs() && right >= 0.0 => Turn::Upright,
        [right, down] if right.abs() >= down.abs() => Turn::Half,
        [_, down] if down > 0.0 => Turn::Quarter,
        _ => Turn::ThreeQuarters,
    }
}

fn blocks_of_upright(page: &Page<'_>) -> Vec<Block> {
    let mut taken = vec![false; page.words.len()];
    let mut parts: Vec<Part> = Vec::new();
    for table in &page.layout.tables {
        parts.extend(table_block(page, table, &mut taken).map(Part::Block));
    }
    for figure in figures(page) {
        parts.push(Part::Block(figure_block(page, &figure, &mut taken)));
    }
    parts.extend(lines(&page.words, &taken).into_iter().map(Part::Line));
    let bounds: Vec<Bounds> = parts.iter().map(|part| *part.bounds()).collect();
    let mut parts: Vec<Option<Part>> = parts.into_iter().map(Some).collect();
    let ordered = reading_order(&bounds)
        .into_iter()
        .filter_map(|place| parts[place].take());

    let ordered: Vec<Part> = ordered.collect();
    let pitch = Pitch::of(ordered.iter().filter_map(|part| match part {
        Part::Line(line) => Some(line),
        Part::Block(_) => None,
    }));
    let neighbourhood = Neighbourhood {
        page: page.size,
        regions: &page.layout.regions,
    };
    let mut blocks = Vec::new();
    let mut run = Vec::new();
    for part in ordered {
        match part {
            Part::Line(line) => run.push(line),
            Part::Block(block) => {
                blocks.extend(paragraphs(std::mem::take(&mut run), &pitch, &neighbourhood));
                blocks.push(block);
            }
        }
    }
    blocks.extend(paragraphs(run, &pitch, &neighbourhood));
    give_roles(&mut blocks, &neighbourhood);
    joined_furniture(in_order(blocks))
}

/// Joins the lines of a header or footer, which may differ in size.
fn joined_furniture(blocks: Vec<Block>) -> Vec<Block> {
    let mut joined: Vec<Block> = Vec::with_capacity(blocks.len());
    for block in blocks {
        if let Some(last) = joined.last_mut()
            && last.role == block.role
            && block.role.is_furniture()
            && -common(&last.bounds, &block.bounds, 1) < block.size
            && common(&last.bounds, &block.bounds, 0) > 0.0
        {
            last.bounds = union(&last.bounds, &block.bounds);
            last.lines.extend(block.lines);
            last.words.extend(block.words);
        } else {
            joined.push(block);
        }
    }
    joined
}

/// Moves headers to the beginning and footers to the end.
pub(crate) fn in_order(mut blocks: Vec<Block>) -> Vec<Block> {
    let rank = |block: &Block| match block.role {
        Role::Header => 0,
        Role::Footer => 2,
        _ => 1,
    };
    // Stable: blocks of one rank keep their order.
    blocks.sort_by_key(rank);
    blocks
}

/// The block of a table, and its words taken; `None` where it holds none.
fn table_block(page: &Page<'_>, table: &PlacedTable, taken: &mut [bool]) -> Option<Block> {
    let inside: Vec<usize> = (0..page.words.len())
        .filter(|&place| !taken[place] && holds(&table.bounds, &page.words[place].bounds))
        .collect();
    let words = around(inside.iter().map(|&place| &page.words[place].bounds))?;
    let filled = filled(&table.structure, &page.words, &inside).ok();
    let filled = filled.filter(is_table)?;
    let heights = inside.iter().map(|&place| height(&page.words[place].bounds));
    let size = median(heights.collect())?;
    for &place in &inside {
        taken[place] = true;
    }
    Some(Block {
        role: Role::Table,
        bounds: union(&table.bounds, &words),
        lines: Vec::new(),
        table: Some(filled),
        words: inside,
        size,
    })
}

/// True for a grid with words in two rows and two columns at least: boxes of forms are seen as tables, too.
fn is_table(table: &Table) -> bool {
    let written = || table.cells().iter().filter(|cell| !cell.text.is_empty());
    let of = |place: fn(&Cell) -> usize| {
        let places: BTreeSet<usize> = written().map(place).collect();
        places.len()
    };
    of(|cell| cell.row) >= 2 && of(|cell| cell.column) >= 2
}

/// The regions of figures that hold little text; none lies within another or in a table.
fn figures(page: &Page<'_>) -> Vec<Region> {
    let mut figures: Vec<Region> = Vec::new();
    let of_figures = page
        .layout
        .regions
        .iter()
        .filter(|region| region.kind == LayoutClass::Figure && region.score >= SURE_FIGURE);
    for region in of_figures {
        let covers = |other: &Bounds| {
            intersection(&region.bounds, other) > 0.5 * area(&region.bounds).min(area(other))
        };
        let tallest = TALLEST.max(TALLEST_IN_FIGURE * height(&region.bounds));
        let text: f32 = page
            .words
            .iter()
            .filter(|word| height(&word.bounds) <= tallest)
            .map(|word| intersection(&word.bounds, &region.bounds))
            .sum();
        let is_figure = text < MOST_TEXT * area(&region.bounds)
            && !page.layout.tables.iter().any(|table| covers(&table.bounds))
            && !figures.iter().any(|other| covers(&other.bounds));
        if is_figure {
            figures.push(*region);
        }
    }
    figures
}

/// The block of a figure, and the words in it taken.
fn figure_block(page: &Page<'_>, figure: &Region, taken: &mut [bool]) -> Block {
    let mut left_out = vec![true; page.words.len()];
    for (place, word) in page.words.iter().enumerate() {
        if !taken[place] && holds(&figure.bounds, &word.bounds) {
            left_out[place] = false;
            taken[place] = true;
        }
    }
    let labels = lines(&page.words, &left_out);
    Block {
        role: Role::Figure,
        bounds: figure.bounds,
        words: labels
            .iter()
            .flat_map(|line| line.words.iter().copied())
            .collect(),
        lines: labels.into_iter().map(|line| line.text).collect(),
        size: 0.0,
        table: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::TableStructure;

    fn word(text: &str, bounds: Bounds, line: i32) -> PageWord<'_> {
        PageWord { text, bounds, line }
    }

    fn page(words: Vec<PageWord<'_>>) -> Page<'_> {
        Page {
            size: [600.0, 800.0],
            words,
            ..Page::default()
        }
    }

    #[test]
    fn a_turned_page_has_the_blocks_of_the_upright_one() {
        let words = vec![
            word("The", [50.0, 200.0, 80.0, 212.0], 0),
            word("text", [84.0, 200.0, 300.0, 212.0], 0),
            word("goes", [50.0, 215.0, 90.0, 227.0], 1),
            word("on.", [94.0, 215.0, 120.0, 227.0], 1),
            word("Another", [50.0, 250.0, 120.0, 262.0], 2),
            word("one.", [124.0, 250.0, 160.0, 262.0], 2),
        ];
        let upright = page(words);
        let expected: Vec<_> = blocks(&upright)
            .into_iter()
            .map(|block| (block.role, block.lines))
            .collect();
        assert_eq!(expected.len(), 2);
        for turn in Turn::ALL {
            let (width, height) = turn.upright_size((600.0, 800.0));
            let mut turned = upright.clone();
            turned.size = [width, height];
            for word in &mut turned.words {
                word.bounds = turn.bounds_as_they_lie(word.bounds, (width, height));
            }
            assert_eq!(turn_of(&turned.words), turn);
            turned.turn = turn;
            let found = blocks(&turned);
            let bounds = turn.back().bounds_as_they_lie(found[0].bounds, (600.0, 800.0));
            assert_eq!(bounds, [50.0, 200.0, 300.0, 227.0]);
            let found: Vec<_> = found.into_iter().map(|block| (block.role, block.lines)).collect();
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn letters_that_were_read_into_a_photograph_do_not_make_it_text() {
        let found = |words: Vec<PageWord<'_>>| {
            let figure = Region {
                kind: LayoutClass::Figure,
                bounds: [80.0, 120.0, 515.0, 520.0],
                score: 0.9,
            };
            let layout = PageLayout {
                regions: vec![figure],
                tables: Vec::new(),
            };
            let blocks = blocks(&Page {
                layout,
                ..page(words)
            });
            blocks.iter().map(|block| block.role).collect::<Vec<Role>>()
        };
        assert_eq!(
            found(vec![word("M", [85.0, 125.0, 510.0, 515.0], 0)]),
            [Role::Figure]
        );
        let lines = (0..20).map(|line| {
            let top = 125.0 + 19.0 * line as f32;
            word(
                "words that fill a line of text",
                [85.0, top, 510.0, top + 16.0],
                line,
            )
        });
        assert!(!found(lines.collect()).contains(&Role::Figure));
    }

    #[test]
    fn words_in_tables_and_figures_are_not_text() {
        let structure = TableStructure {
            rows: 2,
            columns: 2,
            cells: (0..4)
                .map(|cell| crate::layout::TableCell {
                    row: cell / 2,
                    column: cell % 2,
                    row_span: 1,
                    column_span: 1,
                    is_header: cell < 2,
                    bounds: [
                        100.0 * (cell % 2) as f32,
                        300.0 + 20.0 * (cell / 2) as f32,
                        100.0 * (cell % 2 + 1) as f32,
                        320.0 + 20.0 * (cell / 2) as f32,
                    ],
                })
                .collect(),
            score: 1.0,
        };
        let words = vec![
            word("before", [0.0, 200.0, 50.0, 212.0], 0),
            word("Name", [5.0, 304.0, 50.0, 316.0], 1),
            word("Size", [105.0, 304.0, 150.0, 316.0], 1),
            word("one", [5.0, 324.0, 50.0, 336.0], 2),
            word("12", [105.0, 324.0, 150.0, 336.0], 2),
            word("label", [305.0, 424.0, 350.0, 436.0], 3),
            word("after", [0.0, 600.0, 50.0, 612.0], 4),
        ];
        let found = blocks(&Page {
            layout: PageLayout {
                regions: vec![Region {
                    kind: LayoutClass::Figure,
                    bounds: [300.0, 400.0, 500.0, 500.0],
                    score: 0.9,
                }],
                tables: vec![PlacedTable {
                    bounds: [0.0, 300.0, 200.0, 340.0],
                    structure,
                }],
            },
            ..page(words)
        });
        let roles: Vec<Role> = found.iter().map(|block| block.role).collect();
        assert_eq!(roles, [Role::Text, Role::Table, Role::Figure, Role::Text]);
        let cells: Vec<&str> = found[1]
            .table
            .iter()
            .flat_map(Table::cells)
            .map(|cell| cell.text.as_str())
            .collect();
        assert_eq!(cells, ["Name", "Size", "one", "12"]);
        assert_eq!(found[2].lines, ["label"]);
    }
}
