//! Stages that services do.

use std::collections::BTreeMap;

use super::*;
use crate::domain::{ErrorCategory, ServiceRecord};

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

#[test]
fn a_service_that_reads_pages_and_is_away_is_what_a_volume_waits_for() {
    let config = JobConfig::default().with_overrides(["models=read=vision"]);
    let job = Job {
        config: config.unwrap(),
        ..job()
    };
    let message = "waiting for service vision: HTTP 503, tried 2 times";
    let task = Task {
        last_error: Some(StageError::new("read", ErrorCategory::Service, message)),
        not_before: Some(at(20)),
        ..fresh()
    };
    let reason_at = |pauses: &[i64]| {
        let of_vision = |seconds: &i64| ServiceRecord {
            name: "vision".to_owned(),
            ..paused_until(*seconds)
        };
        let cluster = ClusterFacts {
            services: pauses.iter().map(of_vision).collect(),
            ..cluster(&[], &[])
        };
        of_task(&task, &job, &cluster, None)
    };
    let waits_until = |seconds: i64| Reason::ServicePaused {
        stage: stage("read"),
        service: "vision".to_owned(),
        until: at(seconds),
        error: Some(message.to_owned()),
    };
    assert_eq!(reason_at(&[]), waits_until(20));
    assert_eq!(reason_at(&[10]), waits_until(20));
    // A try at 20 s would be in vain.
    assert_eq!(reason_at(&[60]), waits_until(60));
}
