//! Jobs that are steered while they run. Time is paused: it passes only where everybody waits for it, so that what takes
//! none was told and not found out later.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use chrono::Utc;
use parkhang_actors::orchestrator::{JobEnd, OrchestratorConfig, OrchestratorHandle};
use parkhang_actors::stage::{StageContext, StageInfo, StageLogic, StageRegistry};
use parkhang_actors::supervisor::{HealthPolicy, NodeConfig, NodeSupervisor};
use parkhang_actors::telemetry::ProgressBoard;
use parkhang_core::domain::{
    Adjustment, Hardware, Job, JobConfig, JobId, JobStatus, NewJob, Pipeline, Position, StageName,
    StageReport, StageRunStatus, StageVerdict, TaskStatus,
};
use parkhang_core::policy::job_action::JobAction;
use parkhang_core::policy::rerun::{Rerun, TaskFilter};
use parkhang_state::{MemoryStore, StateStore};
use tokio::sync::watch;
use tokio::time::Instant;

/// What the stages of a desk have done, as `job volume stage`, with what became of it where that was not success.
type Diary = Arc<Mutex<Vec<String>>>;

/// Runs until the gate is open, unless it is told to stop.
#[derive(Debug)]
struct Gated {
    name: StageName,
    open: watch::Receiver<bool>,
    diary: Diary,
    entries: watch::Sender<usize>,
}

impl Gated {
    fn note(&self, context: &StageContext, what: &str) {
        let assignment = &context.assignment;
        let forced = if assignment.config.force { " forced" } else { "" };
        let entry = format!(
            "{} {} {}{forced}{what}",
            assignment.job,
            assignment.volume.i_id(),
            self.name
        );
        self.diary.lock().unwrap().push(entry);
        self.entries.send_modify(|count| *count += 1);
    }
}

impl StageInfo for Gated {
    fn name(&self) -> StageName {
        self.name.clone()
    }

    fn hardware(&self) -> Hardware {
        Hardware::Cpu
    }
}

#[async_trait]
impl StageLogic for Gated {
    fn info(&self) -> &dyn StageInfo {
        self
    }

    async fn run(&self, context: StageContext) -> StageVerdict {
        self.note(&context, "");
        let mut open = self.open.clone();
        tokio::select! {
            _ = open.wait_for(|open| *open) => StageVerdict::Succeeded(StageReport::default()),
            () = context.drain.cancelled() => {
                self.note(&context, " stopped");
                StageVerdict::Interrupted
            }
        }
    }
}

/// One process with the stages `first` and `second`.
struct Desk {
    store: Arc<dyn StateStore>,
    orchestrator: OrchestratorHandle,
    node: NodeSupervisor,
    gate: watch::Sender<bool>,
    diary: Diary,
    entries: watch::Receiver<usize>,
}

impl Desk {
    async fn with_slots(slots: usize) -> Self {
        let store: Arc<dyn StateStore> = Arc::new(MemoryStore::new());
        let orchestrator = OrchestratorHandle::start(OrchestratorConfig::new(store.clone()));
        let orchestrator = orchestrator.await.unwrap();
        let (gate, open) = watch::channel(false);
        let (counter, entries) = watch::channel(0);
        let diary = Diary::default();
        let stage = |name: &str| -> Arc<dyn StageLogic> {
            Arc::new(Gated {
                name: StageName::new(name).unwrap(),
                open: open.clone(),
                diary: diary.clone(),
                entries: counter.clone(),
            })
        };
        let node = NodeSupervisor::start(NodeConfig {
            name: "test".to_owned(),
            slots: HashMap::from([(Hardware::Cpu, slots)]),
            registry: Arc::new(StageRegistry::of(vec![stage("first"), stage("second")])),
            progress: Arc::new(ProgressBoard::default()),
            control_plane: Arc::new(orchestrator.clone()),
            heartbeat: Duration::from_secs(5),
            health: HealthPolicy::default(),
        });
        Self {
            store,
            orchestrator,
            node: node.await.unwrap(),
            gate,
            diary,
            entries,
        }
    }

    async fn job(&self, name: &str, volumes: usize, stages: &[&str], config: JobConfig) -> JobId {
        let stages = stages.iter().map(|name| StageName::new(*name).unwrap());
        let new = NewJob {
            key: Some(name.parse().unwrap()),
            operation: "test".to_owned(),
            pipeline: Pipeline::new(stages.collect()).unwrap(),
            config,
            volumes: (1..=volumes)
                .map(|n| format!("W1-I{n}").parse().unwrap())
                .collect(),
        };
        let job = self.store.create_job(&new, Utc::now()).await.unwrap();
        self.orchestrator.wake();
        job.id
    }

