//! A cluster of real processes on one machine, over mutual TLS.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use parkhang_test_support::Wait;
use serde_json::Value;

use crate::process::{Process, Ready};
pub(crate) use crate::site::Site;
use crate::site::put_pages;
use crate::support::{assert_same_files, finish, node};

pub(crate) const JOB: &str = "press";

/// Longest time that a job of few pages takes from its beginning to its end.
pub(crate) const OF_A_JOB: Duration = Duration::from_secs(180);

impl Site {
    pub(crate) fn with_volumes(volumes: u8, pages: u8) -> Self {
        let site = Self::new();
        for volume in 0..volumes {
            put_pages(&site.path(&format!("scans/W1-I{volume}")), volume, pages);
        }
        site
    }

    /// The volumes of the job, and where they stand.
    pub(crate) fn tasks(&self) -> Value {
        finish(self.command(["tasks", "list", JOB, "--json"])).json()
    }
}

/// A node at work; killed when dropped.
pub(crate) struct Node {
    process: Process,
    ready: Ready,
}

impl Node {
    pub(crate) fn start(site: &Site, role: &str, orchestrators: &[&str]) -> Self {
        Self::start_with(site, role, orchestrators, |_| {})
    }

    /// As [`Node::start`], its command completed by `complete`.
    pub(crate) fn start_with(
        site: &Site,
        role: &str,
        orchestrators: &[&str],
        complete: impl FnOnce(&mut Command),
    ) -> Self {
        let mut command = site.node(&role.replace(',', "-"), role, orchestrators);
        command.stdout(Stdio::piped());
        complete(&mut command);
        Self::started(role, command)
    }

    /// The node of a command whose standard output is a pipe, once it is ready.
    pub(crate) fn started(role: &str, command: Command) -> Self {
        let mut process = Process::spawn(command);
        let mut line = String::new();
        BufReader::new(process.stdout()).read_line(&mut line).unwrap();
        match line.strip_prefix("READY ") {
            Some(ready) => Self {
                process,
                ready: Ready(ready.to_owned()),
            },
            None => panic!("{role}: {line:?}"),
        }
    }

    /// Where an orchestrator listens.
    pub(crate) fn address(&self) -> &str {
        self.ready.address()
    }

    /// Where it answers over HTTP.
    pub(crate) fn health(&self) -> &str {
        self.said("health=")
    }

    /// Where it takes commands over HTTP: ADDRESS:PORT.
    pub(crate) fn api(&self) -> &str {
        self.said("api=http://")
    }

    /// What follows these letters in the READY line.
    pub(crate) fn said(&self, letters: &str) -> &str {
        self.ready.said(letters)
    }

    pub(crate) fn name(&self) -> &str {
        self.ready.name()
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// SIGTERM; waits for its end.
    pub(crate) fn stop(self) -> Option<i32> {
        self.process.signal(Signal::SIGTERM);
        self.ended()
    }

    /// Waits for its end, which it comes to by itself.
    pub(crate) fn ended(mut self) -> Option<i32> {
        self.process.wait().code()
    }

    pub(crate) fn kill(self) {
        self.process.kill();
    }
}

pub(crate) fn undisturbed(site: &Site) -> PathBuf {
    let out = site.path("undisturbed");
    let mut command = node(["ocr", "--job", JOB, "--config", "checkpoint_pages=2"]);
    command.arg(site.path("scans")).arg("--out").arg(&out);
    finish(command).exits(0);
    out
}

pub(crate) fn runs_at(listed: &Value, worker: &str) -> bool {
    let tasks = listed["tasks"].as_array().unwrap();
    let workers = tasks.iter().filter_map(|task| task["worker"].as_str());
    workers.into_iter().any(|name| name.starts_with(worker))
}

/// Exports the job from the storage, and compares with what `node ocr` exported.
pub(crate) fn assert_exports(site: &Site, options: &[&str], result: &Path) {
    let exported = site.path("exported");
    let mut export = site.command(["export", "--job", JOB]);
    export.arg("--to").arg(&exported).args(options);
    finish(export).exits(0);
    assert_same_files(&exported, &result.join("export"));
}

pub(crate) fn assert_finished(site: &Site, result: &Path) {
    let status = finish(site.command(["job", "status", JOB, "--wait", "--json"]))
        .exits(0)
        .json();
    assert_eq!(status["status"], "completed", "{status:#}");
    assert_same_files(&site.path("artifacts/jobs"), &result.join("jobs"));
}

/// Rows: 250.
#[test]
fn a_job_survives_the_death_of_a_node_and_of_the_orchestrator() {
    let site = Site::with_volumes(3, 4);
    let first = Node::start(&site, "orchestrator", &["127.0.0.1:1"]);
    let second = Node::start(&site, "orchestrator", &["127.0.0.1:1"]);
    let orchestrators = [first.address(), second.address()];
    let doomed = Node::start(&site, "cpu,gpu", &orchestrators);
    let survivor = Node::start(&site, "cpu,gpu", &orchestrators);

    let created = finish(site.command(["job", "create", JOB])).exits(0);
    assert_eq!(created.stdout, "press: 3 volumes\n");
    Wait::until("a stage ran on the node that will die")
        .sees(|| site.tasks(), |tasks| runs_at(tasks, doomed.name()));
    doomed.kill();
    first.kill();
    Wait::until("a stage ran on the node that is left")
        .sees(|| site.tasks(), |tasks| runs_at(tasks, survivor.name()));
    let result = undisturbed(&site);
    assert_finished(&site, &result);
    assert_exports(&site, &[], &result);
}

#[test]
fn a_node_stops_without_its_orchestrator() {
    let site = Site::with_volumes(1, 4);
    let orchestrator = Node::start(&site, "orchestrator", &["127.0.0.1:1"]);
    let worker = Node::start(&site, "cpu,gpu", &[orchestrator.address()]);
    finish(site.command(["job", "create", JOB])).exits(0);
    Wait::until("a stage runs").sees(|| site.tasks(), |tasks| runs_at(tasks, worker.name()));
    let mut second = site.command(["--role", "orchestrator"]);
    second
        .arg("--set")
        .arg(format!("cluster.listen={}", orchestrator.address()));
    let clash = finish(second).exits(1).stderr;
    assert!(
        clash.contains("set another address for this orchestrator in cluster.listen"),
        "{clash}"
    );
    orchestrator.kill();
    let reported = Instant::now();
    assert_eq!(worker.stop(), Some(0));
    let (took, deadline) = (reported.elapsed(), Duration::from_secs(100));
    assert!(took < deadline / 2, "{took:?} is about the time to drain");
}
