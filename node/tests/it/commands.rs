//! Options of the command line.

use parkhang_core::domain::{JobKey, LayoutName, VolumeId};
use parkhang_store::artifact::{ArtifactLayout, ImageName, OcrResultRow, VolumeDone};

use crate::support::{Fixture, VOLUME, finish, node, provenance, rows, small_page};

#[test]
fn a_dry_run_says_what_would_be_done_and_does_nothing() {
    let fixture = Fixture::with_pages(3);
    let plan = fixture.read(&["--dry-run", "--limit", "2"]).exits(0).json();
    assert_eq!(plan["volumes"][0]["volume"], "W1-I1");
    assert_eq!(plan["volumes"][0]["pages"], 2);
    assert_eq!(
        plan["stages"],
        serde_json::json!(["line_detection", "line_extraction", "ocr", "reduce"])
    );
    assert_eq!(plan["device"], "cpu");
    assert_eq!(plan["models"].as_array().unwrap().len(), 2);
    let refused = fixture
        .read(&["--dry-run", "--model", "/nowhere/at/all"])
        .exits(1);
    assert!(
        refused.stderr.contains("/nowhere/at/all is no model"),
        "{}",
        refused.stderr
    );
    assert!(!fixture.out().exists());
    assert_eq!(
        plan["volumes"][0]["work"][0],
        serde_json::json!({ "stage": "line_detection", "work": "all_pages" })
    );
}

/// Rows: 176.
#[test]
fn a_dry_run_says_which_pages_stand_and_why_others_do_not() {
    let fixture = Fixture::with_pages(2);
    fixture.read(&["--export", "jsonl"]).exits(0);
    let work = |options: &[&str]| {
        let plan = fixture
            .read(&[&["--dry-run"][..], options].concat())
            .exits(0)
            .json();
        plan["volumes"][0]["work"].clone()
    };
    let stands = |stage: &str| serde_json::json!({ "stage": stage, "work": { "pages": { "skipped": 2, "to_do": [] } } });
    let follows =
        |stage: &str, ahead: &str| serde_json::json!({ "stage": stage, "work": { "after": ahead } });
    let whole = serde_json::json!({ "stage": "reduce", "work": "volume" });
    assert_eq!(
        work(&[]),
        serde_json::json!([
            stands("line_detection"),
            stands("line_extraction"),
            stands("ocr"),
            whole
        ])
    );

    // What stands does not depend on how text is decoded.
    let changed = serde_json::json!({
        "stage": "ocr",
        "work": { "pages": { "skipped": 0, "to_do": [
            { "page": "page00", "reason": "changed" }, { "page": "page01", "reason": "changed" },
        ] } },
    });
    assert_eq!(
        work(&["--config", "decoder=greedy"]),
        serde_json::json!([
            stands("line_detection"),
            stands("line_extraction"),
            changed,
            follows("reduce", "ocr")
        ])
    );

    let scan = small_page();
    fixture.put("page02.tif", &scan);
    let image = fixture.layout().rotated_image(&ImageName::new("page00").unwrap());
    std::fs::remove_file(fixture.out().join(image.as_str())).unwrap();
    let detection = serde_json::json!({
        "stage": "line_detection",
        "work": { "pages": { "skipped": 1, "to_do": [
            { "page": "page00", "reason": "incomplete" }, { "page": "page02", "reason": "absent" },
        ] } },
    });
    let expected = serde_json::json!([
        detection,
        follows("line_extraction", "line_detection"),
        follows("ocr", "line_detection"),
        follows("reduce", "line_detection"),
    ]);
    assert_eq!(work(&[]), expected);
    assert!(!fixture.out().join(image.as_str()).exists());
}

/// Rows: 193.
#[test]
fn a_job_may_ask_for_a_file_of_hashes_beside_each_table() {
    let fixture = Fixture::with_pages(1);
    let table = fixture.layout().ocr_results();
    let path = fixture
        .out()
        .join(fixture.layout().fingerprint_file(&table).as_str());
    fixture.read(&["--export", "jsonl"]).exits(0);
    assert!(!path.exists());
    // Nothing is read again, and the file comes all the same.
    fixture
        .read(&["--export", "jsonl", "--config", "fingerprint_files=true"])
        .exits(0);
    assert_eq!(fixture.made("ocr"), 0);
    let made_from = provenance::<OcrResultRow>(&fixture.out(), &table);
    let noted: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!(
        noted,
        serde_json::json!({ "input_sha256": made_from.input_hash, "cfg_hash": made_from.config_hash })
    );
}

/// Rows: 94, 101, F34.
#[test]
fn a_volume_is_marked_in_a_layout_with_markers() {
    let fixture = Fixture::with_pages(1);
    fixture
        .read(&["--export", "jsonl", "--config", "layout=bdrc_v1"])
        .exits(0);
    let volume: VolumeId = VOLUME.parse().unwrap();
    let layout = ArtifactLayout::new(LayoutName::BdrcV1, &JobKey::new("ocr").unwrap()).volume(&volume);
    let markers = layout.markers().unwrap();
    let marker = std::fs::read(fixture.out().join(markers.done.as_str())).unwrap();
    let done: VolumeDone = serde_json::from_slice(&marker).unwrap();
    assert_eq!((done.volume_id, done.took_ms.len()), (volume, 4));
    assert_eq!(done.results.unwrap().total_images, 1);
    assert!(!fixture.out().join(markers.error.as_str()).exists());
}

#[test]
fn a_limit_and_a_range_of_stages_narrow_the_run() {
    let fixture = Fixture::with_pages(3);
    let cut = ["--limit", "1", "--export", "jsonl", "--config", "decoder=greedy"];
    fixture.read(&cut).exits(0);
    let lines: Vec<OcrResultRow> = rows(&fixture.out(), &fixture.layout().ocr_results());
    assert!(!lines.is_empty() && lines.iter().all(|line| line.image_name == "page00"));

    let manifest = fixture
        .out()
        .join("manifests/ocr/W1-I1/parkhang.line_detection.manifest.jsonl");
    std::fs::remove_file(&manifest).unwrap();
    fixture
        .read(&["--limit", "1", "--stages", "ocr..reduce"])
        .exits(0);
    assert!(!manifest.exists(), "line_detection was not asked for");
    assert_eq!(fixture.made("ocr"), 1, "another decoder reads the page again");
}

#[test]
fn a_run_that_ends_before_the_text_has_nothing_to_export() {
    let fixture = Fixture::with_pages(1);
    let run = fixture.read(&["--stages", "..line_extraction"]).exits(0);
    assert_eq!(run.json()["exported"], serde_json::json!([]));

    let mut command = node(["export", "--format", "text"]);
    command.arg(fixture.out());
    let refused = finish(command).exits(1);
    assert!(refused.stderr.contains("has no text yet"), "{}", refused.stderr);
}

#[test]
fn mistakes_on_the_command_line_are_named() {
    let fixture = Fixture::with_pages(1);
    let refused = |options: &[&str], why: &str| {
        let run = fixture.read(options).exits(1);
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
    let reported = score(&[]).stdout;
    assert!(
        reported.contains("counted as pages without text: 1 page\n"),
        "{reported}"
    );
    assert!(reported.contains("torn, line_detection: "), "{reported}");
    assert_eq!(score(&["--json"]).json()["failed_pages"][0]["page"], "torn");
}
