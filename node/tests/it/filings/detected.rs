//! Lists of pages that are recorded, chunks of a manifest, and pages that are read at once.

use std::path::Path;

use parkhang_test_s3::{Fault, Method};
use parkhang_test_support::Wait;
use serde_json::Value;

use super::{Bucket, Database, pdf, single_page};
use crate::support::{Finished, Running, files, finish, node, workspace};

/// Rows: 123, 124, 125, 134.
#[test]
fn a_database_that_lists_cannot_be_recorded_in_is_warned_of_once() {
    let bucket = Bucket::new();
    bucket.manifest(&["hkex/11805134.pdf", "hkex/11805135.pdf"]);
    let silent = finish(bucket.detect_manifest(&[])).exits(0);
    assert_eq!(
        silent.stderr,
        "chunk 1 of 1: 2 filings, 0 failed; 5 pages, 3 to be read; 0 requests\n"
    );

    let database = Database::new(&bucket);
    let owner = database.options.get_username().to_owned();
    let warned = |user: &str, of: &str| {
        let done = database.detect(&bucket, user).exits(0);
        let warnings: Vec<&str> = done
            .stderr
            .lines()
            .filter(|line| !line.starts_with("chunk"))
            .collect();
        assert!(
            warnings.len() == 1 && warnings[0].contains(of),
            "{of}: {}",
            done.stderr
        );
        assert!(done.stderr.contains("2 filings, 0 failed"), "{}", done.stderr);
    };
    warned(&owner, "there is no table filings");
    database.run(&bucket, "create table filings (exchange text, source_id text)");
    let statement = "alter table filings add column broken_pages integer[] default '{}'";
    warned(&owner, statement);
    database.run(&bucket, statement);
    warned(&owner, "does not have 2 filings");
    database.run(
        &bucket,
        "insert into filings values ('HKEX', '11805134'), ('HKEX', '11805135'); create role detector login",
    );
    warned("detector", "update (broken_pages) on filings to detector");
    database.run(
        &bucket,
        "grant select (exchange, source_id), update (broken_pages) on filings to detector",
    );
    let done = database.detect(&bucket, "detector").exits(0);
    assert_eq!(done.stderr, silent.stderr, "no warning");
    let pages: Vec<Vec<i32>> = database
        .rows(&bucket)
        .into_iter()
        .map(|(_, _, pages)| pages)
        .collect();
    assert_eq!(pages, [vec![3], vec![1, 2]]);
}

/// Rows: 149.
#[test]
fn a_manifest_is_done_in_chunks_and_goes_on_where_it_was_cut_off() {
    let bucket = Bucket::new();
    for id in ["a", "b", "c", "d", "e"] {
        bucket.put(&format!("hkex/{id}.pdf"), &single_page());
    }
    bucket.manifest(&[
        "hkex/a.pdf",
        "hkex/b.pdf",
        "hkex/c.pdf",
        "hkex/d.pdf",
        "hkex/e.pdf",
    ]);
    let run = |words: &[&str]| finish(bucket.detect_manifest(&[&["--chunk-size", "2"], words].concat()));
    let read = |done: &Finished| {
        let names = done.stdout.lines().filter_map(|line| line.split("hkex/").nth(1));
        names.filter_map(|rest| rest.chars().next()).collect::<String>()
    };
    let second = run(&["--chunk", "2"]).exits(0);
    assert_eq!(read(&second), "cd");
    assert!(
        second.stderr.starts_with("chunk 2 of 3: 2 filings"),
        "{}",
        second.stderr
    );
    assert!(
        run(&["--chunk", "4"])
            .exits(1)
            .stderr
            .contains("the chunks 1 to 3")
    );
    for (index, expected) in [("0", "ab"), ("2", "e"), ("3", "")] {
        let mut child = bucket.detect_manifest(&["--chunk-size", "2"]);
        child.env("AWS_BATCH_JOB_ARRAY_INDEX", index);
        assert_eq!(read(&finish(child).exits(0)), expected);
    }

    bucket
        .endpoint
        .faults
        .plan(Method::GET, "hkex/d.pdf", 1, Fault::Silence);
    let run_of_all = bucket.detect_manifest(&["--chunk-size", "2"]);
    let cut_off = Running::start(run_of_all);
    let third = || {
        let records = files_of(&bucket.path("state/detect"));
        records
            .into_iter()
            .any(|(name, text)| name.ends_with("2-4") && text == "2\n")
    };
    Wait::until("the first filing of the second chunk is done").sees(third, |done| *done);
    cut_off.kill();
    let before = bucket.pdfs_read();
    let rest = run(&[]).exits(0);
    assert_eq!(read(&rest), "de");
    assert_eq!(bucket.pdfs_read(), before + 2);
    assert!(
        rest.stderr.contains("chunk 2 of 3 goes on: 1 of 2 filings"),
        "{}",
        rest.stderr
    );
    assert_eq!(
        read(&run(&[]).exits(0)),
        "abcde",
        "a run that has ended is repeated as a whole"
    );
}

