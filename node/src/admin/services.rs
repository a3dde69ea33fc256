//! `services`: other people's services that do stages or read pages.

use std::collections::BTreeMap;

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use clap::Args;
use parkhang_core::domain::{Amount, EngineRecord, NodeRecord, ServiceRecord, Spending, Usage};
use parkhang_state::{PostgresStore, ServiceStore, ServiceWork, StateError, StateStore};
use serde::Serialize;
use utoipa::ToSchema;

use super::command::{Access, Answer, Command, Verb};
use super::text::{lasting, table};
use super::{Admin, Refusal};
use crate::config::{ClusterConfig, ConfiguredService};

/// Time before now whose submits are the rate.
const LATELY: TimeDelta = TimeDelta::minutes(1);

/// Service of the configuration, and how it is doing.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ServiceLine {
    pub service: String,
    /// jobs, openai or google_vision
    kind: &'static str,
    /// Stages of pipelines that it does.
    stages: Vec<String>,
    /// Jobs of tasks that it has in hand, or requests under way from all nodes.
    pub in_flight: u64,
    /// Jobs that it may have at once, or requests of all nodes together.
    max_in_flight: u32,
    /// Jobs that it has taken in the last minute, or requests that it has answered.
    submits_a_minute: u64,
    /// Jobs that it has taken so far, or requests that it has answered to nodes that are there since these began.
    submits: u64,
    /// Failures of submits and of jobs so far, or of these requests, by category: access, answer, busy, connection, dns, failed, lost, refused, request, server or timeout.
    errors: BTreeMap<String, u64>,
    /// working, in_doubt after a failure, or left_alone for a while, by the node that it treats worst; absent where nobody has given it work.
    pub state: Option<&'static str>,
    /// Time until which it is left alone.
    left_alone_until: Option<DateTime<Utc>>,
    /// Its last failure, where it is left alone or in doubt.
    error: Option<String>,
    /// Time since which it has the oldest of the jobs in hand.
    pub oldest: Option<DateTime<Utc>>,
    /// Jobs, or pages, that were paid for, of all jobs that are there.
    calls: u64,
    input_tokens: u64,
    output_tokens: u64,
    /// Nodes that ask it while their stages wait.
    nodes: Vec<AskingNode>,
    /// Cost of these.
    #[schema(value_type = String)]
    pub spent: Amount,
    /// Word for the currency.
    currency: String,
}

/// Node that asks a service, as it found it last.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct AskingNode {
    node: String,
    /// Requests under way.
    in_flight: u64,
    answers_a_minute: u64,
    /// Requests that were answered since the node began.
    answers: u64,
    /// Failures since then, by category.
    errors: BTreeMap<String, u64>,
    /// working, in_doubt or left_alone
    state: &'static str,
    left_alone_until: Option<DateTime<Utc>>,
    error: Option<String>,
}

impl AskingNode {
    fn new(node: &NodeRecord, engine: &EngineRecord, now: DateTime<Utc>) -> Self {
        let left_alone_until = engine.paused_until.filter(|until| *until > now);
        Self {
            node: node.name.clone(),
            in_flight: engine.in_flight,
            answers_a_minute: engine.answers_lately,
            answers: engine.answers,
            errors: engine.errors.clone(),
            state: state_of(left_alone_until, engine.failures),
            left_alone_until,
            error: engine.error.clone(),
        }
    }
}

/// Word for how a service is doing.
const fn state_of(left_alone_until: Option<DateTime<Utc>>, failures: u32) -> &'static str {
    match (left_alone_until, failures) {
        (Some(_), _) => "left_alone",
        (None, 1..) => "in_doubt",
        (None, 0) => "working",
    }
}

/// Errors of several, by category.
fn summed<'a>(errors: impl IntoIterator<Item = &'a BTreeMap<String, u64>>) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for (category, number) in errors.into_iter().flatten() {
        *sums.entry(category.clone()).or_default() += number;
    }
    sums
}

