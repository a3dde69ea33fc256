//! Values that follow from others.

use std::collections::BTreeSet;

use super::*;

const URL: &str = "https://sqs.eu-west-1.amazonaws.com/123456789012/ocr-ocr.fifo";

/// Rows: 56, 59.
#[test]
fn a_worker_of_one_stage_is_told_its_queue_by_a_variable() {
    let loaded = load(
        None,
        &[("SQS_QUEUE_URL", URL), ("DATABASE_URL", "postgres://db/x")],
        &["node.stages=ocr"],
    );
    let loaded = loaded.validated().unwrap();
    let config = &loaded.config;
    assert_eq!(config.source.kind, SourceKind::Sqs);
    assert_eq!(config.source.sqs.region.as_deref(), Some("eu-west-1"));
    assert_eq!(
        String::from(config.source.sqs.queues[0].clone()),
        format!("ocr={URL}")
    );
    assert_eq!(config.node.roles, BTreeSet::from([Role::Gpu]));
    let shown = show::toml(&loaded, true);
    assert!(shown.contains("SQS_QUEUE_URL"), "{shown}");
}

/// Rows: 57.
#[test]
fn an_orchestrator_is_told_the_queues_of_all_stages_by_variables() {
    let variables = [
        ("SQS_LINE_DETECTION_URL", "http://127.0.0.1:4566/0/a.fifo"),
        ("SQS_LINE_EXTRACTION_URL", "http://127.0.0.1:4566/0/b.fifo"),
        ("SQS_OCR_URL", "http://127.0.0.1:4566/0/c.fifo"),
        ("SQS_REDUCE_URL", "http://127.0.0.1:4566/0/d.fifo"),
    ];
    let config = load(None, &variables, &["node.roles=orchestrator"]).config;
    assert_eq!(config.source.kind, SourceKind::Sqs);
    assert_eq!(
        config.source.sqs.endpoint.as_deref(),
        Some("http://127.0.0.1:4566")
    );
    let queues: Vec<String> = config.source.sqs.queues.into_iter().map(String::from).collect();
    assert_eq!(queues.len(), 4);
    assert_eq!(queues[3], "reduce=http://127.0.0.1:4566/0/d.fifo");
}

#[test]
fn what_the_user_sets_is_meant_whatever_would_follow() {
    let variable = [("SQS_QUEUE_URL", URL)];
    let config = load(
        None,
        &variable,
        &["node.stages=ocr", "source.kind=postgres", "node.roles=cpu,gpu"],
    )
    .config;
    assert_eq!(config.source.kind, SourceKind::Postgres);
    assert_eq!(config.node.roles.len(), 2);
    let no_stage = load(None, &variable, &[]).config;
    assert_eq!(
        no_stage,
        load(None, &[], &[]).config,
        "the variable is another program's"
    );
}

#[test]
fn stages_that_a_node_cannot_run_are_refused() {
    assert_eq!(
        problems(None, &[("SQS_QUEUE_URL", URL)], &["node.stages=ocr,reduce"]),
        [
            "SQS_QUEUE_URL: names the queue of one stage, and this node has 2; name them with source.sqs.queues"
        ]
    );
    let unknown = the_problem(&["node.stages=ocrr"]);
    assert!(
        unknown.starts_with(
            "--set: node.stages: there is no stage ocrr (did you mean ocr?); the stages are line_detection, "
        ),
        "{unknown}"
    );
    let unfit = the_problem(&["node.stages=ocr", "node.roles=cpu"]);
    assert_eq!(unfit, "--set: node.stages: stage ocr needs the role gpu");
}
