//! Broken pages of PDFs, asked for by messages on a queue, read by a fleet, and fetched as JSON.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use parkhang_test_s3::{BUCKET, Endpoint};
use parkhang_test_support::Wait;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::api::Api;
use crate::buckets::{keys, written};
use crate::nodes::{Node, OF_A_JOB, runs_at};
use crate::queues::{CLIENT, Queues};
use crate::support::{files, finish, node, workspace};
use crate::workers::{Fleet, launching, launching_orchestrator};

/// The standing job.
const FILINGS: &str = "filings";
const QUEUE: &str = "ocr-pages";

/// Filings of the test: their ids, their PDFs and the pages that are broken.
const PDFS: [(&str, &str, &[u32]); 2] = [
    // It has three pages.
    ("11805134", "letter_form.pdf", &[3, 99]),
    ("11805135", "gib_noencoding.pdf", &[1, 2]),
];

/// A bucket of filings, and a fleet that takes messages about their pages.
struct Filings {
    queues: Queues,
    bucket: Endpoint,
    _runtime: Runtime,
}

impl Filings {
    fn new() -> Self {
        let runtime = Runtime::new().unwrap();
        let bucket = runtime.block_on(Endpoint::start());
        let mut queues = Queues::beside_volumes(0, 0);
        queues.site.variables.extend(keys());
        queues.site.settings.extend([
            ("pages.folder", String::new()),
            ("pages.s3.bucket", BUCKET.to_owned()),
            ("pages.s3.endpoint", bucket.url.clone()),
            ("storage.kind", "s3".to_owned()),
            ("storage.s3.bucket", BUCKET.to_owned()),
            ("storage.s3.endpoint", bucket.url.clone()),
            ("storage.s3.prefix", "words".to_owned()),
            ("intake.queues", format!("{FILINGS}={QUEUE}")),
            ("source.kind", "postgres".to_owned()),
        ]);
        for (id, file, _) in PDFS {
            let bytes = std::fs::read(workspace().join("tests/fixtures/pdf").join(file)).unwrap();
            bucket.objects.insert(&key(id), bytes);
        }
        Self {
            queues,
            bucket,
            _runtime: runtime,
        }
    }

    fn create_job(&self) {
        let site = &self.queues.site;
        let mut create = site.command(["job", "create", FILINGS, "--standing", "--pipeline", "page_ocr"]);
        create.args(["--config", "layout=ocr_bboxes", "--config", "read_pages=all"]);
        finish(create).exits(0);
    }

    fn tasks(&self) -> Value {
        self.queues.json(&["tasks", "list", FILINGS])
    }

    /// Sends messages about pages.
    fn send(&self, bodies: &[Value]) {
        let bodies = Value::from(bodies).to_string();
        self.queues.boto3(&format!(
            "{CLIENT}\nfor body in json.loads({bodies:?}):\n    sqs.send_message(QueueUrl=url('{QUEUE}'), MessageBody=json.dumps(body))"
        ));
    }

    /// JSON of pages that were written, by their names.
    fn pages(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut pages = written(&self.bucket, "words/ocr-bboxes");
        pages
            .retain(|name, _| name.extension().is_some_and(|ending| ending == "json") && !is_of_a_part(name));
        pages
    }
}

/// True for files that a job keeps of its parts for itself.
fn is_of_a_part(name: &Path) -> bool {
    name.to_string_lossy().contains('@')
}

fn key(id: &str) -> String {
    format!("hkex/2026/{id}.pdf")
}

/// Message of version 1 about pages of a filing.
fn message(id: &str, pages: &[u32]) -> Value {
    json!({
        "version": 1,
        "exchange": "HKEX",
        "source_id": id,
        "s3_bucket": BUCKET,
        "s3_key": key(id),
        "broken_pages": pages,
        "submitted_at": "2026-02-18T00:00:00Z"
    })
}

