//! Diagnosis of work that does not go on: the reasons of a task, of the waiting tasks of a job, and of stages.
//!
//! The conditions are those of placement, and each is decided once, here. Whoever shows a diagnosis to an operator or counts it for an
//! alarm differs in the view only: [`of_task`] gives the first reason, [`of_job`] and [`of_stages`] those of all stages that have work.
//! Where work goes through queues, a task comes to a worker by its [`Message`], and what placement would do with it is no reason.

mod message;
mod service;

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, TimeDelta, Utc};

use self::service::{reader_away, reader_paused, service_paused};
use super::placement::{FreeSlots, Held, place};
use super::poison::is_suspect;
use super::spending::paused_for;
use super::transition::runnable_stage;
use crate::domain::{
    Amount, EngineRecord, Job, JobId, JobStatus, NamedModels, NodeRecord, NodeState, PoolInfo, Position,
    ServiceRecord, Spending, StageError, StageName, Task, TaskStatus, WorkerId,
};
pub use message::{Message, Unsent};

/// Reason why a task or the waiting tasks of a job do not run. The variants are in the order in which they have to go: nothing is
/// gained by mending one while one before it stands.
#[derive(Debug, Clone, PartialEq)]
pub enum Reason {
    /// All stages are done.
    Finished,
    /// The task failed for good.
    Failed { at: Position, error: Option<StageError> },
    /// A worker holds the lease of the task.
    Running {
        stage: StageName,
        worker: WorkerId,
        until: DateTime<Utc>,
    },
    /// A service has the task, or is about to get it.
    AtService {
        stage: StageName,
        service: String,
        since: DateTime<Utc>,
        /// Time at which its job counts as stuck.
        until: DateTime<Utc>,
    },
    /// The lease ran out, and no pass has ended it yet.
    Overdue {
        stage: StageName,
        worker: WorkerId,
        since: DateTime<Utc>,
        /// True if somebody makes passes.
        is_led: bool,
    },
    /// The job is paused, as it has spent its budget at services.
    Budget { spent: Amount, budget: Amount },
    /// The job is not to be worked on.
    Job { status: JobStatus },
    /// The task failed and waits before it is tried again.
    BackingOff {
        stage: StageName,
        until: DateTime<Utc>,
        error: Option<StageError>,
        /// Queue in which the task is published then, where work goes through queues.
        queue: Option<String>,
    },
    /// No orchestrator leads, and no node takes its work itself. What is known of pools is of the time when somebody led.
    NoLeader,
    /// No pool that may be given work runs the stage, and nobody holds a lease at it.
    NoPool {
        stage: StageName,
        /// Models that the job names for the stage.
        wanted: Vec<String>,
    },
    /// Nodes run the stage, and none of them has all the models that the job names for it.
    NoModel {
        stage: StageName,
        /// Models that the job names for the stage.
        wanted: Vec<String>,
        /// Models that the nodes which run the stage have loaded.
        loaded: Vec<String>,
    },
    /// The job names no model for the stage, and the nodes that run it have loaded different ones. It keeps no task from running, but
    /// is rarely meant.
    MixedModels { stage: StageName, loaded: Vec<String> },
    /// The service that does the stage, or that a worker asks for it, is left alone for a while, as it has failed.
    ServicePaused {
        stage: StageName,
        service: String,
        until: DateTime<Utc>,
        error: Option<String>,
    },
    /// The job holds as many leases as it may, at all stages or at this one.
    Limit {
        stage: StageName,
        key: &'static str,
        limit: usize,
        held: usize,
    },
    /// The task lost its node several times in a row and has to run alone, and no node of the stage is empty.
    Suspect { stage: StageName },
    /// All slots of the stage are in use, of nodes that have the job's models.
    NoSlot { stage: StageName, slots: usize },
    /// The queue of the stage does not exist.
    NoQueue {
        stage: StageName,
        queue: String,
        looked_at: DateTime<Utc>,
    },
    /// The message of the task is not sent.
    Unpublished {
        stage: StageName,
        queue: String,
        until: Unsent,
    },
    /// The message of the task waits in its queue.
    InQueue {
        stage: StageName,
        queue: String,
        since: DateTime<Utc>,
        /// Number of messages in front of it, at most [`MOST_IN_FRONT`](crate::domain::MOST_IN_FRONT).
        in_front: u64,
        /// Number of slots of the stage that are free for the job.
        free: usize,
    },
    /// All messages of the queue were held at the last look, that of the task with them.
    Received {
        stage: StageName,
        queue: String,
        since: DateTime<Utc>,
        looked_at: DateTime<Utc>,
    },
    /// The queue said at the last look that it has no messages.
    Missing {
        stage: StageName,
        queue: String,
        since: DateTime<Utc>,
        looked_at: DateTime<Utc>,
    },
    /// Nothing: the next pass gives it to a worker, or to another task whose turn it is.
    Nothing { stage: StageName, free: usize },
}

