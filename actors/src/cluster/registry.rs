//! Registry of the nodes that work, by the descriptions that they send the leader. Nothing is decided by it; it is written to the
//! store for those who watch, and forms anew under each leader within a heartbeat.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use chrono::{DateTime, Utc};
use tokio::sync::Notify;

use crate::wire::{NodePhase, Notice};
use parkhang_core::domain::{LeaseRenewal, NodeActors, NodeRecord, NodeState, WorkerId, WorkerRecord};

/// The nodes and their actors. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct NodeRegistry {
    nodes: Arc<Mutex<BTreeMap<String, NodeRecord>>>,
    actors: Arc<Mutex<BTreeMap<String, NodeActors>>>,
    news: Arc<Notify>,
}

impl NodeRegistry {
    /// Takes in the description of a node.
    pub(super) fn update(&self, notice: Notice, now: DateTime<Utc>) {
        let Notice {
            peer,
            phase,
            mut about,
        } = notice;
        let actors = NodeActors {
            node: peer.node.clone(),
            told_at: now,
            actors: std::mem::take(&mut about.actors),
        };
        // Released at once: `written` takes this lock while it holds the nodes, so nobody may hold both the
        // other way round.
        self.actors_by_node().insert(peer.node.clone(), actors);
        let mut nodes = self.nodes();
        let before = nodes.remove(&peer.node);
        let shown = before.as_ref().map(|node| (node.state, node.workers.len()));
        let known = before.map(|node| node.workers).unwrap_or_default();
        let workers = about.pools.into_iter().map(|pool| {
            let known = known.iter().find(|known| known.worker == pool.worker);
            WorkerRecord {
                incarnation: pool.worker.incarnation().unwrap_or_default(),
                worker: pool.worker,
                stage: pool.stage,
                models: pool.models,
                slots: pool.slots,
                in_use: pool.in_use,
                last_heartbeat: known.and_then(|known| known.last_heartbeat),
                // The progress is that of the last heartbeat, whose work may be over.
                pages: known.and_then(|known| known.pages).filter(|_| pool.in_use > 0),
                pages_finished: known
                    .and_then(|known| known.pages_finished)
                    .filter(|_| pool.in_use > 0),
            }
        });
        let node = NodeRecord {
            name: peer.node.clone(),
            roles: about.roles,
            tags: about.tags,
            host: about.host,
            build: peer.build,
            protocol: peer.protocol,
            health: about.health,
            started_at: about.started_at.and_then(DateTime::from_timestamp_micros),
            resident: about.resident,
            last_seen: now,
            state: match phase {
                NodePhase::Working => NodeState::Joined,
                NodePhase::Draining => NodeState::Draining,
                NodePhase::Leaving => NodeState::Left,
            },
            workers: workers.collect(),
            engines: about.engines,
        };
        if shown != Some((node.state, node.workers.len())) {
            self.news.notify_one();
        }
        nodes.insert(peer.node, node);
    }

    /// Takes in the progress of a pool that has renewed its leases.
    pub(super) fn heartbeat(&self, worker: &WorkerId, renewals: &[LeaseRenewal], now: DateTime<Utc>) {
        let mut nodes = self.nodes();
        let Some(node) = nodes.get_mut(worker.node()) else {
            return;
        };
        node.last_seen = now;
        if let Some(known) = node.workers.iter_mut().find(|known| known.worker == *worker) {
            let progress = || renewals.iter().filter_map(|renewal| renewal.progress);
            known.last_heartbeat = Some(now);
            known.pages = Some(progress().map(|progress| progress.pages).sum());
            known.pages_finished = Some(progress().map(|progress| progress.finished()).sum());
        }
    }

    /// Takes note that a pool is gone for good, and its node with it.
    pub(super) fn lost(&self, worker: &WorkerId) {
        if let Some(node) = self.nodes().get_mut(worker.node())
            && node.state.is_there()
        {
            node.state = NodeState::Lost;
            self.news.notify_one();
        }
    }

    /// Counts the nodes that are there and ask a service while their stages wait.
    pub(super) fn askers(&self, service: &str) -> u32 {
        let nodes = self.nodes();
        let asks = |node: &&NodeRecord| node.asks(service);
        u32::try_from(nodes.values().filter(asks).count()).unwrap_or(u32::MAX)
    }

    /// Waits until a node came, went, or runs other stages than before. Only one caller may wait.
    pub async fn news(&self) {
        self.news.notified().await;
    }

    /// The nodes as they are now, including those that are gone and not yet [written](Self::written).
    pub fn snapshot(&self) -> Vec<NodeRecord> {
        self.nodes().values().cloned().collect()
    }

    /// The actors of these nodes, as last described.
    pub fn actors(&self) -> Vec<NodeActors> {
        self.actors_by_node().values().cloned().collect()
    }

    /// Forgets the nodes that are gone by this snapshot, once it has been written to the store.
    pub fn written(&self, snapshot: &[NodeRecord]) {
        let mut nodes = self.nodes();
        for node in snapshot.iter().filter(|node| !node.state.is_there()) {
            // The node may have come back since.
            if nodes.get(&node.name) == Some(node) {
                nodes.remove(&node.name);
                self.actors_by_node().remove(&node.name);
            }
        }
    }