    async fn act(&self, job: JobId, action: JobAction) {
        self.store.act_on_job(job, action).await.unwrap();
        self.orchestrator.wake();
    }

    async fn adjust(&self, job: JobId, pair: &str) {
        let adjustment = Adjustment::new([pair]).unwrap();
        self.store.adjust_job(job, &adjustment).await.unwrap();
        self.orchestrator.wake();
    }

    async fn rerun(&self, job: JobId, from: &str, volume: &str, force: bool) {
        let rerun = Rerun {
            tasks: TaskFilter {
                volumes: vec![volume.parse().unwrap()],
                ..TaskFilter::default()
            },
            from: StageName::new(from).unwrap(),
            force,
        };
        let rewound = self.store.rerun(job, &rerun, Utc::now()).await.unwrap();
        assert_eq!(rewound.tasks.number, 1);
        self.orchestrator.wake();
    }

    /// Waits until so many things have happened, and says which.
    async fn diary(&mut self, entries: usize) -> Vec<String> {
        self.entries.wait_for(|count| *count >= entries).await.unwrap();
        self.diary.lock().unwrap().clone()
    }

    async fn ends(&self, job: JobId, status: JobStatus) -> Job {
        let end = self.orchestrator.job_end(job).await.unwrap();
        assert_eq!(end, JobEnd::Settled(status));
        self.store.job_by_id(job).await.unwrap().unwrap()
    }

    async fn stop(self) {
        self.node.stop().await;
        self.orchestrator.stop().await;
    }
}

