//! What a second run over the same output folder does, and does not do.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::support::{Fixture, assert_same_files, files, small_page};

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
    let fixture = Fixture::with_pages(3);
    let made = |stages: [usize; 3]| {
        let found = ["line_detection", "line_extraction", "ocr"].map(|stage| fixture.made(stage));
        assert_eq!(found, stages);
    };
    fixture.read(&[]).exits(0);
    made([3, 3, 3]);

    let artifacts = fixture.out().join("jobs");
    let before = written(&artifacts);
    let second = fixture.read(&[]).exits(0);
    assert_eq!(
        (second.count("pages_read"), second.count("pages_skipped")),
        (0, 3)
    );
    made([0, 0, 0]);
    assert_eq!(written(&artifacts), before, "nothing is written again");

    fixture.read(&["--config", "decoder=greedy"]).exits(0);
    made([0, 0, 3]);

    let mut page = small_page();
    page.push(0xff);
    fixture.put("page01.tif", &page);
    fixture.read(&["--config", "decoder=greedy"]).exits(0);
    let manifest = fixture.manifest("line_detection");
    assert_eq!(manifest["page01"], "success");
    assert_eq!(fixture.made("line_detection"), 1);

    let copy = fixture.out().with_file_name("copy");
    fixture.read_into(&copy, &["--config", "decoder=greedy"]).exits(0);
    assert_same_files(&artifacts, &copy.join("jobs"));

    fixture.read(&["--force", "--config", "decoder=greedy"]).exits(0);
    made([3, 3, 3]);
    assert_same_files(&artifacts, &copy.join("jobs"));
}
