//! Why a job does not get on, as far as the database can tell, and what to do about it.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, TimeDelta, Utc};
use parkhang_actors::domain::{
    Hardware, Job, JobKey, JobStatus, NodeRecord, NodeState, StageName, Task, WorkerId,
};
use parkhang_actors::policy::transition::runnable_stage;
use parkhang_actors::stage::hardware_of;
use serde::Serialize;

/// What keeps volumes waiting that could go on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "obstacle", rename_all = "snake_case")]
pub enum Obstacle {
    Paused,
    /// No orchestrator leads, and no node that does without one has taken anything.
    NoLeader,
    /// Nobody who is there runs these stages.
    NoNode {
        /// That they run on, where this program knows the stages.
        hardware: Option<Hardware>,
        stages: Vec<StageName>,
    },
}

/// Who could take the work.
#[derive(Debug, Clone, Copy)]
pub struct Hands<'a> {
    /// Whether an orchestrator leads.
    pub led: bool,
    pub nodes: &'a [NodeRecord],
    /// How long a node may be silent and still count.
    pub patience: TimeDelta,
}

/// What is in the way of the job at `now`.
pub fn obstacles(job: &Job, tasks: &[Task], hands: Hands<'_>, now: DateTime<Utc>) -> Vec<Obstacle> {
    let scope = job.config.retry_scope;
    let is_due = |task: &&Task| task.not_before.is_none_or(|time| time <= now);
    let waiting: BTreeSet<&StageName> = tasks
        .iter()
        .filter(is_due)
        .filter_map(|task| runnable_stage(task, &job.pipeline, scope))
        .collect();
    let is_held = |task: &&Task| task.lease.as_ref().is_some_and(|lease| lease.until > now);
    let running = tasks.iter().filter(is_held).filter_map(Task::fence);
    let running: BTreeSet<StageName> = running.map(|fence| fence.stage).collect();
    let open = match job.status {
        JobStatus::Running => !waiting.is_empty(),
        // Its end is still to be written down.
        JobStatus::Cancelled => job.finished_at.is_none(),
        JobStatus::Paused if !waiting.is_empty() => return vec![Obstacle::Paused],
        JobStatus::Paused | JobStatus::Created | JobStatus::Completed | JobStatus::Failed => false,
    };
    if !open {
        return Vec::new();
    }
    if !hands.led {
        // Of a node that takes its work itself no leader has written anything down.
        let is_told_of = |worker: &WorkerId| hands.nodes.iter().any(|node| node.name == worker.node());
        let mut leases = tasks
            .iter()
            .filter(is_held)
            .filter_map(|task| task.lease.as_ref());
        return match leases.any(|lease| !is_told_of(&lease.worker)) {
            true => Vec::new(),
            false => vec![Obstacle::NoLeader],
        };
    }
    if job.status == JobStatus::Cancelled {
        return Vec::new();
    }
    let is_there =
        |node: &&NodeRecord| node.state == NodeState::Joined && now - node.last_seen <= hands.patience;
    let pools = hands.nodes.iter().filter(is_there).flat_map(|node| &node.workers);
    let served: BTreeSet<&StageName> = pools.map(|pool| &pool.stage).chain(&running).collect();
    let mut missing: BTreeMap<Option<&str>, Obstacle> = BTreeMap::new();
    for stage in job.pipeline.stages() {
        if !waiting.contains(stage) || served.contains(stage) {
            continue;
        }
        let hardware = hardware_of(stage);
        let missing = missing.entry(hardware.map(role)).or_insert(Obstacle::NoNode {
            hardware,
            stages: Vec::new(),
        });
        if let Obstacle::NoNode { stages, .. } = missing {
            stages.push(stage.clone());
        }
    }
    missing.into_values().collect()
}

/// Of nodes that have the hardware.
const fn role(hardware: Hardware) -> &'static str {
    match hardware {
        Hardware::Cpu => "cpu",
        Hardware::Gpu => "gpu",
    }
}

