//! Every question of an operator, and what can be done to a task or a job, asked of a database with very many tasks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parkhang_state::conformance::crowd::{fill, reads};
use parkhang_state::{EmbeddedPostgres, PostgresStore};
use serde_json::{Map, Value, json};

use super::{Access, Admin, Entry, Refusal, Reply, table};
use crate::config::{ConfigArgs, Loaded};

/// Unless the variable `CROWD_TASKS` says how many.
const TASKS: u32 = 100_000;

fn tasks() -> u32 {
    let asked = std::env::var("CROWD_TASKS").ok();
    asked.and_then(|tasks| tasks.parse().ok()).unwrap_or(TASKS)
}

/// The number in the names of volumes of the job `crowd` that are in a state: a thousandth of them in each.
fn numbered(thousandth: u32) -> String {
    let number = (1..=1000)
        .find(|number| number * 7919 % 1000 == thousandth)
        .unwrap();
    format!("W{number}-I{number}")
}

/// Arguments of each command with which it must succeed. Those that only read and are not here are given what they must be
/// given.
fn orders() -> Vec<(&'static str, Value)> {
    let (done, dead, retrying) = (numbered(0), numbered(700), numbered(725));
    let (running, waiting) = (numbered(730), numbered(900));
    let one = |job: &str| json!({ "job": job });
    let of = |volume: &str| json!({ "job": "crowd", "volume": volume });
    let listed = |filter: Value| {
        let mut given = json!({ "job": "crowd", "limit": 100 });
        given
            .as_object_mut()
            .unwrap()
            .extend(filter.as_object().unwrap().clone());
        given
    };
    vec![
        ("cluster status", json!({})),
        ("job list", json!({})),
        ("job status", one("crowd")),
        ("job stats", one("crowd")),
        ("job errors", one("crowd")),
        ("job config", one("crowd")),
        ("tasks list", listed(json!({}))),
        ("tasks list", listed(json!({ "after": tasks() / 2 }))),
        ("tasks list", listed(json!({ "state": "waiting" }))),
        ("tasks list", listed(json!({ "state": "running" }))),
        (
            "tasks list",
            listed(json!({ "state": "done", "after": tasks() / 2 })),
        ),
        ("tasks list", listed(json!({ "state": "retrying" }))),
        ("tasks list", listed(json!({ "state": "failed", "stage": "ocr" }))),
        ("tasks list", listed(json!({ "stage": "line_extraction" }))),
        ("tasks list", listed(json!({ "worker": "gpu-7.1" }))),
        (
            "tasks list",
            listed(json!({ "worker": "gpu-7.1", "state": "failed", "stage": "ocr" })),
        ),
        ("job stats", json!({ "job": "crowd", "worker": "gpu-7.1" })),
        ("nodes stats", json!({ "node": "gpu-7.1" })),
        ("pages failed", one("crowd")),
        ("tasks list", listed(json!({ "stage": "ocr" }))),
        (
            "tasks list",
            listed(json!({ "stage": "ocr", "state": "waiting" })),
        ),
        ("tasks list", listed(json!({ "state": "failed" }))),
        ("tasks show", of(&done)),
        ("tasks why", of(&retrying)),
        ("tasks why", of(&waiting)),
        ("tasks show", of(&dead)),
        ("tasks requeue", of(&running)),
        ("tasks retry", of(&dead)),
        (
            "job rerun",
            json!({ "job": "crowd", "status": "failed", "volume": [numbered(701)] }),
        ),
        (
            "job rerun",
            json!({ "job": "crowd", "status": "failed", "cause": "input: page * of *", "dry_run": true }),
        ),
        (
            "job rerun",
            json!({ "job": "crowd", "from": "ocr", "volume": [done] }),
        ),
        ("job rerun", json!({ "job": "few", "from": "line_detection" })),
        (
            "job limits",
            json!({ "job": "crowd", "limits": ["max_running=5"] }),
        ),
        ("job priority", json!({ "job": "crowd", "priority": 2 })),
        ("job pause", one("few")),
        ("job update", json!({ "job": "few", "config": ["k_factor=2.5"] })),
        ("job resume", one("few")),
        ("job close", one("few")),
        ("job cancel", one("few")),
        ("job delete", json!({ "job": "few", "yes": true })),
    ]
}