impl Reason {
    /// Name of the reason for programs.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Finished => "finished",
            Self::Failed { .. } => "failed",
            Self::Running { .. } => "running",
            Self::AtService { .. } => "at_service",
            Self::Overdue { .. } => "overdue",
            Self::Budget { .. } => "budget",
            Self::Job { .. } => "job",
            Self::BackingOff { .. } => "backing_off",
            Self::NoLeader => "no_leader",
            Self::NoPool { .. } => "no_pool",
            Self::NoModel { .. } => "no_model",
            Self::MixedModels { .. } => "mixed_models",
            Self::ServicePaused { .. } => "service_paused",
            Self::Limit { .. } => "limit",
            Self::Suspect { .. } => "suspect",
            Self::NoSlot { .. } => "no_slot",
            Self::NoQueue { .. } => "no_queue",
            Self::Unpublished { .. } => "unpublished",
            Self::InQueue { .. } => "in_queue",
            Self::Received { .. } => "received",
            Self::Missing { .. } => "missing",
            Self::Nothing { .. } => "nothing",
        }
    }
}

/// Facts about the cluster that decide whether waiting tasks go on.
#[derive(Debug, Clone, PartialEq)]
pub struct ClusterFacts {
    /// True if work is handed out: an orchestrator leads, or a node takes its work itself.
    pub is_led: bool,
    /// Pools that may be given work.
    pub pools: Vec<PoolInfo>,
    /// Leases in force.
    pub held: Vec<Held>,
    /// Services that do stages, as their leader found them last.
    pub services: Vec<ServiceRecord>,
    /// Services that nodes ask while their stages wait, by the name of the node, as it found them last.
    pub engines: BTreeMap<String, Vec<EngineRecord>>,
    /// Spending of the jobs in question at services.
    pub spending: Vec<Spending>,
    pub now: DateTime<Utc>,
}

impl ClusterFacts {
    /// Facts by the records of the nodes. `has_leader` is true if an orchestrator leads, and a node that was silent for longer than
    /// `max_silence` counts as gone.
    pub fn of_records(
        has_leader: bool,
        nodes: &[NodeRecord],
        held: Vec<Held>,
        max_silence: TimeDelta,
        now: DateTime<Utc>,
    ) -> Self {
        let heard_of: Vec<&NodeRecord> = nodes
            .iter()
            .filter(|node| now - node.last_seen <= max_silence)
            .collect();
        // A leader records the nodes that work for it. Nodes that take their work themselves record themselves, so without a leader
        // only they are heard of.
        let has_pools = |node: &NodeRecord| node.workers.iter().any(|pool| pool.worker.service().is_none());
        let takes_work_itself = |node: &&NodeRecord| node.state.is_there() && has_pools(node);
        let joined = heard_of.iter().filter(|node| node.state == NodeState::Joined);
        Self {
            is_led: has_leader || heard_of.iter().any(takes_work_itself),
            pools: joined
                .flat_map(|node| &node.workers)
                .map(PoolInfo::from)
                .collect(),
            held,
            services: Vec::new(),
            engines: heard_of
                .iter()
                .filter(|node| !node.engines.is_empty())
                .map(|node| (node.name.clone(), node.engines.clone()))
                .collect(),
            spending: Vec::new(),
            now,
        }
    }

    /// True if a pool of the stage may be given work, or somebody holds a lease at it.
    pub fn is_run(&self, stage: &StageName) -> bool {
        self.pools_of(stage).next().is_some() || self.leases(|held| held.stage == *stage) > 0
    }

    fn pools_of<'a>(&'a self, stage: &'a StageName) -> impl Iterator<Item = &'a PoolInfo> {
        self.pools
            .iter()
            .filter(move |pool| pool.stage == *stage && pool.slots > 0)
    }

    fn leases(&self, wanted: impl Fn(&Held) -> bool) -> usize {
        let wanted = self.held.iter().filter(|held| wanted(held));
        wanted.map(|held| held.leases).sum()
    }

    /// True if a worker has the job's models for the stage, as it runs the stage for the job.
    fn is_run_for(&self, job: JobId, stage: &StageName) -> bool {
        self.leases(|held| held.job == job && held.stage == *stage) > 0
    }

