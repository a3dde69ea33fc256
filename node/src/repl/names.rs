use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use parkhang_actors::stage::StageTable;
use parkhang_actors::wire::CommandOutcome;
use serde_json::{Map, Value};
use tokio::runtime::Handle;

use super::complete::Names;
use super::line::Line;

/// How long names are taken for true.
const FRESH: Duration = Duration::from_secs(5);
/// Longest that somebody who wants a line completed is kept waiting.
const LIMIT: Duration = Duration::from_millis(700);
/// Volumes of a job that are offered.
const VOLUMES: u32 = 1000;

/// Asks an orchestrator for names, and remembers them for a while. For threads that may wait.
#[derive(Debug)]
pub struct Directory {
    line: Line,
    runtime: Handle,
    known: Mutex<HashMap<String, (Instant, Vec<String>)>>,
}

impl Directory {
    pub fn new(line: Line, runtime: Handle) -> Self {
        Self {
            line,
            runtime,
            known: Mutex::default(),
        }
    }

    /// The texts under `key` in the rows of an answer; none where nobody answers in time.
    fn names(&self, words: [&str; 2], arguments: Value, rows: &str, key: &str) -> Vec<String> {
        let question = format!("{} {arguments}", words.join(" "));
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((since, names)) = known.get(&question)
            && since.elapsed() < FRESH
        {
            return names.clone();
        }
        let arguments = match arguments {
            Value::Object(arguments) => arguments,
            _ => Map::new(),
        };
        let asked = async { tokio::time::timeout(LIMIT, self.line.ask(words, &arguments)).await };
        let Ok(Ok(CommandOutcome::Done { data, .. })) = self.runtime.block_on(asked) else {
            return Vec::new();
        };
        let rows = data[rows].as_array().into_iter().flatten();
        let names = rows.filter_map(|row| row[key].as_str().map(str::to_owned));
        let names: Vec<String> = names.collect();
        known.insert(question, (Instant::now(), names.clone()));
        names
    }
}

impl Names for Directory {
    fn jobs(&self) -> Vec<String> {
        let mut jobs = self.names(["job", "list"], Value::Null, "jobs", "job");
        jobs.reverse();
        jobs
    }

    fn volumes(&self, job: &str) -> Vec<String> {
        let arguments = serde_json::json!({"job": job, "limit": VOLUMES});
        self.names(["tasks", "list"], arguments, "tasks", "volume")
    }

    fn nodes(&self) -> Vec<String> {
        self.names(["nodes", "list"], Value::Null, "nodes", "name")
    }

    fn actors(&self, node: &str) -> Vec<String> {
        let arguments = serde_json::json!({ "node": node });
        self.names(["nodes", "show"], arguments, "actors", "name")
    }

    /// Of open jobs, and those that every build knows.
    fn stages(&self) -> Vec<String> {
        let asked = self.names(["cluster", "status"], Value::Null, "stages", "stage");
        let own = StageTable::built_in().names().into_iter().map(String::from);
        let all: BTreeSet<String> = asked.into_iter().chain(own).collect();
        all.into_iter().collect()
    }
}
