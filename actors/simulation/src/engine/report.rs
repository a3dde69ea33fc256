use std::time::Duration;

use serde::Serialize;

use super::Engine;
pub use super::audit::{Audit, Ends};
use crate::Traffic;
use crate::agenda::Millis;
use parkhang_core::domain::{ErrorCategory, Position, Task};
use parkhang_core::policy::transition::is_terminal;

/// What a simulation found. Times are simulated seconds, but for those of [`Cost`].
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SimulationReport {
    pub volumes: usize,
    pub pages: u64,
    pub makespan_s: f64,
    pub finished: usize,
    /// Volumes that were set aside because they kept killing their workers.
    pub quarantined: usize,
    /// Volumes that used up their tries.
    pub failed: usize,
    pub classes: Vec<ClassReport>,
    pub stages: Vec<StageSummary>,
    pub ends: Ends,
    /// Ends of nodes, and how many of them were announced.
    pub node_ends: u64,
    pub announced_ends: u64,
    /// Hours for which there was to be a node, over all nodes.
    pub node_hours: f64,
    /// How often the autoscaler changed the number of nodes.
    pub scalings: u64,
    /// Pages that were worked on more than once because a node ended, and their share of all pages of all stages.
    pub repeated_pages: u64,
    pub repeated_share: f64,
    /// Slot time that was lost with them, as a share of the time used.
    pub lost_time_share: f64,
    /// Leases that were given back because their node had gone.
    pub undelivered: u64,
    /// Reports and decisions that came too late to change anything.
    pub fenced: u64,
    pub passes: u64,
    /// The most changes that one transaction had.
    pub largest_group: usize,
    pub traffic: Traffic,
    pub round_trips_per_s: f64,
    /// In the busiest full-pass interval.
    pub peak_round_trips_per_s: f64,
    pub audit: Audit,
    pub cost: Cost,
}

/// What the simulation itself took, in real seconds of this machine: not the same for the same seed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Cost {
    /// In the reconciler's decisions, without the store.
    pub deciding_s: f64,
    /// In the memory store, which stands for Postgres.
    pub storing_s: f64,
    pub whole_s: f64,
}

/// Nodes that are alike.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClassReport {
    pub hardware: &'static str,
    pub nodes: usize,
    pub slots: usize,
    /// The most that there were to be at once, and hours for which there was to be one.
    pub most_nodes: usize,
    pub node_hours: f64,
    /// Share of the time that the nodes were there.
    pub up: f64,
    /// Share of the slots that were taken while the nodes were there, by stage.
    pub utilisation: Vec<(String, f64)>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StageSummary {
    pub stage: String,
    pub hardware: &'static str,
    pub succeeded: u64,
    /// Pages worked on, the repeated ones included.
    pub pages: u64,
    pub repeated_pages: u64,
    /// From the moment that a task could begin the stage until it did.
    pub wait_p50_s: f64,
    pub wait_p95_s: f64,
}

impl SimulationReport {
    pub(crate) fn of(engine: &Engine, tasks: &[Task], deciding: Duration, whole: Duration) -> Self {
        let (tally, settings) = (&engine.tally, &engine.settings);
        let scope = engine.job.config.retry_scope;
        let poisoned = |task: &&Task| {
            let error = task.last_error.as_ref();
            error.is_some_and(|error| error.category == ErrorCategory::Poison)
        };
        let terminal: Vec<&Task> = tasks.iter().filter(|task| is_terminal(task, scope)).collect();
        let quarantined = terminal.iter().copied().filter(poisoned).count();
        let worked: u64 = tally.stages.iter().map(|stage| stage.pages).sum();
        let repeated: u64 = tally.stages.iter().map(|stage| stage.lost_pages).sum();
        let used: Millis = tally.busy.values().sum();
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
            stages: (0..tally.stages.len())
                .map(|stage| StageSummary::of(engine, stage))
                .collect(),
            ends: tally.ends,
            node_ends: tally.node_ends,
            announced_ends: tally.announced_ends,
            node_hours: engine
                .nodes
                .iter()
                .map(|node| hours(node.paid_until(engine.now)))
                .sum(),
            scalings: tally.scalings,
            repeated_pages: repeated,
            repeated_share: share(repeated as f64, worked as f64),
            lost_time_share: share(tally.lost as f64, used as f64),
            undelivered: tally.undelivered,
            fenced: tally.fenced,
            passes: tally.passes,
            largest_group: tally.largest_group,
            round_trips_per_s: share(traffic.round_trips() as f64, makespan_s),
            peak_round_trips_per_s: tally.peak_round_trips_per_s,
            traffic,
            audit: tally.audit,
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
        let stages = engine.settings.profile.stages.iter().enumerate();
        let utilisation =
            stages
                .filter(|(_, stage)| stage.hardware == class.hardware)
                .map(|(stage, profile)| {
                    let busy = engine.tally.busy.get(&(number, stage)).copied().unwrap_or(0);
                    let offered = up as f64 * class.slots as f64;
                    (profile.stage.to_string(), share(busy as f64, offered))
                });
        Self {
            hardware: class.hardware.as_str(),
            nodes: class.nodes,
            slots: class.slots,
            most_nodes: engine.tally.most_nodes.get(&number).copied().unwrap_or(0),
            node_hours: nodes().map(|node| hours(node.paid_until(engine.now))).sum(),
            up: share(up as f64, engine.now as f64 * class.nodes as f64),
            utilisation: utilisation.collect(),
        }
    }
}

impl StageSummary {
    fn of(engine: &Engine, number: usize) -> Self {
        let (profile, tally) = (
            &engine.settings.profile.stages[number],
            &engine.tally.stages[number],
        );
        let mut waits = tally.waits.clone();
        waits.sort_by(f32::total_cmp);
        let wait = |share: f64| {
            let rank = (share * waits.len() as f64).ceil() as usize;
            waits.get(rank.saturating_sub(1)).copied().map_or(0.0, f64::from)
        };
        Self {
            stage: profile.stage.to_string(),
            hardware: profile.hardware.as_str(),
            succeeded: tally.succeeded,
            pages: tally.pages,
            repeated_pages: tally.lost_pages,
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
