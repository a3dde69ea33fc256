//! Commands about the nodes of the cluster.

mod drain;
mod show;
mod stats;

use async_trait::async_trait;
use bytesize::ByteSize;
use chrono::{DateTime, TimeDelta, Utc};
use clap::Args;
use parkhang_core::domain::{ActorKind, NodeActors, NodeRecord, StageName, WorkerRecord};
use parkhang_core::policy::placement::Held;
use parkhang_state::StateStore;
use serde::Serialize;
use utoipa::ToSchema;

use super::command::{Access, Answer, Command, Verb};
use super::text::{away, table};
use super::{Admin, Refusal};
use crate::words::pluralize;

pub use self::drain::Drain;
pub use self::show::Show;
pub use self::stats::Stats;

/// Time for which a node that is gone is still shown.
const SHOWN_WHEN_GONE: TimeDelta = TimeDelta::hours(1);

/// List the nodes of the cluster and what each runs, also those that left or were lost in the last hour.
#[derive(Debug, Args)]
pub struct List {
    /// List also nodes that have been gone for longer; they are remembered for seven days.
    #[arg(long)]
    all: bool,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Nodes {
    nodes: Vec<Node>,
    /// Number of nodes that are left out because they went more than an hour ago.
    gone: usize,
}

/// Process of the cluster.
#[derive(Debug, Serialize, ToSchema)]
pub struct Node {
    /// Name, unique to each start of a process.
    name: String,
    roles: Vec<String>,
    /// Tags of its configuration (node.tags).
    tags: Vec<String>,
    /// joined, draining, left or lost
    state: &'static str,
    /// True if it is the orchestrator that leads.
    leads: bool,
    host: Option<String>,
    build: String,
    /// Version of the wire protocol that it speaks.
    protocol: u16,
    /// Address of its health server.
    health: Option<String>,
    started_at: Option<DateTime<Utc>>,
    /// Resident memory of its process, in bytes.
    resident_bytes: Option<u64>,
    last_seen: DateTime<Utc>,
    /// Number of volumes that it was given and has not handed back. It may not have heard of them yet, and then none of its slots is in use.
    leases: usize,
    workers: Vec<Worker>,
}

/// Pool of a node.
#[derive(Debug, Serialize, ToSchema)]
pub struct Worker {
    worker: String,
    stage: String,
    /// Names of the networks that it has loaded.
    models: Vec<String>,
    slots: u32,
    in_use: u32,
    /// Number of this pool among all that the node has started, of any stage.
    generation: u64,
    /// Times that the stage's pool was replaced since the node started; absent if the node has not reported it.
    restarts: Option<u64>,
    last_heartbeat: Option<DateTime<Utc>>,
    /// Pages of the volumes that it works on.
    pages: Option<u64>,
    pages_finished: Option<u64>,
}

#[async_trait]
impl Command for List {
    const NAME: [&'static str; 2] = ["nodes", "list"];
    const ACCESS: Access = Access::Read;
    const VERB: Verb = Verb::Get;
    const PATH: &'static str = "/nodes";
    type Answer = Nodes;

    async fn run(self, admin: &Admin) -> Result<Nodes, Refusal> {
        let leader = admin.store.leader().await?;
        let reported = admin.store.actors().await?;
        let now = Utc::now();
        let held = admin.store.leases(now).await?.held;
        let (shown, gone): (Vec<NodeRecord>, Vec<NodeRecord>) = admin
            .store
            .nodes()
            .await?
            .into_iter()
            .partition(|node| self.all || is_current(node, now));
        Ok(Nodes {
            nodes: shown
                .into_iter()
                .map(|node| {
                    // The lock's owner may have died a moment ago, before the database noticed.
                    let leads = node.state.is_there() && leader.as_deref() == Some(node.name.as_str());
                    let reported = reported.iter().find(|reported| reported.node == node.name);
                    Node::new(node, leads, reported, &held)
                })
                .collect(),
            gone: gone.len(),
        })
    }
}

/// Returns whether the node is there, or went so recently that it is still shown.
fn is_current(node: &NodeRecord, now: DateTime<Utc>) -> bool {
    node.state.is_there() || now - node.last_seen <= SHOWN_WHEN_GONE
}

impl Node {
    /// Combines the record of a node with its report of its actors, if there is one, and its part of the leases in force.
    fn new(record: NodeRecord, leads: bool, reported: Option<&NodeActors>, held: &[Held]) -> Self {
        let restarts = |stage: &StageName| {
            reported?
                .actors
                .iter()
                // A pool that was replaced has a number behind its stage's name, and its count is carried by
                // the current one.
                .find(|actor| actor.kind == ActorKind::Pool && actor.name == stage.as_str())
                .map(|pool| pool.restarts)
        };
        let workers = record.workers.into_iter().map(|worker| Worker {
            restarts: restarts(&worker.stage),
            ..Worker::from(worker)
        });
        let own = held.iter().filter(|held| held.worker.node() == record.name);
        Self {
            workers: workers.collect(),
            leases: own.map(|held| held.leases).sum(),
            name: record.name,
            roles: record.roles,
            tags: record.tags,
            state: record.state.as_str(),
            leads,
            host: record.host,
            build: record.build,
            protocol: record.protocol,
            health: record.health,
            started_at: record.started_at,
            resident_bytes: record.resident,
            last_seen: record.last_seen,
        }
    }
}

impl Node {
    fn in_lines(&self, now: DateTime<Utc>) -> String {
        let leads = if self.leads { ", leads" } else { "" };
        let host = self
            .host
            .as_deref()
            .map_or(String::new(), |host| format!(" on {host}"));
        let health = self
            .health
            .as_deref()
            .map_or(String::new(), |health| format!(", answers at {health}"));
        let started = self.started_at.map_or(String::new(), |started| {
            format!(", started {}", away(started, now))
        });
        let memory = self.resident_bytes.map_or(String::new(), |bytes| {
            format!(", {} of memory in use", ByteSize::b(bytes).display().iec())
        });
        let tags = match self.tags[..] {
            [] => String::new(),
            _ => format!(", tagged {}", self.tags.join(" ")),
        };
        let leases = match self.leases {
            0 => String::new(),
            leases => format!(", holds {}", pluralize(leases, "volume")),
        };
        let mut text = format!(
            "{}  {}{host}, {}{leads}, seen {}{started}, build {}{health}{memory}{leases}{tags}",
            self.name,
            self.roles.join(","),
            self.state,
            away(self.last_seen, now),
            self.build,
        );
        for worker in &self.workers {
            text.push_str(&format!("\n  {}", worker.in_a_line()));
        }
        text
    }
}

impl From<WorkerRecord> for Worker {
    fn from(record: WorkerRecord) -> Self {
        Self {
            worker: record.worker.to_string(),
            stage: record.stage.to_string(),
            models: record.models,
            slots: record.slots,
            in_use: record.in_use,
            generation: record.incarnation,
            restarts: None,
            last_heartbeat: record.last_heartbeat,
            pages: record.pages,
            pages_finished: record.pages_finished,
        }
    }
}

impl Answer for Nodes {
    fn text(&self) -> String {
        let now = Utc::now();
        let header = [
            "node",
            "roles",
            "state",
            "seen",
            "host",
            "build",
            "health",
            "slots in use",
        ];
        let rows = self.nodes.iter().map(|node| {
            let leads = if node.leads { " (leads)" } else { "" };
            let tags = match node.tags[..] {
                [] => String::new(),
                _ => format!("\n{}", node.tags.join(" ")),
            };
            let slots: Vec<String> = node.workers.iter().map(Worker::in_a_line).collect();
            [
                node.name.clone(),
                format!("{}{leads}{tags}", node.roles.join(",")),
                node.state.to_owned(),
                away(node.last_seen, now),
                node.host.clone().unwrap_or_default(),
                node.build.clone(),
                node.health.clone().unwrap_or_default(),
                slots.join("\n"),
            ]
        });
        let mut text = table(header, rows, usize::MAX);
        if self.gone > 0 {
            text.push_str(&format!(
                "\nand {} that went more than an hour ago (--all)",
                self.gone
            ));
        }
        text
    }
}

impl Worker {
    fn in_a_line(&self) -> String {
        let pages = self
            .pages_finished
            .zip(self.pages)
            .map_or(String::new(), |(finished, pages)| {
                format!(", page {finished} of {pages}")
            });
        let restarts = match self.restarts {
            None | Some(0) => String::new(),
            Some(restarts) => format!(", replaced {}", pluralize(restarts, "time")),
        };
        let models = match self.models[..] {
            [] => String::new(),
            _ => format!(" ({})", self.models.join(", ")),
        };
        format!(
            "{} {}/{}{pages}{restarts}{models}",
            self.stage, self.in_use, self.slots
        )
    }
}

#[cfg(test)]
mod tests {
    use parkhang_core::domain::testing::{at, node_record, worker_record};
    use parkhang_core::domain::{ActorRecord, ActorState, NodeState};

