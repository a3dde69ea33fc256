//! Text layers over scans that say what the scan shows, or something else.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use parkhang_core::domain::{JobKey, VolumeId};
use parkhang_pdf::{DEFAULT_DPI, Document, Limits};
use parkhang_searchable::{BookInfo, PagePicture, PictureBook, Spacing, Word};
use parkhang_store::artifact::{ArtifactLayout, PageTextRow, TextVerdict, VolumeLayout, WordRow};
use serde_json::Value;

use crate::support::{finish, node, rows, workspace};

/// Text that the scan does not show, of Herman Melville's Moby-Dick.
const OTHER: &str = "Call me Ishmael. Some years ago, never mind how long precisely, having little or no money in my purse, and nothing \
    particular to interest me on shore, I thought I would sail about a little and see the watery part of the world. It is a way I have of \
    driving off the spleen and regulating the circulation. Whenever I find myself growing grim about the mouth; whenever it is a damp, \
    drizzly November in my soul; whenever I find myself involuntarily pausing before coffin warehouses, and bringing up the rear of every \
    funeral I meet; then, I account it high time to get to sea as soon as I can.";
/// The page of `letter_form.pdf` that is a scan.
const SCAN: u32 = 2;
const VOLUME: &str = "pdf-layers";

/// The words of the scan with their boxes in points.
fn truth() -> Vec<(String, [f32; 4])> {
    let path = workspace().join("tests/fixtures/pdf/letter_form.words.json");
    let pages: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let words = pages[SCAN as usize].as_array().unwrap().iter();
    let word = |word: &Value| {
        let edge = |edge: usize| word["bbox"][edge].as_f64().unwrap() as f32;
        (
            word["text"].as_str().unwrap().to_owned(),
            [edge(0), edge(1), edge(2), edge(3)],
        )
    };
    words.map(word).collect()
}

/// A PDF of two pages that show the same scan: one says what it shows, and the other has another text in the same boxes.
fn layers(folder: &Path) -> PathBuf {
    let original = std::fs::read(workspace().join("tests/fixtures/pdf/letter_form.pdf")).unwrap();
    let original = Document::open(original.into(), None, &Limits::default()).unwrap();
    let pixels = original.pixels(SCAN, DEFAULT_DPI).unwrap();
    let (width, height) = pixels.gray.dimensions();
    let picture = PagePicture::from_gray(width, height, pixels.gray.as_raw()).unwrap();
    let truth = truth();
    let mut line = 0;
    let mut top = 0.0;
    let boxes: Vec<([f32; 4], u32)> = truth
        .iter()
        .map(|(_, [x0, y0, x1, y1])| {
            line += u32::from(*y0 != top);
            top = *y0;
            let ((left, upper), (right, lower)) =
                (pixels.map.to_pixels(*x0, *y0), pixels.map.to_pixels(*x1, *y1));
            ([left, upper, right, lower], line)
        })
        .collect();
    // The volume is named after the folder, too.
    std::fs::create_dir(folder.join("pdf")).unwrap();
    let place = folder.join("pdf/layers.pdf");
    let file = std::fs::File::create(&place).unwrap();
    let mut book = PictureBook::new(file, &BookInfo::default()).unwrap();
    let right: Vec<&str> = truth.iter().map(|(text, _)| text.as_str()).collect();
    let other: Vec<&str> = OTHER.split_whitespace().cycle().take(right.len()).collect();
    for texts in [right, other] {
        let words = texts.into_iter().zip(&boxes);
        let words = words.map(|(text, (bbox, line))| Word {
            text,
            bbox: *bbox,
            line: *line,
        });
        let words: Vec<Word<'_>> = words.collect();
        book.add_page(&picture, &words, Spacing::Inferred, None).unwrap();
    }
    book.finish().unwrap();
    place
}

fn layout() -> VolumeLayout {
    let volume: VolumeId = VOLUME.parse().unwrap();
    ArtifactLayout::bdrc_v2(&JobKey::new("page_ocr").unwrap()).volume(&volume)
}

/// Pages by number: the origin of their words, whether a look has contradicted the text of the file, and the words as one text.
fn read(pdf: &Path, out: &Path, options: &[&str]) -> BTreeMap<i32, (&'static str, bool, String)> {
    let mut command = node(["ocr", "--json", "--export", "text", "--out"]);
    command.arg(out).args(options).arg(pdf);
    finish(command).exits(0);
    let words: Vec<WordRow> = rows(out, &layout().words());
    let mut pages = BTreeMap::new();
    for word in words {
        let origin = (word.source.as_str(), word.contradicted.unwrap());
        let page = pages
            .entry(word.page)
            .or_insert_with(|| (origin.0, origin.1, String::new()));
        assert_eq!((page.0, page.1), origin, "one origin for a page");
        page.2.push_str(&word.text);
        page.2.push(' ');
    }
    pages
}

/// Rows: 122.
#[test]
fn a_layer_of_another_text_is_found_out_by_a_look_and_a_right_one_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let pdf = layers(folder.path());
    let out = folder.path().join("out");
    let pages = read(&pdf, &out, &[]);
    let verdicts: Vec<PageTextRow> = rows(&out, &layout().page_text());
    let verdicts: Vec<(TextVerdict, bool)> = verdicts
        .iter()
        .map(|page| (page.verdict, page.picture_share.unwrap() > 0.9))
        .collect();
    assert_eq!(
        verdicts,
        [(TextVerdict::Good, true); 2],
        "both texts are plausible"
    );
    assert_eq!(
        (pages[&1].0, pages[&1].1),
        ("text_layer", false),
        "{}",
        pages[&1].2
    );
    assert_eq!((pages[&2].0, pages[&2].1), ("ocr", true), "{}", pages[&2].2);
    assert!(pages[&2].2.contains("Damaged consignment"), "{}", pages[&2].2);

    let unseen = read(&pdf, &folder.path().join("never"), &["--verify", "never"]);
    assert_eq!((unseen[&2].0, unseen[&2].1), ("text_layer", false));
    assert!(unseen[&2].2.contains("Ishmael"), "{}", unseen[&2].2);
}
