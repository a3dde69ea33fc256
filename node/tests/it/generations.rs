//! The first generation of algorithms, layouts, devices and several recognisers, as an operator asks for them.

use parkhang_store::artifact::{LineDetectionRow, OcrResultRow};
use rapidfuzz::distance::levenshtein;

use crate::support::{Fixture, finish, node, provenance, rows, workspace};

/// Rows: 12, 15, 18.
#[test]
fn a_page_is_read_by_the_algorithms_of_either_generation() {
    let fixture = Fixture::with_pages(1);
    let made = || ["line_detection", "line_extraction", "ocr"].map(|stage| fixture.made(stage));
    let text = || -> Vec<String> {
        let lines: Vec<OcrResultRow> = rows(&fixture.out(), &fixture.layout().ocr_results());
        lines.into_iter().map(|line| line.text).collect()
    };
    fixture.read(&[]).exits(0);
    let defaults = text();
    assert_eq!(made(), [1, 1, 1]);

    fixture.read(&["--config", "generation=gen1"]).exits(0);
    assert_eq!(made(), [1, 1, 1], "everything is made anew");
    let pages: Vec<LineDetectionRow> = rows(&fixture.out(), &fixture.layout().line_detection());
    let mask = image::load_from_memory(&pages[0].rot_mask).unwrap();
    assert_eq!(
        (mask.width() as i32, mask.height() as i32),
        (pages[0].image_width, pages[0].image_height),
        "the mask has the size of the page"
    );
    assert!(pages[0].regions.is_none());
    let older = text();
    // It leaves the pieces of a line apart that a gap divides.
    assert!(older.len() >= defaults.len(), "{older:#?} {defaults:#?}");
    let (older, joined) = (older.concat(), defaults.concat());
    let alike = levenshtein::normalized_similarity(older.chars(), joined.chars());
    assert!(alike > 0.9, "{alike}: {older} {joined}");

    fixture.read(&["--config", "generation=gen2"]).exits(0);
    assert_eq!(text(), defaults);
}

#[test]
fn a_layout_that_no_model_knows_is_refused() {
    let model = workspace().join("models/tests/fixtures/bdrc/deeplab");
    let model = model.to_str().unwrap();
    let fixture = Fixture::with_pages(1);
    let refused = fixture
        .read(&["--model", model, "--config", "line_mode=layout"])
        .exits(1);
    assert!(
        refused.stderr.contains("line_mode=layout needs"),
        "{}",
        refused.stderr
    );
    assert_eq!(fixture.made("line_detection"), 0);
}

/// The network has random weights, which are sure of nothing: there may be no region, but the page is asked for them and read.
#[test]
fn a_model_of_a_layout_is_asked_for_regions() {
    let model = tempfile::tempdir().unwrap();
    let fixture = workspace().join("models/tests/fixtures/bdrc/deeplab");
    for (from, to) in [("layout.json", "config.json"), ("layout.pth", "layout.pth")] {
        std::fs::copy(fixture.join(from), model.path().join(to)).unwrap();
    }
    let fixture = Fixture::with_pages(1);
    let model = model.path().to_str().unwrap();
    fixture
        .read(&["--model", model, "--config", "line_mode=layout"])
        .exits(0);
    let pages: Vec<LineDetectionRow> = rows(&fixture.out(), &fixture.layout().line_detection());
    let kinds = ["caption", "image", "margin"];
    let regions = pages[0].regions.as_ref().unwrap();
    for region in regions {
        assert!(
            kinds.contains(&region.kind.as_str()) && region.contour.len() > 2,
            "{region:?}"
        );
    }

    fixture.read(&["--model", model]).exits(0);
    let pages: Vec<LineDetectionRow> = rows(&fixture.out(), &fixture.layout().line_detection());
    assert!(pages[0].regions.is_none(), "lines alone are asked for");
}

