//! `services`: other people's services that do stages or read pages.

use std::collections::BTreeMap;

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use clap::Args;
use parkhang_core::domain::{Amount, ServiceRecord, Spending, Usage};
use parkhang_state::{PostgresStore, ServiceStore, ServiceWork, StateError, StateStore};
use serde::Serialize;
use utoipa::ToSchema;

use super::command::{Access, Answer, Command, Verb};
use super::text::{lasting, table};
use super::{Admin, Refusal};
use crate::config::{ClusterConfig, ConfiguredService, ServiceKind};

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
    /// Jobs of tasks that it has in hand; absent for services that read pages.
    pub in_flight: Option<u64>,
    /// Jobs that it may have at once, or requests of each node.
    max_in_flight: u32,
    /// Jobs that it has taken in the last minute.
    submits_a_minute: u64,
    /// Jobs that it has taken so far.
    submits: u64,
    /// Failures of submits and of jobs so far, by category: access, answer, busy, connection, dns, failed, lost, refused, request, server or timeout.
    errors: BTreeMap<String, u64>,
    /// working, in_doubt after a failure, or left_alone for a while; absent where no leader has given it work.
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
    /// Cost of these.
    #[schema(value_type = String)]
    pub spent: Amount,
    /// Word for the currency.
    currency: String,
}

impl ServiceLine {
    fn new(
        (name, configured): (&String, &ConfiguredService),
        config: &ClusterConfig,
        known: &Known,
        now: DateTime<Utc>,
    ) -> Self {
        let takes_jobs = configured.kind == ServiceKind::Jobs;
        let work = known.work.get(name).cloned().unwrap_or_default();
        let record = known.records.iter().find(|record| record.name == *name);
        let left_alone_until = record
            .and_then(|record| record.paused_until)
            .filter(|until| *until > now);
        let is_in_doubt = record.is_some_and(|record| record.failures > 0);
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
            in_flight: takes_jobs.then_some(work.in_flight),
            max_in_flight: configured.max_in_flight,
            submits_a_minute: work.taken_lately,
            submits: record.map_or(0, |record| record.submits),
            errors: record.map(|record| record.errors.clone()).unwrap_or_default(),
            state: record.map(|_| match (left_alone_until, is_in_doubt) {
                (Some(_), _) => "left_alone",
                (None, true) => "in_doubt",
                (None, false) => "working",
            }),
            left_alone_until,
            error: record
                .and_then(|record| record.error.clone())
                .filter(|_| is_in_doubt),
            oldest: work.oldest,
            calls: usage.calls,
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens,
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

    fn row(&self, now: DateTime<Utc>) -> [String; 10] {
        let in_flight = self
            .in_flight
            .map_or(String::new(), |jobs| format!("{jobs}/{}", self.max_in_flight));
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
        for alarm in self.services.iter().filter_map(|service| service.alarm(now)) {
            text.push_str(&format!("\n{alarm}"));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use parkhang_core::domain::JobId;
    use parkhang_core::domain::testing::at;

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
}
