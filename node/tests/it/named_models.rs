//! Jobs that name the models that they are to be read with.

use parkhang_test_support::Wait;
use serde_json::{Value, json};

use crate::nodes::{JOB, Node, Site};
use crate::support::{finish, workspace};
use crate::watched::get;

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
    Wait::until("the worker is there").sees(
        || finish(site.command(["nodes", "list"])).exits(0).stdout,
        |nodes| nodes.contains(&format!("ocr 0/1 ({})", shipped())),
    );
    let created = finish(create).exits(0).json();
    assert_eq!(created["models"], json!(["ocr=rare"]));
    let warning = format!("no node that runs ocr has loaded rare; they have {}", shipped());
    assert_eq!(created["warnings"], json!([warning]));

    let why = || {
        finish(site.command(["tasks", "why", JOB, "W1-I0", "--json"]))
            .exits(0)
            .json()
    };
    let why = Wait::until("the model is missed").sees(why, |why| why["blocker"] == "no_model");
    let reason = why["reason"].as_str().unwrap();
    assert!(
        reason.contains("runs ocr has loaded rare") && reason.ends_with(&format!("have {}", shipped())),
        "{reason}"
    );
    let status = finish(site.command(["job", "status", JOB])).exits(0).stdout;
    assert!(status.contains("\nto be read with ocr=rare\n"), "{status}");
    assert!(
        status.contains("no node that runs ocr has loaded rare;"),
        "{status}"
    );

    let cluster = finish(site.command(["cluster", "status", "--json"]))
        .exits(0)
        .json();
    let alarms = cluster["alarms"].as_array().unwrap();
    let is_alarm = |alarm: &Value| {
        let alarm = alarm.as_str().unwrap();
        alarm.starts_with(&format!("job {JOB}: no node that runs ocr has loaded rare;"))
    };
    assert!(alarms.iter().any(is_alarm), "{alarms:?}");
    Wait::until("the metric tells of it").sees(
        || scraped(&orchestrator, r#"parkhang_jobs_without_model{stage="ocr"}"#),
        |jobs| *jobs == Some(1.0),
    );

    finish(site.command(["job", "pause", JOB])).exits(0);
    let named = format!("models=ocr={}", shipped());
    finish(site.command(["job", "update", JOB, &named])).exits(0);
    finish(site.command(["job", "resume", JOB])).exits(0);
    let done = finish(site.command(["job", "status", JOB, "--wait", "--json"]));
    assert_eq!(done.exits(0).json()["models"], json!([named["models=".len()..]]));
    let shown = finish(site.command(["tasks", "show", JOB, "W1-I0"]))
        .exits(0)
        .stdout;
    assert!(
        shown.contains(&format!("\nocr was done with {}\n", shipped())),
        "{shown}"
    );

    let plan = |words: &[&str]| finish(site.command_of(words)).exits(0);
    let settled = plan(&["job", "plan", JOB]).stdout;
    assert_eq!(settled, "nothing is left to do\n");
    finish(site.command(["job", "update", JOB, "models=ocr=rare"])).exits(0);
    let changed = plan(&["job", "plan", JOB]).stdout;
    assert!(
        changed.contains("results are out of date (ocr: 1 model changed; reduce: 1 input changed)"),
        "{changed}"
    );
    let again = ["job", "rerun", JOB, "--from", "ocr", "--dry-run", "--json"];
    let again = plan(&again).json();
    assert_eq!(again["plan"]["stages"][2]["model_changed"], 1, "{again:#}");
}

/// The value of a series of metrics that a node serves.
pub(crate) fn scraped(node: &Node, series: &str) -> Option<f64> {
    let (_, page) = get(node.health(), "/metrics");
    let line = page.lines().find_map(|line| line.strip_prefix(series))?;
    line.trim().parse().ok()
}

#[test]
fn a_model_is_named_and_no_path() {
    let site = Site::with_volumes(1, 1);
    let refused = |words: &[&str]| finish(site.command_of(words)).exits(1).stderr;
    let path = "/srv/models/rare is a path";
    let create = refused(&["job", "create", JOB, "--model", "/srv/models/rare"]);
    assert!(create.contains(path), "{create}");
    finish(site.command(["job", "create", JOB])).exits(0);
    finish(site.command(["job", "pause", JOB])).exits(0);
    let update = refused(&["job", "update", JOB, "models=ocr=/srv/models/rare"]);
    assert!(update.contains(path), "{update}");
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
    let reported =
        "line_extraction=x: line_extraction has no model; stages that have are line_detection and ocr";
    let refused = finish(site.command(["job", "create", JOB, "--model", "line_extraction=x"])).exits(1);
    assert!(refused.stderr.contains(reported), "{}", refused.stderr);
    finish(site.command(["job", "create", JOB])).exits(0);
    finish(site.command(["job", "pause", JOB])).exits(0);
    let refused = finish(site.command(["job", "update", JOB, "models=line_extraction=x"])).exits(1);
    assert!(refused.stderr.contains(reported), "{}", refused.stderr);
}
