//! Options of the command line.

use parkhang_actors::artifact::OcrResultRow;

use crate::support::{Desk, finish, node, rows};

#[test]
fn a_dry_run_says_what_would_be_done_and_does_nothing() {
    let desk = Desk::with_pages(3);
    let plan = desk.read(&["--dry-run", "--limit", "2"]).exits(0).json();
    assert_eq!(plan["volumes"][0]["volume"], "W1-I1");
    assert_eq!(plan["volumes"][0]["pages"], 2);
    assert_eq!(
        plan["stages"],
        serde_json::json!(["line_detection", "line_extraction", "ocr", "reduce"])
    );
    assert!(!desk.out().exists());
}

#[test]
fn a_limit_and_a_range_of_stages_narrow_the_run() {
    let desk = Desk::with_pages(3);
    let cut = ["--limit", "1", "--export", "jsonl", "--config", "decoder=greedy"];
    desk.read(&cut).exits(0);
    let lines: Vec<OcrResultRow> = rows(&desk.out(), &desk.layout().ocr_results());
    assert!(!lines.is_empty() && lines.iter().all(|line| line.image_name == "page00"));

    let manifest = desk
        .out()
        .join("manifests/ocr/W1-I1/parkhang.line_detection.manifest.jsonl");
    std::fs::remove_file(&manifest).unwrap();
    desk.read(&["--limit", "1", "--stages", "ocr..reduce"]).exits(0);
    assert!(!manifest.exists(), "line_detection was not asked for");
    assert_eq!(desk.made("ocr"), 1, "another decoder reads the page again");
}

#[test]
fn a_run_that_ends_before_the_text_has_nothing_to_export() {
    let desk = Desk::with_pages(1);
    let run = desk.read(&["--stages", "..line_extraction"]).exits(0);
    assert_eq!(run.json()["exported"], serde_json::json!([]));

    let mut command = node(["export", "--format", "text"]);
    command.arg(desk.out());
    let refused = finish(command).exits(1);
    assert!(refused.stderr.contains("holds no text yet"), "{}", refused.stderr);
}

#[test]
fn mistakes_on_the_command_line_are_named() {
    let desk = Desk::with_pages(1);
    let refused = |options: &[&str], why: &str| {
        let run = desk.read(options).exits(1);
        assert!(run.stderr.contains(why), "{}", run.stderr);
        assert_eq!(run.stdout, "");
    };
    refused(&["--config", "k_facto=2"], "k_facto");
    refused(&["--config", "beam_width=0"], "beam_width");
    refused(&["--stages", "reduce..ocr"], "reduce..ocr");
    refused(&["--device", "abacus"], "abacus");
    assert_eq!(finish(node(["ocr"])).code, Some(2));
}
