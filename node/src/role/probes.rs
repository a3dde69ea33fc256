//! Readiness of nodes by role.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use async_trait::async_trait;
use parkhang_actors::cluster::RemoteOrchestrator;
use parkhang_actors::source::{Dispatcher, SourceHealth, StageQueues};
use parkhang_actors::supervisor::StagesOutOfOrder;
use parkhang_core::domain::{Epoch, StageName};
use parkhang_state::{PostgresStore, StateError};
use serde_json::json;
use tokio::sync::watch;
use tracing::debug;

use crate::http::{Probe, Readiness};

/// Reason why a node is not ready some of whose queues are missing.
pub const QUEUES_MISSING: &str = "queues of stages are missing, and the others are worked on; `node queue create` makes those that are missing";

/// Timeout of the database.
const PING_LIMIT: Duration = Duration::from_secs(1);

/// Readiness of an orchestrator: the database answers. A standby is as ready as the leader.
#[derive(Debug)]
pub struct OrchestratorProbe {
    pub store: PostgresStore,
    /// Epoch in which this process leads.
    pub leads: watch::Receiver<Option<Epoch>>,
    /// Stages with waiting work that no node runs.
    pub unserved: watch::Receiver<BTreeSet<StageName>>,
}

#[async_trait]
impl Probe for OrchestratorProbe {
    async fn readiness(&self) -> Readiness {
        let epoch = self.leads.borrow().map(|epoch| epoch.0);
        let reason = (!answers(self.store.ping()).await).then_some("the database does not answer");
        Readiness {
            ready: reason.is_none(),
            details: json!({
                "role": "orchestrator",
                "leads": epoch.is_some(),
                "epoch": epoch,
                "deserted_stages": *self.unserved.borrow(),
                "reason": reason,
            }),
        }
    }
}

/// Returns whether a database answers that is asked for nothing else.
pub async fn answers(ping: impl Future<Output = Result<(), StateError>>) -> bool {
    // A probe must answer in bounded time, which a stuck connection does not.
    let answer = tokio::time::timeout(PING_LIMIT, ping).await;
    if let Ok(Err(error)) = &answer {
        // Only for the log: the error may name users and hosts, and anybody may ask over HTTP.
        debug!(%error, "the database does not answer");
    }
    matches!(answer, Ok(Ok(())))
}

/// Readiness of a worker: it is connected to a leader, and all its stages can run.
#[derive(Debug)]
pub struct WorkerProbe {
    pub roles: String,
    pub orchestrator: RemoteOrchestrator,
    pub stages: watch::Receiver<StagesOutOfOrder>,
}

#[async_trait]
impl Probe for WorkerProbe {
    async fn readiness(&self) -> Readiness {
        let in_touch = self.orchestrator.has_leader();
        let reason = (!in_touch).then_some("no orchestrator that leads is in touch");
        of_worker(&self.roles, reason, &self.stages)
    }
}

/// Returns the readiness of a node that runs stages. `reason` is why it gets no work, if it gets none.
fn of_worker(
    roles: &str,
    reason: Option<&'static str>,
    stages: &watch::Receiver<StagesOutOfOrder>,
) -> Readiness {
    let stages = stages.borrow();
    let out_of_order = (!stages.is_empty()).then_some("stages are out of order; the log says why");
    // A node without a link is not ready whatever its stages say, so that reason is told first.
    let reason = reason.or(out_of_order);
    let states = stages.iter().map(|(stage, state)| {
        let state = if state.out_of_service {
            "out of service"
        } else {
            "looked at again"
        };
        (stage.to_string(), state)
    });
    Readiness {
        ready: reason.is_none(),
        details: json!({
            "role": roles,
            "out_of_order": states.collect::<BTreeMap<_, _>>(),
            "reason": reason,
        }),
    }
}

/// Readiness of a node that takes its work itself: the source of work answers. The cause of a failure is only in the log: it may name
/// hosts and users, and anybody may ask over HTTP.
#[derive(Debug)]
pub struct PullProbe {
    pub roles: String,
    pub dispatcher: Dispatcher,
    pub stages: watch::Receiver<StagesOutOfOrder>,
    /// Queues that it takes work from, if it does.
    pub queues: Option<StageQueues>,
}

#[async_trait]
impl Probe for PullProbe {
    async fn readiness(&self) -> Readiness {
        let reason = match self.dispatcher.health() {
            SourceHealth::Unknown => Some("the source of work has not answered yet"),
            SourceHealth::Fails => Some("the source of work does not answer; the log says why"),
            SourceHealth::Answers => None,
        };
        let missing = self.queues.as_ref().map(StageQueues::missing);
        let is_missing = missing.as_ref().is_some_and(|stages| !stages.is_empty());
        let reason = reason.or(is_missing.then_some(QUEUES_MISSING));
        let mut readiness = of_worker(&self.roles, reason, &self.stages);
        if let Some(missing) = missing {
            readiness.details["without_queue"] = json!(missing);
        }
        readiness
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use chrono::TimeDelta;
    use parkhang_actors::source::{ShardOptions, Shards, SystemClock};
    use parkhang_actors::supervisor::OutOfOrder;
    use parkhang_store::storage::MemoryArtifacts;

    use super::*;
    use parkhang_core::domain::testing::stage;

    #[tokio::test]
    async fn a_node_is_not_ready_before_its_source_has_answered() {
        let options = ShardOptions {
            worker: "node".to_owned(),
            jobs: Vec::new(),
            lease: TimeDelta::seconds(60),
            max_interruptions: 5,
        };
        let source = Shards::new(Arc::new(MemoryArtifacts::new()), Arc::new(SystemClock), options);
        // Without a pool there is nothing to ask for.
        let dispatcher = Dispatcher::start(Arc::new(source), Duration::from_millis(1))
            .await
            .unwrap();
        let probe = PullProbe {
            roles: "cpu".to_owned(),
            dispatcher,
            stages: watch::channel(StagesOutOfOrder::new()).1,
            queues: None,
        };
        let readiness = probe.readiness().await;
        assert!(!readiness.ready, "{readiness:?}");
        assert_eq!(
            readiness.details["reason"],
            "the source of work has not answered yet"
        );
    }

    #[test]
    fn a_node_with_a_stage_out_of_order_is_not_ready() {
        let state = |reason: &str, out_of_service| OutOfOrder {
            reason: reason.to_owned(),
            out_of_service,
        };
        let stages = StagesOutOfOrder::from([
            (stage("ocr"), state("device lost", true)),
            (stage("reduce"), state("/secret/place is full", false)),
        ]);
        let (_sender, stages) = watch::channel(stages);
        let readiness = of_worker("gpu", None, &stages);
        assert!(!readiness.ready);
        assert_eq!(
            readiness.details,
            json!({
                "role": "gpu",
                "out_of_order": { "ocr": "out of service", "reduce": "looked at again" },
                "reason": "stages are out of order; the log says why",
            })
        );
    }
}
