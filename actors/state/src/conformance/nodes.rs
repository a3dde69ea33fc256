//! Nodes of the cluster.

use super::*;
use crate::NodeSnapshot;
use parkhang_core::domain::{EngineRecord, NodeRecord, NodeState, WorkerRecord};

pub(super) async fn suite(make: &impl AsyncFn() -> Store) {
    time_goes_on(make().await).await;
    a_node_is_as_it_was_last_reported(make().await).await;
    nodes_that_are_not_heard_of_are_lost_and_forgotten(make().await).await;
}

fn node(name: &str, seen: i64, state: NodeState) -> NodeRecord {
    NodeRecord {
        roles: vec!["cpu".to_owned(), "gpu".to_owned()],
        tags: vec!["rack=b2".to_owned(), "spot".to_owned()],
        host: Some("host-1".to_owned()),
        started_at: Some(at(0)),
        resident: Some(1 << 31),
        last_seen: at(seen),
        state,
        engines: vec![EngineRecord {
            service: "vision".to_owned(),
            in_flight: 3,
            answers_lately: 40,
            answers: 100,
            errors: [("busy".to_owned(), 1)].into(),
            failures: 2,
            paused_until: Some(at(60)),
            error: Some("HTTP 429".to_owned()),
        }],
        ..testing::node_record(name)
    }
}

fn worker(name: &str, in_use: u32) -> WorkerRecord {
    WorkerRecord {
        models: vec!["a, b".to_owned(), "c".to_owned()],
        slots: 2,
        in_use,
        incarnation: 3,
        last_heartbeat: Some(at(1)),
        pages: Some(400),
        ..testing::worker_record(name, "detect")
    }
}

async fn time_goes_on(store: Store) {
    let (before, after) = (store.now().await.unwrap(), store.now().await.unwrap());
    assert!(before <= after, "{before}, then {after}");
}

async fn report(store: &Store, nodes: &[NodeRecord]) {
    let snapshot = NodeSnapshot {
        nodes: nodes.to_vec(),
        ..NodeSnapshot::default()
    };
    // Twice, as every change may be repeated.
    for _ in 0..2 {
        store.record_nodes(&snapshot).await.unwrap();
    }
}

/// Rows: F14.
async fn a_node_is_as_it_was_last_reported(store: Store) {
    assert_eq!(store.nodes().await.unwrap(), []);
    report(&store, &[]).await;
    let mut one = node("one", 1, NodeState::Joined);
    one.workers = vec![worker("one/detect/3", 0), worker("one/read/1", 1)];
    let other = node("other", 1, NodeState::Joined);
    report(&store, &[other.clone(), one.clone()]).await;
    assert_eq!(store.nodes().await.unwrap(), [one.clone(), other.clone()]);

    one.workers = vec![worker("one/detect/4", 2)];
    one.last_seen = at(6);
    one.state = NodeState::Draining;
    one.health = Some("127.0.0.1:9700".to_owned());
    report(&store, std::slice::from_ref(&one)).await;
    assert_eq!(store.nodes().await.unwrap(), [one.clone(), other.clone()]);

    one.state = NodeState::Left;
    report(&store, std::slice::from_ref(&one)).await;
    one.workers = Vec::new();
    assert_eq!(
        store.nodes().await.unwrap(),
        [one, other],
        "a node that has left has no pools"
    );
}

/// Rows: F36.
async fn nodes_that_are_not_heard_of_are_lost_and_forgotten(store: Store) {
    let mut silent = node("silent", 5, NodeState::Joined);
    silent.workers = vec![worker("silent/detect/1", 1)];
    report(
        &store,
        &[
            silent,
            node("gone", 5, NodeState::Left),
            node("heard", 5, NodeState::Joined),
        ],
    )
    .await;
    let states = async |snapshot: NodeSnapshot| {
        store.record_nodes(&snapshot).await.unwrap();
        let nodes = store.nodes().await.unwrap();
        let states = nodes
            .iter()
            .map(|node| format!("{} {}", node.name, node.state.as_str()));
        (
            states.collect::<Vec<_>>(),
            nodes.iter().map(|node| node.workers.len()).sum::<usize>(),
        )
    };
    let snapshot = |lost_before, forgotten_before| NodeSnapshot {
        nodes: vec![node("heard", 5, NodeState::Joined)],
        lost_before,
        forgotten_before,
    };
    let nobody_yet = states(snapshot(Some(at(5)), Some(at(5)))).await;
    assert_eq!(
        nobody_yet,
        (
            vec!["gone left".into(), "heard joined".into(), "silent joined".into()],
            1
        )
    );
    let lost = states(snapshot(Some(at(6)), None)).await;
    assert_eq!(
        lost,
        (
            vec!["gone left".into(), "heard joined".into(), "silent lost".into()],
            0
        )
    );
    let forgotten = states(snapshot(None, Some(at(6)))).await;
    assert_eq!(forgotten, (vec!["heard joined".to_owned()], 0));
}
