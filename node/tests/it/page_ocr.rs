//! The pipeline `page_ocr` over PDFs and images: verdicts, words with boxes, files that are no PDFs, runs that are cut off.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use parkhang_core::domain::{JobKey, VolumeId};
use parkhang_store::artifact::{ArtifactLayout, PageTextRow, TextVerdict, VolumeLayout, WordRow, WordSource};
use serde_json::Value;

use crate::api::Api;
use crate::nodes::{JOB, Node, Site};
use crate::site::put_pages;
use crate::support::{Finished, Running, assert_same_files, files, finish, node, rows, sample, workspace};

fn fixture(name: &str) -> PathBuf {
    workspace().join("tests/fixtures/pdf").join(name)
}

fn read(inputs: &[&Path], out: &Path, options: &[&str]) -> Finished {
    let mut command = node(["ocr", "--json", "--export", "text", "--out"]);
    command.arg(out).args(options).args(inputs);
    finish(command)
}

fn layout(volume: &str) -> VolumeLayout {
    let volume: VolumeId = volume.parse().unwrap();
    ArtifactLayout::bdrc_v2(&JobKey::new("page_ocr").unwrap()).volume(&volume)
}

/// The words of each page of `letter_form.pdf`, with their boxes.
fn truth() -> Vec<Vec<(String, [f64; 4])>> {
    let text = std::fs::read_to_string(fixture("letter_form.words.json")).unwrap();
    let pages: Vec<Vec<Value>> = serde_json::from_str(&text).unwrap();
    let word = |word: Value| {
        let edge = |edge: usize| word["bbox"][edge].as_f64().unwrap();
        let bounds = [edge(0), edge(1), edge(2), edge(3)];
        (word["text"].as_str().unwrap().to_owned(), bounds)
    };
    pages
        .into_iter()
        .map(|page| page.into_iter().map(word).collect())
        .collect()
}

/// Share of the words of a page that are found with their text, their middle within the box of the truth.
fn found(words: &[WordRow], page: i32, truth: &[(String, [f64; 4])]) -> f64 {
    let on_page: Vec<&WordRow> = words.iter().filter(|word| word.page == page).collect();
    let is_found = |(text, [x0, y0, x1, y1]): &&(String, [f64; 4])| {
        on_page.iter().any(|word| {
            let x = f64::from(word.bbox_x0 + word.bbox_x1) / 2.0;
            let y = f64::from(word.bbox_y0 + word.bbox_y1) / 2.0;
            word.text == *text && (*x0..=*x1).contains(&x) && (*y0..=*y1).contains(&y)
        })
    };
    truth.iter().filter(is_found).count() as f64 / truth.len() as f64
}

fn boxes(out: &Path, to: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut command = node(["export", "--format", "bboxes", "--to"]);
    command.arg(to).arg(out);
    finish(command).exits(0);
    files(to)
}

/// Rows: 122, 126, 128.
#[test]
fn good_text_is_taken_and_a_scan_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let summary = read(&[&fixture("letter_form.pdf")], &out, &[]).exits(0);
    assert_eq!(summary.json()["job"], "page_ocr");
    let layout = layout("pdf-letter_form");
    let pages: Vec<PageTextRow> = rows(&out, &layout.page_text());
    let verdicts: Vec<TextVerdict> = pages.iter().map(|page| page.verdict).collect();
    assert_eq!(
        verdicts,
        [TextVerdict::Good, TextVerdict::Good, TextVerdict::None]
    );

    let words: Vec<WordRow> = rows(&out, &layout.words());
    for (number, truth) in (1..).zip(truth()) {
        let source = if number == 3 {
            WordSource::Ocr
        } else {
            WordSource::TextLayer
        };
        let of_page = || words.iter().filter(|word| word.page == number);
        assert!(of_page().all(|word| word.source == source), "page {number}");
        assert!(of_page().zip(0..).all(|(word, place)| word.word_index == place));
        let found = found(&words, number, &truth);
        assert!(found >= 0.9, "page {number}: {found:.3} of the words");
    }

    let json = boxes(&out, &folder.path().join("boxes"));
    let names: Vec<String> = json.keys().map(|name| name.display().to_string()).collect();
    let expected = [1, 2, 3].map(|number| format!("pdf-letter_form/page_{number}.json"));
    assert_eq!(names, expected);
    let page: Value = serde_json::from_slice(&json[Path::new(&expected[2])]).unwrap();
    assert_eq!(
        (&page["source"], &page["engine"]),
        (&"ocr".into(), &"ppocr".into())
    );
    assert_eq!(json, boxes(&out, &folder.path().join("again")), "the same bytes");
    let text = std::fs::read_to_string(out.join("export/text/pdf-letter_form.txt")).unwrap();
    assert!(
        text.contains("Application for Renewal of Berth Licence"),
        "{text}"
    );
}

