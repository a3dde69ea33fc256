use std::time::Duration;

use serde::Serialize;

use super::Engine;
pub use super::audit::{Audit, DeviceFaults, Ends};
use crate::Traffic;
use crate::agenda::Millis;
use crate::prices::QueueRequests;
use parkhang_core::domain::{ErrorCategory, Position, Task};
use parkhang_core::policy::transition::is_terminal;
use parkhang_queue::QueueKind;

/// Result of a simulation. Times are simulated seconds, but for those of [`Cost`].
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SimulationReport {
    /// Volumes of the job.
    pub volumes: usize,
    /// Pages of the job.
    pub pages: u64,
    /// Seconds from the beginning to the end of the job.
    pub makespan_s: f64,
    /// Volumes that went through all stages.
    pub finished: usize,
    /// Volumes that were set aside because they kept killing their workers.
    pub quarantined: usize,
    /// Volumes that used up their tries.
    pub failed: usize,
    /// Results of the classes of nodes.
    pub classes: Vec<ClassReport>,
    /// Results of the stages.
    pub stages: Vec<StageSummary>,
    /// Ends of stage runs other than success.
    pub ends: Ends,
    /// Faults of sick devices, if any device is sick.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub devices: Option<DeviceFaults>,
    /// Ends of nodes.
    pub node_ends: u64,
    /// Ends of nodes that were announced.
    pub announced_ends: u64,
    /// Hours for which nodes were to run, over all nodes.
    pub node_hours: f64,
    /// Number of times that the autoscaler changed the number of nodes.
    pub scalings: u64,
    /// Pages that were worked on more than once because a node ended.
    pub repeated_pages: u64,
    /// Share of them in the pages of all stages.
    pub repeated_share: f64,
    /// Slot time that was lost with them, as a share of the time used.
    pub lost_time_share: f64,
    /// Leases that were released because their node had gone.
    pub undelivered: u64,
    /// Reports and decisions that came too late to change anything.
    pub fenced: u64,
    /// Passes of the reconciler.
    pub passes: u64,
    /// Largest number of changes in one transaction.
    pub largest_group: usize,
    /// Traffic with the database.
    pub traffic: Traffic,
    /// Round trips to the database in a second, on average.
    pub round_trips_per_s: f64,
    /// The same in the busiest interval between two full passes.
    pub peak_round_trips_per_s: f64,
    /// Requests to queues, if the nodes take their work from them. All else is as with an orchestrator that assigns it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queues: Option<QueueUse>,
    /// Breaches of invariants.
    pub audit: Audit,
    /// Cost of the simulation itself.
    pub cost: Cost,
}

/// Requests to queues, and their price were they all of a month and the only ones of the account.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct QueueUse {
    /// Requests by kind.
    #[serde(flatten)]
    pub requests: QueueRequests,
    /// Requests in all.
    pub total: u64,
    /// Dollars with FIFO queues.
    pub fifo_dollars: f64,
    /// Dollars with standard queues.
    pub standard_dollars: f64,
}

impl From<QueueRequests> for QueueUse {
    fn from(requests: QueueRequests) -> Self {
        Self {
            total: requests.total(),
            fifo_dollars: requests.dollars(QueueKind::Fifo),
            standard_dollars: requests.dollars(QueueKind::Standard),
            requests,
        }
    }
}

/// Cost of the simulation itself, in real seconds of this machine: not the same for the same seed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Cost {
    /// Seconds in the reconciler's decisions, without the store.
    pub deciding_s: f64,
    /// Seconds in the memory store, which stands for Postgres.
    pub storing_s: f64,
    /// Seconds of the whole simulation.
    pub whole_s: f64,
}

/// Results of a class of nodes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClassReport {
    /// Hardware of the nodes.
    pub hardware: &'static str,
    /// Number of the nodes.
    pub nodes: usize,
    /// Slots of a node for each stage.
    pub slots: usize,
    /// Largest number of nodes that was desired at once.
    pub most_nodes: usize,
    /// Hours for which nodes were to run.
    pub node_hours: f64,
    /// Share of the time that the nodes were up.
    pub up: f64,
    /// Share of the slots that were taken while the nodes were up, by stage.
    pub utilisation: Vec<(String, f64)>,
}

/// Results of a stage.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StageSummary {
    /// Name of the stage.
    pub stage: String,
    /// Hardware that the stage needs.
    pub hardware: &'static str,
    /// Runs that succeeded.
    pub succeeded: u64,
    /// Pages worked on, including repeated ones.
    pub pages: u64,
    /// Pages worked on again because a node ended.
    pub repeated_pages: u64,
    /// Median of the seconds from the moment that a task could begin the stage until it did.
    pub wait_p50_s: f64,
    /// 95th percentile of the same.
    pub wait_p95_s: f64,
}

