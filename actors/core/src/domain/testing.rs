//! Fixtures of the domain for the tests of every crate.
//!
//! Each is a legal value with all of its fields filled in, of which a test names only those that it is about, as in
//! `Task { attempts: 2, ..task(1) }`. Other crates enable the feature `testing` of this one in their `[dev-dependencies]`.

#![allow(clippy::unwrap_used, reason = "test code fails by panicking")]

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::{
    Attempt, Fence, Generation, Job, JobConfig, JobId, JobStatus, Lease, NewJob, NodeRecord, NodeState,
    Pipeline, PoolInfo, Position, StageName, StageRun, StageRunStatus, Task, TaskId, TaskStatus, VolumeId,
    WorkerId, WorkerRecord,
};

/// Time at which most tests begin, and a number of seconds.
pub fn at(seconds: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(1_700_000_000 + seconds, 0).unwrap()
}

/// Name of a stage.
pub fn stage(name: &str) -> StageName {
    StageName::new(name).unwrap()
}

/// Pipeline of these stages.
pub fn pipeline(stages: &[&str]) -> Pipeline {
    Pipeline::new(stages.iter().map(|name| stage(name)).collect()).unwrap()
}

/// Volume `W1-I{number}`.
pub fn volume(number: i64) -> VolumeId {
    VolumeId::new("W1", format!("I{number}")).unwrap()
}

/// Holder of leases.
pub fn worker(name: &str) -> WorkerId {
    WorkerId(name.to_owned())
}

/// Running job 1 of three stages, `detect`, `read` and `reduce`, with the default configuration.
pub fn job() -> Job {
    Job {
        id: JobId(1),
        key: "job".parse().unwrap(),
        operation: "ocr".to_owned(),
        pipeline: pipeline(&["detect", "read", "reduce"]),
        config: JobConfig::default(),
        status: JobStatus::Running,
        standing: false,
        created_at: at(0),
        finished_at: None,
    }
}

/// Job without a name through these stages, over volumes from `W1-I1` on.
pub fn new_job(stages: &[&str], volumes: usize) -> NewJob {
    NewJob {
        key: None,
        operation: "ocr".to_owned(),
        pipeline: pipeline(stages),
        config: JobConfig::default(),
        volumes: (1..).take(volumes).map(volume).collect(),
        standing: false,
    }
}

/// Task of job 1 that has not begun and may fail three times; its volume has the same number.
pub fn task(number: i64) -> Task {
    Task::fresh(TaskId(number), JobId(1), volume(number), 3)
}

/// Task as [`task`] that has come to a stage.
pub fn task_at(number: i64, stage_name: &str, status: TaskStatus) -> Task {
    Task {
        position: Position::At(stage(stage_name)),
        status,
        ..task(number)
    }
}

/// Task as [`task`] that a worker runs a stage of, under a lease until a time.
pub fn leased_task(number: i64, stage_name: &str, holder: &str, until: DateTime<Utc>) -> Task {
    Task {
        lease: Some(Lease {
            worker: worker(holder),
            until,
        }),
        ..task_at(number, stage_name, TaskStatus::Running)
    }
}

/// Fence of the first lease of a task.
pub fn fence(task: i64, stage_name: &str) -> Fence {
    Fence {
        task: TaskId(task),
        stage: stage(stage_name),
        attempt: Attempt(1),
        generation: Generation(0),
    }
}

/// Run of a stage for task 1 that began at second 0 and took so many seconds.
pub fn stage_run(stage_name: &str, seconds: i64, metrics: Value) -> StageRun {
    StageRun {
        fence: fence(1, stage_name),
        status: StageRunStatus::Done,
        worker: worker("w"),
        started_at: at(0),
        ended_at: Some(at(seconds)),
        error: None,
        metrics,
        fingerprint: None,
    }
}

/// Pool without models.
pub fn pool(name: &str, stage_name: &str, slots: usize) -> PoolInfo {
    PoolInfo {
        worker: worker(name),
        stage: stage(stage_name),
        slots,
        models: Vec::new(),
    }
}

/// Node that said at second 0 that it is there, with no more than its name.
pub fn node_record(name: &str) -> NodeRecord {
    NodeRecord {
        name: name.to_owned(),
        roles: Vec::new(),
        tags: Vec::new(),
        host: None,
        build: "0.1.0".to_owned(),
        protocol: 1,
        health: None,
        started_at: None,
        resident: None,
        last_seen: at(0),
        state: NodeState::Joined,
        workers: Vec::new(),
        engines: Vec::new(),
    }
}

/// Pool of one free slot in the record of its node.
pub fn worker_record(name: &str, stage_name: &str) -> WorkerRecord {
    WorkerRecord {
        worker: worker(name),
        stage: stage(stage_name),
        models: Vec::new(),
        slots: 1,
        in_use: 0,
        incarnation: 1,
        last_heartbeat: None,
        pages: None,
        pages_finished: None,
    }
}
