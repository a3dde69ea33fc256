//! Workers that the cluster starts and stops itself, as processes of this machine.

use std::net::TcpListener;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use parkhang_test_support::Wait;
use serde_json::Value;

use crate::nodes::{JOB, Node, Site, assert_finished, undisturbed};
use crate::support::finish;

/// A site whose workers are launched; none outlives it.
struct LaunchingSite {
    site: Site,
    /// Where its orchestrator listens.
    address: String,
}

impl LaunchingSite {
    fn with_settings(volumes: u8, settings: &[(&'static str, &str)]) -> Self {
        let mut site = Site::with_volumes(volumes, 2);
        let address = launching(&mut site);
        let settings = settings.iter().map(|(key, value)| (*key, (*value).to_owned()));
        site.settings.extend(settings);
        Self { site, address }
    }

    fn orchestrator(&self) -> Node {
        launching_orchestrator(&self.site, &self.address)
    }

    /// Names and numbers of the processes that the record knows.
    fn processes(&self) -> Vec<(String, Pid)> {
        launched(&self.site)
    }

    /// Of each hardware: desired, running, stopping, joined.
    fn groups(&self) -> Vec<[u64; 4]> {
        let listed = finish(self.site.command(["workers", "list", "--json"]))
            .exits(0)
            .json();
        let groups = listed["groups"].as_array().unwrap();
        groups
            .iter()
            .map(|group| {
                ["desired", "running", "stopping", "joined"].map(|field| group[field].as_u64().unwrap())
            })
            .collect()
    }

    /// State of each launched node, by its name.
    fn nodes(&self) -> Vec<(String, String)> {
        let listed = finish(self.site.command(["nodes", "list", "--json"]))
            .exits(0)
            .json();
        let nodes = listed["nodes"].as_array().unwrap().iter();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        nodes
            .map(|node| (text(&node["name"]), text(&node["state"])))
            .filter(|(name, _)| name.starts_with("launched-"))
            .collect()
    }
}

impl Drop for LaunchingSite {
    fn drop(&mut self) {
        kill_launched(&self.site);
    }
}

/// Lets the orchestrator of a site launch workers as processes of this machine; returns where it has to listen for them.
pub(crate) fn launching(site: &mut Site) -> String {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let address = free.to_string();
    site.settings.extend([
        ("cluster.orchestrators", address.clone()),
        ("launcher.kind", "local".to_owned()),
        ("launcher.interval", "300ms".to_owned()),
    ]);
    address
}

/// The orchestrator of a site whose workers are launched.
pub(crate) fn launching_orchestrator(site: &Site, address: &str) -> Node {
    Node::start_with(site, "orchestrator", &[address], |command| {
        command.args(["--set", &format!("cluster.listen={address}")]);
    })
}

/// Launched workers of a site, none of which outlives it.
pub(crate) struct Fleet<'a>(pub(crate) &'a Site);

impl Fleet<'_> {
    pub(crate) fn names(&self) -> Vec<String> {
        launched(self.0).into_iter().map(|(name, _)| name).collect()
    }
}

impl Drop for Fleet<'_> {
    fn drop(&mut self) {
        kill_launched(self.0);
    }
}

/// Names and numbers of the workers that the record of a site knows.
pub(crate) fn launched(site: &Site) -> Vec<(String, Pid)> {
    let record = site.path("state/workers/workers.json");
    let record = std::fs::read(record).unwrap_or_else(|_| b"{\"launched\": []}".to_vec());
    let record: Value = serde_json::from_slice(&record).unwrap();
    let launched = record["launched"].as_array().unwrap();
    let process = |launched: &Value| {
        let number = launched["process"]["number"].as_i64().unwrap();
        let name = launched["name"].as_str().unwrap().to_owned();
        (name, Pid::from_raw(i32::try_from(number).unwrap()))
    };
    launched.iter().map(process).collect()
}

/// Kills the workers of a site, which outlive whoever launched them.
pub(crate) fn kill_launched(site: &Site) {
    for (_, process) in launched(site) {
        // It may have ended already.
        let _ = kill(process, Signal::SIGKILL);
    }
}