    use super::*;

    fn node(state: NodeState, last_seen: DateTime<Utc>, workers: Vec<WorkerRecord>) -> NodeRecord {
        NodeRecord {
            last_seen,
            state,
            workers,
            ..node_record("cpu-1.0badcafe")
        }
    }

    #[test]
    fn nodes_that_went_long_ago_are_left_out() {
        let now = at(0);
        let is_shown = |state, minutes| {
            let node = node(state, now - TimeDelta::minutes(minutes), Vec::new());
            is_current(&node, now)
        };
        assert!(
            is_shown(NodeState::Joined, 90),
            "it may be the database that has not heard of it"
        );
        for state in [NodeState::Lost, NodeState::Left] {
            assert!(is_shown(state, 59) && !is_shown(state, 61), "{state:?}");
        }
    }

    #[test]
    fn a_pool_was_replaced_as_often_as_its_node_says_whatever_its_number() {
        let now = at(0);
        let worker = |stage: &str, number| WorkerRecord {
            slots: 2,
            in_use: 1,
            incarnation: number,
            ..worker_record(&format!("cpu-1.0badcafe/{stage}/{number}"), stage)
        };
        let pool = |name: &str, restarts| ActorRecord {
            restarts,
            ..ActorRecord::new(name, ActorKind::Pool, ActorState::Working)
        };
        let reported = NodeActors {
            node: "cpu-1.0badcafe".to_owned(),
            told_at: now,
            actors: vec![pool("reduce", 0), pool("ocr.4", 2), pool("ocr", 2)],
        };
        let lines = |reported| {
            let workers = vec![worker("reduce", 3), worker("ocr", 5)];
            let node = Node::new(node(NodeState::Joined, now, workers), false, reported, &[]);
            let lines = node.workers.iter().map(Worker::in_a_line);
            lines.collect::<Vec<_>>()
        };
        assert_eq!(
            lines(Some(&reported)),
            ["reduce 1/2", "ocr 1/2, replaced 2 times"]
        );
        assert_eq!(lines(None), ["reduce 1/2", "ocr 1/2"]);
    }
}
