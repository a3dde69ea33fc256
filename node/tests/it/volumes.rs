//! Volumes of an archive: made known by their lists of images, chosen for jobs, and shown with what came of them.

use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use parkhang_test_support::Wait;
use serde_json::{Value, json};

use crate::nodes::{JOB, Node, OF_A_JOB, Site};
use crate::support::{Finished, finish, small_page};

const TWO_PAGES: &str = r#"[{"filename":"dimensions.json"},{"filename":"a.tif","width":878,"height":1138,"pilmode":"1"},
    {"filename":"b.tif","width":1053,"height":949},{"filename":"sub/c.tif"}]"#;

/// A site whose scans are in a folder like BDRC's archive: `W22084-I0886` and `W22084-I0887`, of which the latter's list is
/// neither gzipped nor without a byte order mark.
fn site() -> Site {
    let mut site = Site::with_volumes(0, 0);
    let archive = site.path("archive").to_str().unwrap().to_owned();
    site.settings.push(("pages.kind", "bdrc".to_owned()));
    site.settings.push(("pages.folder", archive));
    put_list(&site, "0886", &gzipped(TWO_PAGES));
    let plain = format!("\u{feff}{}", r#"[{"filename":"a.tif"}]"#);
    put_list(&site, "0887", plain.as_bytes());
    site
}

fn put_list(site: &Site, group: &str, list: &[u8]) {
    put(
        &site.path(&format!(
            "archive/Works/60/W22084/images/W22084-{group}/dimensions.json"
        )),
        list,
    );
}

fn put(path: &Path, bytes: &[u8]) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, bytes).unwrap();
}

