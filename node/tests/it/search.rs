//! Search in an output folder: what is found is where exports have it, and the index can be deleted.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use parkhang_core::domain::{JobKey, VolumeId};
use parkhang_store::artifact::ArtifactLayout;
use serde_json::Value;

use crate::support::{finish, node, workspace};

const JOB: &str = "J1";

fn read(input: &Path, out: &Path, pipeline: &str) {
    let mut command = node([
        "ocr",
        "--json",
        "--export",
        "text,jsonl",
        "--job",
        JOB,
        "--pipeline",
        pipeline,
    ]);
    command.arg("--out").arg(out).arg(input);
    finish(command).exits(0);
}

fn search(out: &Path, arguments: &[&str]) -> Value {
    let mut command = node(["search", "--json", "--limit", "100"]);
    command.args(arguments).arg("--out").arg(out);
    serde_json::from_str(&finish(command).exits(0).stdout).unwrap()
}

/// Line by the name of its page's image and its number on the page, from 1, with its text.
type Line = (String, u64, String);

fn hits(found: &Value) -> Vec<Line> {
    let of_page = |hit: &Value| -> Vec<Line> {
        let lines = hit["lines"].as_array().unwrap().iter();
        let text = |line: &Value| -> String {
            line["parts"]
                .as_array()
                .unwrap()
                .iter()
                .map(|part| part["text"].as_str().unwrap())
                .collect()
        };
        let image = hit["image_name"].as_str().unwrap();
        lines
            .map(|line| (image.to_owned(), line["line"].as_u64().unwrap(), text(line)))
            .collect()
    };
    found["hits"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(of_page)
        .collect()
}

/// Lines as the export numbers them.
fn exported(out: &Path, volume: &str) -> Vec<Line> {
    let lines = fs::read_to_string(out.join(format!("export/jsonl/{volume}.jsonl"))).unwrap();
    let line = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        let text = |key: &str| line[key].as_str().unwrap().to_owned();
        (
            text("image"),
            line["line_index"].as_u64().unwrap() + 1,
            text("text"),
        )
    };
    lines.lines().map(line).collect()
}

#[test]
fn scans_are_searched_where_they_lie() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    read(&workspace().join("tests/fixtures/sample"), &out, "ocr");
    let exported = exported(&out, "W0PARKHANG-I0SAMPLE");
    let found = search(&out, &["སངས་རྒྱས", "--exact"]);
    let hits = hits(&found);
    assert!(!hits.is_empty());
    for hit in &hits {
        assert!(exported.contains(hit), "{hit:?}");
        assert!(hit.2.contains("སངས་རྒྱས"), "{hit:?}");
    }
    let pages = exported
        .iter()
        .filter(|(_, _, text)| text.contains("སངས་རྒྱས"))
        .map(|(page, ..)| page);
    let pages: BTreeSet<&String> = pages.collect();
    // A run over the end of a line is on no line as a whole.
    assert!(found["total"].as_u64().unwrap() >= pages.len() as u64);
    assert_eq!(
        search(&out, &["sangs rgyas", "--exact"])["total"],
        found["total"],
        "in Wylie"
    );
    let misread = search(&out, &["སདས་རྒྱས"]);
    assert!(misread["total"].as_u64() >= Some(1), "{misread:#}");

    // What is deleted is made again.
    fs::remove_dir_all(out.join(".search")).unwrap();
    assert_eq!(search(&out, &["སངས་རྒྱས", "--exact"]), found);
}

#[test]
fn documents_are_found_by_words_and_by_meaning() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let input = workspace().join("tests/fixtures/pdf/paper.pdf");
    read(&input, &out, "documents");
    let volume: VolumeId = "pdf-paper".parse().unwrap();
    let layout = ArtifactLayout::bdrc_v2(&JobKey::new(JOB).unwrap()).volume(&volume);
    let index = out.join(layout.search_index().as_str());
    let bytes = fs::read(&index).unwrap();
    let again = folder.path().join("again");
    read(&input, &again, "documents");
    assert_eq!(
        fs::read(again.join(layout.search_index().as_str())).unwrap(),
        bytes,
        "the same bytes"
    );

    let exported = exported(&out, "pdf-paper");
    let by_words = hits(&search(&out, &["harbour sediments", "--by", "words"]));
    assert!(!by_words.is_empty());
    for hit in by_words {
        assert!(exported.contains(&hit), "{hit:?}");
    }
    let by_meaning = search(&out, &["mud that the tide moves in a port", "--by", "meaning"]);
    let passage = by_meaning["hits"][0]["passage"].as_str().unwrap();
    assert!(
        passage.to_lowercase().contains("sediment") || passage.contains("tid"),
        "{passage}"
    );
    // A question in another language.
    let chinese = search(&out, &["港口的沉積物在潮汐中移動", "--by", "meaning"]);
    assert!(chinese["total"].as_u64() >= Some(1), "{chinese:#}");

    // A bundle that cannot be used is made again from the tables.
    fs::write(&index, "damaged").unwrap();
    fs::remove_dir_all(out.join(".search")).unwrap();
    assert!(!hits(&search(&out, &["harbour sediments", "--by", "words"])).is_empty());
}

#[test]
fn a_volume_that_cannot_be_indexed_is_not_tried_again_until_it_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let input = workspace().join("tests/fixtures/pdf/paper.pdf");
    read(&input, &out, "page_ocr");
    let volume: VolumeId = "pdf-paper".parse().unwrap();
    let layout = ArtifactLayout::bdrc_v2(&JobKey::new(JOB).unwrap()).volume(&volume);
    let words = out.join(layout.words().as_str());
    let good = fs::read(&words).unwrap();
    fs::write(&words, "damaged").unwrap();
    let tried = || {
        let mut command = node(["search", "harbour", "--json", "--out"]);
        command.arg(&out);
        let finished = finish(command).exits(0);
        let found: Value = serde_json::from_str(&finished.stdout).unwrap();
        (found, finished.stderr.contains("cannot be indexed"))
    };
    let ((first, is_tried), (second, is_tried_again)) = (tried(), tried());
    assert!(is_tried && !is_tried_again);
    let reason = first["troubles"][0].as_str().unwrap();
    assert!(
        reason.starts_with("pdf-paper cannot be indexed until it is read again: ")
            && reason.contains("words.parquet"),
        "{reason}"
    );
    assert_eq!(second["troubles"], first["troubles"]);
    assert_eq!(second["behind"], 0);
    fs::write(&words, good).unwrap();
    let (found, _) = tried();
    assert!(found["total"].as_u64() >= Some(1), "{found:#}");
    assert_eq!(found["troubles"], serde_json::json!([]));
}

#[test]
fn a_search_that_cannot_be_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = node(["search", "word", "--out"]);
    command.arg(folder.path());
    let refused = finish(command);
    assert_eq!(refused.code, Some(1));
    assert!(
        refused.stderr.contains("is not an output folder of `node ocr`"),
        "{}",
        refused.stderr
    );
}
