use parkhang_cv::turn::Turn;
use parkhang_fuzz::Fuzz;
use proptest::prelude::*;

use super::*;
use crate::block::{Cell, Table};
use crate::doctags::doctags;
use crate::document::DocumentPage;
use crate::word::PageWord;

/// Page as large as the grid, so that places are the same on both.
fn page(words: Vec<PageWord<'_>>) -> Page<'_> {
    Page {
        size: [GRID, GRID],
        words,
        ..Page::default()
    }
}

fn read(text: &str) -> Result<Vec<Block>, DocTagsError> {
    blocks_of_doctags(text, &page(Vec::new()))
}

fn texts(text: &str) -> Vec<(Role, String)> {
    let blocks = read(text).unwrap().into_iter();
    blocks.map(|block| (block.role, block.lines.join("|"))).collect()
}

/// In the form of the answers of granite-docling: no signs are escaped, a caption is within its picture, lists are around their items.
#[test]
fn the_answer_of_a_model_is_read() {
    let answer = "<doctag><page_header><loc_10><loc_5><loc_200><loc_15>Annual report</page_header>\n\
        <section_header_level_1><loc_20><loc_30><loc_200><loc_40>1 R&D < 5 <b>bold</b></section_header_level_1>\n\
        <picture><loc_20><loc_100><loc_300><loc_200><bar_chart><caption><loc_20><loc_205><loc_300><loc_215>Figure 1</caption></picture>\n\
        <unordered_list><list_item><loc_20><loc_220><loc_300><loc_230>· one</list_item>\n\
        <list_item><loc_20><loc_230><loc_300><loc_240>· two</list_item>\n</unordered_list>\n\
        <code><loc_20><loc_250><loc_300><loc_260><_Python_>a = 1\nb = 2</code>\n\
        <checkbox_selected><loc_20><loc_260><loc_300><loc_270>Yes</checkbox_selected>\n\
        <otsl><loc_20><loc_300><loc_300><loc_400><ched>Year<lcel><nl><fcel>2024<fcel>1,0<nl><caption><loc_20><loc_290><loc_300><loc_298>Table 1</caption></otsl>\n\
        <page_footer><loc_240><loc_480><loc_260><loc_490>7</page_footer>\n</doctag><|end_of_text|>";
    let found = read(answer).unwrap();
    let texts: Vec<(Role, String)> = found
        .iter()
        .map(|block| (block.role, block.lines.join("|")))
        .collect();
    let expected = [
        (Role::Header, "Annual report"),
        (Role::Heading, "1 R&D < 5 <b>bold</b>"),
        (Role::Figure, ""),
        (Role::Caption, "Figure 1"),
        (Role::ListItem, "· one"),
        (Role::ListItem, "· two"),
        (Role::Text, "<_Python_>a = 1|b = 2"),
        (Role::Text, "☒ Yes"),
        (Role::Caption, "Table 1"),
        (Role::Table, ""),
        (Role::Footer, "7"),
    ];
    assert_eq!(texts, expected.map(|(role, text)| (role, text.to_owned())));
    assert_eq!(found[2].bounds, [20.0, 100.0, 300.0, 200.0]);
    let table = found[9].table.as_ref().unwrap();
    let cells: Vec<_> = table
        .cells()
        .iter()
        .map(|cell| {
            (
                cell.row,
                cell.column,
                cell.column_span,
                cell.is_header,
                cell.text.as_str(),
            )
        })
        .collect();
    assert_eq!(
        cells,
        [
            (0, 0, 2, true, "Year"),
            (1, 0, 1, false, "2024"),
            (1, 1, 1, false, "1,0")
        ]
    );
}

#[test]
fn an_answer_whose_last_tag_the_server_took_is_whole() {
    let page = "<doctag><text><loc_1><loc_2><loc_3><loc_4>a</text>";
    assert_eq!(texts(page), [(Role::Text, "a".to_owned())]);
    assert_eq!(texts(page), texts(&format!("{page}</doctag>")));
    assert!(read("<doctag></doctag>").unwrap().is_empty());
    assert!(read("").unwrap().is_empty());
}

#[test]
fn what_stands_beside_the_parts_is_not_lost() {
    assert_eq!(
        texts("<doctag><marker><loc_9><loc_8><loc_7><loc_6>x</marker><text>a</text>b</doctag>"),
        [
            (Role::Text, "<marker>x</marker>".to_owned()),
            (Role::Text, "a".to_owned()),
            (Role::Text, "b".to_owned())
        ]
    );
    let found =
        read("<doctag><marker><loc_9><loc_8><loc_7><loc_6>x</marker><text>a</text></doctag>").unwrap();
    assert_eq!(found[0].bounds, [7.0, 6.0, 9.0, 8.0]);
    assert_eq!(found[1].bounds, [0.0, 0.0, GRID, GRID]);
    assert_eq!(
        texts("<chart><loc_1><loc_2><loc_3><loc_4><line_chart><fcel>a<fcel>1<nl><fcel>b<nl></chart>"),
        [(Role::Figure, "a 1|b".to_owned())]
    );
    let cut = "<otsl>over<ucel>a<nl><fcel>b<fcel>c<nl></otsl>";
    assert_eq!(texts(cut)[0], (Role::Text, "over".to_owned()));
    assert_eq!(read(cut).unwrap()[1].table.as_ref().unwrap().cells().len(), 3);
}

#[test]
fn a_structure_that_is_none_is_refused() {
    for (text, refused) in [
        ("The page is blank.", DocTagsError::NoTags),
        (
            "<doctag><text><loc_1>",
            DocTagsError::Unfinished("text".to_owned()),
        ),
        (
            "<doctag><otsl><fcel>a",
            DocTagsError::Unfinished("otsl".to_owned()),
        ),
        (
            "<doctag><text>a</title>",
            DocTagsError::Crossed {
                open: "text".to_owned(),
                found: "title".to_owned(),
            },
        ),
        (
            "<doctag><text><loc_1><loc_2><loc_3>a</text>",
            DocTagsError::Place {
                tag: "text".to_owned(),
                coordinates: 3,
            },
        ),
        ("<doctag><text>a</text><page_break>", DocTagsError::SeveralPages),
        (
            "</doctag>",
            DocTagsError::Crossed {
                open: String::new(),
                found: "doctag".to_owned(),
            },
        ),
    ] {
        assert_eq!(read(text), Err(refused), "{text}");
    }
    assert_eq!(read(&"<group>".repeat(50)), Err(DocTagsError::TooDeep));
    assert_eq!(
        read(&"<text>a</text>".repeat(6_000)),
        Err(DocTagsError::TooManyBlocks)
    );
    let wide = format!("<otsl>{}<nl></otsl>", "<ecel>".repeat(3_000));
    assert_eq!(read(&wide), Err(DocTagsError::Table(TableError::TooLarge)));
}

#[test]
fn words_of_the_page_tell_the_height_of_letters_also_where_it_lies_turned() {
    let text = "<doctag><title><loc_50><loc_50><loc_450><loc_100>Title</title></doctag>";
    let word = PageWord {
        text: "Title",
        bounds: [100.0, 90.0, 200.0, 108.0],
        line: 0,
    };
    let upright = Page {
        size: [600.0, 800.0],
        words: vec![word],
        ..Page::default()
    };
    for turn in Turn::ALL {
        let (width, height) = turn.upright_size((600.0, 800.0));
        let to_lie = |bounds| turn.bounds_as_they_lie(bounds, (width, height));
        let turned = Page {
            size: [width, height],
            words: vec![PageWord {
                bounds: to_lie(upright.words[0].bounds),
                ..upright.words[0]
            }],
            turn,
            ..Page::default()
        };
        let found = blocks_of_doctags(text, &turned).unwrap();
        assert_eq!((found[0].words.as_slice(), found[0].size), (&[0][..], 18.0));
        assert_eq!(
            turn.back().bounds_as_they_lie(found[0].bounds, (600.0, 800.0)),
            [60.0, 80.0, 540.0, 160.0]
        );
    }
}

/// Text of a block or cell in one line.
fn text() -> impl Strategy<Value = String> {
    "\\PC{1,30}|<[a-z_]{1,8}>|&(lt|amp|gt);|[a-z<>&/]{1,12}".prop_filter_map("text", |text| {
        let text = text.trim().to_owned();
        (!text.is_empty()).then_some(text)
    })
}

fn place() -> impl Strategy<Value = Bounds> {
    (0_u16..500, 0_u16..500, 1_u16..100, 1_u16..100)
        .prop_map(|(x, y, width, height)| [x, y, (x + width).min(500), (y + height).min(500)].map(f32::from))
}

/// A table whose cells fill its grid: cells grow over their neighbours as far as the seeds say.
fn table(bounds: Bounds) -> impl Strategy<Value = Table> {
    let text = proptest::option::of(text()).boxed();
    let seed = (1_usize..4, 1_usize..4, text, any::<bool>());
    (1_usize..6, 1_usize..6)
        .prop_flat_map(move |(rows, columns)| {
            (
                Just(rows),
                Just(columns),
                proptest::collection::vec(seed.clone(), rows * columns),
            )
        })
        .prop_map(move |(rows, columns, seeds)| {
            let mut taken = vec![false; rows * columns];
            let mut cells = Vec::new();
            for (place, (row_span, column_span, text, is_header)) in seeds.into_iter().enumerate() {
                let (row, column) = (place / columns, place % columns);
                if taken[place] {
                    continue;
                }
                let free = |at: usize| at < columns && !taken[row * columns + at];
                let column_span = (column..column + column_span).take_while(|&at| free(at)).count();
                // Below a free place lies a free one, as a cell grows from its first row.
                let row_span = row_span.min(rows - row);
                for below in row..row + row_span {
                    taken[below * columns + column..below * columns + column + column_span].fill(true);
                }
                let text = text.unwrap_or_default();
                cells.push(Cell {
                    row,
                    column,
                    row_span,
                    column_span,
                    is_header: is_header && !text.is_empty(),
                    bounds,
                    text,
                });
            }
            Table::new(cells).unwrap()
        })
}

fn block_of_a_page() -> impl Strategy<Value = Block> {
    // Verse is written as text.
    let roles: Vec<Role> = Role::ALL
        .into_iter()
        .filter(|role| *role != Role::Verse)
        .collect();
    (proptest::sample::select(roles), place()).prop_flat_map(|(role, bounds)| {
        (Just(role), Just(bounds), text(), table(bounds)).prop_map(|(role, bounds, text, table)| Block {
            lines: if matches!(role, Role::Table | Role::Figure) {
                Vec::new()
            } else {
                vec![text]
            },
            table: (role == Role::Table).then_some(table),
            ..block(role, bounds, Vec::new())
        })
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read(blocks in proptest::collection::vec(block_of_a_page(), 0..8)) {
        let written = doctags(&[DocumentPage {
            number: 1,
            size: [GRID, GRID],
            image: String::new(),
            blocks: blocks.clone(),
        }]);
        prop_assert_eq!(read(&written), Ok(in_order(blocks)), "{}", written);
    }

    #[test]
    fn no_text_panics(parts in proptest::collection::vec(prop_oneof![
        Just("<otsl>"), Just("</otsl>"), Just("<fcel>"), Just("<lcel>"), Just("<ucel>"), Just("<xcel>"), Just("<nl>"),
        Just("<text>"), Just("</text>"), Just("<loc_3>"), Just("<picture>"), Just("</picture>"), Just("<doctag>"),
        Just("</doctag>"), Just("<"), Just("a"), Just("ཀ"),
    ], 0..30)) {
        let _ = read(&parts.concat());
    }
}

#[test]
fn fuzz_doctags() {
    let corpus = [
        "<doctag><page_header><loc_10><loc_5><loc_200><loc_15>Annual report</page_header>\n\
         <picture><loc_20><loc_100><loc_300><loc_200><caption><loc_20><loc_205><loc_300><loc_215>Figure 1</caption></picture>\n\
         <unordered_list><list_item><loc_20><loc_220><loc_300><loc_230>· one</list_item></unordered_list></doctag>",
        "<otsl><loc_20><loc_300><loc_300><loc_400><ched>Year<lcel><nl><fcel>2024<ucel>1,0<nl><xcel><fcel>བོད<nl></otsl><|end_of_text|>",
        "<section_header_level_1>1 R&D</section_header_level_1><text><loc_1><loc_2><loc_3><loc_4>text</text>",
    ];
    Fuzz::of_texts("doctags", corpus).feeds_texts(|text| {
        if let Ok(blocks) = read(text) {
            let pages = [DocumentPage {
                number: 1,
                size: [GRID, GRID],
                image: String::new(),
                blocks,
            }];
            let _ = (
                doctags(&pages),
                crate::markdown(&pages),
                crate::tei("t", &pages),
                crate::html("t", &pages),
            );
        }
    });
}