fn gzipped(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

fn run(site: &Site, line: &str) -> Finished {
    let words: Vec<&str> = line.split(' ').collect();
    finish(site.command_of(&words))
}

fn names(listed: &Value) -> Vec<&str> {
    let volumes = listed["volumes"].as_array().unwrap();
    volumes
        .iter()
        .map(|volume| volume["volume"].as_str().unwrap())
        .collect()
}

/// Rows: 86, 111, F24, F25.
#[test]
fn an_archive_is_imported_listed_and_shown() {
    let site = site();
    let tried = run(&site, "volumes import --collection W22084 --dry-run").exits(0);
    assert!(
        tried.stdout.starts_with(
            "2 volumes would be new, 0 would be changed, 0 unchanged: 3 images would be imported\n"
        ),
        "{}",
        tried.stdout
    );
    let imported = run(&site, "volumes import --collection W22084 --json")
        .exits(0)
        .json();
    let expected = json!({
        "dry_run": false,
        "new": 2,
        "changed": 0,
        "unchanged": 0,
        "images": 3,
        "junk": [
            { "reason": "file of another folder", "count": 1, "samples": ["sub/c.tif of W22084-I0886"] },
            { "reason": "not an image", "count": 1, "samples": ["dimensions.json of W22084-I0886"] },
        ],
        "failed": [],
    });
    assert_eq!(imported, expected);

    put_list(&site, "0887", gzipped(r#"[{"filename":"b.tif"}]"#).as_slice());
    let again = run(&site, "volumes import").exits(0);
    assert_eq!(
        again.stdout, "0 volumes new, 1 changed, 1 unchanged: 1 image imported\n",
        "all that are known are looked at again"
    );
    let absent = run(
        &site,
        "volumes import --volume W22084-I0888 --volume W22084-I0886",
    )
    .exits(1);
    assert!(
        absent
            .stdout
            .contains("not imported: 1 not in the archive: W22084-I0888"),
        "{}",
        absent.stdout
    );
    let refused = run(&site, "volumes import --collection W1").exits(1);
    assert!(refused.stderr.contains("no collection W1"), "{}", refused.stderr);

    let listed = run(&site, "volumes list --limit 1 --json").exits(0).json();
    assert_eq!(
        (names(&listed), &listed["next"]),
        (vec!["W22084-I0886"], &json!("W22084-I0886"))
    );
    let next = run(&site, "volumes list --after W22084-I0886 --json")
        .exits(0)
        .json();
    assert_eq!(
        (names(&next), &next["next"]),
        (vec!["W22084-I0887"], &Value::Null)
    );
    let found = run(&site, "volumes list i0887 --collection W2 --json")
        .exits(0)
        .json();
    assert_eq!(names(&found), ["W22084-I0887"]);

    let shown = run(&site, "volumes show W22084-I0886 --limit 1 --json")
        .exits(0)
        .json();
    assert_eq!(shown["images"], 2);
    assert_eq!(shown["version"], shown["etag"].as_str().unwrap()[..6]);
    assert_eq!((&shown["next"], &shown["jobs"]), (&json!(2), &json!([])));
    let image = json!({
        "number": 1,
        "name": "a.tif",
        "width": 878,
        "height": 1138,
        "mode": "1",
        "format": null,
        "compression": null,
        "size": null,
        "error": null,
    });
    assert_eq!(shown["listed"], json!([image]));
    let unknown = run(&site, "volumes show W1-I1").exits(1);
    assert!(
        unknown.stderr.contains("no volume W1-I1 is known"),
        "{}",
        unknown.stderr
    );
}

/// Rows: F24.
#[test]
fn lists_of_files_are_imported_without_an_archive() {
    let site = Site::with_volumes(1, 1);
    let lists = site.path("lists");
    put(&lists.join("W5/I1/dimensions.json"), TWO_PAGES.as_bytes());
    put(&lists.join("W5-I2.json.gz"), &gzipped(TWO_PAGES));
    put(&lists.join("W5-I3.json"), b"{}");
    let folder = lists.display();
    let imported = run(&site, &format!("volumes import {folder} --json"))
        .exits(1)
        .json();
    assert_eq!((&imported["new"], &imported["images"]), (&json!(2), &json!(4)));
    let failed = imported["failed"][0]["samples"][0].as_str().unwrap();
    assert!(failed.contains("W5-I3.json: not a list of images"), "{failed}");
    let one = format!("volumes import {folder}/W5/I1/dimensions.json --volume W7-I7 --json");
    assert_eq!(run(&site, &one).exits(0).json()["new"], 1);
    let listed = run(&site, "volumes list --json").exits(0).json();
    assert_eq!(names(&listed), ["W5-I1", "W5-I2", "W7-I7"]);
    let refused = run(&site, "volumes import --volume W5-I1").exits(1);
    assert!(
        refused.stderr.contains("in no archive with lists of images"),
        "{}",
        refused.stderr
    );
}

/// Rows: F8, F26, 102, 103, 104, 105, 149.
#[test]
fn a_job_is_made_of_what_is_named_in_each_way() {
    let site = site();
    run(&site, "volumes import --collection W22084").exits(0);
    let file = site.path("volumes.csv");
    put(
        &file,
        b"w_id,i_id,source\nW22084,I0886,bdrc\nW22084,I0887\nW22084 I0886 # again\n",
    );
    let from_file = format!("--file {}", file.display());
    let made = run(&site, &format!("job create {from_file} --json"))
        .exits(0)
        .json();
    assert_eq!(
        (&made["job"], &made["volumes"], &made["status"]),
        (&json!("J1"), &json!(2), &json!("running"))
    );
    let twice = json!([{ "reason": "named twice", "count": 1, "samples": ["W22084-I0886"] }]);
    assert_eq!((&made["chosen"], &made["skipped"]), (&json!(2), &twice));

    let key = "lists/today.jsonl";
    put(
        &site.path("artifacts").join(key),
        b"{\"volume_id\":\"W22084-I0887\"}\n{\"volume_id\":\"W22084-I0999\"}\n",
    );
    let refused = run(&site, &format!("job create listed --manifest {key}")).exits(1);
    assert!(
        refused
            .stderr
            .contains("1 of 2 volumes cannot be read:\n  volume W22084-I0999"),
        "{}",
        refused.stderr
    );
    let listed = run(
        &site,
        &format!("job create listed --manifest {key} --skip-missing"),
    )
    .exits(0);
    assert_eq!(
        listed.stdout,
        "listed: 1 volume\nleft out: 1 not there, or with a list that cannot be read: W22084-I0999\n"
    );
    let query = "--query collection=W22 --query imported_since=1h";
    let tried = run(&site, &format!("job create {query} -n 1 --dry-run --json"))
        .exits(0)
        .json();
    assert_eq!(
        (&tried["chosen"], &tried["skipped"][0]["reason"]),
        (&json!(1), &json!("over the limit"))
    );
    assert!(tried.get("job").is_none());
    let chunks = run(&site, &format!("job create chunks {query} --chunk-size 1 --json"))
        .exits(0)
        .json();
    assert_eq!(
        (&chunks["volumes"], &chunks["status"]),
        (&json!(2), &json!("running"))
    );

    for (line, reason) in [
        (
            "job create --query collection=W9",
            "there are no volumes to make a job of",
        ),
        ("job create --query model=x", "there is no condition model"),
        (
            "job create --failures-of J1",
            "there are no volumes to make a job of",
        ),
        ("job create --failures-of nobody", "there is no job nobody"),
        ("job create --manifest lists/none", "lists/none"),
        ("job create --manifest a --failures-of J1", "cannot be used with"),
        ("job create J1 --volume W22084-I0886", "job J1 exists already"),
        ("job create --volume W1-I1", "1 of 1 volume cannot be read"),
    ] {
        let refused = run(&site, line);
        assert_ne!(refused.code, Some(0), "{line}: {}", refused.stdout);
        assert!(refused.stderr.contains(reason), "{line}: {}", refused.stderr);
    }
}

/// Rows: F8.
#[test]
fn what_was_read_in_its_latest_version_is_left_out_and_what_failed_is_done_again() {
    let site = site();
    put(
        &site.path("archive/Works/60/W22084/images/W22084-0887/a.tif"),
        &small_page(),
    );
    run(&site, "volumes import --collection W22084").exits(0);
    let made = format!("job create {JOB} --query collection=W22084 --config on_item_error=fail");
    run(&site, &made).exits(0);
    let worker = Node::start_with(&site, "cpu,gpu", &[], |command| {
        command.args(["--source", "postgres", "--set", "source.poll=500ms"]);
    });
    let status = || run(&site, &format!("job status {JOB} --json")).json();
    Wait::until("the job is over")
        .at_most(OF_A_JOB)
        .sees(status, |status| status["finished_at"].is_string());
    worker.stop();
    assert_eq!((&status()["done"], &status()["failed"]), (&json!(1), &json!(1)));

    let (read, failed) = ("W22084-I0887", "W22084-I0886");
    let chosen = |options: &str| {
        let line = format!("job create --config on_item_error=fail --dry-run --json {options}");
        let tried = run(&site, &line).exits(0).json();
        let reasons = tried["skipped"].as_array().unwrap().iter();
        let reasons: Vec<Value> = reasons.map(|skipped| skipped["samples"].clone()).collect();
        (tried["chosen"].as_u64().unwrap(), reasons)
    };
    let collection = "--query collection=W22084";
    assert_eq!(chosen(collection), (1, vec![json!([read])]));
    assert_eq!(chosen(&format!("{collection} --force")), (2, vec![]));
    assert_eq!(chosen(&format!("{collection} --config k_factor=2")), (2, vec![]));
    let unread = |by: &str| chosen(&format!("--force {collection} --query unread_by={by}"));
    assert_eq!(unread("ocr"), (1, vec![json!([read])]));
    assert_eq!(unread("some-model"), (2, vec![]));
    let tasks = run(&site, &format!("tasks show {JOB} {read} --json"))
        .exits(0)
        .json();
    let runs = tasks["runs"].as_array().unwrap();
    let model = runs.iter().find(|run| run["stage"] == "ocr").unwrap()["metrics"]["models"][0].clone();
    assert_eq!(unread(model.as_str().unwrap()), (1, vec![json!([read])]));
    let refused = run(
        &site,
        &format!("job create --volume {read} --config on_item_error=fail"),
    )
    .exits(1);
    assert!(
        refused
            .stderr
            .contains("no volume is left to make a job of:\n  1 already read in their latest version"),
        "{}",
        refused.stderr
    );

    assert_eq!(chosen(&format!("--failures-of {JOB}")), (1, vec![]));
    assert_eq!(chosen(&format!("--failures-of {JOB} --cause input")), (1, vec![]));
    assert_eq!(
        chosen(&format!("--failures-of {JOB} --cause network")),
        (0, vec![])
    );
    let again = run(&site, &format!("job create again --failures-of {JOB}")).exits(0);
    assert_eq!(again.stdout, "again: 1 volume\n");

    let shown = run(&site, &format!("volumes show {read} --json")).exits(0).json();
    let job = &shown["jobs"][0];
    assert_eq!((&job["job"], &job["latest"]), (&json!(JOB), &json!(true)));
    assert_eq!(
        (&job["results"]["images"], &job["results"]["lines"]),
        (&json!(1), &json!(7))
    );
    put_list(
        &site,
        "0887",
        &gzipped(r#"[{"filename":"a.tif"},{"filename":"b.tif"}]"#),
    );
    run(&site, "volumes import").exits(0);
    assert_eq!(chosen(collection), (2, vec![]), "there is a new version");
    let shown = run(&site, &format!("volumes show {failed}")).exits(0).stdout;
    assert!(shown.contains("version ") && shown.contains("│ again"), "{shown}");
}
