//! Commands about the actors of the cluster.

use std::collections::{HashMap, HashSet};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use clap::Args;
use parkhang_core::domain::{ActorRecord, NodeCommand, NodeRecord, PageAtWork};
use parkhang_state::StateStore;
use serde::Serialize;
use utoipa::ToSchema;

use super::command::{Access, Answer, Command, Verb};
use super::orders::{Executed, find_node, give};
use super::text::away;
use super::{Admin, Refusal};

/// Show the actors of all nodes, or of one, as of each node's last heartbeat.
#[derive(Debug, Args)]
pub struct Tree {
    /// Show only this node: its name, or a unique prefix of it.
    #[arg(long, value_name = "NODE")]
    node: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Actors {
    nodes: Vec<NodeTree>,
}

/// The actors of a node.
#[derive(Debug, Serialize, ToSchema)]
pub struct NodeTree {
    node: String,
    /// joined or draining
    state: &'static str,
    roles: Vec<String>,
    /// Time of the report; absent if there has been none.
    told_at: Option<DateTime<Utc>>,
    /// Parents before their children.
    actors: Vec<Actor>,
}

/// An actor, or a thread that works as one.
#[derive(Debug, Serialize, ToSchema)]
pub struct Actor {
    /// Name by which commands address it, unique within its node.
    name: String,
    /// Name of the actor that watches over it.
    parent: Option<String>,
    /// supervisor, pool, worker, device, uplink, dispatcher, candidate, orchestrator or mirror
    kind: &'static str,
    /// idle, working, reporting, draining, restarting or silent
    state: &'static str,
    since: Option<DateTime<Utc>>,
    /// Times that it was replaced since the node started.
    restarts: u64,
    /// Pool: its number among the pools that the node has started. Worker: the fencing number of its lease.
    generation: Option<i64>,
    /// Slots of a pool: those that hold a lease, and all of them.
    slots: Option<Level>,
    /// Messages that wait for it, if it has a queue of its own.
    inbox: Option<Level>,
    job: Option<String>,
    volume: Option<String>,
    attempt: Option<i32>,
    /// Pages of the volume, once they are known.
    pages: Option<u64>,
    pages_finished: Option<u64>,
    /// Pages that are worked on, or the first of them: those that have been at their step for longest.
    at_work: Vec<PageInHand>,
    /// Names of the networks that it keeps loaded.
    models: Vec<String>,
    /// Actors below it that the node's report left out.
    left_out: u64,
}

/// A page that is worked on.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct PageInHand {
    /// Name of its image.
    page: String,
    /// fetching, computing, inferring or storing
    step: &'static str,
    /// Time at which the step began.
    since: DateTime<Utc>,
}

/// Part of a capacity that is in use.
#[derive(Debug, Serialize, ToSchema)]
pub struct Level {
    used: u64,
    /// Absent where there is no bound.
    capacity: Option<u64>,
}

#[async_trait]
impl Command for Tree {
    const NAME: [&'static str; 2] = ["actors", "tree"];
    const ACCESS: Access = Access::Read;
    const VERB: Verb = Verb::Get;
    const PATH: &'static str = "/actors";
    type Answer = Actors;

    async fn run(self, admin: &Admin) -> Result<Actors, Refusal> {
        let nodes: Vec<NodeRecord> = match &self.node {
            Some(name) => vec![find_node(admin, name).await?],
            None => admin
                .store
                .nodes()
                .await?
                .into_iter()
                // Nodes that are gone stay recorded for days, and have no actors.
                .filter(|node| node.state.is_there())
                .collect(),
        };
        let mut known = admin.store.actors().await?;
        let nodes = nodes.into_iter().map(|node| {
            let reported = known
                .iter()
                .position(|reported| reported.node == node.name)
                .map(|index| known.swap_remove(index));
            NodeTree {
                state: node.state.as_str(),
                roles: node.roles,
                told_at: reported.as_ref().map(|reported| reported.told_at),
                actors: reported.map_or_else(Vec::new, |reported| Actor::all(reported.actors)),
                node: node.name,
            }
        });
        Ok(Actors {
            nodes: nodes.collect(),
        })
    }
}

/// Replace an actor: a pool, one of its workers, or the thread that owns its network.
///
/// Its leases are released without charging a try, and the volumes continue from their last checkpoints. A worker is replaced in
/// its slot.
#[derive(Debug, Args)]
pub struct Restart {
    /// Node of the actor: its name, or a unique prefix of it.
    #[arg(value_name = "NODE")]
    node: String,
    /// Name of the actor in the tree, such as ocr or ocr/press/W1-I1.
    #[arg(value_name = "ACTOR")]
    actor: String,
}

#[async_trait]
impl Command for Restart {
    const NAME: [&'static str; 2] = ["actors", "restart"];
    const ACCESS: Access = Access::Operate;
    const VERB: Verb = Verb::Post;
    const PATH: &'static str = "/nodes/{node}/restart";
    type Answer = Executed;

    async fn run(self, admin: &Admin) -> Result<Executed, Refusal> {
        give(admin, &self.node, NodeCommand::Restart { actor: self.actor }).await
    }
}

impl Actor {
    pub fn all(records: Vec<ActorRecord>) -> Vec<Self> {
        records.into_iter().map(Self::from).collect()
    }

