//! What operators see of the actors of a cluster, and what they do to them while a job runs.

use parkhang_test_support::Wait;
use serde_json::Value;

use crate::nodes::{JOB, Node, Site, assert_finished, runs_at, undisturbed};
use crate::support::{Finished, finish};

/// The actors that a node told of last.
fn actors(site: &Site, node: &str) -> Vec<Value> {
    let tree = finish(site.command(["actors", "tree", "--json", "--node", node]));
    if tree.code != Some(0) {
        // It has not been heard of yet.
        return Vec::new();
    }
    tree.json()["nodes"][0]["actors"]
        .as_array()
        .cloned()
        .unwrap_or_default()
}

fn wait_until_known(site: &Site, node: &str) {
    Wait::until("the node is known").sees(|| actors(site, node), |actors| !actors.is_empty());
}

fn named(actors: &[Value], name: &str) -> Option<Value> {
    actors.iter().find(|actor| actor["name"] == name).cloned()
}

/// Does something to a worker of the node that is at work.
fn to_a_worker(site: &Site, node: &str, words: [&str; 2]) {
    let is_taken = |answers: &Vec<Finished>| answers.last().is_some_and(|answer| answer.code == Some(0));
    Wait::until(&format!("{words:?} met a worker at work")).sees(
        || {
            let mut answers = Vec::new();
            for actor in actors(site, node) {
                if actor["kind"] == "worker" && actor["state"] == "working" {
                    let worker = actor["name"].as_str().unwrap();
                    answers.push(finish(site.command([words[0], words[1], node, worker])));
                    if is_taken(&answers) {
                        break;
                    }
                }
            }
            answers
        },
        is_taken,
    );
}

fn site(volumes: u8, pages: u8) -> Site {
    let mut site = Site::with_volumes(volumes, pages);
    site.settings.push(("cluster.heartbeat", "1s".to_owned()));
    site
}

/// Makes the node wait at each step of its storage from now on, in the place of what it was told of this before: its work lasts
/// as long as somebody needs to meet it.
fn slow_storage(site: &Site, node: &str, delay_ms: &str, seconds: &str) {
    let slow = [
        "chaos",
        "slow-store",
        node,
        "--delay-ms",
        delay_ms,
        "--seconds",
        seconds,
    ];
    finish(site.command(slow)).exits(0);
}

/// The state store has what a worker is at: the page of a volume, its step, and since when.
fn what_is_going_on_is_known(site: &Site, node: &str) {
    let at_work = |actor: &Value| {
        let page = &actor["at_work"][0];
        (actor["job"] == JOB && page["page"].is_string() && page["since"].is_string()).then(|| page.clone())
    };
    let page = Wait::until("a page at work is known")
        .sees(|| actors(site, node).iter().find_map(at_work), Option::is_some);
    assert!(page.unwrap()["step"].is_string());
}

/// Rows: 88, 249, 250.
#[test]
fn faults_and_restarts_during_a_job_cost_it_nothing_but_time() {
    let mut site = site(3, 4);
    site.settings.push(("chaos.allowed", "true".to_owned()));
    let orchestrator = Node::start(&site, "orchestrator", &["127.0.0.1:1"]);
    let worker = Node::start(&site, "cpu,gpu", &[orchestrator.address()]);
    wait_until_known(&site, worker.name());
    slow_storage(&site, worker.name(), "1000", "600");
    finish(site.command(["job", "create", JOB])).exits(0);

    what_is_going_on_is_known(&site, worker.name());
    to_a_worker(&site, worker.name(), ["chaos", "kill"]);
    to_a_worker(&site, worker.name(), ["actors", "restart"]);
    Wait::until("a lease was lost").sees(
        || {
            let tasks = site.tasks();
            let tasks = tasks["tasks"].as_array().unwrap().iter();
            let mut running = tasks.filter(|task| task["worker"].is_string());
            running.any(|task| {
                let volume = task["volume"].as_str().unwrap();
                finish(site.command(["chaos", "lose-lease", JOB, volume])).code == Some(0)
            })
        },
        |lost| *lost,
    );
    slow_storage(&site, worker.name(), "50", "5");
    for pool in ["ocr", "line_detection"] {
        let restarted = finish(site.command(["actors", "restart", worker.name(), pool])).exits(0);
        assert!(
            restarted.stdout.contains("given back uncharged"),
            "{}",
            restarted.stdout
        );
    }
    finish(site.command(["chaos", "kill", worker.name(), "reduce"])).exits(0);
    finish(site.command(["chaos", "drop-link", worker.name(), "--seconds", "2"])).exits(0);

    let result = undisturbed(&site);
    assert_finished(&site, &result);
    let tasks = site.tasks();
    for task in tasks["tasks"].as_array().unwrap() {
        assert_eq!(task["attempts"], 0, "nothing is charged: {task:#}");
    }
    let restarts = |pools: &[Value], name| named(pools, name).and_then(|pool| pool["restarts"].as_u64());
    let pools = Wait::until("the node tells of its new pools").sees(
        || actors(&site, worker.name()),
        |pools| restarts(pools, "ocr") == Some(1) && restarts(pools, "reduce") == Some(1),
    );
    let device = named(&pools, "ocr/recognition").unwrap();
    assert_eq!(
        (&device["kind"], &device["restarts"]),
        (&Value::from("device"), &Value::from(1))
    );

    let shown = finish(site.command(["nodes", "show", worker.name(), "--json"])).json();
    let orders = shown["orders"].as_array().unwrap();
    assert_eq!(orders[0]["what"], "drop link");
    assert!(
        orders
            .iter()
            .any(|order| order["what"] == "restart" && order["refused"] == false)
    );
    let audit = finish(site.command(["audit", "list", "--json"])).json();
    let entries = audit["entries"].as_array().unwrap();
    assert!(
        entries
            .iter()
            .any(|entry| entry["command"] == "chaos kill" && entry["via"] == "http"),
        "{audit:#}"
    );
}