/// Rows: F10.
#[tokio::test(start_paused = true)]
async fn a_cancelled_job_stops_at_once_and_frees_its_slots() {
    let mut desk = Desk::with_slots(1).await;
    let unwanted = desk.job("unwanted", 2, &["first"], JobConfig::default()).await;
    assert_eq!(desk.diary(1).await, ["unwanted I1 first"]);
    let before = Instant::now();
    desk.act(unwanted, JobAction::Cancel).await;
    assert_eq!(desk.diary(2).await[1], "unwanted I1 first stopped");
    assert_eq!(
        before.elapsed(),
        Duration::ZERO,
        "told, and not found out by a heartbeat"
    );

    desk.gate.send(true).unwrap();
    let wanted = desk.job("wanted", 2, &["first"], JobConfig::default()).await;
    desk.ends(wanted, JobStatus::Completed).await;
    let cancelled = desk.ends(unwanted, JobStatus::Cancelled).await;
    assert!(cancelled.finished_at.is_some());
    let tasks = desk.store.tasks(unwanted).await.unwrap();
    for task in &tasks {
        assert_eq!(
            (task.fence(), task.status, task.attempts, task.interruptions),
            (None, TaskStatus::Pending, 0, 0)
        );
    }
    let history = desk.store.stage_runs(tasks[0].id).await.unwrap();
    let ends: Vec<StageRunStatus> = history.iter().map(|run| run.status).collect();
    assert_eq!(ends, [StageRunStatus::Cancelled]);
    assert_eq!(desk.diary(4).await[2..], ["wanted I1 first", "wanted I2 first"]);
    desk.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_paused_job_lets_its_stages_end_and_goes_on_where_it_stood() {
    let mut desk = Desk::with_slots(1).await;
    let job = desk
        .job("job", 2, &["first", "second"], JobConfig::default())
        .await;
    desk.diary(1).await;
    desk.act(job, JobAction::Pause).await;
    desk.gate.send(true).unwrap();
    desk.orchestrator.idle(job).await.unwrap();
    let other = desk
        .job("other", 1, &["first", "second"], JobConfig::default())
        .await;
    desk.ends(other, JobStatus::Completed).await;

    let tasks = desk.store.tasks(job).await.unwrap();
    let places: Vec<_> = tasks
        .iter()
        .map(|task| (task.position.as_str(), task.status))
        .collect();
    assert_eq!(
        places,
        [("first", TaskStatus::Done), ("pending", TaskStatus::Pending)],
        "what ran came to its end, and nothing else was begun"
    );
    desk.act(job, JobAction::Resume).await;
    desk.ends(job, JobStatus::Completed).await;
    let done = desk.diary(6).await;
    assert_eq!(done.iter().filter(|entry| entry.starts_with("job")).count(), 4);
    desk.stop().await;
}

#[tokio::test(start_paused = true)]
async fn free_slots_go_by_priority_as_it_is_now() {
    let mut desk = Desk::with_slots(1).await;
    let priority = |priority| JobConfig {
        priority,
        ..JobConfig::default()
    };
    let low = desk.job("low", 2, &["first"], priority(0)).await;
    desk.diary(1).await;
    desk.job("high", 2, &["first"], priority(5)).await;
    let late = desk.job("late", 1, &["first"], priority(-1)).await;
    desk.adjust(late, "priority=9").await;
    desk.gate.send(true).unwrap();
    desk.ends(low, JobStatus::Completed).await;
    assert_eq!(
        desk.diary(5).await,
        [
            "low I1 first",
            "late I1 first",
            "high I1 first",
            "high I2 first",
            "low I2 first"
        ]
    );
    desk.stop().await;
}

#[tokio::test(start_paused = true)]
async fn jobs_of_equal_priority_run_side_by_side() {
    let mut desk = Desk::with_slots(2).await;
    let limited = JobConfig {
        max_running: 1,
        ..JobConfig::default()
    };
    let first = desk.job("first", 3, &["first"], limited).await;
    desk.diary(1).await;
    desk.job("second", 3, &["first"], JobConfig::default()).await;
    desk.diary(2).await;
    desk.adjust(first, "max_running=0").await;
    desk.gate.send(true).unwrap();
    desk.ends(first, JobStatus::Completed).await;
    let diary = desk.diary(6).await;
    assert_eq!(diary[..2], ["first I1 first", "second I1 first"]);
    desk.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_limit_that_is_lifted_takes_effect_at_once() {
    let mut desk = Desk::with_slots(3).await;
    let limited = JobConfig {
        max_running: 1,
        ..JobConfig::default()
    };
    let job = desk.job("job", 3, &["first"], limited).await;
    desk.diary(1).await;
    let before = Instant::now();
    desk.adjust(job, "max_running=2").await;
    assert_eq!(desk.diary(2).await, ["job I1 first", "job I2 first"]);
    assert_eq!(before.elapsed(), Duration::ZERO);
    assert_eq!(desk.store.tasks(job).await.unwrap()[2].lease, None);
    desk.gate.send(true).unwrap();
    desk.ends(job, JobStatus::Completed).await;
    desk.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_rerun_does_a_stage_and_what_follows_again() {
    let mut desk = Desk::with_slots(1).await;
    desk.gate.send(true).unwrap();
    let job = desk
        .job("job", 2, &["first", "second"], JobConfig::default())
        .await;
    desk.ends(job, JobStatus::Completed).await;
    assert_eq!(desk.diary(4).await.len(), 4);

    desk.rerun(job, "second", "W1-I2", false).await;
    desk.ends(job, JobStatus::Completed).await;
    assert_eq!(desk.diary(5).await[4..], ["job I2 second"]);
    desk.rerun(job, "first", "W?-I1", true).await;
    desk.ends(job, JobStatus::Completed).await;
    assert_eq!(
        desk.diary(7).await[5..],
        ["job I1 first forced", "job I1 second forced"]
    );
    for task in desk.store.tasks(job).await.unwrap() {
        assert_eq!((task.position, task.generation.0), (Position::Done, 1));
        assert!(!task.forced);
    }
    desk.stop().await;
}

/// Rows: F15.
#[tokio::test(start_paused = true)]
async fn a_rerun_of_running_work_cuts_it_off() {
    let mut desk = Desk::with_slots(1).await;
    let job = desk.job("job", 1, &["first"], JobConfig::default()).await;
    desk.diary(1).await;
    desk.rerun(job, "first", "W1-I1", false).await;
    // The worker hears of it by its heartbeat, and is cut off; only then is its slot free.
    assert_eq!(desk.diary(2).await, ["job I1 first", "job I1 first"]);
    desk.gate.send(true).unwrap();
    desk.ends(job, JobStatus::Completed).await;
    let task = desk.store.tasks(job).await.unwrap().remove(0);
    let history = desk.store.stage_runs(task.id).await.unwrap();
    let begun = history.iter().filter(|run| run.status == StageRunStatus::Done);
    assert_eq!(begun.count(), 1, "{history:#?}");
    assert_eq!((task.attempts, task.interruptions), (0, 0));
    assert!(
        history.len() < 12,
        "a pool that has no room is not asked again and again"
    );
    desk.stop().await;
}