impl ServiceLine {
    fn new(
        (name, configured): (&String, &ConfiguredService),
        config: &ClusterConfig,
        known: &Known,
        now: DateTime<Utc>,
    ) -> Self {
        let work = known.work.get(name).cloned().unwrap_or_default();
        let record = known.records.iter().find(|record| record.name == *name);
        let left_alone_until = record
            .and_then(|record| record.paused_until)
            .filter(|until| *until > now);
        let is_in_doubt = record.is_some_and(|record| record.failures > 0);
        let there = known.nodes.iter().filter(|node| node.state.is_there());
        let asking = there.flat_map(|node| node.engines.iter().map(move |engine| (node, engine)));
        let nodes: Vec<AskingNode> = asking
            .filter(|(_, engine)| engine.service == *name)
            .map(|(node, engine)| AskingNode::new(node, engine, now))
            .collect();
        // The one that it treats worst: left alone for longest, or in doubt.
        let worst = nodes
            .iter()
            .max_by_key(|node| (node.left_alone_until, node.state == "in_doubt"));
        let of_leader = record.map(|record| state_of(left_alone_until, record.failures));
        let from_nodes = |of: fn(&AskingNode) -> u64| nodes.iter().map(of).sum::<u64>();
        let spending: Vec<&Spending> = known
            .spending
            .iter()
            .filter(|spending| spending.service == *name)
            .collect();
        let usage = spending
            .iter()
            .fold(Usage::default(), |sum, spending| sum.plus(spending.usage));
        let stages = config.stage.iter().filter(|(_, stage)| stage.service == *name);
        Self {
            service: name.clone(),
            kind: configured.kind.as_str(),
            stages: stages.map(|(stage, _)| stage.clone()).collect(),
            in_flight: work.in_flight + from_nodes(|node| node.in_flight),
            max_in_flight: configured.max_in_flight,
            submits_a_minute: work.taken_lately + from_nodes(|node| node.answers_a_minute),
            submits: record.map_or(0, |record| record.submits) + from_nodes(|node| node.answers),
            errors: summed(
                record
                    .map(|record| &record.errors)
                    .into_iter()
                    .chain(nodes.iter().map(|node| &node.errors)),
            ),
            state: of_leader
                .filter(|state| *state != "working")
                .or(worst.map(|node| node.state))
                .or(of_leader),
            left_alone_until: left_alone_until.max(worst.and_then(|node| node.left_alone_until)),
            error: record
                .and_then(|record| record.error.clone())
                .filter(|_| is_in_doubt)
                .or_else(|| worst.and_then(|node| node.error.clone())),
            oldest: work.oldest,
            calls: usage.calls,
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens,
            nodes,
            spent: Spending::total(spending),
            currency: config.costs.currency.clone(),
        }
    }

    /// Alarm about a service that is left alone. It may have nothing in hand then, as it is given nothing.
    pub fn alarm(&self, now: DateTime<Utc>) -> Option<String> {
        let until = self.left_alone_until?;
        let error = self
            .error
            .as_ref()
            .map_or(String::new(), |error| format!(": {error}"));
        Some(format!(
            "service {} is left alone for {} more{error}",
            self.service,
            lasting(until - now)
        ))
    }

    /// A line for each node that the service does not answer as it should.
    fn node_lines(&self, now: DateTime<Utc>) -> impl Iterator<Item = String> {
        let line = move |node: &AskingNode| {
            let reason = node
                .error
                .as_ref()
                .map_or(String::new(), |error| format!(": {error}"));
            let state = match node.left_alone_until {
                Some(until) => format!("left alone for {} more", lasting(until - now)),
                None => node.state.replace('_', " "),
            };
            format!("  {} from {}: {state}{reason}", self.service, node.node)
        };
        let troubled = self.nodes.iter().filter(|node| node.state != "working");
        troubled.map(line)
    }

    fn row(&self, now: DateTime<Utc>) -> [String; 10] {
        let in_flight = format!("{}/{}", self.in_flight, self.max_in_flight);
        let state = match (self.state, self.left_alone_until) {
            (_, Some(until)) => format!("left alone for {}", lasting(until - now)),
            (Some(state), None) => state.replace('_', " "),
            (None, None) => String::new(),
        };
        [
            self.service.clone(),
            self.kind.to_owned(),
            self.stages.join(", "),
            state,
            in_flight,
            self.submits_a_minute.to_string(),
            self.submits.to_string(),
            self.errors.values().sum::<u64>().to_string(),
            self.oldest.map_or(String::new(), |oldest| lasting(now - oldest)),
            format!("{} {}", self.spent, self.currency).trim_end().to_owned(),
        ]
    }
}

/// Records of services, read at one time.
struct Known {
    work: BTreeMap<String, ServiceWork>,
    records: Vec<ServiceRecord>,
    spending: Vec<Spending>,
    nodes: Vec<NodeRecord>,
}

/// Returns the services of the configuration, by name.
///
/// # Errors
///
/// If the database cannot be read.
pub async fn service_lines(
    store: &PostgresStore,
    config: &ClusterConfig,
    now: DateTime<Utc>,
) -> Result<Vec<ServiceLine>, StateError> {
    if config.service.is_empty() {
        return Ok(Vec::new());
    }
    let known = Known {
        work: store.work_of_services(now - LATELY).await?,
        records: store.services().await?,
        spending: store.spending(None).await?,
        nodes: store.nodes().await?,
    };
    let services = config.service.iter();
    Ok(services
        .map(|service| ServiceLine::new(service, config, &known, now))
        .collect())
}

/// Formats services as a table.
pub fn in_a_table(services: &[ServiceLine], now: DateTime<Utc>) -> String {
    let header = [
        "service",
        "kind",
        "does",
        "state",
        "in flight",
        "a minute",
        "taken",
        "errors",
        "oldest",
        "spent",
    ];
    table(header, services.iter().map(|service| service.row(now)), 4)
}

/// List the services of the configuration, what they have in hand, how they are doing, and what they cost.
#[derive(Debug, Args)]
pub struct List {}

#[derive(Debug, Serialize, ToSchema)]
pub struct Services {
    services: Vec<ServiceLine>,
}

