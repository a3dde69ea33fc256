//! Latencies and overhead of a whole control plane with stages that do nothing: orchestrator, group committer, a Postgres that
//! flushes, and the pools of a node, in one process or over a loopback session. Prints percentiles, which criterion does
//! not. `cargo bench --bench cluster -- --test` runs it once, small.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a bench fails by panicking")]

#[path = "support/mod.rs"]
mod support;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};
use parkhang_actors::orchestrator::{JobEnd, OrchestratorConfig, OrchestratorHandle};
use parkhang_actors::stage::{StageLogic, ocr_pipeline};
use parkhang_core::domain::{JobStatus, StageName, StageReport, StageVerdict, TaskId};
use parkhang_sandbox::{FakeStage, NodePlan, Run, Sandbox, Script};
use parkhang_state::StateStore;
use support::Server;

/// When a stage of a task ran, and when the reconciler had decided that it should.
#[derive(Debug, Clone, Copy)]
struct Mark {
    decided: DateTime<Utc>,
    started: DateTime<Utc>,
    ended: DateTime<Utc>,
}

type Marks = Arc<Mutex<HashMap<(TaskId, StageName), Mark>>>;

/// Marks that it was here.
fn mark(run: &Run, lease: TimeDelta, marks: &Marks) {
    let started = Utc::now();
    let assignment = &run.context.assignment;
    let mark = Mark {
        decided: assignment.lease_until - lease,
        started,
        ended: Utc::now(),
    };
    let key = (assignment.fence.task, run.stage.clone());
    marks.lock().unwrap().insert(key, mark);
}

struct Plane {
    sandbox: Sandbox,
    marks: Marks,
}

impl Plane {
    async fn start(store: Arc<dyn StateStore>, slots: usize, loopback: bool) -> Self {
        let lease = TimeDelta::from_std(OrchestratorConfig::new(store.clone()).lease).unwrap();
        let sandbox = Sandbox::over(store);
        let sandbox = if loopback { sandbox.remote() } else { sandbox };
        let sandbox = sandbox.start().await;
        let marks = Marks::default();
        let pipeline = ocr_pipeline();
        let stages = pipeline.stages().iter().map(|name| -> Arc<dyn StageLogic> {
            let marks = marks.clone();
            let script = Script::custom(move |run| {
                mark(&run, lease, &marks);
                std::future::ready(StageVerdict::Succeeded(StageReport::default()))
            });
            FakeStage::new(name.as_str(), script).shared()
        });
        let plan = NodePlan::new(stages.collect()).slots(slots);
        sandbox.node(plan.named("bench")).await;
        Self { sandbox, marks }
    }

    /// Runs a job to its end and returns how long that took.
    async fn job(&self, name: &str, volumes: usize) -> Duration {
        let job = support::new_job(name, volumes);
        let job = self.sandbox.store.create_job(&job, Utc::now()).await.unwrap();
        let began = Instant::now();
        self.sandbox.orchestrator.wake();
        let end = self.sandbox.orchestrator.job_end(job.id).await.unwrap();
        assert_eq!(end, JobEnd::Finished(JobStatus::Completed));
        began.elapsed()
    }

    fn take_marks(&self) -> HashMap<(TaskId, StageName), Mark> {
        std::mem::take(&mut *self.marks.lock().unwrap())
    }

    async fn stop(self) {
        self.sandbox.stop().await;
    }
}

fn print(what: &str, mut times: Vec<TimeDelta>) {
    times.sort();
    let at = |share: f64| {
        let rank = (share * times.len() as f64).ceil() as usize;
        let time = times.get(rank.saturating_sub(1)).copied().unwrap_or_default();
        time.num_microseconds().unwrap_or(0) as f64 / 1000.0
    };
    let (p50, p99, most) = (at(0.50), at(0.99), at(1.0));
    println!(
        "  {what:<44} p50 {p50:8.2} ms  p99 {p99:8.2} ms  most {most:8.2} ms  of {}",
        times.len()
    );
}

fn latencies(marks: &HashMap<(TaskId, StageName), Mark>) {
    print(
        "decision to start, the lease's commit included",
        marks.values().map(|mark| mark.started - mark.decided).collect(),
    );
    let pipeline = ocr_pipeline();
    let advances = marks.iter().filter_map(|((task, stage), mark)| {
        let after = pipeline.after(&stage.as_str().parse().ok()?)?;
        let next = marks.get(&(*task, after.clone()))?;
        Some(next.started - mark.ended)
    });
    print("end of a stage to start of the next", advances.collect());
}

/// Memory of this process, in bytes.
fn memory() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    let resident: usize = pages.split_whitespace().nth(1).unwrap().parse().unwrap();
    resident * 4096
}

#[tokio::main]
async fn main() {
    let small = std::env::args().any(|argument| argument == "--test");
    let (alone, crowd, idle) = if small { (3, 40, 500) } else { (200, 5_000, 70_000) };
    let server = Server::start();
    for loopback in [false, true] {
        let place = if loopback { "over loopback" } else { "in process" };
        let store = server.store(&format!("cluster_{loopback}"), true).await;
        let plane = Plane::start(store, 100, loopback).await;
        plane.job("first", 1).await;
        plane.take_marks();
        for number in 0..alone {
            plane.job(&format!("alone-{number}"), 1).await;
        }
        println!("{place}, one volume at a time");
        latencies(&plane.take_marks());

        let took = plane.job("crowd", crowd).await;
        let a_minute = crowd as f64 / took.as_secs_f64() * 60.0;
        println!(
            "{place}, {crowd} volumes through 4 stages, 100 slots each: {took:.1?}, {a_minute:.0} volumes a minute"
        );
        latencies(&plane.take_marks());
        plane.stop().await;
    }

    let store = server.store("idle", true).await;
    let job = support::new_job("idle", idle);
    store.create_job(&job, Utc::now()).await.unwrap();
    drop(job);
    let before = memory();
    let orchestrator = OrchestratorHandle::start(OrchestratorConfig::new(store.clone()))
        .await
        .unwrap();
    for _ in 0..10 {
        orchestrator.wake();
        store.leases(Utc::now()).await.unwrap();
    }
    let grown = memory().saturating_sub(before);
    println!(
        "{idle} idle tasks: the orchestrator grew by {:.1} KiB, {:.2} bytes a task",
        grown as f64 / 1024.0,
        grown as f64 / idle as f64
    );
    orchestrator.stop().await;
}
