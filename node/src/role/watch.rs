//! What orchestrators write down and count for those who watch. Nothing is decided by it.

use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};
use parkhang_actors::cluster::Roster;
use parkhang_actors::telemetry::{TaskLevels, resident_bytes};
use parkhang_actors::wire::PROTOCOL;
use parkhang_core::domain::{ActorRecord, NodeActors, NodeRecord, NodeState, WorkerRecord};
use parkhang_state::{NodeSnapshot, PostgresStore, StateStore};
use tracing::debug;

use super::standing::Standing;
use crate::heartbeat::{MISSED_HEARTBEATS, patience};
use crate::whoami::host;

pub const COUNT_INTERVAL: Duration = Duration::from_secs(10);
/// Pause after a count, as a multiple of the time it took: however many tasks there are, counting them costs the database no
/// more.
pub const COUNT_PAUSE: u32 = 50;
/// Nodes that come together are written down together.
const GATHERING: Duration = Duration::from_millis(200);
/// How long nodes that are gone are remembered.
const MEMORY: TimeDelta = TimeDelta::days(7);

/// Tells how many tasks stand where, again and again.
pub async fn count_tasks(store: &PostgresStore) {
    let mut levels = TaskLevels::default();
    loop {
        let began = Instant::now();
        match store.count_tasks().await {
            Ok(counts) => levels.tell(&counts),
            Err(error) => debug!(%error, "cannot count tasks now"),
        }
        tokio::time::sleep(COUNT_INTERVAL.max(began.elapsed() * COUNT_PAUSE)).await;
    }
}

/// Writes down the nodes that the leader hears of, when one comes or goes and again and again. `store` is that of the leader:
/// once another leads, what this one has heard is not written.
pub async fn record_nodes(store: &PostgresStore, roster: &Roster, heartbeat: Duration) {
    loop {
        let news = async {
            roster.news().await;
            tokio::time::sleep(GATHERING).await;
        };
        tokio::select! {
            () = tokio::time::sleep(heartbeat) => {}
            () = news => {}
        }
        let snapshot = NodeSnapshot {
            nodes: roster.census(),
            ..silent_nodes(store.now().await.unwrap_or_else(|_| Utc::now()), heartbeat)
        };
        match store.record_nodes(&snapshot).await {
            Ok(()) => roster.written(&snapshot.nodes),
            Err(error) => debug!(%error, "cannot write down the nodes now"),
        }
        if let Err(error) = store.record_actors(&roster.actors()).await {
            debug!(%error, "cannot write down the actors now");
        }
    }
}

/// Writes down what a leader that stops has heard last: who left before it did.
pub async fn record_last(store: &PostgresStore, roster: &Roster, limit: Duration) {
    let snapshot = NodeSnapshot {
        nodes: roster.census(),
        ..NodeSnapshot::default()
    };
    if !matches!(
        tokio::time::timeout(limit, store.record_nodes(&snapshot)).await,
        Ok(Ok(()))
    ) {
        debug!("the nodes are left as they were written down last");
    }
}

/// Writes down which nodes are not heard of any more, again and again, by the clock of the database.
pub async fn lose_silent_nodes(store: &PostgresStore, heartbeat: Duration) {
    loop {
        tokio::time::sleep(heartbeat * MISSED_HEARTBEATS).await;
        let lost = async {
            let now = store.now().await?;
            store.record_nodes(&silent_nodes(now, heartbeat)).await
        };
        if let Err(error) = lost.await {
            debug!(%error, "cannot write down which nodes are lost");
        }
    }
}

fn silent_nodes(now: DateTime<Utc>, heartbeat: Duration) -> NodeSnapshot {
    NodeSnapshot {
        nodes: Vec::new(),
        lost_before: Some(now - patience(heartbeat)),
        forgotten_before: Some(now - MEMORY),
    }
}

/// What a node says of itself at a time.
pub struct Presently {
    pub state: NodeState,
    pub workers: Vec<WorkerRecord>,
    pub actors: Vec<ActorRecord>,
}

/// A node that writes its own row, by the clock of the database: nobody else hears of it.
#[derive(Debug)]
pub struct Presence(NodeRecord);

impl Presence {
    /// Of a node with these roles, separated by commas, and what its operator says of it.
    pub fn of(standing: &Standing, roles: &str, tags: &[String]) -> Self {
        let now = Utc::now();
        Self(NodeRecord {
            name: standing.node.to_string(),
            roles: roles.split(',').map(str::to_owned).collect(),
            tags: tags.to_vec(),
            host: host(),
            build: env!("CARGO_PKG_VERSION").to_owned(),
            protocol: PROTOCOL,
            health: standing.window.address().map(|address| address.to_string()),
            started_at: Some(now),
            resident: None,
            last_seen: now,
            state: NodeState::Joined,
            workers: Vec::new(),
        })
    }

    /// Again and again. `presently` is told the time.
    pub async fn keep(
        &self,
        store: &PostgresStore,
        heartbeat: Duration,
        presently: impl AsyncFn(DateTime<Utc>) -> Presently,
    ) {
        loop {
            self.write(store, &presently).await;
            tokio::time::sleep(heartbeat).await;
        }
    }

    /// The node leaves in order.
    pub async fn end(&self, store: &PostgresStore) {
        let left = async |_: DateTime<Utc>| Presently {
            state: NodeState::Left,
            workers: Vec::new(),
            actors: Vec::new(),
        };
        self.write(store, &left).await;
    }

    async fn write(&self, store: &PostgresStore, presently: &impl AsyncFn(DateTime<Utc>) -> Presently) {
        let written = async {
            let now = store.now().await?;
            let presently = presently(now).await;
            let node = NodeRecord {
                last_seen: now,
                state: presently.state,
                workers: presently.workers,
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
            debug!(%error, "cannot write down this node now");
        }
    }
}