/// Rows: F39.
#[test]
fn a_page_that_is_held_up_says_at_which_step() {
    let mut site = site(1, 1);
    site.settings.push(("chaos.allowed", "true".to_owned()));
    let orchestrator = Node::start(&site, "orchestrator", &["127.0.0.1:1"]);
    let worker = Node::start(&site, "cpu,gpu", &[orchestrator.address()]);
    wait_until_known(&site, worker.name());
    slow_storage(&site, worker.name(), "15000", "600");
    finish(site.command(["job", "create", JOB])).exits(0);
    let at_work = || {
        let actors = actors(&site, worker.name()).into_iter();
        let mut pages = actors.filter_map(|actor| actor["at_work"].get(0).cloned());
        pages.next().unwrap_or_default()
    };
    let page = Wait::until("the picture of a page is on its way to the storage")
        .sees(at_work, |page| page["step"] == "storing");
    assert_eq!(page["page"], "page00");
    let shown = finish(site.command(["tasks", "show", JOB, "W1-I0"]))
        .exits(0)
        .stdout;
    assert!(shown.contains("\npage00  storing for "), "{shown}");
    let tree = finish(site.command(["actors", "tree"])).exits(0).stdout;
    assert!(tree.contains("page00  storing for "), "{tree}");
}

#[test]
fn a_node_is_drained_and_its_work_done_by_another() {
    let site = site(2, 3);
    let orchestrator = Node::start(&site, "orchestrator", &["127.0.0.1:1"]);
    let first = Node::start(&site, "cpu,gpu", &[orchestrator.address()]);
    // Work may go to a node before the list of nodes is written down.
    wait_until_known(&site, first.name());
    finish(site.command(["job", "create", JOB])).exits(0);
    Wait::until("a stage runs").sees(|| site.tasks(), |tasks| runs_at(tasks, first.name()));

    let refused = finish(site.command(["chaos", "kill", first.name(), "ocr"])).exits(1);
    assert!(
        refused.stderr.contains("chaos.allowed is false"),
        "{}",
        refused.stderr
    );
    let unknown = finish(site.command(["actors", "restart", first.name(), "poetry"])).exits(1);
    assert!(
        unknown.stderr.contains("there is no actor poetry"),
        "{}",
        unknown.stderr
    );
    let nobody = finish(site.command(["nodes", "drain", "nobody"])).exits(1);
    assert!(
        nobody.stderr.contains("no node nobody is there"),
        "{}",
        nobody.stderr
    );

    finish(site.command(["nodes", "drain", first.name(), "--wait"])).exits(0);
    finish(site.command(["nodes", "drain", first.name()])).exits(0);
    let shown = finish(site.command(["nodes", "show", first.name(), "--json"])).json();
    assert_eq!(shown["node"]["state"], "draining");
    assert!(!runs_at(&site.tasks(), first.name()));
    let tree = finish(site.command(["actors", "tree"])).exits(0).stdout;
    for line in [
        "  candidate  candidate, working",
        "    orchestrator  orchestrator",
        "  supervisor  supervisor, draining",
    ] {
        assert!(tree.contains(line), "{line} in\n{tree}");
    }
    assert_eq!(
        finish(site.command(["job", "status", JOB, "--json"])).json()["status"],
        "running"
    );

    let second = Node::start(&site, "cpu,gpu", &[orchestrator.address()]);
    assert_finished(&site, &undisturbed(&site));
    assert_eq!(first.stop(), Some(0));
    assert_eq!(second.stop(), Some(0));
}

