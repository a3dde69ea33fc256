//! Nodes that leave when there is nothing left for them to do.

use parkhang_test_support::Wait;
use serde_json::{Value, json};

use crate::nodes::{JOB, Node, Site};
use crate::support::finish;

/// How a node ends that had nothing to do.
pub(crate) const LEFT_IDLE: Option<i32> = Some(3);

fn listed(site: &Site, name: &str) -> Value {
    let nodes = finish(site.command(["nodes", "list", "--json"])).exits(0).json();
    let nodes = nodes["nodes"].as_array().unwrap().clone();
    let node = nodes.into_iter().find(|node| node["name"] == name);
    node.unwrap_or_default()
}

/// Rows: F14, F21.
#[test]
fn nodes_do_what_there_is_to_do_and_leave_in_order() {
    let site = Site::with_volumes(1, 1);
    let orchestrator = Node::start(&site, "orchestrator", &["127.0.0.1:1"]);
    let address = orchestrator.address().to_owned();
    finish(site.command(["job", "create", JOB])).exits(0);
    let given = Node::start_with(&site, "cpu,gpu", &[&address], |command| {
        command.args(["--set", "node.idle_exit=4s", "--set", "node.tags=rack=b2,spot"]);
    });
    let name = given.name().to_owned();
    let node = Wait::until("it is listed").sees(|| listed(&site, &name), |node| node["state"] == "joined");
    assert_eq!(node["tags"], json!(["rack=b2", "spot"]));
    assert!(node["resident_bytes"].as_u64().unwrap() > 1 << 20, "{node:#}");
    let shown = finish(site.command(["nodes", "list"])).exits(0).stdout;
    assert!(shown.contains("rack=b2 spot"), "{shown}");

    assert_eq!(given.ended(), LEFT_IDLE);
    let status = finish(site.command(["job", "status", JOB, "--json"]))
        .exits(0)
        .json();
    assert_eq!(status["status"], "completed", "it had work, and stayed for it");
    Wait::until("it has left").sees(|| listed(&site, &name), |node| node["state"] == "left");

    let takes = Node::start_with(&site, "gpu", &[], |command| {
        command.args(["--source", "postgres", "--set", "node.idle_exit=1s"]);
    });
    let name = takes.name().to_owned();
    assert_eq!(takes.ended(), LEFT_IDLE);
    assert_eq!(listed(&site, &name)["state"], "left");
    drop(orchestrator);
}

/// Rows: F4, F5, F36.
#[test]
fn what_a_node_did_is_asked_of_it_by_name() {
    let site = Site::with_volumes(2, 2);
    let orchestrator = Node::start(&site, "orchestrator", &["127.0.0.1:1"]);
    let worker = Node::start(&site, "cpu,gpu", &[orchestrator.address()]);
    finish(site.command(["job", "create", JOB])).exits(0);
    finish(site.command(["job", "status", JOB, "--wait"])).exits(0);
    let ask = |arguments: &[&str]| finish(site.command_of(arguments)).exits(0).json();

    let stats = ask(&["nodes", "stats", "cpu-gpu", "--json"]);
    assert_eq!(stats["node"], worker.name());
    let stages = stats["stages"].as_array().unwrap();
    let ocr = stages.iter().find(|stage| stage["stage"] == "ocr").unwrap();
    assert_eq!((&ocr["done"], &ocr["pages"]), (&json!(2), &json!(4)));
    assert_eq!(stats["paces"].as_array().unwrap().len(), 4, "{stats:#}");
    assert_eq!(stats["holds"], json!([]));

    let of_job = ask(&["job", "stats", JOB, "--worker", worker.name(), "--json"]);
    assert_eq!(of_job["stages"].as_array().unwrap().len(), 4);
    let all = ask(&["job", "stats", JOB, "--json"]);
    let slowest = all["slowest"].as_array().unwrap();
    assert_eq!(slowest.len(), 2, "{all:#}");
    assert!(slowest[0]["seconds"].as_f64() >= slowest[1]["seconds"].as_f64());
    assert_eq!(slowest[0]["pages"], 2);

    // The node that is gone is still known by what it did.
    let name = worker.name().to_owned();
    worker.kill();
    let tasks = ask(&["tasks", "list", JOB, "--worker", &name, "--json"]);
    assert_eq!(tasks["tasks"].as_array().unwrap().len(), 2);
    let none = ask(&["tasks", "list", JOB, "--worker", orchestrator.name(), "--json"]);
    assert_eq!(none["tasks"], json!([]));
}

/// Rows: F37.
#[test]
fn failed_pages_of_a_job_are_one_list() {
    let site = Site::with_volumes(3, 3);
    for broken in ["W1-I0/page01.tif", "W1-I2/page00.tif", "W1-I2/page02.tif"] {
        std::fs::write(site.path("scans").join(broken), b"no scan").unwrap();
    }
    let orchestrator = Node::start(&site, "orchestrator", &["127.0.0.1:1"]);
    let _worker = Node::start(&site, "cpu,gpu", &[orchestrator.address()]);
    finish(site.command(["job", "create", JOB])).exits(0);
    finish(site.command(["job", "status", JOB, "--wait"])).exits(0);

    let (mut found, mut next) = (Vec::new(), Value::Null);
    loop {
        let mut arguments = vec!["pages", "failed", JOB, "--limit", "1", "--json"];
        let after = next.as_str().map(str::to_owned);
        if let Some(after) = &after {
            arguments.extend(["--after", after]);
        }
        let page = finish(site.command_of(&arguments)).exits(0).json();
        let pages = page["pages"].as_array().unwrap();
        assert!(pages.len() <= 1);
        found.extend(pages.iter().map(|page| {
            assert_eq!(
                (&page["stage"], &page["category"]),
                (&json!("line_detection"), &json!("input"))
            );
            assert!(!page["message"].as_str().unwrap().is_empty());
            format!("{} {}", page["volume"].as_str().unwrap(), page["page"])
        }));
        next = page["next"].clone();
        if next.is_null() {
            break;
        }
    }
    assert_eq!(found, ["W1-I0 2", "W1-I2 1", "W1-I2 3"]);
    let shown = finish(site.command(["pages", "failed", JOB])).exits(0).stdout;
    assert!(shown.contains("W1-I2") && !shown.contains("--after"), "{shown}");

    let plan = |arguments: &[&str]| {
        let reported = finish(site.command_of(&[&["job", "plan", JOB], arguments].concat()));
        reported.exits(0).stdout
    };
    assert!(plan(&[]).contains("3 pages failed; once the cause is gone"));
    assert!(plan(&["--from", "line_detection"]).contains("3 pages failed before"));
}