/// JSON of the pages as one process reads them undisturbed.
fn undisturbed() -> BTreeMap<PathBuf, Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    let mut expected = BTreeMap::new();
    for (id, file, pages) in PDFS {
        let out = folder.path().join(id);
        let mut command = node(["ocr", "--force-ocr", "--layout", "ocr_bboxes", "--out"]);
        command
            .arg(&out)
            .arg(workspace().join("tests/fixtures/pdf").join(file));
        finish(command).exits(0);
        let read = files(&out.join("ocr-bboxes/pdf").join(file.trim_end_matches(".pdf")));
        for page in pages {
            let name = format!("page_{page}.json");
            if let Some(json) = read.get(Path::new(&name)) {
                expected.insert(Path::new("HKEX").join(id).join(name), json.clone());
            }
        }
    }
    assert_eq!(expected.len(), 3);
    expected
}

/// Rows: 126, 127, 128, 130, 142, 144, 145, 148, 150, 151.
#[test]
#[ignore = "needs ministack and boto3 beside $PYTHON: tests/python/requirements.txt"]
fn pages_that_messages_ask_for_are_read_whatever_dies_over_sqs() {
    let filings = Filings::new();
    let site = &filings.queues.site;
    finish(site.command(["queue", "create"])).exits(0);
    filings.create_job();

    let mut messages: Vec<Value> = PDFS.iter().map(|(id, _, pages)| message(id, pages)).collect();
    let mut newer = message("11805134", &[1]);
    newer["version"] = 2.into();
    let mut elsewhere = message("11805134", &[1]);
    elsewhere["s3_bucket"] = "elsewhere".into();
    messages.extend([newer, elsewhere, message("11805136", &[7])]);
    filings.send(&messages);

    let leader = Node::start(site, "orchestrator", &[]);
    let doomed = Node::start(site, "cpu,gpu", &[]);
    Wait::until("a page is read on the node that will die")
        .sees(|| filings.tasks(), |tasks| runs_at(tasks, doomed.name()));
    doomed.kill();
    let _worker = Node::start(site, "cpu,gpu", &[]);
    let ended = |tasks: &Value| {
        let of = |state: &str| {
            let tasks = tasks["tasks"].as_array().unwrap();
            tasks.iter().filter(|task| task["state"] == state).count()
        };
        of("done") == 2 && of("failed") == 1
    };
    let tasks = Wait::until("what can be read is read")
        .at_most(OF_A_JOB)
        .sees(|| filings.tasks(), ended);
    assert!(
        tasks.to_string().contains("hkex/2026/11805136.pdf"),
        "the reason names the missing PDF: {tasks:#}"
    );
    let status = filings.queues.json(&["job", "status", FILINGS]);
    assert_eq!(
        status["failed_pages"], 1,
        "the page that is not there: {status:#}"
    );
    let stats = filings.queues.json(&["queue", "stats"]);
    let queue = stats["queues"]
        .as_array()
        .unwrap()
        .iter()
        .find(|queue| queue["serves"] == FILINGS);
    let queue = queue.unwrap_or_else(|| panic!("{stats:#}"));
    assert_eq!(
        (&queue["visible"], &queue["dead_letters"]),
        (&json!(0), &json!(2)),
        "{stats:#}"
    );

    let expected = undisturbed();
    let pages = filings.pages();
    assert_eq!(
        pages.keys().collect::<Vec<_>>(),
        expected.keys().collect::<Vec<_>>()
    );
    for (name, json) in &expected {
        assert!(pages[name] == *json, "{} differs", name.display());
    }

    // The same pages once more, and then as a viewer asks for one.
    filings.send(&messages[..2]);
    let api = Api::of(site, &leader);
    for (name, json) in &expected {
        let mut parts = name.components().map(|part| part.as_os_str().to_string_lossy());
        let (exchange, id) = (parts.next().unwrap(), parts.next().unwrap());
        let page = parts.next().unwrap();
        let number = page.trim_start_matches("page_").trim_end_matches(".json");
        let path = format!("/documents/{exchange}/{id}/pages/{number}/ocr-bboxes");
        let answer: Value = api.get(&path).is(200).json();
        assert_eq!(answer, serde_json::from_slice::<Value>(json).unwrap(), "{path}");
    }
    // As readers ask that know of no collections.
    api.ask(
        "GET",
        "/documents/11805134/pages/3/ocr-bboxes",
        &[&api.bearer()],
        "",
    )
    .is(200);
    // The page of the part, as the console shows it.
    let picture = api.get("/jobs/filings/volumes/HKEX-11805134@3_99/pages/1/image");
    assert!(picture.is_ok());
    let absent = api
        .get("/documents/HKEX-11805134/pages/2/ocr-bboxes")
        .is(404)
        .json();
    assert!(absent["message"].as_str().unwrap().contains("page 2"), "{absent}");
    let is_settled = |stats: &Value| {
        let queues = stats["queues"].as_array().unwrap();
        queues
            .iter()
            .all(|queue| queue["serves"] != FILINGS || queue["visible"] == 0)
    };
    Wait::until("the messages are deleted once more")
        .sees(|| filings.queues.json(&["queue", "stats"]), is_settled);
    assert_eq!(
        filings.tasks()["tasks"].as_array().unwrap().len(),
        3,
        "nothing is done twice"
    );
}