#[test]
fn a_node_that_takes_work_itself_takes_orders_too() {
    let mut site = site(1, 3);
    site.settings.push(("source.kind", "postgres".to_owned()));
    site.settings.push(("chaos.allowed", "true".to_owned()));
    let node = Node::start(&site, "cpu,gpu", &["127.0.0.1:1"]);
    wait_until_known(&site, node.name());
    slow_storage(&site, node.name(), "1000", "600");
    finish(site.command(["job", "create", JOB])).exits(0);
    to_a_worker(&site, node.name(), ["actors", "restart"]);
    slow_storage(&site, node.name(), "1", "1");
    assert_finished(&site, &undisturbed(&site));
    finish(site.command(["nodes", "drain", node.name(), "--wait"])).exits(0);
    assert_eq!(node.stop(), Some(0));
}

#[test]
fn a_plan_says_what_is_to_be_done_and_why() {
    let site = site(2, 2);
    let orchestrator = Node::start(&site, "orchestrator", &["127.0.0.1:1"]);
    finish(site.command(["job", "create", JOB])).exits(0);
    let plan = |words: &[&str]| {
        let mut command = site.command(["job", "plan", JOB, "--json"]);
        command.args(words);
        finish(command).exits(0).json()
    };
    let fresh = plan(&[]);
    for stage in fresh["stages"].as_array().unwrap() {
        assert_eq!(
            (&stage["missing"], &stage["runs"]),
            (&2.into(), &2.into()),
            "{stage:#}"
        );
        assert_eq!(stage["minutes"], Value::Null, "nothing like it has been done");
    }
    let _worker = Node::start(&site, "cpu,gpu", &[orchestrator.address()]);
    finish(site.command(["job", "status", JOB, "--wait"])).exits(0);

    let done = plan(&[]);
    for stage in done["stages"].as_array().unwrap() {
        assert_eq!(
            (&stage["runs"], &stage["outdated"]),
            (&0.into(), &0.into()),
            "{stage:#}"
        );
    }
    let reported = finish(site.command(["job", "plan", JOB])).exits(0).stdout;
    assert_eq!(reported, "nothing is left to do\n");
    let stands = plan(&["--from", "line_detection"]);
    assert!(
        stands["stages"]
            .as_array()
            .unwrap()
            .iter()
            .all(|stage| stage["stands"] == 2)
    );
    let forced = plan(&["--from", "ocr", "--force"]);
    let [detection, _, ocr, reduce] = &forced["stages"].as_array().unwrap()[..] else {
        panic!("{forced:#}");
    };
    assert_eq!(
        (&detection["runs"], &ocr["forced"], &reduce["runs"]),
        (&0.into(), &2.into(), &2.into())
    );
    assert_eq!(
        (&ocr["pages"], &ocr["samples"], &ocr["of_this_job"]),
        (&4.0.into(), &2.into(), &true.into())
    );
    assert!(ocr["minutes"].as_f64().unwrap() > 0.0);
    assert!(forced["gpu_minutes"].as_f64().unwrap() >= ocr["minutes"].as_f64().unwrap());
    let dry = finish(site.command([
        "job",
        "rerun",
        JOB,
        "--from",
        "ocr",
        "--force",
        "--dry-run",
        "--json",
    ]));
    assert_eq!(dry.exits(0).json()["plan"]["stages"][2]["forced"], 2);
    // A setting that runs leave out at its default.
    finish(site.command(["job", "update", JOB, "artifacts=tables"])).exits(0);
    let changed = plan(&["--from", "line_detection"]);
    assert_eq!(changed["stages"][0]["config_changed"], 2, "{changed:#}");
    finish(site.command(["job", "update", JOB, "artifacts=pictures"])).exits(0);
    let unknown = finish(site.command(["job", "plan", JOB, "--from", "poetry"])).exits(1);
    assert!(
        unknown.stderr.contains("has no stage poetry"),
        "{}",
        unknown.stderr
    );
}

#[test]
fn what_a_node_recorded_of_a_job_goes_with_the_job() {
    let site = Site::with_volumes(1, 2);
    let orchestrator = Node::start(&site, "orchestrator", &["127.0.0.1:1"]);
    let _worker = Node::start(&site, "cpu,gpu", &[orchestrator.address()]);
    finish(site.command(["job", "create", JOB])).exits(0);
    finish(site.command(["job", "status", JOB, "--wait"])).exits(0);
    let manifests = site.path("state/manifests").join(JOB);
    assert!(manifests.join("W1-I0/parkhang.ocr.manifest.jsonl").is_file());
    finish(site.command(["job", "delete", JOB, "--yes"])).exits(0);
    Wait::until("the manifests of the job are gone").sees(|| manifests.exists(), |there| !there);
}
