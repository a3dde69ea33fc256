//! Runs that are cut off, and the runs that take them up again.

use std::path::Path;

use crate::documents::paper;
use crate::support::{Fixture, Running, VOLUME, assert_same_files, finish, node};

const PAGES: u8 = 10;
const PER_PART: usize = 2;
const WORKERS: usize = 2;
const OPTIONS: [&str; 4] = ["--config", "checkpoint_pages=2", "--workers", "2"];

/// Waits for the first part of a stage.
fn wait_for_part(fixture: &Fixture, run: &mut Running, stage: &str) {
    let parts = format!("jobs/ocr/volumes/{VOLUME}/{stage}/parts");
    let parts = fixture.out().join(parts);
    run.wait_for_file_in(&format!("{stage} had saved a part"), &parts);
}

/// Kills a run once a stage has saved a part, and returns how many pages of it the manifest tells of.
fn kill_within(fixture: &Fixture, stage: &str) -> usize {
    let mut run = fixture.start(&OPTIONS);
    wait_for_part(fixture, &mut run, stage);
    run.kill();
    fixture.manifest(stage).len()
}

#[test]
fn a_killed_run_is_taken_up_and_leaves_no_trace() {
    let fixture = Fixture::with_pages(PAGES);
    let pages = usize::from(PAGES);
    for stage in ["line_detection", "ocr"] {
        let finished = kill_within(&fixture, stage);
        let mut run = fixture.start(&OPTIONS);
        // The next stage has begun once this one is done, or the process has ended.
        match stage {
            "line_detection" => {
                wait_for_part(&fixture, &mut run, "line_extraction");
                run.kill();
            }
            _ => assert_eq!(run.exit_code(), Some(0)),
        }
        let repeated = fixture.made(stage).saturating_sub(pages - finished);
        assert!(
            repeated <= PER_PART + WORKERS,
            "{repeated} of {finished} finished pages of {stage} were repeated"
        );
        assert!(
            fixture.made(stage) <= pages - PER_PART,
            "a saved part was not taken over"
        );
    }
    let undisturbed = fixture.out().with_file_name("undisturbed");
    fixture.read_into(&undisturbed, &OPTIONS).exits(0);
    assert_same_files(&fixture.out().join("jobs"), &undisturbed.join("jobs"));
}

/// One process after the other is killed as soon as a stage has begun, and the last one finishes what they have left.
#[test]
fn a_run_that_is_killed_in_every_stage_of_documents_makes_the_same_documents() {
    let folder = tempfile::tempdir().unwrap();
    let command = |out: &Path| {
        let mut command = node(["ocr", "--pipeline", "documents", "--config", "checkpoint_pages=1"]);
        command.args(["--workers", "1", "--out"]).arg(out).arg(paper());
        command
    };
    let out = folder.path().join("out");
    let volume = out.join("jobs/documents/volumes/pdf-paper");
    // A stage begins when the one before has written its table.
    for (stage, table) in [
        ("doctags", "page_ocr/words.parquet"),
        ("chunk", "doctags/blocks.parquet"),
        ("embed", "chunk/chunks.parquet"),
        ("index", "embed/vectors.parquet"),
        ("reduce", "index/text.index"),
    ] {
        let mut run = Running::start(command(&out));
        run.wait_for_file(&format!("{stage} had begun"), &volume.join(table));
        run.kill();
    }
    finish(command(&out)).exits(0);
    let undisturbed = folder.path().join("undisturbed");
    finish(command(&undisturbed)).exits(0);
    assert_same_files(&out.join("jobs"), &undisturbed.join("jobs"));
    assert_same_files(&out.join("export"), &undisturbed.join("export"));
}

/// Rows: 186, F21.
#[test]
fn an_interrupt_drains_and_the_next_run_finishes() {
    let fixture = Fixture::with_pages(6);
    let mut run = fixture.start(&OPTIONS);
    wait_for_part(&fixture, &mut run, "line_detection");
    run.interrupt();
    assert_eq!(run.exit_code(), Some(130));

    let second = fixture.read(&OPTIONS).exits(0);
    assert_eq!(second.json()["volumes"][0]["results"]["total_images"], 6);
    assert!(
        fixture.made("line_detection") <= 6 - PER_PART,
        "finished pages are kept"
    );
}

#[test]
fn an_output_folder_has_one_process_at_a_time() {
    let fixture = Fixture::with_pages(4);
    let mut first = fixture.start(&OPTIONS);
    wait_for_part(&fixture, &mut first, "line_detection");
    let second = fixture.read(&OPTIONS).exits(1);
    assert!(second.stderr.contains("another process"), "{}", second.stderr);

    // Another folder is free, though both share the private Postgres.
    fixture
        .read_into(&fixture.out().with_file_name("other"), &["--limit", "1"])
        .exits(0);
    assert_eq!(first.exit_code(), Some(0));
}
