//! A cluster of real processes on one machine, over mutual TLS.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use parkhang_test_support::Wait;
use serde_json::Value;

use crate::support::{assert_same_files, finish, node, small_page};

pub(crate) const JOB: &str = "press";

/// Longest time that a job of few pages takes from its beginning to its end.
pub(crate) const OF_A_JOB: Duration = Duration::from_secs(180);

/// Scans, certificates and state of a cluster; gone with the test.
pub(crate) struct Site {
    folder: tempfile::TempDir,
    /// What its processes are told besides.
    pub(crate) settings: Vec<(&'static str, String)>,
    pub(crate) variables: Vec<(&'static str, String)>,
}

impl Site {
    pub(crate) fn with_volumes(volumes: u8, pages: u8) -> Self {
        let folder = tempfile::tempdir().unwrap();
        // The private Postgres may run as another user, who must come through here.
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
        for volume in 0..volumes {
            let scans = folder.path().join(format!("scans/W1-I{volume}"));
            std::fs::create_dir_all(&scans).unwrap();
            for number in 0..pages {
                let mut page = small_page();
                page.extend([volume, number]);
                std::fs::write(scans.join(format!("page{number:02}.tif")), page).unwrap();
            }
        }
        let site = Self {
            folder,
            settings: Vec::new(),
            variables: Vec::new(),
        };
        let tls = site.path("tls");
        let tls = tls.to_str().unwrap();
        finish(node(["tls", "init", tls])).exits(0);
        finish(node(["tls", "issue", tls, "all", "--host", "127.0.0.1"])).exits(0);
        site
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `node` with the settings that all processes of the site share.
    pub(crate) fn command<const N: usize>(&self, arguments: [&str; N]) -> Command {
        self.command_of(&arguments)
    }

    /// As [`Site::command`], of however many words.
    pub(crate) fn command_of(&self, arguments: &[&str]) -> Command {
        let mut command = node([]);
        command.args(arguments);
        command.current_dir(self.folder.path());
        for (key, value) in [
            ("cluster.listen", "127.0.0.1:0".to_owned()),
            // Not the usual one, where somebody's own cluster may be.
            ("cluster.orchestrators", "127.0.0.1:1".to_owned()),
            ("cluster.cookie_file", self.shown("tls/cookie")),
            ("cluster.tls.ca_file", self.shown("tls/ca.pem")),
            ("cluster.tls.certificate_file", self.shown("tls/all.pem")),
            ("cluster.tls.key_file", self.shown("tls/all.key")),
            ("node.state_dir", self.shown("state")),
            ("pages.folder", self.shown("scans")),
            ("storage.folder", self.shown("artifacts")),
            ("job.checkpoint_pages", "2".to_owned()),
            ("cluster.heartbeat", "5s".to_owned()),
            ("cluster.lease", "15s".to_owned()),
        ] {
            command.arg("--set").arg(format!("{key}={value}"));
        }
        for (key, value) in &self.settings {
            command.arg("--set").arg(format!("{key}={value}"));
        }
        command.envs(self.variables.iter().cloned());
        command
    }

    fn shown(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// The volumes of the job, and where they stand.
    pub(crate) fn tasks(&self) -> Value {
        finish(self.command(["tasks", "list", JOB, "--json"])).json()
    }
}

/// A node; killed when dropped.
pub(crate) struct Node {
    child: Child,
    ready: String,
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
        let mut command = site.command(["--role", role]);
        command
            .arg("--set")
            .arg(format!("cluster.orchestrators={}", orchestrators.join(",")))
            .arg("--set")
            .arg(format!("node.name={}", role.replace(',', "-")))
            .stdout(Stdio::piped());
        complete(&mut command);
        let mut child = command.spawn().unwrap();
        let mut ready = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut ready)
            .unwrap();
        assert!(ready.starts_with("READY "), "{role}: {ready:?}");
        Self { child, ready }
    }

    /// Where an orchestrator listens.
    pub(crate) fn address(&self) -> &str {
        self.ready.rsplit(' ').next().unwrap().trim()
    }

    /// Where it answers over HTTP.
    pub(crate) fn health(&self) -> &str {
        let mut words = self.ready.split(' ');
        words.find_map(|word| word.strip_prefix("health=")).unwrap()
    }

    /// Where it takes commands over HTTP: ADDRESS:PORT.
    pub(crate) fn api(&self) -> &str {
        self.said("api=http://")
    }

    /// What follows these letters in the READY line.
    pub(crate) fn said(&self, letters: &str) -> &str {
        let mut words = self.ready.split(' ');
        words.find_map(|word| word.strip_prefix(letters)).unwrap()
    }

    pub(crate) fn name(&self) -> &str {
        self.ready.split(' ').nth(1).unwrap()
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// SIGTERM; waits for its end.
    pub(crate) fn stop(mut self) -> Option<i32> {
        let id = i32::try_from(self.child.id()).unwrap();
        kill(Pid::from_raw(id), Signal::SIGTERM).unwrap();
        self.child.wait().unwrap().code()
    }

    /// Waits for its end, which it comes to by itself.
    pub(crate) fn ended(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // Killed already is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
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
    let told = Instant::now();
    assert_eq!(worker.stop(), Some(0));
    let (took, deadline) = (told.elapsed(), Duration::from_secs(100));
    assert!(took < deadline / 2, "{took:?} is about the time to drain");
}