/// Rows: 135, 136, 137, 155.
#[test]
fn workers_come_when_there_is_work_and_go_when_it_is_done() {
    let launching = LaunchingSite::with_settings(
        3,
        &[
            ("autoscaler.enabled", "true"),
            ("autoscaler.scale_out_cooldown", "0s"),
            ("autoscaler.scale_in_cooldown", "1s"),
            ("autoscaler.gpu.cap", "2"),
            ("autoscaler.cpu.cap", "1"),
        ],
    );
    let site = &launching.site;
    let orchestrator = launching.orchestrator();
    assert_eq!(
        launching.groups(),
        [[0; 4], [0; 4]],
        "nothing to do, nobody there"
    );

    finish(site.command(["job", "create", JOB])).exits(0);
    Wait::until("workers have joined").sees(|| launching.nodes(), |nodes| !nodes.is_empty());
    assert!(launching.processes().len() <= 3, "two with a gpu and one without");
    assert_finished(site, &undisturbed(site));

    Wait::until("the workers are gone").sees(
        || (launching.groups(), launching.processes()),
        |(groups, processes)| *groups == [[0; 4], [0; 4]] && processes.is_empty(),
    );
    let nodes = Wait::until("all have left in order").sees(
        || launching.nodes(),
        |nodes| nodes.iter().all(|(_, state)| state == "left"),
    );
    let names: Vec<String> = nodes.into_iter().map(|(name, _)| name).collect();
    for hardware in ["launched-cpu-1.", "launched-gpu-1."] {
        assert!(names.iter().any(|name| name.starts_with(hardware)), "{names:?}");
    }

    let status = finish(site.command(["cluster", "status", "--json"]))
        .exits(0)
        .json();
    let scaling = status["scaling"].as_array().unwrap();
    assert_eq!(scaling.len(), 2, "{status:#}");
    for decision in scaling {
        assert_eq!(decision["desired"], 0, "{decision:#}");
        assert!(decision["changed_at"].is_string(), "{decision:#}");
    }
    let refused = finish(site.command(["workers", "launch", "--count", "1"])).exits(1);
    assert!(
        refused
            .stderr
            .contains("the autoscaler decides the number of workers"),
        "{}",
        refused.stderr
    );
    assert_eq!(orchestrator.stop(), Some(0));
}

/// Rows: 107, 119.
#[test]
fn workers_are_launched_and_sent_away_by_hand_and_outlive_their_orchestrator() {
    let launching = LaunchingSite::with_settings(2, &[]);
    let site = &launching.site;
    let orchestrator = launching.orchestrator();
    finish(site.command(["job", "create", JOB])).exits(0);
    let launch = ["launch_workers", "--job", JOB, "--count", "1"];
    finish(site.command(launch)).exits(0);
    assert_finished(site, &undisturbed(site));

    let before = launching.processes();
    let names: Vec<&str> = before.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["launched-cpu-1", "launched-gpu-1"]);
    orchestrator.kill();
    let orchestrator = launching.orchestrator();
    Wait::until("the workers have joined again").sees(
        || launching.groups(),
        |groups| *groups == [[1, 1, 0, 1], [1, 1, 0, 1]],
    );
    assert_eq!(launching.processes(), before, "they are the same");

    kill(before[1].1, Signal::SIGKILL).unwrap();
    Wait::until("the one that died is replaced").sees(
        || launching.processes(),
        |now| now.len() == 2 && now.iter().all(|(_, process)| *process != before[1].1),
    );
    let over = finish(site.command(launch)).exits(1).stderr;
    assert!(over.contains("job press is over: completed"), "{over}");
    let many = finish(site.command(["workers", "scale", "--count", "9", "--hardware", "gpu"])).exits(1);
    assert!(many.stderr.contains("more than the 8"), "{}", many.stderr);
    let other = [
        "workers",
        "launch",
        "--count",
        "1",
        "--instance-type",
        "g5.xlarge",
    ];
    let other = finish(site.command(other)).exits(1).stderr;
    assert!(other.contains("machines of type g5.xlarge"), "{other}");

    let scale = ["scale_workers", "--job", JOB, "--count", "0", "--settle"];
    finish(site.command(scale)).exits(0);
    assert_eq!(launching.processes(), []);
    Wait::until("both have left").sees(
        || launching.groups(),
        |groups| groups.iter().all(|group| *group == [0, 0, 0, 0]),
    );
    assert!(kill(before[0].1, None).is_err(), "its process is gone");
    assert_eq!(orchestrator.stop(), Some(0));
}