impl Obstacle {
    /// One line for whoever looks after the job.
    pub fn advice(&self, job: &JobKey) -> String {
        match self {
            Self::Paused => format!("the job is paused; `node job resume {job}` lets it go on"),
            Self::NoLeader => "no orchestrator leads; `node --role orchestrator` starts one \
                               (nodes that need none: `node --role cpu,gpu --source postgres`)"
                .to_owned(),
            Self::NoNode { hardware, stages } => {
                let stages: Vec<&str> = stages.iter().map(StageName::as_str).collect();
                let stages = stages.join(" or ");
                match hardware {
                    Some(hardware) => format!(
                        "no node is there that runs {stages}; `node --role {}` starts one",
                        role(*hardware)
                    ),
                    None => format!("no node is there that runs {stages}"),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use parkhang_actors::domain::{JobConfig, JobId, Lease, TaskId, TaskStatus, WorkerRecord};
    use parkhang_actors::stage::ocr_pipeline;

    use super::*;

    fn at(second: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(1_700_000_000 + second, 0).unwrap()
    }

    fn job(status: JobStatus) -> Job {
        Job {
            id: JobId(1),
            key: "press".parse().unwrap(),
            operation: "ocr".to_owned(),
            pipeline: ocr_pipeline(),
            config: JobConfig::default(),
            status,
            created_at: at(0),
            finished_at: None,
        }
    }

    fn task(position: &str, status: TaskStatus) -> Task {
        Task {
            position: position.parse().unwrap(),
            status,
            ..Task::fresh(TaskId(1), JobId(1), "W1-I1".parse().unwrap(), 3)
        }
    }

    fn leased(stage: &str, until: i64) -> Task {
        Task {
            lease: Some(Lease {
                worker: WorkerId("gpu-1/ocr/1".to_owned()),
                until: at(until),
            }),
            ..task(stage, TaskStatus::Running)
        }
    }

    fn node(stages: &[&str], seen: i64, state: NodeState) -> NodeRecord {
        let pools = stages.iter().map(|stage| WorkerRecord {
            worker: WorkerId(format!("node/{stage}/1")),
            stage: stage.parse().unwrap(),
            slots: 1,
            in_use: 0,
            generation: 1,
            last_heartbeat: None,
            pages: None,
            pages_finished: None,
        });
        NodeRecord {
            name: "node".to_owned(),
            roles: Vec::new(),
            host: None,
            build: "0".to_owned(),
            protocol: 1,
            health: None,
            started_at: None,
            last_seen: at(seen),
            state,
            workers: pools.collect(),
        }
    }

    fn found(status: JobStatus, tasks: &[Task], led: bool, nodes: &[NodeRecord]) -> Vec<String> {
        let (job, patience) = (job(status), TimeDelta::seconds(20));
        let hands = Hands { led, nodes, patience };
        let found = obstacles(&job, tasks, hands, at(100));
        found.iter().map(|obstacle| obstacle.advice(&job.key)).collect()
    }

    const FRESH: (&str, TaskStatus) = ("pending", TaskStatus::Pending);

    #[test]
    fn stages_that_nobody_runs_are_named_with_the_role_that_does() {
        let tasks = [task(FRESH.0, FRESH.1), task("line_extraction", TaskStatus::Done)];
        let gpu = "no node is there that runs line_detection or ocr; `node --role gpu` starts one";
        let found = |nodes: &[NodeRecord]| found(JobStatus::Running, &tasks, true, nodes);
        assert_eq!(found(&[]), [gpu]);
        let stages = ["line_detection", "ocr"];
        assert_eq!(found(&[node(&stages, 90, NodeState::Lost)]), [gpu]);
        assert_eq!(
            found(&[node(&stages, 70, NodeState::Joined)]),
            [gpu],
            "silent for long"
        );
        assert_eq!(found(&[node(&stages, 90, NodeState::Joined)]), [""; 0]);
        let half = found(&[node(&["ocr"], 90, NodeState::Joined)]);
        assert_eq!(half.len(), 1);
        assert!(half[0].contains("runs line_detection;"), "{half:?}");
    }

    #[test]
    fn without_a_leader_what_runs_shows_that_none_is_needed() {
        let waiting = task(FRESH.0, FRESH.1);
        let idle = found(JobStatus::Running, std::slice::from_ref(&waiting), false, &[]);
        assert!(
            idle[0].contains("`node --role orchestrator` starts one"),
            "{idle:?}"
        );
        let running = [waiting.clone(), leased("ocr", 101)];
        assert_eq!(found(JobStatus::Running, &running, false, &[]), [""; 0]);
        let mut holder = node(&["ocr"], 90, NodeState::Joined);
        holder.name = "gpu-1".to_owned();
        assert_eq!(
            found(JobStatus::Running, &running, false, &[holder]).len(),
            1,
            "led until now"
        );
        let ran_out = [waiting, leased("ocr", 99)];
        assert_eq!(found(JobStatus::Running, &ran_out, false, &[]).len(), 1);
    }

    #[test]
    fn a_job_in_which_nothing_waits_has_no_obstacle() {
        let mut later = task("ocr", TaskStatus::Pending);
        later.not_before = Some(at(200));
        let tasks = [later, leased("ocr", 101), task("done", TaskStatus::Done)];
        assert_eq!(found(JobStatus::Running, &tasks, false, &[]), [""; 0]);
        let fresh = [task(FRESH.0, FRESH.1)];
        assert_eq!(found(JobStatus::Cancelled, &fresh, true, &[]), [""; 0]);
        let paused = found(JobStatus::Paused, &fresh, false, &[]);
        assert_eq!(
            paused,
            ["the job is paused; `node job resume press` lets it go on"]
        );
    }
}
