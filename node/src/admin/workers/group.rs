//! Answer of the commands about workers: the numbers of the launcher beside those of the cluster.

use std::collections::BTreeSet;

use parkhang_actors::launcher::{Launcher, Workers, idle_workers};
use parkhang_core::domain::{Hardware, NodeRecord, NodeState};
use parkhang_state::StateStore;
use serde::Serialize;
use utoipa::ToSchema;

use super::super::Admin;
use super::super::Refusal;
use super::super::command::Answer;
use super::super::text::table;
use super::{Scaling, decisions};
use crate::launcher::section;

/// Workers that the cluster starts and stops itself, by hardware.
#[derive(Debug, Serialize, ToSchema)]
pub struct LaunchedWorkers {
    /// local, ecs or asg
    launcher: &'static str,
    groups: Vec<WorkerGroup>,
    /// Last decisions of the autoscaler, if it is on.
    decisions: Vec<Scaling>,
}

/// Workers with one kind of hardware.
#[derive(Debug, Serialize, ToSchema)]
pub struct WorkerGroup {
    /// cpu or gpu
    hardware: &'static str,
    /// Name of the ECS service or the auto scaling group.
    group: Option<String>,
    instance_type: Option<String>,
    /// Number of workers that the launcher is asked to keep.
    desired: u32,
    running: u32,
    starting: u32,
    stopping: u32,
    /// True where there are as many as there are to be, and none is coming or going.
    settled: bool,
    /// The most that can be asked for.
    limit: Option<u32>,
    /// Nodes of the role that have joined, also those that the launcher did not start.
    joined: usize,
    /// Launched workers that have joined and hold no lease.
    idle: u32,
}

impl LaunchedWorkers {
    pub(super) async fn of(
        admin: &Admin,
        launcher: &dyn Launcher,
        shown: &BTreeSet<Hardware>,
    ) -> Result<Self, Refusal> {
        let nodes = admin.store.nodes().await?;
        let mut groups = Vec::new();
        for hardware in shown {
            let workers = launcher.workers(*hardware).await?;
            groups.push(WorkerGroup::new(admin, *hardware, &workers, &nodes));
        }
        Ok(Self {
            launcher: admin.loaded.config.launcher.kind.as_str(),
            groups,
            decisions: decisions(admin).await?,
        })
    }
}

impl WorkerGroup {
    fn new(admin: &Admin, hardware: Hardware, workers: &Workers, nodes: &[NodeRecord]) -> Self {
        let section = section(&admin.loaded, hardware);
        let has_joined = |node: &&NodeRecord| {
            node.state == NodeState::Joined && node.roles.iter().any(|role| role == hardware.as_str())
        };
        Self {
            hardware: hardware.as_str(),
            group: section.group.clone(),
            instance_type: section.instance_type.clone(),
            desired: workers.desired,
            running: workers.running,
            starting: workers.starting,
            stopping: workers.stopping,
            settled: workers.have_converged(),
            limit: workers.limit,
            joined: nodes.iter().filter(has_joined).count(),
            idle: idle_workers(nodes, hardware, workers).0,
        }
    }
}

impl Answer for LaunchedWorkers {
    fn text(&self) -> String {
        let header = [
            "workers",
            "group",
            "instance type",
            "desired",
            "running",
            "starting",
            "stopping",
            "at most",
            "joined",
            "idle",
        ];
        let rows = self.groups.iter().map(|group| {
            [
                group.hardware.to_owned(),
                group.group.clone().unwrap_or_else(|| self.launcher.to_owned()),
                group.instance_type.clone().unwrap_or_default(),
                group.desired.to_string(),
                group.running.to_string(),
                group.starting.to_string(),
                group.stopping.to_string(),
                group.limit.map_or(String::new(), |limit| limit.to_string()),
                group.joined.to_string(),
                group.idle.to_string(),
            ]
        });
        let mut text = table(header, rows, 3);
        for decision in &self.decisions {
            text.push_str(&format!("\n{}", decision.in_a_line()));
        }
        text
    }
}
