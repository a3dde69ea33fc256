//! Chunks of whole documents.

use std::ops::Range;

use proptest::prelude::*;

use super::*;
use crate::block::{Block, Cell, Role, Table};
use crate::document::{DocumentPage, parts};

/// Tokens of a text by its letters.
pub(super) fn letters(text: &str) -> Vec<Range<usize>> {
    let letters = text.char_indices().filter(|(_, letter)| !letter.is_whitespace());
    letters
        .map(|(place, letter)| place..place + letter.len_utf8())
        .collect()
}

/// Tokens of a text as a tokenizer makes them: up to four letters of a word, and more of them where two sentences meet.
fn pairs(text: &str) -> Vec<Range<usize>> {
    let mut tokens: Vec<Range<usize>> = Vec::new();
    for letter in letters(text) {
        match tokens.last_mut() {
            Some(last) if last.end == letter.start && last.len() < 4 && last.start % 3 > 0 => {
                last.end = letter.end
            }
            _ => tokens.push(letter),
        }
    }
    tokens
}

fn block(role: Role, text: &str, size: f32) -> Block {
    Block {
        role,
        bounds: [0.0, 0.0, 100.0, 10.0],
        lines: vec![text.to_owned()],
        words: Vec::new(),
        size,
        table: None,
    }
}

fn page(number: u32, mut blocks: Vec<Block>) -> DocumentPage {
    for (place, block) in blocks.iter_mut().enumerate() {
        block.bounds[1] = 10.0 * place as f32;
    }
    DocumentPage {
        number,
        size: [600.0, 800.0],
        image: String::new(),
        blocks,
    }
}

fn table(rows: usize) -> Block {
    let cell = |row: usize, column: usize| Cell {
        row,
        column,
        row_span: 1,
        column_span: 1,
        is_header: row == 0,
        bounds: [0.0; 4],
        text: format!(
            "{}{column}",
            if row == 0 {
                "head".to_owned()
            } else {
                format!("r{row}c")
            }
        ),
    };
    let cells = (0..rows).flat_map(|row| (0..2).map(move |column| cell(row, column)));
    Block {
        table: Table::new(cells.collect()).ok(),
        ..block(Role::Table, "", 0.0)
    }
}

fn chunked(pages: &[DocumentPage], max: usize, min: usize, overlap: usize) -> Vec<Chunk> {
    chunks(
        &parts(pages),
        ChunkLimits::new(max, min, overlap).unwrap(),
        &letters,
    )
}

fn texts(chunks: &[Chunk]) -> Vec<&str> {
    chunks.iter().map(|chunk| chunk.text.as_str()).collect()
}

#[test]
fn sections_are_chunks_of_their_own_unless_they_are_short() {
    let pages = [
        page(
            1,
            vec![
                block(Role::Header, "running", 8.0),
                block(Role::Title, "Title", 20.0),
                block(Role::Heading, "1 One", 12.0),
                block(Role::Text, "It is long enough to stand alone.", 10.0),
                block(Role::Heading, "2 Two", 12.0),
                block(Role::Text, "Short.", 10.0),
            ],
        ),
        page(
            2,
            vec![
                block(Role::Heading, "3 Three", 12.0),
                block(Role::Text, "So it goes on here.", 10.0),
            ],
        ),
    ];
    let chunks = chunked(&pages, 40, 20, 0);
    assert_eq!(
        texts(&chunks),
        [
            "Title\n1 One\nIt is long enough to stand alone.",
            "2 Two\nShort.\n3 Three\nSo it goes on here.",
        ]
    );
    assert_eq!(chunks[0].headings, ["Title"]);
    assert_eq!(chunks[1].headings, ["Title"]);
    assert_eq!((chunks[0].page(), chunks[1].page()), (1, 1));
    let pages: Vec<u32> = chunks[1].places.iter().map(|place| place.page).collect();
    assert_eq!(pages, [1, 1, 2, 2]);
}

#[test]
fn a_long_paragraph_is_cut_at_sentences_and_the_last_of_them_repeated() {
    let pages = [page(
        1,
        vec![block(
            Role::Text,
            "One is here. Two is there. Three. Four is where? Five!",
            10.0,
        )],
    )];
    let chunks = chunked(&pages, 24, 0, 6);
    assert_eq!(
        texts(&chunks),
        [
            "One is here. Two is there.",
            "there. Three. Four is where?",
            "where? Five!"
        ]
    );
    let repeated: Vec<&str> = chunks.iter().map(|chunk| &chunk.text[..chunk.repeated]).collect();
    assert_eq!(repeated, ["", "there. ", "where? "]);
}