#[test]
fn the_flags_say_which_pages_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let sources = |options: &[&str]| {
        let out = folder.path().join(options.concat());
        read(&[&fixture("gib_noencoding.pdf")], &out, options).exits(0);
        let words: Vec<WordRow> = rows(&out, &layout("pdf-gib_noencoding").words());
        let sources = words.iter().map(|word| word.source.as_str());
        sources.collect::<BTreeSet<&str>>()
    };
    assert_eq!(
        sources(&["--limit", "1"]),
        BTreeSet::from(["ocr"]),
        "the text is broken"
    );
    assert_eq!(
        sources(&["--skip-text", "--limit", "1"]),
        BTreeSet::from(["text_layer"])
    );
    let refused = read(
        &[&fixture("gib_noencoding.pdf")],
        &folder.path().join("none"),
        &["--skip-text", "--force-ocr"],
    );
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
}

/// Rows: C18.
#[test]
fn images_and_pdfs_are_two_jobs_of_one_run() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let scans = sample().join("W0PARKHANG-I0SAMPLE");
    let options = ["--limit", "1"];
    let summary = read(&[&scans, &fixture("letter_form.pdf")], &out, &options).exits(0);
    assert_eq!(summary.json()["job"], "ocr, page_ocr");
    assert_eq!(summary.json()["volumes"].as_array().unwrap().len(), 2);
    let texts = files(&out.join("export/text"));
    for name in ["W0PARKHANG-I0SAMPLE.txt", "pdf-letter_form.txt"] {
        assert!(texts.contains_key(Path::new(name)), "{name}");
    }
}

#[test]
fn pdfs_of_a_library_are_read_as_pdfs_are() {
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("library");
    std::fs::create_dir(&library).unwrap();
    std::fs::copy(fixture("letter_form.pdf"), library.join("HKEX-7.pdf")).unwrap();
    put_pages(&library.join("W1-I1"), 0, 1);
    let out = folder.path().join("out");
    let mut command = node([
        "ocr",
        "--json",
        "--limit",
        "1",
        "HKEX-7",
        "W1-I1",
        "--input-folder",
    ]);
    command.arg(&library).arg("--out").arg(&out);
    let summary = finish(command).exits(0).json();
    assert_eq!(summary["job"], "ocr, page_ocr");
    let words: Vec<WordRow> = rows(&out, &layout("HKEX-7").words());
    let found = found(&words, 1, &truth()[0]);
    assert!(found >= 0.9, "{found:.3} of the words");
}

