//! What orchestrators write down and count for those who watch. Nothing is decided by it.

use std::time::Duration;

use chrono::{TimeDelta, Utc};
use parkhang_actors::cluster::Roster;
use parkhang_actors::domain::{NodeRecord, NodeState};
use parkhang_actors::state::{Census, PostgresStore, StateStore};
use parkhang_actors::telemetry::TaskLevels;
use parkhang_actors::wire::PROTOCOL;
use tracing::debug;

use super::join;
use super::standing::Standing;

const COUNT_INTERVAL: Duration = Duration::from_secs(10);
/// Heartbeats of a node that may be missed before it counts as lost.
const MISSED_HEARTBEATS: i32 = 4;
/// How long nodes that are gone are remembered.
const MEMORY: TimeDelta = TimeDelta::days(7);

/// Tells how many tasks stand where, again and again.
pub async fn count_tasks(store: &PostgresStore) {
    let mut levels = TaskLevels::default();
    loop {
        match store.count_tasks().await {
            Ok(counts) => levels.tell(&counts),
            Err(error) => debug!(%error, "cannot count tasks now"),
        }
        tokio::time::sleep(COUNT_INTERVAL).await;
    }
}

/// Writes down the nodes that the leader hears of, again and again. `store` is that of the leader: once another leads,
/// what this one has heard is not written.
pub async fn record_nodes(store: &PostgresStore, roster: &Roster, heartbeat: Duration) {
    loop {
        tokio::time::sleep(heartbeat).await;
        let now = Utc::now();
        let patience = TimeDelta::from_std(heartbeat).unwrap_or(TimeDelta::zero()) * MISSED_HEARTBEATS;
        let census = Census {
            nodes: roster.census(),
            lost_before: Some(now - patience),
            forgotten_before: Some(now - MEMORY),
        };
        if let Err(error) = store.record_nodes(&census).await {
            debug!(%error, "cannot write down the nodes now");
        }
    }
}

/// An orchestrator writes its own row, for a standby has nobody to tell.
#[derive(Debug)]
pub struct Presence(NodeRecord);

impl Presence {
    pub fn of_orchestrator(standing: &Standing) -> Self {
        let now = Utc::now();
        Self(NodeRecord {
            name: standing.node.to_string(),
            roles: vec!["orchestrator".to_owned()],
            host: join::host(),
            build: env!("CARGO_PKG_VERSION").to_owned(),
            protocol: PROTOCOL,
            health: standing.window.address().map(|address| address.to_string()),
            started_at: Some(now),
            last_seen: now,
            state: NodeState::Joined,
            workers: Vec::new(),
        })
    }

    /// Again and again.
    pub async fn keep(&self, store: &PostgresStore, heartbeat: Duration) {
        loop {
            self.write(store, NodeState::Joined).await;
            tokio::time::sleep(heartbeat).await;
        }
    }

    pub async fn end(&self, store: &PostgresStore) {
        self.write(store, NodeState::Left).await;
    }

    async fn write(&self, store: &PostgresStore, state: NodeState) {
        let node = NodeRecord {
            last_seen: Utc::now(),
            state,
            ..self.0.clone()
        };
        let census = Census {
            nodes: vec![node],
            ..Census::default()
        };
        if let Err(error) = store.record_nodes(&census).await {
            debug!(%error, "cannot write down this node now");
        }
    }
}