    /// Number of slots of the stage that the job may have. The leases of a worker that is given nothing more are slots in use.
    fn slots_for(&self, job: &Job, stage: &StageName) -> usize {
        let suited = self.pools_of(stage).filter(|pool| pool.suits(job));
        let slots: usize = suited.map(|pool| pool.slots).sum();
        let is_listed = |held: &Held| self.pools.iter().any(|pool| pool.worker == held.worker);
        slots + self.leases(|held| held.stage == *stage && !is_listed(held))
    }
}

/// Checks all conditions for a task to run, in the order in which placement does, and returns the first that does not hold. `message` is
/// that of its next lease, where work goes through queues.
pub fn of_task(task: &Task, job: &Job, cluster: &ClusterFacts, message: Option<&Message>) -> Reason {
    if let Some(reason) = lease_reason(task, job, cluster) {
        return reason;
    }
    let Some(stage) = runnable_stage(task, &job.pipeline, job.config.retry_scope) else {
        return Reason::Failed {
            at: task.position.clone(),
            error: task.last_error.clone(),
        };
    };
    if job.status != JobStatus::Running {
        return at_rest(job, cluster);
    }
    if let Some(until) = task.not_before.filter(|due| *due > cluster.now) {
        let error = task.last_error.clone();
        if let Some(reason) = reader_away(job, stage, until, error.as_ref(), cluster) {
            return reason;
        }
        return Reason::BackingOff {
            stage: stage.clone(),
            until,
            // An error of an earlier try is not why this one waits.
            error: error.filter(|_| task.status == TaskStatus::Failed || task.outages > 0),
            queue: message.map(|message| message.queue.clone()),
        };
    }
    if !message.map_or(cluster.is_led, Message::is_seen_to) {
        return Reason::NoLeader;
    }
    if let Some(reason) = missing_for(job, stage, cluster) {
        return reason;
    }
    if let Some(reason) = service_paused(stage, cluster) {
        return reason;
    }
    if let Some(reason) = limit_reached(job, stage, cluster) {
        return reason;
    }
    match (slot_reason(task, job, stage, cluster), message) {
        (Reason::NoSlot { stage, .. }, Some(message)) => message.reason(stage, 0, cluster.now),
        (Reason::Nothing { stage, free }, Some(message)) => message.reason(stage, free, cluster.now),
        (reason, _) => reason,
    }
}

/// Reasons that keep the tasks of a job from going on which wait for these stages, or wait to be tried again at them.
pub fn of_job(job: &Job, waiting: &BTreeSet<StageName>, cluster: &ClusterFacts) -> Vec<Reason> {
    match job.status {
        JobStatus::Running => {
            let stages = job.pipeline.stages();
            let stages = stages.iter().filter(|stage| waiting.contains(*stage));
            let mut reasons = of_stages(stages, &job.config.models, cluster);
            reasons.retain(|reason| match reason {
                Reason::NoModel { stage, .. } => !cluster.is_run_for(job.id, stage),
                _ => true,
            });
            reasons
        }
        JobStatus::Paused if !waiting.is_empty() => vec![at_rest(job, cluster)],
        // A leader has still to record its end.
        JobStatus::Cancelled if job.finished_at.is_none() && !cluster.is_led => vec![Reason::NoLeader],
        JobStatus::Paused
        | JobStatus::Cancelled
        | JobStatus::Created
        | JobStatus::Completed
        | JobStatus::Failed => Vec::new(),
    }
}

/// Reasons that keep tasks from going on which wait for these stages, where `models` are those that their jobs name.
pub fn of_stages<'a>(
    stages: impl IntoIterator<Item = &'a StageName>,
    models: &NamedModels,
    cluster: &ClusterFacts,
) -> Vec<Reason> {
    let stages: Vec<&StageName> = stages.into_iter().collect();
    if !cluster.is_led && !stages.is_empty() {
        return vec![Reason::NoLeader];
    }
    let (mut without_pool, mut without_model, mut mixed) = (Vec::new(), Vec::new(), Vec::new());
    for stage in stages {
        match missing(stage, models, cluster) {
            Some(reason @ Reason::NoPool { .. }) => without_pool.push(reason),
            Some(reason) => without_model.push(reason),
            None => mixed.extend(mixed_models(stage, models, cluster)),
        }
    }
    without_pool.extend(without_model);
    without_pool.extend(mixed);
    without_pool
}

