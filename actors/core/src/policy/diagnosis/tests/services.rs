//! Stages that services do.

use std::collections::BTreeMap;

use super::*;
use crate::domain::{EngineRecord, ErrorCategory, ServiceRecord};

fn holder() -> WorkerId {
    WorkerId::of_service("llm", &stage("read"))
}

fn paused_until(seconds: i64) -> ServiceRecord {
    ServiceRecord {
        name: "llm".to_owned(),
        failures: 2,
        paused_until: Some(at(seconds)),
        error: Some("HTTP 503".to_owned()),
        submits: 1,
        errors: BTreeMap::from([("server".to_owned(), 1)]),
        told_at: at(-1),
    }
}

#[test]
fn a_task_at_a_service_waits_for_it_until_it_is_stuck() {
    let task = Task {
        started_at: Some(at(-40)),
        ..leased_task(1, "read", &holder().0, at(560))
    };
    let reason = Reason::AtService {
        stage: stage("read"),
        service: "llm".to_owned(),
        since: at(-40),
        until: at(560),
    };
    assert_eq!(of_task(&task, &job(), &cluster(&[], &[]), None), reason);
    let late = leased_task(1, "read", &holder().0, at(-1));
    let found = of_task(&late, &job(), &cluster(&[], &[]), None);
    assert!(matches!(found, Reason::Overdue { is_led: true, .. }), "{found:?}");
}

#[test]
fn a_service_that_is_left_alone_is_named_before_its_slots() {
    let waiting = fresh();
    let pools = [pool(&holder().0, "read", 1)];
    let full = [held(&holder().0, 1, "read", 1)];
    let of = |services: &[ServiceRecord]| {
        let cluster = ClusterFacts {
            services: services.to_vec(),
            ..cluster(&pools, &full)
        };
        of_task(&waiting, &job(), &cluster, None)
    };
    let paused = Reason::ServicePaused {
        stage: stage("read"),
        service: "llm".to_owned(),
        until: at(60),
        error: Some("HTTP 503".to_owned()),
    };
    assert_eq!(of(&[paused_until(60)]), paused);
    let slots = Reason::NoSlot {
        stage: stage("read"),
        slots: 1,
    };
    assert_eq!(of(&[]), slots);
    assert_eq!(of(&[paused_until(0)]), slots, "the pause is over");
}

#[test]
fn an_orchestrator_with_services_is_no_node_that_takes_its_work_itself() {
    let record = |worker: WorkerRecord| NodeRecord {
        workers: vec![worker],
        ..node_record("orchestrator")
    };
    let is_led = |node: NodeRecord| {
        let facts = ClusterFacts::of_records(false, &[node], Vec::new(), TimeDelta::seconds(20), at(0));
        (facts.is_led, facts.pools.len())
    };
    assert_eq!(is_led(record(worker_record(&holder().0, "read"))), (false, 1));
    assert_eq!(is_led(record(worker_record("node/read/1", "read"))), (true, 1));
}

/// Job whose pages are read by the service.
fn job_of_vision() -> Job {
    let config = JobConfig::default().with_overrides(["models=read=vision"]);
    Job {
        config: config.unwrap(),
        ..job()
    }
}

/// Cluster whose nodes `node-0`, `node-1`, ... leave the service alone until then.
fn leaving_alone(pauses: &[Option<i64>]) -> ClusterFacts {
    let of_vision = |until: &Option<i64>| EngineRecord {
        service: "vision".to_owned(),
        in_flight: 0,
        answers_lately: 0,
        answers: 9,
        errors: BTreeMap::new(),
        failures: u32::from(until.is_some()),
        paused_until: until.map(at),
        error: until.map(|_| "HTTP 503".to_owned()),
    };
    let engines = pauses.iter().map(|until| vec![of_vision(until)]);
    let nodes = (0..).map(|number| format!("node-{number}"));
    ClusterFacts {
        engines: nodes.zip(engines).collect(),
        ..cluster(&[], &[])
    }
}

#[test]
fn a_volume_whose_node_leaves_a_service_alone_waits_for_it_and_keeps_its_lease() {
    let task = leased_task(1, "read", "node-1/read/1", at(30));
    let running = Reason::Running {
        stage: stage("read"),
        worker: worker("node-1/read/1"),
        until: at(30),
    };
    let waits = Reason::ServicePaused {
        stage: stage("read"),
        service: "vision".to_owned(),
        until: at(20),
        error: Some("HTTP 503".to_owned()),
    };
    let reason_of = |job: &Job, pauses: &[Option<i64>]| of_task(&task, job, &leaving_alone(pauses), None);
    assert_eq!(reason_of(&job_of_vision(), &[None, Some(20)]), waits);
    assert_eq!(
        reason_of(&job_of_vision(), &[Some(20), None]),
        running,
        "another node's pause"
    );
    assert_eq!(
        reason_of(&job_of_vision(), &[None, Some(0)]),
        running,
        "the pause is over"
    );
    assert_eq!(
        reason_of(&job(), &[None, Some(20)]),
        running,
        "the job reads without it"
    );
}

#[test]
fn a_service_that_reads_pages_and_is_away_is_what_a_volume_waits_for() {
    let message = "waiting for service vision: HTTP 503, tried 2 times";
    let task = Task {
        last_error: Some(StageError::new("read", ErrorCategory::Service, message)),
        not_before: Some(at(20)),
        ..fresh()
    };
    let reason_at = |pauses: &[Option<i64>]| of_task(&task, &job_of_vision(), &leaving_alone(pauses), None);
    let waits_until = |seconds: i64| Reason::ServicePaused {
        stage: stage("read"),
        service: "vision".to_owned(),
        until: at(seconds),
        error: Some(message.to_owned()),
    };
    assert_eq!(reason_at(&[]), waits_until(20));
    assert_eq!(reason_at(&[Some(10)]), waits_until(20));
    // A try at 20 s would be in vain.
    assert_eq!(reason_at(&[Some(60)]), waits_until(60));
    assert_eq!(
        reason_at(&[Some(60), None]),
        waits_until(20),
        "the other node may try"
    );
}