#[test]
fn a_paragraph_that_fits_goes_into_one_chunk() {
    let pages = [page(
        1,
        vec![
            block(Role::Text, "The first of the two.", 10.0),
            block(Role::Text, "Another one. It has two.", 10.0),
        ],
    )];
    let chunks = chunked(&pages, 32, 0, 0);
    assert_eq!(
        texts(&chunks),
        ["The first of the two.", "Another one. It has two."]
    );
}

#[test]
fn a_table_is_one_chunk_with_its_caption_or_cut_between_rows() {
    let document = |rows| {
        [page(
            1,
            vec![
                block(Role::Heading, "Rates", 12.0),
                block(Role::Caption, "Table 1", 8.0),
                table(rows),
                block(Role::Text, "Text below.", 10.0),
            ],
        )]
    };
    let whole = chunked(&document(3), 60, 10, 5);
    assert_eq!(
        texts(&whole),
        [
            "Rates\nTable 1\nhead0 | head1\nr1c0 | r1c1\nr2c0 | r2c1",
            "Text below."
        ]
    );
    assert_eq!(whole[0].kind, ChunkKind::Table);
    assert_eq!(whole[0].headings, ["Rates"]);
    assert_eq!(whole[0].places.len(), 3);
    let cut = chunked(&document(4), 36, 10, 5);
    assert_eq!(
        texts(&cut),
        [
            "Rates\nTable 1\nhead0 | head1\nr1c0 | r1c1",
            "head0 | head1\nr2c0 | r2c1\nr3c0 | r3c1",
            "Text below.",
        ]
    );
}

#[test]
fn limits_that_are_none_are_refused() {
    assert_eq!(ChunkLimits::new(15, 0, 0), Err(ChunkLimitsError::TooShort(15)));
    assert_eq!(ChunkLimits::new(16, 9, 0), Err(ChunkLimitsError::TooMuch(9)));
    assert_eq!(ChunkLimits::new(16, 0, 9), Err(ChunkLimitsError::TooMuch(9)));
    assert!(ChunkLimits::new(16, 8, 8).is_ok());
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "([a-z]{1,12}[ ,.]{1,2}){0,30}",
        "([一-十]{1,9}[。，！]){0,20}",
        "((ཀ|བཀྲ|ལེགས|དགུ)(་|།| །)){0,40}",
        "\\PC{0,80}",
    ]
}

prop_compose! {
    fn any_block()(
        role in prop::sample::select(&Role::ALL[..]), text in text(), size in 8.0_f32..20.0, rows in 0_usize..12,
    ) -> Block {
        if role == Role::Table { table(rows) } else { block(role, &text, size) }
    }
}

prop_compose! {
    fn document()(pages in prop::collection::vec(prop::collection::vec(any_block(), 0..6), 0..4)) -> Vec<DocumentPage> {
        pages.into_iter().zip(1..).map(|(blocks, number)| page(number, blocks)).collect()
    }
}

/// A text without white space, which is not kept where a text is cut.
fn bare(text: &str) -> String {
    text.split_whitespace().collect()
}

proptest! {
    #[test]
    fn nothing_is_lost_nor_too_long(
        pages in document(), max in 16_usize..200, min in 0_usize..100, overlap in 0_usize..100, by_letters: bool,
    ) {
        let (min, overlap) = (min.min(max / 2), overlap.min(max / 2));
        let limits = ChunkLimits::new(max, min, overlap).unwrap();
        let tokens = if by_letters { letters } else { pairs };
        let parts = parts(&pages);
        let chunks = chunks(&parts, limits, &tokens);

        let mut before = String::new();
        for chunk in &chunks {
            prop_assert_eq!(chunk.tokens, tokens(&chunk.text).len());
            prop_assert!(0 < chunk.tokens && chunk.tokens <= max);
            let repeated = chunk.text[..chunk.repeated].trim();
            prop_assert!(before.ends_with(repeated), "{:?} is not the end of {:?}", repeated, before);
            prop_assert!(letters(repeated).len() <= overlap || !by_letters);
            before.clone_from(&chunk.text);
        }

        // All text in its order, and all rows of tables.
        let whole: String = chunks.iter().map(|chunk| bare(&chunk.text[chunk.repeated..])).collect();
        let mut rest = whole.as_str();
        for part in &parts {
            for row in part.table.iter().flat_map(Table::cells).map(|cell| cell.text.as_str()).chain([part.text.as_str()]) {
                let row = bare(row);
                let place = rest.find(&row);
                prop_assert!(place.is_some(), "{:?} is not in {:?}", row, rest);
                rest = &rest[place.unwrap_or(0) + row.len()..];
            }
        }

        prop_assert_eq!(&chunks, &super::chunks(&parts, limits, &tokens));
    }
}
