//! Jobs that name the models that they are to be read with.

use serde_json::{Value, json};

use crate::nodes::{JOB, Node, Site, wait_until};
use crate::support::{finish, workspace};

/// Name of the recogniser that is compiled in.
fn shipped() -> String {
    let description = workspace().join("models/weights/recogniser/model.json");
    let description: Value = serde_json::from_slice(&std::fs::read(description).unwrap()).unwrap();
    description["name"].as_str().unwrap().to_owned()
}

/// Rows: 102, 104.
#[test]
fn a_job_waits_for_a_node_with_its_model_and_says_so() {
    let site = Site::with_volumes(1, 1);
    let orchestrator = Node::start(&site, "orchestrator", &["127.0.0.1:1"]);
    let _worker = Node::start(&site, "cpu,gpu", &[orchestrator.address()]);
    let mut create = site.command([
        "create_job",
        "--op",
        "ocr",
        "--model",
        "rare",
        "--volumes",
        "W1-I0",
    ]);
    create.args([JOB, "--json"]);
    let created = finish(create).exits(0).json();
    assert_eq!(created["models"], json!(["ocr=rare"]));

    let why = || {
        finish(site.command(["tasks", "why", JOB, "W1-I0", "--json"]))
            .exits(0)
            .json()
    };
    wait_until("the model is missed", || why()["blocker"] == "no_model");
    let why = why();
    let reason = why["reason"].as_str().unwrap();
    assert!(
        reason.contains("wants ocr done with rare") && reason.ends_with(&format!("have {}", shipped())),
        "{reason}"
    );
    let status = finish(site.command(["job", "status", JOB])).exits(0).stdout;
    assert!(status.contains("\nread with ocr=rare\n"), "{status}");
    assert!(
        status.contains("no node that runs ocr has loaded rare;"),
        "{status}"
    );

    finish(site.command(["job", "pause", JOB])).exits(0);
    let named = format!("models=ocr={}", shipped());
    finish(site.command(["job", "update", JOB, &named])).exits(0);
    finish(site.command(["job", "resume", JOB])).exits(0);
    let done = finish(site.command(["job", "status", JOB, "--wait", "--json"]));
    assert_eq!(done.exits(0).json()["models"], json!([named["models=".len()..]]));
}

#[test]
fn a_model_for_a_stage_that_there_is_not_is_refused() {
    let site = Site::with_volumes(1, 1);
    let refused = finish(site.command(["job", "create", "--model", "reed=x"])).exits(1);
    assert!(
        refused.stderr.contains("there is no stage reed"),
        "{}",
        refused.stderr
    );
}
