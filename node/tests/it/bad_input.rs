//! Scans that cannot be read, among scans that can.

use std::path::Path;

use parkhang_core::domain::ErrorCategory;
use parkhang_store::artifact::{ErrorRow, LineDetectionRow, OcrResultRow};

use crate::exports::validate_xml;
use crate::support::{Fixture, finish, node, rows, small_page, workspace};

fn damaged(name: &str) -> Vec<u8> {
    std::fs::read(workspace().join("models/cv/tests/fixtures/decode").join(name)).unwrap()
}

/// One page that can be read and those that cannot.
fn one_good_page() -> (Fixture, Vec<&'static str>) {
    let fixture = Fixture::new();
    fixture.put("good.tif", &small_page());
    let bad = [
        ("empty", "jpg", Vec::new()),
        ("cut", "jpg", damaged("gray.jpg")[..2000].to_vec()),
        ("cut_png", "png", damaged("rgb.png")[..150].to_vec()),
        ("cut_tiff", "tif", damaged("gray_lzw.tif")[..100].to_vec()),
        (
            "html",
            "jpg",
            b"<!DOCTYPE html><html><body>404</body></html>".to_vec(),
        ),
        ("float", "tif", damaged("float.tif")),
        (
            "garbage",
            "png",
            (0..4096u32).map(|n| (n * 167 % 251) as u8).collect(),
        ),
    ];
    for (name, extension, bytes) in &bad {
        fixture.put(&format!("{name}.{extension}"), bytes);
    }
    (fixture, bad.map(|(name, ..)| name).to_vec())
}

/// Rows: F28, F30.
#[test]
fn bad_scans_are_named_and_the_good_one_is_read() {
    let (fixture, mut bad) = one_good_page();
    let run = fixture.read(&["--export", "text,html"]).exits(1);
    assert_eq!(run.json()["volumes"][0]["results"]["nb_errors"], bad.len());
    let failed = run.json()["volumes"][0]["failed_pages"].clone();
    assert_eq!(failed.as_array().unwrap().len(), bad.len());

    let layout = fixture.layout();
    let stage = "line_detection".to_owned().try_into().unwrap();
    let errors: Vec<ErrorRow> = rows(&fixture.out(), &layout.errors(&stage));
    let mut named: Vec<&str> = errors.iter().map(|row| row.image_name.as_str()).collect();
    named.sort_unstable();
    bad.sort_unstable();
    assert_eq!(named, bad);
    for error in &errors {
        assert_eq!(error.category, ErrorCategory::Input, "{error:?}");
        assert_eq!(error.attempts, 1, "bad input is not tried again: {error:?}");
    }
    let lines: Vec<OcrResultRow> = rows(&fixture.out(), &layout.ocr_results());
    assert_eq!(lines.len(), 7);
    assert!(lines.iter().all(|line| line.image_name == "good"));
    let html = std::fs::read_to_string(fixture.out().join("export/html/W1-I1.html")).unwrap();
    for error in &errors {
        assert!(
            html.contains(&error.image_name),
            "{} is missing from the viewer",
            error.image_name
        );
    }

    let mut export = node(["export", "--format", "text,pagexml,alto,hocr,jsonl"]);
    export.arg(fixture.out());
    let exported = finish(export).exits(0);
    let reported = format!(
        "{} pages could not be read and are marked in the files\n",
        bad.len()
    );
    assert_eq!(exported.stderr, reported);
    for (format, extension) in [
        ("text", "txt"),
        ("pagexml", "xml"),
        ("alto", "xml"),
        ("hocr", "hocr"),
    ] {
        for name in &bad {
            let path = fixture
                .out()
                .join(format!("export/{format}/W1-I1/{name}.{extension}"));
            let text = std::fs::read_to_string(path).unwrap();
            assert!(text.contains("not read: "), "{text}");
        }
    }
    let folder = fixture.out().join("export");
    validate_xml(
        "page-xml/page-2019-07-15.xsd",
        &folder.join("pagexml"),
        ["pagecontent/2019-07-15", "pagecontent/2013-07-15"],
    );
    validate_xml(
        "alto/alto-4-4.xsd",
        &folder.join("alto"),
        ["http://www.loc.gov/standards/xlink/xlink.xsd", "xlink.xsd"],
    );

    let blank = fixture.out().with_file_name("blank");
    fixture
        .read_into(&blank, &["--config", "on_item_error=blank"])
        .exits(1);
    let pages: Vec<LineDetectionRow> = rows(&blank, &layout.line_detection());
    assert_eq!(pages.len(), bad.len() + 1, "blank keeps the page");

    let fail = fixture.out().with_file_name("fail");
    let failed = fixture
        .read_into(&fail, &["--config", "on_item_error=fail"])
        .exits(1);
    assert_eq!(failed.json()["status"], "failed");
    assert!(failed.json()["volumes"][0]["error"].is_string());
}

#[test]
fn what_holds_no_scans_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("notes.txt");
    let empty = folder.path().join("empty");
    std::fs::write(&file, small_page()).unwrap();
    std::fs::create_dir(&empty).unwrap();
    let refused = |pages: &Path, why: &str| {
        let mut command = node(["ocr", "--out"]);
        command.arg(folder.path().join("out")).arg(pages);
        let run = finish(command).exits(1);
        assert!(run.stderr.contains(why), "{}", run.stderr);
        assert!(
            run.stderr.contains(&pages.display().to_string()),
            "{}",
            run.stderr
        );
    };
    refused(&empty, "holds no page images");
    refused(&folder.path().join("missing"), "does not exist");
    refused(&file, "is neither an image");
}

#[test]
fn a_name_tells_the_terminal_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = node(["search", "x", "--out"]);
    command.arg(folder.path().join("a\u{1b}]0;title\u{7}"));
    let refused = finish(command).exits(1).stderr;
    assert!(refused.contains("a\\u{1b}]0;title\\u{7}"), "{refused}");
    assert!(!refused.contains(['\u{1b}', '\u{7}']), "{refused}");
}
