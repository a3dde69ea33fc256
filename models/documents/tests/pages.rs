//! Pages of words, without networks: which roles their blocks have, and that no word is lost.

#![allow(clippy::unwrap_used, reason = "test code fails by panicking")]

use parkhang_documents::{
    Block, LayoutClass, Page, PageLayout, PageWord, PlacedTable, Region, Role, TableCell, TableStructure,
    blocks,
};
use proptest::prelude::*;

/// A line of one word, from its upper left corner, with letters of a height.
fn line(text: &'static str, x: f32, y: f32, size: f32, number: i32) -> PageWord<'static> {
    PageWord {
        text,
        bounds: [x, y, x + 0.5 * size * text.chars().count() as f32, y + size],
        line: number,
    }
}

fn roles(words: Vec<PageWord<'_>>, regions: Vec<Region>) -> Vec<(Role, String)> {
    let page = Page {
        size: [600.0, 800.0],
        words,
        layout: PageLayout {
            regions,
            tables: Vec::new(),
        },
        ..Page::default()
    };
    let blocks = blocks(&page).into_iter();
    blocks.map(|block| (block.role, block.lines.join(" "))).collect()
}

#[test]
fn roles_are_told_by_place_size_and_marks() {
    let words = vec![
        line("Running title", 60.0, 30.0, 9.0, 0),
        line("A Title of the Page", 150.0, 80.0, 18.0, 1),
        line("1 Introduction", 60.0, 130.0, 10.0, 2),
        line(
            "The text of this page begins here and it goes on for a while",
            60.0,
            160.0,
            10.0,
            3,
        ),
        line(
            "to the end of the paragraph, which is long enough to be one.",
            60.0,
            172.0,
            10.0,
            4,
        ),
        line("• the first item of a list", 60.0, 200.0, 10.0, 5),
        line("• the second item of a list", 60.0, 212.0, 10.0, 6),
        line("E = m c^2", 250.0, 240.0, 10.0, 7),
        line("* a note in small letters", 60.0, 700.0, 7.0, 8),
        line("– 12 –", 290.0, 770.0, 9.0, 9),
    ];
    let expected = [
        (Role::Header, "Running title"),
        (Role::Title, "A Title of the Page"),
        (Role::Heading, "1 Introduction"),
        (
            Role::Text,
            "The text of this page begins here and it goes on for a while to the end of the paragraph, which is long enough to be one.",
        ),
        (Role::ListItem, "• the first item of a list"),
        (Role::ListItem, "• the second item of a list"),
        (Role::Formula, "E = m c^2"),
        (Role::Footnote, "* a note in small letters"),
        (Role::Footer, "– 12 –"),
    ];
    let expected = expected.map(|(role, text)| (role, text.to_owned()));
    assert_eq!(roles(words, Vec::new()), expected);
}

#[test]
fn a_caption_stands_near_its_figure() {
    let figure = Region {
        kind: LayoutClass::Figure,
        bounds: [60.0, 200.0, 300.0, 400.0],
        score: 0.9,
    };
    let words = || {
        vec![
            line("Figure 1. What is to be seen", 60.0, 405.0, 9.0, 0),
            line(
                "The text of this page begins here and it goes on for a while",
                60.0,
                450.0,
                10.0,
                1,
            ),
            line("and ends here, with a long line of words.", 60.0, 462.0, 10.0, 2),
        ]
    };
    let of = |regions: Vec<Region>| {
        let roles = roles(words(), regions).into_iter();
        roles.map(|(role, _)| role).collect::<Vec<Role>>()
    };
    assert_eq!(of(vec![figure]), [Role::Figure, Role::Caption, Role::Text]);
    assert!(!of(Vec::new()).contains(&Role::Caption));
}

fn bounds() -> impl Strategy<Value = [f32; 4]> {
    (0.0_f32..580.0, 0.0_f32..780.0, 1.0_f32..200.0, 1.0_f32..60.0)
        .prop_map(|(x, y, width, height)| [x, y, x + width, y + height])
}

fn table() -> impl Strategy<Value = PlacedTable> {
    (
        bounds(),
        1_usize..5,
        1_usize..5,
        prop::collection::vec(bounds(), 16),
    )
        .prop_map(|(bounds, rows, columns, of_cells)| {
            let cells = (0..rows * columns)
                .zip(of_cells)
                .map(|(place, bounds)| TableCell {
                    row: place / columns,
                    column: place % columns,
                    row_span: 1,
                    column_span: 1,
                    is_header: place < columns,
                    bounds,
                });
            PlacedTable {
                bounds,
                structure: TableStructure {
                    rows,
                    columns,
                    cells: cells.collect(),
                    score: 1.0,
                },
            }
        })
}

proptest! {
    #[test]
    fn every_word_is_in_one_block(
        places in prop::collection::vec((bounds(), 0_i32..20), 0..60),
        figures in prop::collection::vec(bounds(), 0..3),
        tables in prop::collection::vec(table(), 0..3),
    ) {
        let words: Vec<PageWord<'_>> = places
            .iter()
            .map(|&(bounds, line)| PageWord { text: "word", bounds, line })
            .collect();
        let page = Page {
            size: [800.0, 900.0],
            words,
            layout: PageLayout {
                regions: figures
                    .into_iter()
                    .map(|bounds| Region { kind: LayoutClass::Figure, bounds, score: 0.9 })
                    .collect(),
                tables,
            },
            ..Page::default()
        };
        let found: Vec<Block> = blocks(&page);
        let mut seen: Vec<usize> = found.iter().flat_map(|block| block.words.iter().copied()).collect();
        seen.sort_unstable();
        prop_assert_eq!(seen, (0..page.words.len()).collect::<Vec<usize>>());
    }
}
