//! A stage of a pipeline that a service does, as an operator runs it: what it tells by the webhook, and what is said of it meanwhile.

use parkhang_test_support::Wait;
use serde_json::{Value, json};

use crate::entities::{SECRET, service, tell};
use crate::nodes::{JOB, Node, Site};
use crate::support::{files, finish};

/// A site whose only pipeline of its own is the stage of a service that takes every job and never says by itself that it is over.
fn site() -> Site {
    let mut site = Site::with_volumes(2, 1);
    site.settings = vec![
        ("service.llm.url", service()),
        ("service.llm.webhook", "true".to_owned()),
        ("stage.proofread.service", "llm".to_owned()),
        (
            "stage.proofread.body",
            "{\"task\": {{ stage }}, \"lead\": {{ taskId }}}".to_owned(),
        ),
        ("pipeline.cleaned.stages", "proofread".to_owned()),
        ("webhook.listen", "127.0.0.1:0".to_owned()),
        ("webhook.on_api", "true".to_owned()),
    ];
    site.variables = vec![
        ("LLM_AUTH_TOKEN", "token-of-llm".to_owned()),
        ("WEBHOOK_SECRET", SECRET.to_owned()),
    ];
    site
}

fn ended(task: u64, job: &str) -> Value {
    json!({"stage": "proofread", "taskId": task, "jobId": job, "status": "completed", "result": {"text": "hello"}})
}

/// Rows: 84, 218, 230, 232, 233, 241, 242.
#[test]
fn a_service_does_a_stage_and_tells_whichever_orchestrator_leads() {
    let site = site();
    let first = Node::start(&site, "orchestrator", &["127.0.0.1:1"]);
    finish(site.command(["job", "create", JOB, "--pipeline", "cleaned"])).exits(0);
    for volume in ["W1-I0", "W1-I1"] {
        let why = || {
            finish(site.command(["tasks", "why", JOB, volume, "--json"]))
                .exits(0)
                .json()
        };
        let why = Wait::until("the service has the volume").sees(why, |why| why["blocker"] == "at_service");
        let reason = why["reason"].as_str().unwrap();
        assert!(
            reason.starts_with("waiting for llm to do proofread since "),
            "{reason}"
        );
        assert!(reason.contains(", stuck in "), "{reason}");
    }
    Wait::until("the leader lists the service among its workers").sees(
        || finish(site.command(["nodes", "list"])).exits(0).stdout,
        |nodes| nodes.contains("proofread 2/100"),
    );
    let listed = finish(site.command(["services", "list", "--json"]))
        .exits(0)
        .json();
    let llm = &listed["services"][0];
    assert_eq!(
        (
            &llm["service"],
            &llm["stages"],
            &llm["in_flight"],
            &llm["submits_a_minute"]
        ),
        (&json!("llm"), &json!(["proofread"]), &json!(2), &json!(2))
    );
    let address = first.said("webhook=http://").to_owned();
    let refused = tell(&address, "other", &ended(1, "proofread-1")).is(401).json();
    assert_eq!(refused["message"], "the signature is not that of the body");
    tell(&address, SECRET, &ended(1, "proofread-9")).is(404);
    tell(&address, SECRET, &ended(99, "proofread-99")).is(404);

    // One that stands by takes the message, and the leader carries it out.
    let second = Node::start(&site, "orchestrator", &["127.0.0.1:1"]);
    let standby = second.said("webhook=http://").to_owned();
    tell(&standby, "other", &ended(1, "proofread-1")).is(401);
    tell(&standby, SECRET, &ended(1, "proofread-9")).is(404);
    let processed = json!({"status": "processed"});
    assert_eq!(
        tell(&standby, SECRET, &ended(1, "proofread-1")).is(200).json(),
        processed
    );
    Wait::until("the leader has carried it out").sees(
        || {
            let shown = finish(site.command(["tasks", "show", JOB, "W1-I0", "--json"]));
            shown.exits(0).json()
        },
        |shown| shown["state"] == "done",
    );
    for address in [address.as_str(), &standby, second.api()] {
        let again = tell(address, SECRET, &ended(1, "proofread-1")).is(200).json();
        assert_eq!(again, processed);
    }

    // SIGKILL: what the service has in hand stays with it, and messages may come before anybody leads.
    drop(first);
    let address = second.api().to_owned();
    let broken = json!({
        "stage": "proofread", "taskId": 2, "jobId": "proofread-2", "status": "failed", "error": "403 Forbidden",
    });
    tell(&address, SECRET, &broken).is(200);
    let status = finish(site.command(["job", "status", JOB, "--wait"])).stdout;
    assert!(
        status.contains("failed at proofread") && status.contains("403 Forbidden"),
        "{status}"
    );
    let shown = finish(site.command(["tasks", "show", JOB, "W1-I0", "--json"]))
        .exits(0)
        .json();
    let job = &shown["services"][0];
    // The poller comes only later where there is a webhook.
    assert_eq!(
        (&job["job"], &job["polls"], job["told_at"].is_string()),
        (&json!("proofread-1"), &json!(0), true)
    );
    let artifacts = files(&site.path("artifacts"));
    let results: Vec<&Vec<u8>> = artifacts
        .iter()
        .filter(|(path, _)| path.ends_with("proofread/result-1-g0.json"))
        .map(|(_, bytes)| bytes)
        .collect();
    let [result] = results[..] else {
        panic!("{:?}", artifacts.keys())
    };
    let result: Value = serde_json::from_slice(result).unwrap();
    assert_eq!(
        (&result["result"], &result["service_job"]),
        (&json!({"text": "hello"}), &json!("proofread-1"))
    );
}

/// Rows: 84.
#[test]
fn a_pipeline_with_a_stage_that_nobody_does_is_refused() {
    let site = Site::with_volumes(1, 1);
    let mut create = site.command(["job", "create", JOB, "--pipeline", "cleaned"]);
    create.args(["--set", "pipeline.cleaned.stages=proofread"]);
    let refused = finish(create);
    assert!(
        refused.code != Some(0) && refused.stderr.contains("there is no stage proofread"),
        "{refused:?}"
    );
    let mut create = site.command(["job", "create", JOB, "--pipeline", "cleaned"]);
    create.args([
        "--set",
        "pipeline.cleaned.stages=proofread",
        "--set",
        "stage.proofread.service=cleaner",
    ]);
    let refused = finish(create);
    assert!(
        refused.code != Some(0) && refused.stderr.contains("must name a service"),
        "{refused:?}"
    );
}
