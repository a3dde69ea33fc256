//! Summary of the cluster.

use std::collections::BTreeSet;

use async_trait::async_trait;
use chrono::{TimeDelta, Utc};
use clap::Args;
use parkhang_core::domain::{JobStatus, NamedModels, StageName};
use parkhang_core::policy::diagnosis::{ClusterFacts, Reason, of_stages};
use parkhang_core::policy::slow_nodes::{SlowNode, slow_nodes};
use parkhang_state::StateStore;
use serde::Serialize;
use utoipa::ToSchema;

use super::command::{Access, Answer, Command, Verb};
use super::diagnosis::{NO_LEADER, START_ORCHESTRATOR, facts_about, in_lines, missing_models};
use super::jobs::{counts_by_job, tallies, waiting_stages};
use super::queues::{self, QueueLook, queue_looks};
use super::services::{self, ServiceLine, service_lines};
use super::text::table;
use super::workers::{self, Scaling};
use super::{Admin, Refusal};
use crate::words::pluralize;

/// Show a summary of the cluster: its throughput, the work that waits for each stage, and alarms.
///
/// Throughputs are those of the last ten minutes. Volumes of jobs that have ended are not counted.
#[derive(Debug, Args)]
pub struct Status {}

/// Summary of the cluster.
#[derive(Debug, Serialize, ToSchema)]
pub struct Cluster {
    /// Name of the orchestrator that leads.
    leader: Option<String>,
    /// Number of nodes that are joined or draining.
    nodes: usize,
    /// Pages a minute of the slowest stage, over the last ten minutes.
    pages_a_minute: f64,
    /// Volumes of open jobs with a stage that runs.
    running: u64,
    /// Volumes of open jobs that wait for a slot.
    waiting: u64,
    /// Volumes of open jobs that failed for good.
    failed: u64,
    stages: Vec<Stage>,
    /// Last decisions of the autoscaler, if it is on.
    scaling: Vec<Scaling>,
    /// Queues of the stages as the leader last saw them, if work goes through queues.
    queues: Vec<QueueLook>,
    /// Services of the configuration.
    services: Vec<ServiceLine>,
    /// Conditions that need an operator.
    alarms: Vec<String>,
}

/// A stage of the open jobs.
#[derive(Debug, Default, Serialize, ToSchema)]
pub struct Stage {
    stage: String,
    waiting: u64,
    running: u64,
    failed: u64,
    /// Slots for it on the nodes that are there.
    slots: u64,
    pages_a_minute: f64,
}

#[async_trait]
impl Command for Status {
    const NAME: [&'static str; 2] = ["cluster", "status"];
    const ACCESS: Access = Access::Read;
    const VERB: Verb = Verb::Get;
    const PATH: &'static str = "/cluster";
    type Answer = Cluster;

    async fn run(self, admin: &Admin) -> Result<Cluster, Refusal> {
        let now = Utc::now();
        let counts = counts_by_job(admin).await?;
        let mut stages: Vec<Stage> = Vec::new();
        let mut waiting: BTreeSet<StageName> = BTreeSet::new();
        let mut jobs = admin.store.jobs().await?;
        jobs.retain(|job| job.finished_at.is_none());
        for job in &jobs {
            let counts = counts.get(&job.id).map_or(&[][..], Vec::as_slice);
            // Volumes of a paused job wait for an operator and not for a slot.
            let waits = job.status == JobStatus::Running;
            if waits {
                waiting.extend(waiting_stages(&job.pipeline, counts));
            }
            for counts in tallies(&job.pipeline, counts) {
                let stage = entry(&mut stages, &counts.stage);
                stage.running += counts.running;
                stage.failed += counts.failed;
                // Volumes that wait for another try count as waiting too: they will need a slot.
                stage.waiting += if waits {
                    counts.waiting + counts.retrying
                } else {
                    0
                };
            }
        }
        let nodes = admin.store.nodes().await?;
        let there: Vec<_> = nodes.iter().filter(|node| node.state.is_there()).collect();
        for worker in there.iter().flat_map(|node| &node.workers) {
            if let Some(stage) = find(&mut stages, worker.stage.as_str()) {
                stage.slots += u64::from(worker.slots);
            }
        }
        let paces = admin.store.recent_paces(None, now).await?;
        for pace in &paces {
            if let Some(stage) = find(&mut stages, pace.stage.as_str()) {
                stage.pages_a_minute = pace.pages_a_second * 60.0;
            }
        }
        // `reduce` works on no pages, so its pace of nought would always be the lowest.
        let paged = paces
            .iter()
            .map(|pace| pace.pages_a_second)
            .filter(|pace| *pace > 0.0);
        // Every page goes through all of these stages, so the slowest one is the throughput of the cluster.
        let pages_a_minute = paged.reduce(f64::min).unwrap_or(0.0) * 60.0;
        let names: BTreeSet<&str> = there.iter().map(|node| node.name.as_str()).collect();
        let leader = admin
            .store
            .leader()
            .await?
            // The lock of a leader that has just died is still held for a moment; its record says that it is
            // gone.
            .filter(|name| names.contains(name.as_str()));
        let facts = facts_about(&admin.store, &nodes, &admin.loaded.config).await?;
        let sum = |number: fn(&Stage) -> u64| stages.iter().map(number).sum();
        let scaling = workers::decisions(admin).await?;
        // A duration that chrono cannot express is longer than any wait, so it raises no alarm.
        let max_age = TimeDelta::from_std(admin.loaded.config.autoscaler.max_age).unwrap_or(TimeDelta::MAX);
        let mut alarms = alarms(&stages, &waiting, &facts);
        for (job, reason) in missing_models(&jobs, &counts, &facts) {
            let lines = in_lines(&[reason], &job.key, &admin.stages, facts.now);
            alarms.extend(lines.iter().map(|line| format!("job {}: {line}", job.key)));
        }
        alarms.extend(workers::alarms(&scaling, max_age));
        let paces = admin.store.paces_of_nodes(now).await?;
        let slow = slow_nodes(&paces)
            .into_iter()
            .filter(|slow| names.contains(slow.node.as_str()));
        alarms.extend(slow.map(|slow| in_a_line(&slow)));
        let looks = queue_looks(admin).await?;
        let config = &admin.loaded.config.source.sqs;
        alarms.extend(looks.iter().flat_map(|look| queues::alarms(look, config, now)));
        let services = service_lines(&admin.store, &admin.loaded.config, now).await?;
        alarms.extend(services.iter().filter_map(|service| service.alarm(now)));
        Ok(Cluster {
            alarms,
            services,
            scaling,
            queues: looks.into_iter().map(QueueLook::from).collect(),
            nodes: there.len(),
            pages_a_minute,
            running: sum(|stage| stage.running),
            waiting: sum(|stage| stage.waiting),
            failed: sum(|stage| stage.failed),
            leader,
            stages,
        })
    }
}

fn find<'a>(stages: &'a mut [Stage], name: &str) -> Option<&'a mut Stage> {
    stages.iter_mut().find(|stage| stage.stage == name)
}