/// Reason for which a job is not to be worked on.
fn at_rest(job: &Job, cluster: &ClusterFacts) -> Reason {
    match paused_for(job, &cluster.spending) {
        Some(spent) => Reason::Budget {
            spent,
            budget: job.config.budget,
        },
        None => Reason::Job { status: job.status },
    }
}

/// Reason that needs no look at placement: the task has ended, or is leased.
fn lease_reason(task: &Task, job: &Job, cluster: &ClusterFacts) -> Option<Reason> {
    let stage = match &task.position {
        Position::Done => return Some(Reason::Finished),
        Position::Pending => return None,
        Position::At(stage) => stage.clone(),
    };
    let lease = task.lease.as_ref()?;
    let worker = lease.worker.clone();
    if lease.until > cluster.now {
        let until = lease.until;
        if let Some(service) = worker.service() {
            return Some(Reason::AtService {
                stage,
                service: service.to_owned(),
                since: task.started_at.unwrap_or(cluster.now),
                until,
            });
        }
        let waits = reader_paused(job, &stage, worker.node(), cluster);
        return Some(waits.unwrap_or(Reason::Running { stage, worker, until }));
    }
    Some(Reason::Overdue {
        stage,
        worker,
        since: lease.until,
        is_led: cluster.is_led,
    })
}

/// Pool or model that the job's tasks at the stage miss.
fn missing_for(job: &Job, stage: &StageName, cluster: &ClusterFacts) -> Option<Reason> {
    if cluster.is_run_for(job.id, stage) {
        return None;
    }
    missing(stage, &job.config.models, cluster)
}

fn missing(stage: &StageName, models: &NamedModels, cluster: &ClusterFacts) -> Option<Reason> {
    let stage_name = stage.clone();
    let wanted: Vec<String> = models.of(stage).map(str::to_owned).collect();
    if !cluster.is_run(stage) {
        return Some(Reason::NoPool {
            stage: stage_name,
            wanted,
        });
    }
    let is_suited = |pool: &PoolInfo| models.are_loaded(stage, &pool.models);
    if wanted.is_empty() || cluster.pools_of(stage).any(is_suited) {
        return None;
    }
    Some(Reason::NoModel {
        stage: stage_name,
        wanted,
        loaded: names(cluster.pools_of(stage).flat_map(|pool| &pool.models)),
    })
}

fn mixed_models(stage: &StageName, models: &NamedModels, cluster: &ClusterFacts) -> Option<Reason> {
    if models.of(stage).next().is_some() {
        return None;
    }
    let pools = cluster.pools_of(stage).filter(|pool| !pool.models.is_empty());
    let sets: BTreeSet<BTreeSet<&String>> = pools.map(|pool| pool.models.iter().collect()).collect();
    if sets.len() < 2 {
        return None;
    }
    Some(Reason::MixedModels {
        stage: stage.clone(),
        loaded: names(sets.into_iter().flatten()),
    })
}

/// Names in order, each once.
fn names<'a>(models: impl Iterator<Item = &'a String>) -> Vec<String> {
    let names: BTreeSet<&String> = models.collect();
    names.into_iter().cloned().collect()
}

fn limit_reached(job: &Job, stage: &StageName, cluster: &ClusterFacts) -> Option<Reason> {
    let in_all = cluster.leases(|held| held.job == job.id);
    let at_stage = cluster.leases(|held| held.job == job.id && held.stage == *stage);
    let limits = [
        ("max_running", job.config.max_running, in_all),
        (
            "max_running_per_stage",
            job.config.max_running_per_stage,
            at_stage,
        ),
    ];
    let reached = limits
        .into_iter()
        .find(|(_, limit, held)| *limit > 0 && held >= limit);
    reached.map(|(key, limit, held)| Reason::Limit {
        stage: stage.clone(),
        key,
        limit,
        held,
    })
}

/// Reason that lies in the slots, which the stage has. Placement itself is asked, so that the answer is what the next pass does.
fn slot_reason(task: &Task, job: &Job, stage: &StageName, cluster: &ClusterFacts) -> Reason {
    let free = FreeSlots::of(&cluster.pools, &cluster.held);
    let number = free.room_for(stage, job);
    let is_placed = !place(cluster.now, [(task, job)], free, &cluster.held).is_empty();
    let stage_name = stage.clone();
    if is_placed {
        Reason::Nothing {
            stage: stage_name,
            free: number,
        }
    } else if is_suspect(task) {
        Reason::Suspect { stage: stage_name }
    } else {
        Reason::NoSlot {
            stage: stage_name,
            slots: cluster.slots_for(job, stage),
        }
    }
}

#[cfg(test)]
mod tests;