/// Rows: 128.
#[test]
fn viewers_get_the_words_of_a_document_by_its_id_at_the_source() {
    let site = Site::new();
    let scans = site.path("scans");
    std::fs::create_dir(&scans).unwrap();
    for volume in ["HKEX-7", "HKEX-1", "ASX-1"] {
        std::fs::copy(fixture("letter_form.pdf"), scans.join(format!("{volume}.pdf"))).unwrap();
    }
    let orchestrator = Node::start(&site, "orchestrator", &["127.0.0.1:1"]);
    let api = Api::of(&site, &orchestrator);
    let _worker = Node::start(&site, "cpu,gpu", &[orchestrator.address()]);
    let create = [
        "job",
        "create",
        JOB,
        "--pipeline",
        "page_ocr",
        "--config",
        "limit=1",
    ];
    finish(site.command(create)).exits(0);
    finish(site.command(["job", "status", JOB, "--wait"])).exits(0);

    let at_top = |document: &str, headers: &[&str]| {
        let path = format!("/documents/{document}/pages/1/ocr-bboxes");
        api.ask("GET", &path, headers, "")
    };
    let bearer = api.bearer();
    let found = at_top("7", &[&bearer]).is(200).json();
    assert_eq!(found["source"], "text_layer");
    for document in ["HKEX-7", "HKEX/7", "7"] {
        let path = format!("/documents/{document}/pages/1/ocr-bboxes");
        assert_eq!(api.get(&path).is(200).json(), found, "{document}");
    }
    at_top("7", &[]).refuses(401, "unauthorized");
    let several = at_top("1", &[&bearer]).refuses(409, "conflict");
    assert_eq!(several, "1 may be ASX-1 or HKEX-1: name one of them");
    let none = at_top("9", &[&bearer]).refuses(404, "not_found");
    assert_eq!(none, "no document is called 9");

    let nodes = api.get("/nodes").is(200).json();
    let workers = nodes["nodes"].as_array().unwrap().iter();
    let mut workers = workers.flat_map(|node| node["workers"].as_array().unwrap());
    let pool = workers.find(|worker| worker["stage"] == "page_ocr").unwrap();
    let models = pool["models"].as_array().unwrap();
    assert_eq!((models.len(), &models[0]), (3, &"print".into()), "{models:?}");
}

#[test]
fn a_file_that_is_no_pdf_fails_alone() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let pdfs = folder.path().join("pdfs");
    std::fs::create_dir(&pdfs).unwrap();
    for name in ["letter_form.pdf", "enc_password.pdf", "zero_pages.pdf"] {
        std::fs::copy(fixture(name), pdfs.join(name)).unwrap();
    }
    std::fs::write(pdfs.join("noise.pdf"), [7; 1000]).unwrap();
    let summary = read(&[&pdfs], &out, &["--limit", "1", "--config", "max_attempts=1"])
        .exits(1)
        .json();
    let volumes = summary["volumes"].as_array().unwrap();
    let error = |volume: &str| {
        let found = volumes.iter().find(|found| found["volume"] == volume).unwrap();
        found["error"].as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(error("pdfs-letter_form"), "");
    assert!(
        error("pdfs-enc_password").contains("password"),
        "{}",
        error("pdfs-enc_password")
    );
    for volume in ["pdfs-noise", "pdfs-zero_pages"] {
        assert!(error(volume).contains(".pdf"), "{}", error(volume));
    }
}

/// Rows: 145.
#[test]
fn a_killed_run_is_taken_up_page_by_page() {
    let folder = tempfile::tempdir().unwrap();
    let (out, undisturbed) = (folder.path().join("out"), folder.path().join("undisturbed"));
    let input = fixture("gib_noencoding.pdf");
    let options = ["--config", "checkpoint_pages=1", "--workers", "1"];
    let mut command = node(["ocr", "--json", "--out"]);
    command.arg(&out).args(options).arg(&input);
    let mut run = Running::start(command);
    let parts = out.join("jobs/page_ocr/volumes/pdf-gib_noencoding/page_ocr/parts");
    run.wait_for_file_in("page_ocr had saved a part", &parts);
    run.kill();
    read(&[&input], &out, &options).exits(0);
    read(&[&input], &undisturbed, &options).exits(0);
    assert_same_files(&out.join("jobs"), &undisturbed.join("jobs"));
}

/// Rows: 127, C6, C17.
#[test]
fn the_layout_of_web_services_has_a_file_for_each_page() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let options = ["--layout", "ocr_bboxes", "--limit", "2"];
    read(&[&fixture("letter_form.pdf")], &out, &options).exits(0);
    let exported = boxes(&out, &folder.path().join("boxes"));
    for number in [1, 2] {
        let name = format!("page_{number}.json");
        let written = std::fs::read(out.join("ocr-bboxes/pdf/letter_form").join(&name)).unwrap();
        assert_eq!(
            exported[&Path::new("pdf-letter_form").join(&name)],
            written,
            "{name}"
        );
    }
}