fn entry<'a>(stages: &'a mut Vec<Stage>, name: &str) -> &'a mut Stage {
    let place = stages
        .iter()
        .position(|stage| stage.stage == name)
        .unwrap_or_else(|| {
            stages.push(Stage {
                stage: name.to_owned(),
                ..Stage::default()
            });
            stages.len() - 1
        });
    // `place` is an index that was found in the vector, or that of the element just pushed.
    &mut stages[place]
}

/// Alarms for the stages that volumes of running jobs wait for, whatever the jobs.
fn alarms(stages: &[Stage], waiting: &BTreeSet<StageName>, facts: &ClusterFacts) -> Vec<String> {
    let mut alarms = Vec::new();
    for reason in of_stages(waiting, &NamedModels::default(), facts) {
        match reason {
            Reason::NoPool { stage, .. } => {
                let of_stage = stages.iter().find(|known| known.stage == stage.as_str());
                let waiting = of_stage.map_or(0, |stage| stage.waiting);
                let verb = if waiting == 1 { "waits" } else { "wait" };
                let volumes = pluralize(waiting, "volume");
                alarms.push(format!("{volumes} {verb} for {stage}, and no node runs it"));
            }
            Reason::NoLeader => alarms.push(format!("{NO_LEADER}, and volumes wait; {START_ORCHESTRATOR}")),
            _ => {}
        }
    }
    alarms
}

fn in_a_line(slow: &SlowNode) -> String {
    let SlowNode { node, stage, times } = slow;
    format!(
        "{node} takes {times:.0} times as long for a page in {stage} as others do: look at its device, or empty it by `node nodes drain {node}`"
    )
}

impl Answer for Cluster {
    fn text(&self) -> String {
        let mut text = format!(
            "{} leads, {}, {:.0} pages a minute\n",
            self.leader.as_deref().unwrap_or("nobody"),
            pluralize(self.nodes, "node"),
            self.pages_a_minute
        );
        let header = ["stage", "waiting", "running", "slots", "failed", "pages a minute"];
        let rows = self.stages.iter().map(|stage| {
            [
                stage.stage.clone(),
                stage.waiting.to_string(),
                stage.running.to_string(),
                stage.slots.to_string(),
                stage.failed.to_string(),
                format!("{:.0}", stage.pages_a_minute),
            ]
        });
        text.push_str(&table(header, rows, 1));
        if !self.queues.is_empty() {
            text.push_str(&format!("\n{}", queues::in_a_table(&self.queues)));
        }
        if !self.services.is_empty() {
            text.push_str(&format!("\n{}", services::in_a_table(&self.services, Utc::now())));
        }
        for decision in &self.scaling {
            text.push_str(&format!("\n{}", decision.in_a_line()));
        }
        for alarm in &self.alarms {
            text.push_str(&format!("\n{alarm}"));
        }
        text
    }
}
