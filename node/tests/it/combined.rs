//! All roles with one command: two processes that do not fall together.

use std::net::TcpListener;
use std::process::Command;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use parkhang_test_support::Wait;
use serde_json::Value;

use crate::nodes::{JOB, Node, Site, assert_finished, runs_at, undisturbed};
use crate::support::finish;

/// Child processes of a node, by what they were told to be.
fn child_with_role(node: &Node, role: &str) -> Option<Pid> {
    let children = format!("/proc/{0}/task/{0}/children", node.id());
    let children = std::fs::read_to_string(children).unwrap();
    let mut children = children.split_whitespace();
    let wanted = format!("node.roles={role}");
    let child = children.find(|child| {
        let arguments = std::fs::read(format!("/proc/{child}/cmdline")).unwrap_or_default();
        arguments
            .split(|byte| *byte == 0)
            .any(|argument| argument == wanted.as_bytes())
    });
    child.map(|child| Pid::from_raw(child.parse().unwrap()))
}

/// Rows: F4, U20.
#[test]
fn all_roles_are_two_processes_that_do_not_fall_together() {
    let site = Site::with_volumes(2, 2);
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let listen = |command: &mut Command| {
        command.args(["--set", &format!("cluster.listen={free}")]);
    };
    let node = Node::start_with(&site, "orchestrator,cpu,gpu", &[&free.to_string()], listen);
    assert_eq!(node.address(), free.to_string());
    let leads = child_with_role(&node, "orchestrator").unwrap();
    let works = child_with_role(&node, "cpu,gpu").unwrap();

    finish(site.command(["job", "create", JOB])).exits(0);
    Wait::until("a stage ran").sees(|| site.tasks(), |tasks| runs_at(tasks, ""));
    kill(works, Signal::SIGKILL).unwrap();
    Wait::until("the part that works is started again").sees(
        || child_with_role(&node, "cpu,gpu"),
        |child| child.is_some_and(|child| child != works),
    );
    assert_eq!(
        child_with_role(&node, "orchestrator"),
        Some(leads),
        "the orchestrator stands"
    );
    assert_finished(&site, &undisturbed(&site));

    let listed = || finish(site.command(["nodes", "list", "--json"])).exits(0).json()["nodes"].clone();
    let leaders = |nodes: &Value| {
        nodes
            .as_array()
            .unwrap()
            .iter()
            .filter(|node| node["leads"] == true)
            .count()
    };
    let states = |nodes: &Value| {
        let work = nodes
            .as_array()
            .unwrap()
            .iter()
            .filter(|node| node["roles"][0] == "cpu");
        let mut states: Vec<String> = work
            .map(|node| node["state"].as_str().unwrap().to_owned())
            .collect();
        states.sort();
        states
    };
    Wait::until("the part that fell counts as lost")
        .sees(|| states(&listed()), |states| *states == ["joined", "lost"]);
    assert_eq!(leaders(&listed()), 1);

    let stats = finish(site.command(["job", "stats", JOB, "--json"]))
        .exits(0)
        .json();
    let stages = stats["stages"].as_array().unwrap();
    let order: Vec<_> = stages
        .iter()
        .map(|stage| stage["stage"].as_str().unwrap())
        .collect();
    assert_eq!(order, ["line_detection", "line_extraction", "ocr", "reduce"]);
    for stage in stages {
        assert_eq!(stage["done"], 2, "{stats:#}");
        assert_eq!(
            (&stage["running"], &stage["failed"]),
            (&0.into(), &0.into()),
            "{stats:#}"
        );
        assert!(stage["p95_s"].as_f64().unwrap() >= stage["p50_s"].as_f64().unwrap());
    }

    assert_eq!(node.stop(), Some(0));
    Wait::until("both parts are gone").sees(
        || [leads, works].map(|part| kill(part, None).is_err()),
        |gone| *gone == [true, true],
    );
}

#[test]
fn a_part_that_does_not_stop_is_killed() {
    let site = Site::with_volumes(1, 1);
    let node = Node::start_with(&site, "orchestrator,cpu,gpu", &["127.0.0.1:1"], |command| {
        command.args(["--set", "node.drain_deadline=1s"]);
    });
    let works = child_with_role(&node, "cpu,gpu").unwrap();
    kill(works, Signal::SIGSTOP).unwrap();
    assert_eq!(node.stop(), Some(1));
    assert!(kill(works, None).is_err(), "it is gone");
}
