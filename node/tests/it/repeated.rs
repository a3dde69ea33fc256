//! What a second run over the same output folder does, and does not do.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::support::{Desk, assert_same_files, files, small_page};

fn written(folder: &Path) -> BTreeMap<PathBuf, SystemTime> {
    files(folder)
        .into_keys()
        .map(|name| {
            let time = folder.join(&name).metadata().unwrap().modified().unwrap();
            (name, time)
        })
        .collect()
}

/// Rows: F18, F19.
#[test]
fn only_what_changed_is_made_again() {
    let desk = Desk::with_pages(3);
    let made = |stages: [usize; 3]| {
        let found = ["line_detection", "line_extraction", "ocr"].map(|stage| desk.made(stage));
        assert_eq!(found, stages);
    };
    desk.read(&[]).exits(0);
    made([3, 3, 3]);

    let artifacts = desk.out().join("jobs");
    let before = written(&artifacts);
    let second = desk.read(&[]).exits(0);
    assert_eq!(
        (second.count("pages_read"), second.count("pages_skipped")),
        (0, 3)
    );
    made([0, 0, 0]);
    assert_eq!(written(&artifacts), before, "nothing is written again");

    desk.read(&["--config", "decoder=greedy"]).exits(0);
    made([0, 0, 3]);

    let mut page = small_page();
    page.push(0xff);
    desk.put("page01.tif", &page);
    desk.read(&["--config", "decoder=greedy"]).exits(0);
    let manifest = desk.manifest("line_detection");
    assert_eq!(manifest["page01"], "success");
    assert_eq!(desk.made("line_detection"), 1);

    let copy = desk.out().with_file_name("copy");
    desk.read_into(&copy, &["--config", "decoder=greedy"]).exits(0);
    assert_same_files(&artifacts, &copy.join("jobs"));

    desk.read(&["--force", "--config", "decoder=greedy"]).exits(0);
    made([3, 3, 3]);
    assert_same_files(&artifacts, &copy.join("jobs"));
}
