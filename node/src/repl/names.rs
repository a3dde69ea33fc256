//! Names for completion, asked from an orchestrator.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use parkhang_actors::stage::StageTable;
use serde_json::{Map, Value};
use tokio::runtime::Handle;

use super::complete::Names;
use crate::admin::table;
use crate::session::Line;

/// Time for which names are cached.
const FRESH: Duration = Duration::from_secs(5);
/// Longest time that a completion may take.
const LIMIT: Duration = Duration::from_millis(700);
/// Largest number of volumes of a job that are offered.
const VOLUMES: u32 = 1000;

/// Names from an orchestrator, with a cache. Its methods block.
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

    /// Returns the texts under `key` in the rows of an answer; none if there is no answer in time.
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
        let Some(entry) = table().named(&words) else {
            return Vec::new();
        };
        let asked = async { tokio::time::timeout(LIMIT, self.line.ask(entry, &arguments)).await };
        // A failure is not cached, so that names are back as soon as an orchestrator is.
        let Ok(Ok(reply)) = self.runtime.block_on(asked) else {
            return Vec::new();
        };
        let rows = reply.data[rows].as_array().into_iter().flatten();
        let names = rows.filter_map(|row| row[key].as_str().map(str::to_owned));
        let names: Vec<String> = names.collect();
        known.insert(question, (Instant::now(), names.clone()));
        names
    }
}

impl Names for Directory {
    fn jobs(&self) -> Vec<String> {
        let mut jobs = self.names(["job", "list"], Value::Null, "jobs", "job");
        // The newest first, as those are the ones that commands are about.
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

    /// Stages of open jobs, and those that every build knows.
    fn stages(&self) -> Vec<String> {
        let asked = self.names(["cluster", "status"], Value::Null, "stages", "stage");
        let own = StageTable::built_in().names().into_iter().map(String::from);
        let all: BTreeSet<String> = asked.into_iter().chain(own).collect();
        all.into_iter().collect()
    }
}