/// The lines are the same, asked for alone or with a layout.
#[test]
fn the_shipped_model_knows_a_layout() {
    let fixture = Fixture::with_pages(1);
    let read = |arguments: &[&str]| -> Vec<LineDetectionRow> {
        fixture.read(arguments).exits(0);
        rows(&fixture.out(), &fixture.layout().line_detection())
    };
    let (lines, layout) = (read(&[]), read(&["--config", "line_mode=layout"]));
    assert!(lines[0].regions.is_none() && layout[0].regions.is_some());
    assert_eq!(layout[0].filtered_contours, lines[0].filtered_contours);
}

#[test]
fn devices_are_listed_and_tested_and_a_named_one_must_be_there() {
    let shown = finish(node(["device", "--json", "--time", "0s"])).exits(0).json();
    let devices = shown["devices"].as_array().unwrap();
    assert_eq!(devices[0]["device"], "cpu");
    assert_eq!(devices[0]["state"], "passed");
    assert!(devices[0]["lines_per_s"].as_f64().unwrap() > 0.0);

    let shown = finish(node([
        "device",
        "--device",
        "cpu",
        "--json",
        "--time",
        "0s",
        "--batches",
    ]));
    let shown = shown.exits(0).json();
    let batches = shown["devices"][0]["batches"].as_array().unwrap();
    assert_eq!(batches.len(), 4);
    assert_eq!(batches[3]["at_once"], 64);
    assert!(batches[3]["tiles_per_s"].as_f64().unwrap() > 0.0);

    let shown = finish(node(["device", "--list"])).exits(0).stdout;
    assert!(shown.contains("cpu") && shown.contains("present"), "{shown}");
    let shown = finish(node(["device", "--device", "cpu:3", "--list"]))
        .exits(1)
        .stdout;
    assert!(
        shown.contains("no cpu device number 3; this machine has 1"),
        "{shown}"
    );
    #[cfg(not(feature = "cuda"))]
    {
        let shown = finish(node(["device", "--device", "cuda"])).exits(1).stdout;
        assert!(
            shown.contains("build it with the cargo feature `cuda`"),
            "{shown}"
        );
    }
}

/// Rows: 102.
#[test]
fn a_recogniser_is_chosen_and_the_results_say_which() {
    let fixture = Fixture::with_pages(2);
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("copy");
    std::fs::create_dir(&copy).unwrap();
    for entry in std::fs::read_dir(workspace().join("models/weights/recogniser")).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
    }
    let description = copy.join("model.json");
    let json = std::fs::read_to_string(&description).unwrap();
    let shipped = serde_json::from_str::<serde_json::Value>(&json).unwrap()["name"].clone();
    let shipped = shipped.as_str().unwrap();
    std::fs::write(&description, json.replace(shipped, "a-copy")).unwrap();

    let automatic = format!("auto:{}", folder.path().display());
    fixture.read(&["--model", &automatic]).exits(0);
    let made_by = || -> Vec<String> {
        let provenance = provenance::<OcrResultRow>(&fixture.out(), &fixture.layout().ocr_results());
        provenance.models.into_iter().map(|model| model.name).collect()
    };
    // Both are equally sure of everything, and the shipped one is the first.
    assert_eq!(made_by(), [shipped]);
    assert_eq!(fixture.made("ocr"), 2);
    fixture.read(&["--model", &automatic]).exits(0);
    assert_eq!(fixture.made("ocr"), 0, "the same one is chosen again");
    let named = ["--model", &automatic, "--config", "models=ocr=a-copy"];
    fixture.read(&named).exits(0);
    assert_eq!((made_by(), fixture.made("ocr")), (vec!["a-copy".to_owned()], 2));
    fixture.read(&["--model", copy.to_str().unwrap()]).exits(0);
    assert_eq!((made_by(), fixture.made("ocr")), (vec!["a-copy".to_owned()], 0));
    let absent = fixture.read(&["--config", "models=ocr=a-copy"]).exits(1);
    assert!(
        absent
            .stderr
            .contains("ocr=a-copy is not loaded; loaded are parkhang"),
        "{}",
        absent.stderr
    );
}
