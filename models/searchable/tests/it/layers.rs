//! Text layers over PDFs.

use std::sync::Arc;

use parkhang_pdf::{Document, Limits};
use parkhang_searchable::{OwnText, SearchableError, Spacing, TextLayer, Word};
use proptest::prelude::*;

use crate::{made, reader};

fn fixture(name: &str) -> Vec<u8> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures");
    std::fs::read(format!("{folder}/{name}")).unwrap()
}

fn word(text: &str, bbox: [f32; 4], line: u32) -> Word<'_> {
    Word { text, bbox, line }
}

/// Adds words to every page.
fn with_layer(original: &[u8], words: &[Word<'_>], spacing: Spacing) -> Vec<u8> {
    let mut layer = TextLayer::over(Arc::new(original.to_vec()), Vec::new()).unwrap();
    for page in 0..layer.pages() {
        layer.add_page(page, words, spacing, OwnText::Kept).unwrap();
    }
    let written = layer.finish().unwrap();
    assert!(written.starts_with(original), "the original stays as it is");
    written
}

#[test]
fn words_of_three_scripts_lie_in_their_boxes() {
    let words = [
        word("Latin", [72.0, 72.0, 100.0, 84.0], 0),
        word("words", [104.0, 72.0, 140.0, 84.0], 0),
        word("年", [72.0, 100.0, 84.0, 112.0], 1),
        word("報", [84.0, 100.0, 96.0, 112.0], 1),
        word("བསྒྲུབས་", [72.0, 120.0, 100.0, 140.0], 2),
        word("སོ།", [100.0, 120.0, 120.0, 140.0], 2),
    ];
    for (name, pages) in [("object_streams.pdf", 1), ("wrong_xref.pdf", 2)] {
        let written = with_layer(&fixture(name), &words, Spacing::Inferred);
        let read = reader::read(&written);
        assert_eq!(read.len(), pages, "{name}");
        for page in read {
            assert_eq!(reader::text(&page), "Latin words年報བསྒྲུབས་སོ།");
            let words_read = page.iter().filter(|shown| shown.text != " ");
            for (shown, word) in words_read.zip(&words) {
                assert_eq!(shown.text, word.text);
                let [left, top, right, bottom] = word.bbox.map(f64::from);
                near(shown.area, [left, 841.89 - bottom, right, 841.89 - top]);
            }
        }
    }
}

fn near(one: [f64; 4], other: [f64; 4]) {
    let is_near = one
        .iter()
        .zip(&other)
        .all(|(one, other)| (one - other).abs() < 0.03);
    assert!(is_near, "{one:?} is not {other:?}");
}

#[test]
fn boxes_are_those_of_the_page_as_displayed() {
    // The crop box is 300 wide and 500 high, in units of two points.
    let entries = "/MediaBox[0 0 1000 1000]/CropBox[100 200 400 700]/UserUnit 2/Contents 5 0 R";
    let bbox = [20.0, 40.0, 120.0, 80.0];
    for (rotate, size, area) in [
        (0, [600.0, 1000.0], [110.0, 660.0, 160.0, 680.0]),
        (90, [1000.0, 600.0], [120.0, 210.0, 140.0, 260.0]),
        (180, [600.0, 1000.0], [340.0, 220.0, 390.0, 240.0]),
        (270, [1000.0, 600.0], [360.0, 640.0, 380.0, 690.0]),
    ] {
        let original = made::page(&format!("{entries}/Rotate {rotate}"));
        let layer = TextLayer::over(Arc::new(original.clone()), Vec::new()).unwrap();
        let page = layer.page_size(0).unwrap();
        assert_eq!([page.width, page.height], size);
        let written = with_layer(&original, &[word("word", bbox, 0)], Spacing::Inferred);
        let page = reader::read(&written).remove(0);
        near(page[0].area, area);
    }
}

#[test]
fn what_is_on_the_page_stays() {
    let original = made::page("/MediaBox[0 0 99 99]/Contents 5 0 R/Tabs/S");
    let written = with_layer(
        &original,
        &[word("word", [0.0, 0.0, 9.0, 9.0], 0)],
        Spacing::Inferred,
    );
    let document = lopdf::Document::load_mem(&written).unwrap();
    let page = document.get_pages()[&1];
    let dictionary = document.get_dictionary(page).unwrap();
    assert_eq!(dictionary.get(b"Tabs").unwrap().as_name().unwrap(), b"S");
    let resources = dictionary.get(b"Resources").unwrap().as_dict().unwrap();
    assert!(resources.has(b"ProcSet"), "what is inherited is kept");
    let fonts = resources.get(b"Font").unwrap().as_dict().unwrap();
    let kept = fonts.get(b"Invisible0").unwrap().as_reference().unwrap();
    assert_eq!(kept, (4, 0), "a font of the page keeps its name");
    assert_eq!(fonts.len(), 2);
    let content = document.get_page_content(page);
    let content = String::from_utf8_lossy(&content);
    let (layer, rest) = content.split_once("q q Q Q Q").unwrap();
    assert!(rest.contains("cm q q 0 0 9 9 re f"), "{content}");
    assert_eq!(layer.matches("Tj").count(), 1);
    assert!(layer.trim_end().ends_with('Q'));
}

#[test]
fn a_layer_can_be_added_to_what_has_one() {
    let words = [word("once", [0.0, 0.0, 9.0, 9.0], 0)];
    let once = with_layer(&fixture("object_streams.pdf"), &words, Spacing::Inferred);
    let twice = with_layer(&once, &words, Spacing::Inferred);
    assert_eq!(reader::text(&reader::read(&twice)[0]), "onceonce");
}

#[test]
fn a_file_without_words_stays_the_same() {
    let original = fixture("object_streams.pdf");
    assert_eq!(with_layer(&original, &[], Spacing::Inferred), original);
}

#[test]
fn what_stands_before_the_header_counts_for_no_offset() {
    let original = [b"\r\njunk ", made::page("/MediaBox[0 0 99 99]").as_slice()].concat();
    let words = [word("word", [0.0, 0.0, 9.0, 9.0], 0)];
    let written = with_layer(&original, &words, Spacing::Inferred);
    assert_eq!(reader::text(&reader::read(&written[7..])[0]), "word");
}

#[test]
fn what_cannot_have_a_layer_is_refused() {
    let over = |bytes: Vec<u8>| TextLayer::over(Arc::new(bytes), Vec::new());
    assert!(matches!(
        over(fixture("encrypted.pdf")),
        Err(SearchableError::Encrypted)
    ));
    for bytes in [b"".to_vec(), b"no PDF".to_vec(), b"%PDF-1.7\n".to_vec()] {
        assert!(matches!(over(bytes), Err(SearchableError::Unreadable)));
    }
    let mut layer = over(fixture("object_streams.pdf")).unwrap();
    let words = [word("word", [0.0, 0.0, 9.0, 9.0], 0)];
    let beyond = layer.add_page(1, &words, Spacing::Inferred, OwnText::Kept);
    assert!(matches!(
        beyond,
        Err(SearchableError::NoSuchPage { page: 2, pages: 1 })
    ));
    layer
        .add_page(0, &words, Spacing::Inferred, OwnText::Kept)
        .unwrap();
    let again = layer.add_page(0, &words, Spacing::Inferred, OwnText::Kept);
    assert!(matches!(again, Err(SearchableError::RepeatedPage { page: 1 })));
    assert_eq!(reader::text(&reader::read(&layer.finish().unwrap())[0]), "word");
    // A page within the list of its parent has no number that an update could name.
    let direct = made::pdf(&[
        "<</Type/Catalog/Pages 2 0 R>>",
        "<</Type/Pages/Kids[<</Type/Page/MediaBox[0 0 9 9]>>]/Count 1>>",
    ]);
    let refused = over(direct)
        .unwrap()
        .add_page(0, &words, Spacing::Inferred, OwnText::Kept);
    assert!(matches!(refused, Err(SearchableError::DamagedPage { page: 1 })));
}

/// Words that a reader of PDFs finds on a page.
fn found(file: &[u8], page: u32) -> Vec<String> {
    let document = Document::open(file.to_vec().into(), None, &Limits::default()).unwrap();
    let text = document.text(page).unwrap();
    text.words.into_iter().map(|word| word.text).collect()
}

/// File of two pages with the same text in three fonts.
fn in_three_fonts() -> Vec<u8> {
    let content = "BT 20 TL 9 80 Td /Simple 10 Tf (old) Tj T* /Embedded 10 Tf <00010002> Tj T* /Named 10 Tf <00010002> Tj ET";
    let composite = |rest: &str| {
        format!(
            "<</Type/Font/Subtype/Type0/BaseFont/Some/Encoding/Identity-H/ToUnicode 9 0 R/DescendantFonts[<</Type/Font/Subtype/CIDFontType2/BaseFont/Some/CIDSystemInfo<</Registry(Adobe)/Ordering(Identity)/Supplement 0>>/FontDescriptor<</Type/FontDescriptor/FontName/Some/Flags 4{rest}>>>>]>>"
        )
    };
    let map = "begincmap 1 begincodespacerange <0000> <FFFF> endcodespacerange 2 beginbfchar <0001> <0061> <0002> <0062> endbfchar endcmap";
    let stream = |data: &str| format!("<</Length {}>>stream\n{data}\nendstream", data.len());
    made::pdf(&[
        "<</Type/Catalog/Pages 2 0 R>>",
        "<</Type/Pages/Kids[3 0 R 4 0 R]/Count 2/MediaBox[0 0 99 99]/Resources<</Font<</Simple 6 0 R/Embedded 7 0 R/Na#6ded 8 0 R>>>>>>",
        "<</Type/Page/Parent 2 0 R/Contents 5 0 R>>",
        "<</Type/Page/Parent 2 0 R/Contents 5 0 R>>",
        &stream(content),
        "<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>",
        &composite("/FontFile2 10 0 R"),
        &composite(""),
        &stream(map),
        &stream(""),
    ])
}

#[test]
fn text_that_is_wrong_is_found_no_more() {
    let original = in_three_fonts();
    assert_eq!(found(&original, 0), ["old", "ab", "ab"]);
    for (words, blanked) in [
        (vec![word("new", [0.0, 0.0, 30.0, 10.0], 0)], vec!["new", "ab"]),
        (vec![], vec!["ab"]),
    ] {
        let mut layer = TextLayer::over(Arc::new(original.clone()), Vec::new()).unwrap();
        layer
            .add_page(0, &words, Spacing::Inferred, OwnText::Blanked)
            .unwrap();
        let written = layer.finish().unwrap();
        assert!(written.starts_with(&original));
        // Viewers may choose the glyphs of a composite font without a file by their Unicode.
        assert_eq!(found(&written, 0), blanked);
        assert_eq!(
            found(&written, 1),
            ["old", "ab", "ab"],
            "another page has the same fonts"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_text_of_any_words_comes_back(
        words in prop::collection::vec((any_text(), prop::array::uniform4(any::<f32>()), 0..4_u32), 0..12),
    ) {
        let words: Vec<Word<'_>> = words.iter().map(|(text, bbox, line)| word(text, *bbox, *line)).collect();
        let expected: String = words
            .iter()
            .flat_map(|word| word.text.chars())
            .filter(|letter| !letter.is_control())
            .collect();
        let original = fixture("object_streams.pdf");
        let written = with_layer(&original, &words, Spacing::Written);
        let page = reader::read(&written).remove(0);
        prop_assert_eq!(reader::text(&page), expected);
        for shown in page {
            let [left, bottom, right, top] = shown.area;
            prop_assert!(left > -0.1 && bottom > -0.1 && right < 595.4 && top < 842.0, "{:?}", shown);
        }
    }

    #[test]
    fn no_damage_upsets_the_writer(at in 0..9_000_usize, bytes in prop::collection::vec(any::<u8>(), 1..40), cut in any::<bool>()) {
        let mut original = fixture("object_streams.pdf");
        let at = at.min(original.len() - bytes.len());
        original[at..at + bytes.len()].copy_from_slice(&bytes);
        if cut {
            original.truncate(at);
        }
        let words = [word("word", [0.0, 0.0, 9.0, 9.0], 0)];
        if let Ok(mut layer) = TextLayer::over(Arc::new(original.clone()), Vec::new()) {
            for page in 0..layer.pages() {
                let _ = layer.add_page(page, &words, Spacing::Inferred, OwnText::Blanked);
            }
            prop_assert!(layer.finish().unwrap().starts_with(&original));
        }
    }
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[ -~]{0,12}",
        "[ཀ-ཬཱ-ུྐ-ྼ་།]{0,12}",
        "[一-龥𠀀-𠀿]{0,6}",
        "[a-e\u{300}-\u{36f}]{0,8}",
        "[\u{0}-\u{1f}א-ת😀-😎]{0,6}",
    ]
}
