//! Records and counts for observers: the nodes of the cluster, and the levels of tasks. Nothing is decided by them.

use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};
use parkhang_actors::cluster::NodeRegistry;
use parkhang_actors::telemetry::{TaskLevels, resident_bytes};
use parkhang_actors::wire::PROTOCOL;
use parkhang_core::domain::{ActorRecord, EngineRecord, NodeActors, NodeRecord, NodeState, WorkerRecord};
use parkhang_state::{NodeSnapshot, PostgresStore, StateStore};
use tracing::debug;

use super::readiness::ReadinessReporter;
use crate::heartbeat::{MISSED_HEARTBEATS, timeout};
use crate::whoami::host;

/// Shortest interval of counts.
pub const COUNT_INTERVAL: Duration = Duration::from_secs(10);
/// Pause after a count, as a multiple of the time that it took, so that counting takes at most a fiftieth of the database's time
/// however many tasks there are.
pub const COUNT_PAUSE: u32 = 50;
/// Time to wait for further changes, so that nodes that join together are recorded together.
const GATHERING: Duration = Duration::from_millis(200);
/// Time after which nodes that are gone are deleted from the records.
const MEMORY: TimeDelta = TimeDelta::days(7);

/// Publishes the number of tasks by stage and status, for ever.
pub async fn count_tasks(store: &PostgresStore) {
    let mut levels = TaskLevels::default();
    loop {
        let began = Instant::now();
        match store.count_tasks().await {
            Ok(counts) => levels.publish(&counts),
            Err(error) => debug!(%error, "cannot count tasks now"),
        }
        tokio::time::sleep(COUNT_INTERVAL.max(began.elapsed() * COUNT_PAUSE)).await;
    }
}

/// Records the nodes that are connected to the leader, on each change and with each heartbeat, for ever. `store` is fenced by the leader's
/// epoch: once another leads, this one writes nothing more.
pub async fn record_nodes(store: &PostgresStore, registry: &NodeRegistry, heartbeat: Duration) {
    loop {
        let news = async {
            // Dropping this while it gathers loses nothing: the snapshot is of the whole registry.
            registry.news().await;
            tokio::time::sleep(GATHERING).await;
        };
        tokio::select! {
            () = tokio::time::sleep(heartbeat) => {}
            () = news => {}
        }
        // Silence is measured by the database's clock, by which the nodes were recorded. Without it nothing can be written either.
        let now = match store.now().await {
            Ok(now) => now,
            Err(error) => {
                debug!(%error, "cannot record the nodes now");
                continue;
            }
        };
        let snapshot = NodeSnapshot {
            nodes: registry.snapshot(),
            ..silent_nodes(now, heartbeat)
        };
        match store.record_nodes(&snapshot).await {
            // Only what is written may be forgotten; a node that left would otherwise stay recorded as
            // joined.
            Ok(()) => registry.written(&snapshot.nodes),
            Err(error) => debug!(%error, "cannot record the nodes now"),
        }
        if let Err(error) = store.record_actors(&registry.actors()).await {
            debug!(%error, "cannot record the actors now");
        }
    }
}

/// Records the last state of the nodes when a leader stops, including those that left just before it.
pub async fn record_last(store: &PostgresStore, registry: &NodeRegistry, limit: Duration) {
    let snapshot = NodeSnapshot {
        nodes: registry.snapshot(),
        ..NodeSnapshot::default()
    };
    if !matches!(
        tokio::time::timeout(limit, store.record_nodes(&snapshot)).await,
        Ok(Ok(()))
    ) {
        debug!("the last state of the nodes was not recorded");
    }
}

/// Records silent nodes as lost, by the clock of the database, for ever.
pub async fn lose_silent_nodes(store: &PostgresStore, heartbeat: Duration) {
    loop {
        tokio::time::sleep(heartbeat * MISSED_HEARTBEATS).await;
        let lost = async {
            let now = store.now().await?;
            store.record_nodes(&silent_nodes(now, heartbeat)).await
        };
        if let Err(error) = lost.await {
            debug!(%error, "cannot record which nodes are lost");
        }
    }
}

fn silent_nodes(now: DateTime<Utc>, heartbeat: Duration) -> NodeSnapshot {
    NodeSnapshot {
        nodes: Vec::new(),
        // A time before all times loses nobody.
        lost_before: now.checked_sub_signed(timeout(heartbeat)),
        forgotten_before: Some(now - MEMORY),
    }
}

/// Current state of a node.
pub struct NodeStatus {
    pub state: NodeState,
    pub workers: Vec<WorkerRecord>,
    pub actors: Vec<ActorRecord>,
    pub engines: Vec<EngineRecord>,
}

/// Registration of a node that writes its own record, by the clock of the database, because no leader knows it.
#[derive(Debug)]
pub struct NodeRegistration(NodeRecord);

impl NodeRegistration {
    /// Returns the registration of a node with these roles, separated by commas, and tags.
    pub fn of(readiness: &ReadinessReporter, roles: &str, tags: &[String]) -> Self {
        let now = Utc::now();
        Self(NodeRecord {
            name: readiness.node.to_string(),
            roles: roles.split(',').map(str::to_owned).collect(),
            tags: tags.to_vec(),
            host: host(),
            build: env!("CARGO_PKG_VERSION").to_owned(),
            protocol: PROTOCOL,
            health: readiness.window.address().map(|address| address.to_string()),
            started_at: Some(now),
            resident: None,
            last_seen: now,
            state: NodeState::Joined,
            workers: Vec::new(),
            engines: Vec::new(),
        })
    }

    /// Writes the record with each heartbeat, for ever. `presently` gets the time.
    pub async fn keep(
        &self,
        store: &PostgresStore,
        heartbeat: Duration,
        presently: impl AsyncFn(DateTime<Utc>) -> NodeStatus,
    ) {
        loop {
            self.write(store, &presently).await;
            tokio::time::sleep(heartbeat).await;
        }
    }

    /// Records that the node has left in order.
    pub async fn end(&self, store: &PostgresStore) {
        let left = async |_: DateTime<Utc>| NodeStatus {
            state: NodeState::Left,
            workers: Vec::new(),
            actors: Vec::new(),
            engines: Vec::new(),
        };
        self.write(store, &left).await;
    }

    async fn write(&self, store: &PostgresStore, presently: &impl AsyncFn(DateTime<Utc>) -> NodeStatus) {
        let written = async {
            let now = store.now().await?;
            // The time is read before the state, so that a record never claims to be newer than what it says.
            let presently = presently(now).await;
            let node = NodeRecord {
                last_seen: now,
                state: presently.state,
                workers: presently.workers,
                engines: presently.engines,
                resident: resident_bytes(),
                ..self.0.clone()
            };
            let actors = NodeActors {
                node: node.name.clone(),
                told_at: now,
                actors: presently.actors,
            };
            let snapshot = NodeSnapshot {
                nodes: vec![node],
                ..NodeSnapshot::default()
            };
            store.record_nodes(&snapshot).await?;
            store.record_actors(&[actors]).await
        };
        if let Err(error) = written.await {
            debug!(%error, "cannot record this node now");
        }
    }
}

#[cfg(test)]
mod tests {
    use parkhang_core::domain::testing::at;

    use super::*;

    #[test]
    fn nobody_is_silent_for_longer_than_all_time() {
        let silent = |heartbeat| silent_nodes(at(60), heartbeat).lost_before;
        assert_eq!(silent(Duration::from_secs(5)), Some(at(40)));
        assert_eq!(silent(Duration::MAX), None);
    }
}