impl SimulationReport {
    pub(crate) fn of(
        engine: &Engine,
        tasks: &[Task],
        requests: Option<QueueRequests>,
        deciding: Duration,
        whole: Duration,
    ) -> Self {
        let (counts, settings) = (&engine.counts, &engine.settings);
        let scope = engine.job.config.retry_scope;
        let poisoned = |task: &&Task| {
            task.last_error
                .as_ref()
                .is_some_and(|error| error.category == ErrorCategory::Poison)
        };
        let terminal: Vec<&Task> = tasks.iter().filter(|task| is_terminal(task, scope)).collect();
        let quarantined = terminal.iter().copied().filter(poisoned).count();
        let worked: u64 = counts.stages.iter().map(|stage| stage.pages).sum();
        let repeated: u64 = counts.stages.iter().map(|stage| stage.lost_pages).sum();
        let used: Millis = counts.busy.values().sum();
        let (traffic, makespan_s) = (engine.store.traffic(), seconds(engine.now));
        Self {
            volumes: tasks.len(),
            pages: engine
                .volumes
                .values()
                .map(|volume| u64::from(volume.pages))
                .sum(),
            makespan_s,
            finished: tasks
                .iter()
                .filter(|task| task.position == Position::Done)
                .count(),
            quarantined,
            failed: terminal.len() - quarantined,
            classes: (0..settings.fleet.len())
                .map(|class| ClassReport::of(engine, class))
                .collect(),
            stages: (0..counts.stages.len())
                .map(|stage| StageSummary::of(engine, stage))
                .collect(),
            ends: counts.ends,
            devices: settings.sick.map(|_| counts.devices),
            node_ends: counts.node_ends,
            announced_ends: counts.announced_ends,
            node_hours: engine
                .nodes
                .iter()
                .map(|node| hours(node.paid_until(engine.now)))
                .sum(),
            scalings: counts.scalings,
            repeated_pages: repeated,
            repeated_share: share(repeated as f64, worked as f64),
            lost_time_share: share(counts.lost as f64, used as f64),
            undelivered: counts.undelivered,
            fenced: counts.fenced,
            passes: counts.passes,
            largest_group: counts.largest_group,
            round_trips_per_s: share(traffic.round_trips() as f64, makespan_s),
            peak_round_trips_per_s: counts.peak_round_trips_per_s,
            traffic,
            queues: requests.map(QueueUse::from),
            audit: counts.audit,
            cost: Cost {
                deciding_s: deciding.as_secs_f64(),
                storing_s: engine.store.inside().as_secs_f64(),
                whole_s: whole.as_secs_f64(),
            },
        }
    }
}

impl ClassReport {
    fn of(engine: &Engine, number: usize) -> Self {
        let class = engine.settings.fleet[number];
        let nodes = || engine.nodes.iter().filter(|node| node.class == number);
        let up: Millis = nodes().map(|node| node.up_until(engine.now)).sum();
        let utilisation = engine
            .settings
            .profile
            .stages
            .iter()
            .enumerate()
            .filter(|(_, stage)| stage.hardware == class.hardware)
            .map(|(stage, profile)| {
                let busy = engine.counts.busy.get(&(number, stage)).copied().unwrap_or(0);
                let offered = up as f64 * class.slots as f64;
                (profile.stage.to_string(), share(busy as f64, offered))
            });
        Self {
            hardware: class.hardware.as_str(),
            nodes: class.nodes,
            slots: class.slots,
            most_nodes: engine.counts.most_nodes.get(&number).copied().unwrap_or(0),
            node_hours: nodes().map(|node| hours(node.paid_until(engine.now))).sum(),
            up: share(up as f64, engine.now as f64 * class.nodes as f64),
            utilisation: utilisation.collect(),
        }
    }
}

impl StageSummary {
    fn of(engine: &Engine, number: usize) -> Self {
        let (profile, counts) = (
            &engine.settings.profile.stages[number],
            &engine.counts.stages[number],
        );
        let mut waits = counts.waits.clone();
        waits.sort_by(f32::total_cmp);
        let wait = |share: f64| {
            let rank = (share * waits.len() as f64).ceil() as usize;
            waits.get(rank.saturating_sub(1)).copied().map_or(0.0, f64::from)
        };
        Self {
            stage: profile.stage.to_string(),
            hardware: profile.hardware.as_str(),
            succeeded: counts.succeeded,
            pages: counts.pages,
            repeated_pages: counts.lost_pages,
            wait_p50_s: wait(0.50),
            wait_p95_s: wait(0.95),
        }
    }
}

fn seconds(millis: Millis) -> f64 {
    millis as f64 / 1000.0
}

fn hours(millis: Millis) -> f64 {
    seconds(millis) / 3600.0
}

fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}
