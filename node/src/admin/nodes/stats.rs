//! `nodes stats`: the work of a node.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use clap::Args;
use parkhang_core::domain::{JobKey, Task};
use parkhang_state::Pace;
use serde::Serialize;
use utoipa::ToSchema;

use crate::admin::command::{Access, Answer, Command, Verb};
use crate::admin::jobs::{StageStats, find, stage_table};
use crate::admin::orders::node_meant;
use crate::admin::text::away;
use crate::admin::{Admin, Refusal};

/// Show what a node has done since its process started, its throughput, and the leases that it holds. It may have left the cluster.
#[derive(Debug, Args)]
pub struct Stats {
    /// Name of the node, or a unique prefix of it.
    #[arg(value_name = "NODE")]
    node: String,
    /// Count only what it has done for this job.
    #[arg(long, value_name = "JOB")]
    job: Option<JobKey>,
}

/// Statistics of a node.
#[derive(Debug, Serialize, ToSchema)]
pub struct NodeStatistics {
    node: String,
    /// Stages that it has run.
    stages: Vec<StageStats>,
    /// Throughput over the last ten minutes, of all jobs.
    paces: Vec<StagePace>,
    /// Volumes that it holds leases on.
    holds: Vec<HeldVolume>,
}

/// Throughput of a stage on a node.
#[derive(Debug, Serialize, ToSchema)]
pub struct StagePace {
    stage: String,
    pages_per_minute: f64,
    volumes_per_minute: f64,
}

/// Volume that a node works on.
#[derive(Debug, Serialize, ToSchema)]
pub struct HeldVolume {
    job: String,
    volume: String,
    stage: String,
    worker: String,
    /// Time at which the lease expires unless it is renewed.
    lease_until: DateTime<Utc>,
}

#[async_trait]
impl Command for Stats {
    const NAME: [&'static str; 2] = ["nodes", "stats"];
    const ACCESS: Access = Access::Read;
    const VERB: Verb = Verb::Get;
    const PATH: &'static str = "/nodes/{node}/stats";
    type Answer = NodeStatistics;

    async fn run(self, admin: &Admin) -> Result<NodeStatistics, Refusal> {
        let node = node_meant(admin, &self.node).await?;
        let job = match &self.job {
            Some(key) => Some(find(admin, key).await?.id),
            None => None,
        };
        let stages = admin.store.node_statistics(&node, job).await?;
        let paces = admin.store.node_paces(&node, Utc::now()).await?;
        let held = admin.store.held_by(&node).await?;
        Ok(NodeStatistics {
            node,
            stages: stages.iter().map(StageStats::from).collect(),
            paces: paces.into_iter().map(StagePace::from).collect(),
            holds: held.into_iter().filter_map(HeldVolume::of).collect(),
        })
    }
}

impl From<Pace> for StagePace {
    fn from(pace: Pace) -> Self {
        Self {
            stage: pace.stage.to_string(),
            pages_per_minute: pace.pages_a_second * 60.0,
            volumes_per_minute: pace.runs_a_second * 60.0,
        }
    }
}

impl HeldVolume {
    fn of((job, task): (JobKey, Task)) -> Option<Self> {
        let lease = task.lease?;
        Some(Self {
            job: job.to_string(),
            volume: task.volume.to_string(),
            stage: task.position.to_string(),
            worker: lease.worker.to_string(),
            lease_until: lease.until,
        })
    }
}

impl Answer for NodeStatistics {
    fn text(&self) -> String {
        if self.stages.is_empty() && self.holds.is_empty() {
            return format!("{} has done nothing yet", self.node);
        }
        let now = Utc::now();
        let mut text = format!("{}\n{}", self.node, stage_table(&self.stages));
        for pace in &self.paces {
            text.push_str(&format!(
                "\n{}: {:.1} pages a minute, {:.2} volumes a minute",
                pace.stage, pace.pages_per_minute, pace.volumes_per_minute
            ));
        }
        for held in &self.holds {
            text.push_str(&format!(
                "\nholds {} of {} for {}, to be renewed {}",
                held.volume,
                held.job,
                held.stage,
                away(held.lease_until, now)
            ));
        }
        text
    }
}