    fn in_a_line(&self, now: DateTime<Utc>) -> String {
        let mut line = format!("{}  {}, {}", self.name, self.kind, self.state);
        let mut say = |text: String| {
            line.push_str(", ");
            line.push_str(&text);
        };
        if let Some(slots) = &self.slots {
            say(format!("{} slots in use", slots.shown()));
        }
        if let Some(inbox) = &self.inbox {
            say(format!("{} waiting", inbox.shown()));
        }
        if let Some((finished, pages)) = self.pages_finished.zip(self.pages) {
            say(format!("page {finished} of {pages}"));
        }
        if let Some(attempt) = self.attempt {
            let generation = self.generation.unwrap_or_default();
            say(format!("attempt {attempt}, generation {generation}"));
        } else if let Some(generation) = self.generation {
            say(format!("generation {generation}"));
        }
        match self.restarts {
            0 => {}
            1 => say("1 restart".to_owned()),
            many => say(format!("{many} restarts")),
        }
        if !self.models.is_empty() {
            say(self.models.join(", "));
        }
        if let Some(since) = self.since {
            let began = away(since, now);
            say(format!("since {}", began.trim_end_matches(" ago")));
        }
        if self.left_out > 0 {
            say(format!("{} more below it", self.left_out));
        }
        line
    }
}

impl PageInHand {
    pub fn all(pages: Vec<PageAtWork>) -> Vec<Self> {
        pages
            .into_iter()
            .map(|page| Self {
                page: page.page,
                step: page.step.as_str(),
                since: page.since,
            })
            .collect()
    }

