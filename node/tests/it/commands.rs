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
    assert_eq!(plan["device"], "cpu");
    assert_eq!(plan["models"].as_array().unwrap().len(), 2);
    let refused = desk.read(&["--dry-run", "--model", "/nowhere/at/all"]).exits(1);
    assert!(
        refused.stderr.contains("/nowhere/at/all is no model"),
        "{}",
        refused.stderr
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

#[test]
fn a_score_says_which_pages_could_not_be_read() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("torn.png"), b"no image").unwrap();
    std::fs::write(folder.path().join("torn.txt"), "བཀྲ་ཤིས།\n").unwrap();
    let score = |options: &[&str]| {
        let mut command = node(["eval"]);
        command.arg(folder.path()).args(options);
        finish(command).exits(0)
    };
    let told = score(&[]).stdout;
    assert!(told.contains("counted as without text: 1 page\n"), "{told}");
    assert!(told.contains("torn, line_detection: "), "{told}");
    assert_eq!(score(&["--json"]).json()["failed_pages"][0]["page"], "torn");
}