#[async_trait]
impl Command for List {
    const NAME: [&'static str; 2] = ["services", "list"];
    const ACCESS: Access = Access::Read;
    const VERB: Verb = Verb::Get;
    const PATH: &'static str = "/services";
    type Answer = Services;

    async fn run(self, admin: &Admin) -> Result<Services, Refusal> {
        let services = service_lines(&admin.store, &admin.loaded.config, Utc::now()).await?;
        Ok(Services { services })
    }
}

impl Answer for Services {
    fn text(&self) -> String {
        if self.services.is_empty() {
            return "the configuration has no service: a section [service.NAME] makes one, see docs/services.md"
                .to_owned();
        }
        let now = Utc::now();
        let mut text = in_a_table(&self.services, now);
        for service in &self.services {
            for line in service.alarm(now).into_iter().chain(service.node_lines(now)) {
                text.push_str(&format!("\n{line}"));
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use parkhang_core::domain::testing::{at, node_record};
    use parkhang_core::domain::{JobId, NodeState};

    use super::*;
    use crate::config::{BucketArgs, Loaded};

    #[test]
    fn a_service_is_shown_with_its_work_its_health_and_its_cost() {
        let mut config = Loaded::apart(&BucketArgs::default()).unwrap().config.clone();
        config.costs.currency = "EUR".to_owned();
        let llm = ConfiguredService::default();
        config.service.insert("llm".to_owned(), llm);
        let spending = |job: i64, cost: &str| Spending {
            job: JobId(job),
            service: "llm".to_owned(),
            usage: Usage::CALL,
            cost: cost.parse().unwrap(),
        };
        let record = ServiceRecord {
            name: "llm".to_owned(),
            failures: 2,
            paused_until: Some(at(30)),
            error: Some("HTTP 503".to_owned()),
            submits: 9,
            errors: [("server".to_owned(), 2), ("failed".to_owned(), 1)].into(),
            told_at: at(0),
        };
        let known = Known {
            work: [(
                "llm".to_owned(),
                ServiceWork {
                    in_flight: 3,
                    oldest: Some(at(-60)),
                    taken_lately: 4,
                },
            )]
            .into(),
            records: vec![record],
            spending: vec![spending(1, "0.1"), spending(2, "0.25")],
            nodes: Vec::new(),
        };
        let service = config.service.iter().next().unwrap();
        let line = ServiceLine::new(service, &config, &known, at(0));
        let cells = [
            "llm",
            "jobs",
            "",
            "left alone for 30s",
            "3/100",
            "4",
            "9",
            "3",
            "1m",
            "0.35 EUR",
        ];
        assert_eq!(line.row(at(0)), cells);
        let alarm = "service llm is left alone for 30s more: HTTP 503";
        assert_eq!(line.alarm(at(0)).as_deref(), Some(alarm));
        let later = ServiceLine::new(service, &config, &known, at(31));
        assert_eq!((later.state, later.alarm(at(31))), (Some("in_doubt"), None));
    }

    /// Rows: 84.
    #[test]
    fn a_service_that_nodes_ask_is_shown_as_they_find_it() {
        let mut config = Loaded::apart(&BucketArgs::default()).unwrap().config.clone();
        let vision = ConfiguredService {
            kind: crate::config::ServiceKind::GoogleVision,
            ..ConfiguredService::default()
        };
        config.service.insert("vision".to_owned(), vision);
        let node = |name: &str, state, paused_until: Option<i64>| {
            let engine = EngineRecord {
                service: "vision".to_owned(),
                in_flight: 3,
                answers_lately: 40,
                answers: 100,
                errors: [("busy".to_owned(), 1)].into(),
                failures: u32::from(paused_until.is_some()),
                paused_until: paused_until.map(at),
                error: paused_until.map(|_| "HTTP 429".to_owned()),
            };
            NodeRecord {
                state,
                engines: vec![engine],
                ..node_record(name)
            }
        };
        let known = Known {
            work: BTreeMap::new(),
            records: Vec::new(),
            spending: Vec::new(),
            nodes: vec![
                node("gpu-1", NodeState::Joined, None),
                node("gpu-2", NodeState::Draining, Some(30)),
                node("gpu-3", NodeState::Lost, Some(900)),
            ],
        };
        let service = config.service.iter().next().unwrap();
        let line = ServiceLine::new(service, &config, &known, at(0));
        let cells = [
            "vision",
            "google_vision",
            "",
            "left alone for 30s",
            "6/100",
            "80",
            "200",
            "2",
            "",
            "0.00",
        ];
        assert_eq!(line.row(at(0)), cells);
        assert_eq!(
            line.alarm(at(0)).as_deref(),
            Some("service vision is left alone for 30s more: HTTP 429")
        );
        let lines: Vec<String> = line.node_lines(at(0)).collect();
        assert_eq!(lines, ["  vision from gpu-2: left alone for 30s more: HTTP 429"]);
        let states: Vec<&str> = line.nodes.iter().map(|node| node.state).collect();
        assert_eq!(states, ["working", "left_alone"]);
        let nobody = Known {
            nodes: Vec::new(),
            ..known
        };
        assert_eq!(ServiceLine::new(service, &config, &nobody, at(0)).state, None);
    }
}