    fn actors_by_node(&self) -> MutexGuard<'_, BTreeMap<String, NodeActors>> {
        self.actors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The nodes. Every change of them is a single step, so a panic of another thread leaves them whole.
    fn nodes(&self) -> MutexGuard<'_, BTreeMap<String, NodeRecord>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;
    use crate::wire::{NodeAbout, Peer, PoolAbout};
    use parkhang_core::domain::testing::{at, fence, stage, worker};
    use parkhang_core::domain::{ActorKind, ActorRecord, ActorState, StageProgress};

    fn notice(phase: NodePhase, in_use: u32) -> Notice {
        Notice {
            peer: Peer {
                protocol: 1,
                build: "0.1.0".to_owned(),
                node: "cpu-1.0badcafe".to_owned(),
            },
            phase,
            about: NodeAbout {
                roles: vec!["cpu".to_owned()],
                tags: vec!["rack=b2".to_owned()],
                host: Some("host".to_owned()),
                started_at: Some(1_700_000_000_000_000),
                health: None,
                resident: Some(1 << 30),
                engines: Vec::new(),
                pools: vec![PoolAbout {
                    worker: worker("cpu-1.0badcafe/reduce/2"),
                    stage: stage("reduce"),
                    slots: 2,
                    in_use,
                    models: vec!["reader".to_owned()],
                }],
                actors: vec![ActorRecord::new("reduce", ActorKind::Pool, ActorState::Idle)],
            },
        }
    }

    fn renewal(pages: u64, succeeded: u64) -> LeaseRenewal {
        LeaseRenewal {
            fence: fence(1, "reduce"),
            volume: "W1-I1".parse().unwrap(),
            progress: Some(StageProgress {
                pages,
                succeeded,
                ..StageProgress::default()
            }),
        }
    }

    #[test]
    fn what_pools_have_done_stays_with_them_while_they_work() {
        let registry = NodeRegistry::default();
        let pool = worker("cpu-1.0badcafe/reduce/2");
        registry.heartbeat(&pool, &[renewal(1, 1)], at(0));
        assert_eq!(
            registry.snapshot(),
            [],
            "a node that has not told of itself is not known"
        );
        registry.update(notice(NodePhase::Working, 2), at(1));
        registry.heartbeat(&pool, &[renewal(400, 10), renewal(100, 0)], at(2));
        registry.update(notice(NodePhase::Working, 2), at(3));
        let node = registry.snapshot().remove(0);
        assert_eq!((node.last_seen, node.state), (at(3), NodeState::Joined));
        assert_eq!(node.workers[0].incarnation, 2);
        assert_eq!(node.workers[0].last_heartbeat, Some(at(2)));
        assert_eq!(
            (node.workers[0].pages, node.workers[0].pages_finished),
            (Some(500), Some(10))
        );
        registry.update(notice(NodePhase::Draining, 0), at(4));
        let node = registry.snapshot().remove(0);
        assert_eq!((node.state, node.workers[0].pages), (NodeState::Draining, None));
    }

    #[tokio::test]
    async fn who_comes_and_goes_is_news_and_who_stays_is_not() {
        let registry = NodeRegistry::default();
        let news = || registry.news().now_or_never().is_some();
        registry.update(notice(NodePhase::Working, 0), at(0));
        assert!(news());
        registry.update(notice(NodePhase::Working, 2), at(1));
        assert!(!news(), "the node is there as before");
        registry.update(notice(NodePhase::Draining, 2), at(2));
        assert!(news());
        registry.lost(&worker("cpu-1.0badcafe/reduce/2"));
        assert!(news());
    }

    #[test]
    fn a_node_that_is_gone_is_named_until_that_is_written_and_one_that_left_is_not_lost() {
        let pool = worker("cpu-1.0badcafe/reduce/2");
        for (phase, end) in [
            (NodePhase::Working, NodeState::Lost),
            (NodePhase::Leaving, NodeState::Left),
        ] {
            let registry = NodeRegistry::default();
            registry.update(notice(phase, 0), at(0));
            registry.lost(&pool);
            let unwritten = registry.snapshot();
            assert_eq!(unwritten[0].state, end);
            let snapshot = registry.snapshot();
            assert_eq!(snapshot, unwritten);
            assert_eq!(registry.actors()[0].actors[0].name, "reduce");
            registry.written(&snapshot);
            assert_eq!((registry.snapshot(), registry.actors()), (vec![], vec![]));
        }
    }

    #[test]
    fn a_node_that_is_back_before_its_loss_is_written_stays() {
        let registry = NodeRegistry::default();
        registry.update(notice(NodePhase::Working, 0), at(0));
        registry.written(&registry.snapshot());
        registry.lost(&worker("cpu-1.0badcafe/reduce/2"));
        let snapshot = registry.snapshot();
        registry.update(notice(NodePhase::Working, 0), at(1));
        registry.written(&snapshot);
        assert_eq!(registry.snapshot()[0].state, NodeState::Joined);
    }
}