    /// Describes the page with its step and the time that it has been at it.
    pub fn in_a_line(&self, now: DateTime<Utc>) -> String {
        let lasts = away(self.since, now);
        format!(
            "{}  {} for {}",
            self.page,
            self.step,
            lasts.trim_end_matches(" ago")
        )
    }
}

impl Level {
    fn shown(&self) -> String {
        match self.capacity {
            Some(capacity) => format!("{} of {capacity}", self.used),
            None => self.used.to_string(),
        }
    }
}

impl From<ActorRecord> for Actor {
    fn from(record: ActorRecord) -> Self {
        let level = |level: parkhang_core::domain::Level| Level {
            used: level.used,
            capacity: level.capacity,
        };
        let pool = record
            .incarnation
            .and_then(|generation| i64::try_from(generation).ok());
        let work = record.work.as_ref();
        Self {
            parent: record.parent,
            kind: record.kind.as_str(),
            state: record.state.as_str(),
            since: record.since,
            restarts: record.restarts,
            // Workers have the generation of their lease, pools one of their own; a record never has both.
            generation: work.map(|work| work.generation.0).or(pool),
            slots: record.slots.map(level),
            inbox: record.inbox.map(level),
            job: work.map(|work| work.job.to_string()),
            volume: work.map(|work| work.volume.to_string()),
            attempt: work.map(|work| work.attempt.0),
            pages: work.and_then(|work| work.pages),
            pages_finished: work.and_then(|work| work.pages_finished),
            at_work: PageInHand::all(record.work.map_or_else(Vec::new, |work| work.at_work)),
            models: record.models.into_iter().map(|model| model.name).collect(),
            left_out: record.left_out,
            name: record.name,
        }
    }
}

/// Deepest level that has an indentation of its own, several times as deep as the actors of a node go.
const DEEPEST: usize = 16;

/// Lists the actors, one a line, each indented below its parent. One whose parent is not in the report is a root.
///
/// A report comes from another node, and its names may form cycles, or be those of several actors. So every actor is listed once at
/// most, and none by a recursion.
pub fn tree(actors: &[Actor], now: DateTime<Utc>) -> String {
    let known: HashSet<&str> = actors.iter().map(|actor| actor.name.as_str()).collect();
    let mut below: HashMap<Option<&str>, Vec<&Actor>> = HashMap::new();
    // The last is entered first, as it is also taken last from the stack.
    for actor in actors.iter().rev() {
        let parent = actor.parent.as_deref().filter(|parent| known.contains(parent));
        below.entry(parent).or_default().push(actor);
    }
    let mut lines = Vec::new();
    let mut next = Vec::new();
    // Taken out of the map, so that a second actor of the name has none below it.
    let mut enter = |next: &mut Vec<_>, parent, depth| {
        let children = below.remove(&parent).unwrap_or_default();
        next.extend(children.into_iter().map(|child| (child, depth)));
    };
    enter(&mut next, None, 1);
    while let Some((actor, depth)) = next.pop() {
        let indent = |depth: usize| "  ".repeat(depth.min(DEEPEST));
        lines.push(format!("{}{}", indent(depth), actor.in_a_line(now)));
        for page in &actor.at_work {
            lines.push(format!("{}{}", indent(depth + 1), page.in_a_line(now)));
        }
        enter(&mut next, Some(actor.name.as_str()), depth + 1);
    }
    lines.join("\n")
}

impl Answer for Actors {
    fn text(&self) -> String {
        let now = Utc::now();
        let nodes = self.nodes.iter().map(|node| {
            let reported = match node.told_at {
                Some(reported) => format!("reported {}", away(reported, now)),
                None => "has not reported its actors yet".to_owned(),
            };
            let head = format!(
                "{}  {}, {}, {reported}",
                node.node,
                node.roles.join(","),
                node.state
            );
            if node.actors.is_empty() {
                head
            } else {
                format!("{head}\n{}", tree(&node.actors, now))
            }
        });
        nodes.collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use parkhang_core::domain::{ActorKind, ActorState, ActorWork, Attempt, Generation, JobKey, PageStep};

    use super::*;
    use parkhang_core::domain::testing::at;

    #[test]
    fn actors_stand_below_those_that_watch_over_them() {
        let now = at(0);
        let record = |name: &str, parent: Option<&str>, kind, state| ActorRecord {
            parent: parent.map(str::to_owned),
            ..ActorRecord::new(name, kind, state)
        };
        let supervisor = record("supervisor", None, ActorKind::Supervisor, ActorState::Working);
        let pool = ActorRecord {
            slots: Some(parkhang_core::domain::Level {
                used: 1,
                capacity: Some(2),
            }),
            incarnation: Some(3),
            restarts: 1,
            since: Some(now - chrono::TimeDelta::seconds(90)),
            ..record("ocr", Some("supervisor"), ActorKind::Pool, ActorState::Working)
        };
        let device = ActorRecord {
            inbox: Some(parkhang_core::domain::Level {
                used: 4,
                capacity: Some(4),
            }),
            ..record(
                "ocr/recognition",
                Some("ocr"),
                ActorKind::Device,
                ActorState::Working,
            )
        };
        let worker = ActorRecord {
            work: Some(ActorWork {
                job: JobKey::new("press").unwrap(),
                volume: "W1-I1".parse().unwrap(),
                attempt: Attempt(1),
                generation: Generation(2),
                pages: Some(10),
                pages_finished: Some(3),
                at_work: vec![PageAtWork {
                    page: "4.tif".to_owned(),
                    step: PageStep::Inferring,
                    since: now - chrono::TimeDelta::seconds(70),
                }],
            }),
            ..record(
                "ocr/press/W1-I1",
                Some("ocr"),
                ActorKind::Worker,
                ActorState::Working,
            )
        };
        let uplink = record("uplink", None, ActorKind::Uplink, ActorState::Idle);
        let actors = Actor::all(vec![supervisor, pool, device, worker, uplink]);
        assert_eq!(
            tree(&actors, now),
            "  supervisor  supervisor, working\n    \
             ocr  pool, working, 1 of 2 slots in use, generation 3, 1 restart, since 1m 30s\n      \
             ocr/recognition  device, working, 4 of 4 waiting\n      \
             ocr/press/W1-I1  worker, working, page 3 of 10, attempt 1, generation 2\n        \
             4.tif  inferring for 1m 10s\n  \
             uplink  uplink, idle"
        );
    }

    #[test]
    fn a_report_is_no_longer_as_a_tree_whatever_its_names_are() {
        let record = |name: &str, parent: Option<&str>| ActorRecord {
            parent: parent.map(str::to_owned),
            ..ActorRecord::new(name, ActorKind::Pool, ActorState::Idle)
        };
        let mut records = vec![record("ocr", None)];
        records.extend((0..40).map(|_| record("ocr", Some("ocr"))));
        let deep = |number: usize| record(&format!("d{number}"), Some(&format!("d{}", number + 1)));
        records.extend((0..100_000).map(deep));
        // A cycle has no root, and so no place.
        records.extend([record("a", Some("b")), record("b", Some("a"))]);
        let actors = Actor::all(records);
        assert_eq!(tree(&actors, at(0)).lines().count(), 41 + 100_000);
    }
}
