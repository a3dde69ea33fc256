//! Documents as they come: good, broken, locked, empty and damaged ones.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};

use bytes::Bytes;
use parkhang_pdf::{DEFAULT_DPI, Document, Limits, PdfError, PixelOrigin, VerdictKind};

fn bytes(name: &str) -> Bytes {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name);
    std::fs::read(path).unwrap().into()
}

fn open(name: &str) -> Result<Document, PdfError> {
    Document::open(bytes(name), None, &Limits::default())
}

#[test]
fn a_good_page_has_its_words_where_they_are_shown() {
    let document = open("javascript.pdf").unwrap();
    let page = document.text(0).unwrap();
    assert_eq!(page.verdict.kind, VerdictKind::Good, "{:?}", page.verdict);
    assert!(page.words.len() > 20, "{}", page.words.len());
    let size = document.size(0).unwrap();
    for word in &page.words {
        let bbox = word.bbox;
        assert!(
            bbox.x0 >= 0.0 && bbox.x1 <= size.width && bbox.x0 < bbox.x1,
            "{word:?}"
        );
        assert!(
            bbox.y0 >= 0.0 && bbox.y1 <= size.height && bbox.y0 < bbox.y1,
            "{word:?}"
        );
    }
}

/// Rows: 121.
#[test]
fn fonts_that_do_not_say_what_their_glyphs_are_make_a_page_broken() {
    let document = open("gib_noencoding.pdf").unwrap();
    for index in 0..document.page_count() {
        let verdict = document.text(index).unwrap().verdict;
        assert_eq!(verdict.kind, VerdictKind::Broken, "{verdict:?}");
        assert!(verdict.score < 0.5);
    }
}

#[test]
fn a_page_is_rendered_with_ink_where_its_words_are() {
    let document = open("javascript.pdf").unwrap();
    let pixels = document.pixels(0, DEFAULT_DPI).unwrap();
    assert_eq!(pixels.origin, PixelOrigin::Rendered);
    let words = document.text(0).unwrap().words;
    let inked = words.iter().filter(|word| {
        let place = pixels.map.rect_to_pixels(word.bbox);
        let (x0, y0) = (place.x0.max(0.0) as u32, place.y0.max(0.0) as u32);
        let (x1, y1) = (place.x1 as u32, place.y1 as u32);
        (y0..y1.min(pixels.gray.height()))
            .any(|y| (x0..x1.min(pixels.gray.width())).any(|x| pixels.gray.get_pixel(x, y).0[0] < 128))
    });
    assert_eq!(inked.count(), words.len());
}

#[test]
fn a_large_page_is_rendered_smaller() {
    let limits = Limits {
        max_rendered_pixels: 500_000,
        ..Limits::default()
    };
    let document = Document::open(bytes("javascript.pdf"), None, &limits).unwrap();
    let pixels = document.pixels(0, DEFAULT_DPI).unwrap();
    assert_eq!(pixels.origin, PixelOrigin::RenderedSmaller);
    assert!(pixels.gray.width() * pixels.gray.height() <= 505_000);
    assert!(pixels.dpi < DEFAULT_DPI);
}

#[test]
fn each_bad_document_has_its_own_error() {
    assert_eq!(open("enc_password.pdf").unwrap_err(), PdfError::Password);
    assert!(Document::open(bytes("enc_password.pdf"), Some("opensesame"), &Limits::default()).is_ok());
    assert_eq!(open("zero_pages.pdf").unwrap_err(), PdfError::Empty);
    let damaged = Document::open(Bytes::from_static(b"no PDF"), None, &Limits::default());
    assert!(matches!(damaged, Err(PdfError::Damaged { .. })), "{damaged:?}");
    let small = Limits {
        max_bytes: 100,
        ..Limits::default()
    };
    let large = Document::open(bytes("javascript.pdf"), None, &small);
    assert!(matches!(large, Err(PdfError::TooLarge { .. })), "{large:?}");
    let few = Limits {
        max_objects: 10,
        ..Limits::default()
    };
    let crowded = Document::open(bytes("javascript.pdf"), None, &few)
        .unwrap()
        .text(0);
    assert!(matches!(crowded, Err(PdfError::TooLarge { .. })), "{crowded:?}");
}

#[test]
fn a_deep_tree_opens_and_pages_beyond_the_last_are_refused() {
    let document = open("deep_tree.pdf").unwrap();
    assert_eq!(document.page_count(), 2);
    assert_eq!(
        document.text(2).unwrap_err(),
        PdfError::NoSuchPage { index: 2, pages: 2 }
    );
}

/// Whatever is cut off or overwritten, the answer is a page or an error.
#[test]
fn damaged_documents_neither_panic_nor_hang() {
    let whole = bytes("gib_noencoding.pdf");
    let limits = Limits::default();
    for part in 1..12 {
        let length = whole.len() * part / 12;
        let cut = whole.slice(..length);
        let mut overwritten = whole.to_vec();
        for byte in overwritten.iter_mut().skip(length).take(40) {
            *byte ^= 0x55;
        }
        for damaged in [cut, Bytes::from(overwritten)] {
            if let Ok(document) = Document::open(damaged, None, &limits) {
                for index in 0..document.page_count().min(4) {
                    let _ = document.text(index);
                }
            }
        }
    }
}

/// Rows: 121, 122.
#[test]
fn verdicts_agree_with_the_labelled_set() {
    let set = std::env::var_os("PARKHANG_SHARED")
        .map(PathBuf::from)
        .unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"));
    let set = set.join("data/pdfsets/dev");
    if !set.is_dir() {
        eprintln!("SKIPPED: there is no {}", set.display());
        return;
    }
    let (mut right, mut missed, mut false_alarms) = (0, Vec::new(), Vec::new());
    for entry in std::fs::read_dir(set.join("truth")).unwrap() {
        let folder = entry.unwrap().path();
        let stem = folder.file_name().unwrap().to_string_lossy().into_owned();
        let file = std::fs::read(set.join("pdf").join(format!("{stem}.pdf"))).unwrap();
        let Ok(document) = Document::open(file.into(), None, &Limits::default()) else {
            continue;
        };
        for index in 0..document.page_count() {
            let name = format!("page_{}.json", index + 1);
            let Ok(truth) = std::fs::read_to_string(folder.join(name)) else {
                continue;
            };
            let truth: serde_json::Value = serde_json::from_str(&truth).unwrap();
            let Some(broken) = truth["broken"].as_bool() else {
                continue;
            };
            let said = document.text(index).unwrap().verdict.kind.needs_ocr();
            let page = format!("{stem} {} {}", index + 1, truth["text_layer"]);
            match (broken, said) {
                (true, true) => right += 1,
                (true, false) => missed.push(page),
                (false, true) => false_alarms.push(page),
                (false, false) => {}
            }
        }
    }
    let share = |others: usize| f64::from(right) / (f64::from(right) + others as f64);
    assert!(share(missed.len()) >= 0.98, "missed: {missed:?}");
    assert!(
        share(false_alarms.len()) >= 0.98,
        "false alarms: {false_alarms:?}"
    );
}