fn files_of(folder: &Path) -> Vec<(String, String)> {
    if !folder.exists() {
        return Vec::new();
    }
    let found = files(folder).into_iter();
    found
        .map(|(name, bytes)| (name.display().to_string(), String::from_utf8(bytes).unwrap()))
        .collect()
}

/// Rows: 133.
#[test]
fn pages_are_read_in_the_same_process_where_that_is_asked_for() {
    let bucket = Bucket::new();
    bucket.manifest(&["hkex/11805134.pdf", "hkex/404.pdf"]);
    let mut command = bucket.detect_manifest(&["--output-bucket", "pages/results"]);
    command
        .env("ENABLE_INLINE_OCR", "true")
        // Nobody is asked: there is no such server.
        .env("OCR_QUEUE_URL", "http://127.0.0.1:1/000000000000/ocr-pages")
        .env("XDG_DATA_HOME", bucket.path("data"));
    let done = finish(command).exits(1);
    assert!(done.stderr.contains("no requests are sent"), "{}", done.stderr);
    assert!(
        done.stderr
            .contains("error: s3://pages/hkex/404.pdf: it does not exist"),
        "{}",
        done.stderr
    );
    let written = bucket.endpoint.objects.below("results/ocr-bboxes/HKEX/11805134/");
    assert_eq!(
        written.keys().collect::<Vec<_>>(),
        ["page_3.json"],
        "{}",
        done.stderr
    );

    let mut whole = node(["ocr", "--layout", "ocr_bboxes", "--export", "text", "--out"]);
    whole
        .arg(bucket.path("out"))
        .arg(workspace().join("tests/fixtures/pdf/letter_form.pdf"));
    finish(whole).exits(0);
    let page = bucket.path("out/ocr-bboxes/pdf/letter_form/page_3.json");
    assert_eq!(
        written["page_3.json"],
        std::fs::read(page).unwrap(),
        "as node ocr writes it"
    );
}

#[test]
fn files_without_an_exchange_are_looked_at_and_nothing_more() {
    let bucket = Bucket::new();
    std::fs::create_dir(bucket.path("pdfs")).unwrap();
    std::fs::write(bucket.path("pdfs/b.pdf"), pdf("letter_form.pdf")).unwrap();
    let mut command = node(["pages", "detect", "pdfs", "absent.pdf", "--json"]);
    // Neither answers, so that a look at one of them would fail.
    command
        .env("DATABASE_URL", "postgres://nobody@127.0.0.1:1/web")
        .env("OCR_QUEUE_URL", "http://127.0.0.1:1/000000000000/ocr-pages")
        .current_dir(bucket.folder.path());
    let done = finish(command).exits(1);
    let verdicts: Vec<String> = done
        .stdout
        .lines()
        .map(|line| {
            serde_json::from_str::<Value>(line).unwrap()["verdict"]
                .as_str()
                .unwrap()
                .to_owned()
        })
        .collect();
    assert_eq!(verdicts, ["good", "good", "none"]);
    assert_eq!(done.stderr, "error: absent.pdf does not exist\n");
    let refused = finish(bucket.detect(&["s3://pages/hkex/11805134.pdf"])).exits(1);
    assert!(
        refused.stderr.contains("name one with --exchange"),
        "{}",
        refused.stderr
    );
}