/// Rows: 135, 136, 137.
#[test]
#[ignore = "needs ministack and boto3 beside $PYTHON: tests/python/requirements.txt"]
fn a_fleet_for_pages_comes_from_zero_and_goes_back_over_sqs() {
    let mut filings = Filings::new();
    let address = launching(&mut filings.queues.site);
    let scaling = [
        ("autoscaler.enabled", "true"),
        ("autoscaler.scale_out_cooldown", "0s"),
        ("autoscaler.scale_in_cooldown", "1s"),
        ("autoscaler.gpu.cap", "2"),
        ("autoscaler.cpu.cap", "1"),
    ];
    let scaling = scaling.map(|(key, value)| (key, value.to_owned()));
    filings.queues.site.settings.extend(scaling);
    let site = &filings.queues.site;
    let fleet = Fleet(site);
    finish(site.command(["queue", "create"])).exits(0);
    filings.create_job();
    let leader = launching_orchestrator(site, &address);
    let groups = || {
        finish(site.command(["workers", "list", "--json"]))
            .exits(0)
            .json()
    };
    let is_empty = |listed: &Value| {
        let groups = listed["groups"].as_array().unwrap();
        groups
            .iter()
            .all(|group| group["desired"] == 0 && group["joined"] == 0)
    };
    let listed = groups();
    assert!(is_empty(&listed), "no messages, nobody there: {listed:#}");

    let messages: Vec<Value> = PDFS.iter().map(|(id, _, pages)| message(id, pages)).collect();
    filings.send(&messages);
    let mut seen = BTreeSet::new();
    let are_done = |tasks: &Value| {
        let tasks = tasks["tasks"].as_array().unwrap();
        tasks.len() == PDFS.len() && tasks.iter().all(|task| task["state"] == "done")
    };
    Wait::until("the pages are read").at_most(OF_A_JOB).sees(
        || {
            seen.extend(fleet.names());
            filings.tasks()
        },
        are_done,
    );
    assert!(
        seen.iter().any(|name| name.starts_with("launched-gpu-1")),
        "workers came with the messages: {seen:?}"
    );
    assert!(seen.len() <= 3, "no more than the caps: {seen:?}");
    assert_eq!(filings.pages(), undisturbed());

    Wait::until("the fleet is gone").at_most(OF_A_JOB).sees(
        || (groups(), fleet.names()),
        |(listed, names)| is_empty(listed) && names.is_empty(),
    );
    assert_eq!(leader.stop(), Some(0));
}