/// Required arguments of a command that only reads.
fn required(entry: &Entry) -> Value {
    let required = entry.arguments().into_iter().filter(|argument| argument.required);
    let given: Map<String, Value> = required
        .map(|argument| {
            let value = match argument.name.as_str() {
                "job" => json!("crowd"),
                "volume" => json!(numbered(0)),
                _ => json!("1"),
            };
            (argument.name, value)
        })
        .collect();
    Value::Object(given)
}

struct Crowd {
    server: EmbeddedPostgres,
    loaded: Arc<Loaded>,
    _folder: tempfile::TempDir,
}

impl Crowd {
    async fn fill() -> Self {
        let server = EmbeddedPostgres::temporary().unwrap();
        let options = server.create_database("crowd").await.unwrap();
        PostgresStore::connect_with(options.clone())
            .await
            .unwrap()
            .close()
            .await;
        fill(&options, tasks()).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let folder_of = |name: &str| folder.path().join(name).display().to_string();
        let set = vec![
            format!("storage.folder={}", folder.path().display()),
            format!("node.state_dir={}", folder_of("state")),
        ];
        let loaded = Loaded::read(&ConfigArgs {
            set,
            ..ConfigArgs::default()
        });
        Self {
            server,
            loaded: Arc::new(loaded.unwrap()),
            _folder: folder,
        }
    }

    async fn reads(&self) -> BTreeMap<String, i64> {
        reads(&self.server.options("crowd")).await.unwrap()
    }

    /// Answer of a command, and the time that it took.
    async fn ask(&self, entry: &Entry, given: &Value) -> (Result<Reply, Refusal>, Duration) {
        let store = PostgresStore::connect_with(self.server.options("crowd"))
            .await
            .unwrap();
        let admin = Admin::new(store.clone(), self.loaded.clone());
        let given = given.as_object().unwrap();
        let began = Instant::now();
        let reply = entry.run_given(given, admin).await;
        let took = began.elapsed();
        store.close().await;
        (reply, took)
    }
}

/// A plan looks at each task of its job, whatever an index offers.
const PLAN: [&str; 2] = ["job", "plan"];

#[tokio::test]
async fn no_command_reads_all_tasks() {
    let crowd = Crowd::fill().await;
    let mut before = crowd.reads().await;
    assert_eq!(before.len(), 4, "{before:?}");
    let orders = orders();
    let is_ordered = |entry: &&Entry| orders.iter().any(|(name, _)| *name == entry.name.join(" "));
    let others = table().entries().iter().filter(|entry| !is_ordered(entry));
    let others: Vec<&Entry> = others
        .filter(|entry| entry.access == Access::Read && entry.name != PLAN)
        .collect();
    let ordered = orders.iter().map(|(name, given)| {
        let words: Vec<&str> = name.split(' ').collect();
        (table().named(&words).unwrap(), given.clone())
    });
    let all: Vec<(&Entry, Value)> = ordered
        .chain(others.into_iter().map(|entry| (entry, required(entry))))
        .collect();
    for (place, (entry, given)) in all.iter().enumerate() {
        let (reply, took) = crowd.ask(entry, given).await;
        if let (true, Err(refusal)) = (place < orders.len(), &reply) {
            panic!("{entry:?} {given}: {refusal}");
        }
        println!(
            "{:>7.1} ms  {} {given}",
            took.as_secs_f64() * 1e3,
            entry.name.join(" ")
        );
        let after = crowd.reads().await;
        assert_eq!(after, before, "{entry:?} {given} reads a table from end to end");
        before = after;
    }
}
