//! Jobs that are steered while they run. Time is paused: it passes only where everybody waits for it, so that what takes
//! none was told and not found out later.

use std::sync::Arc;
use std::time::Duration;

use chrono::Utc;
use parkhang_actors::stage::StageLogic;
use parkhang_core::domain::testing::{new_job, stage};
use parkhang_core::domain::{
    Adjustment, Job, JobConfig, JobId, JobStatus, NewJob, Position, StageReport, StageRunStatus,
    StageVerdict, TaskStatus,
};
use parkhang_core::policy::job_action::JobAction;
use parkhang_core::policy::rerun::{Rerun, TaskFilter};
use parkhang_sandbox::{FakeStage, Latch, NodePlan, Run, Sandbox, Script};
use tokio::sync::watch;
use tokio::time::Instant;

/// What the stages of a control have done, as `job volume stage`, with what became of it where that was not success.
type Diary = watch::Sender<Vec<String>>;

fn note(diary: &Diary, run: &Run, what: &str) {
    let assignment = &run.context.assignment;
    let forced = if assignment.config.force { " forced" } else { "" };
    let (job, volume) = (&assignment.job, assignment.volume.i_id());
    let entry = format!("{job} {volume} {}{forced}{what}", run.stage);
    diary.send_modify(|entries| entries.push(entry));
}

/// A stage that runs until the latch is open, unless it is told to stop.
fn noted(name: &str, latch: &Latch, diary: &Diary) -> Arc<dyn StageLogic> {
    let (latch, diary) = (latch.clone(), diary.clone());
    let script = Script::custom(move |run| {
        let (latch, diary) = (latch.clone(), diary.clone());
        async move {
            note(&diary, &run, "");
            tokio::select! {
                () = latch.opened() => StageVerdict::Succeeded(StageReport::default()),
                () = run.context.drain.cancelled() => {
                    note(&diary, &run, " stopped");
                    StageVerdict::Interrupted
                }
            }
        }
    });
    FakeStage::new(name, script).shared()
}

/// One process with the stages `first` and `second`.
struct Control {
    sandbox: Sandbox,
    latch: Latch,
    diary: Diary,
}

impl Control {
    async fn with_slots(slots: usize) -> Self {
        let sandbox = Sandbox::builder().start().await;
        let (latch, diary) = (Latch::new(), Diary::default());
        let stages = ["first", "second"].map(|name| noted(name, &latch, &diary));
        sandbox.node(NodePlan::new(stages.to_vec()).slots(slots)).await;
        Self {
            sandbox,
            latch,
            diary,
        }
    }

    async fn job(&self, name: &str, volumes: usize, stages: &[&str], config: JobConfig) -> JobId {
        let new = NewJob {
            key: Some(name.parse().unwrap()),
            config,
            ..new_job(stages, volumes)
        };
        self.sandbox.create(&new).await.id
    }

    async fn act(&self, job: JobId, action: JobAction) {
        self.sandbox.store.act_on_job(job, action).await.unwrap();
        self.sandbox.orchestrator.wake();
    }

    async fn adjust(&self, job: JobId, pair: &str) {
        let adjustment = Adjustment::new([pair]).unwrap();
        self.sandbox.store.adjust_job(job, &adjustment).await.unwrap();
        self.sandbox.orchestrator.wake();
    }

    async fn rerun(&self, job: JobId, from: &str, volume: &str, force: bool) {
        let rerun = Rerun {
            tasks: TaskFilter {
                volumes: vec![volume.parse().unwrap()],
                ..TaskFilter::default()
            },
            from: stage(from),
            force,
        };
        let rewound = self.sandbox.store.rerun(job, &rerun, Utc::now()).await.unwrap();
        assert_eq!(rewound.tasks.number, 1);
        self.sandbox.orchestrator.wake();
    }

    /// Waits until so many things have happened, and says which.
    async fn diary(&self, entries: usize) -> Vec<String> {
        let mut diary = self.diary.subscribe();
        let noted = diary.wait_for(|noted| noted.len() >= entries).await;
        noted.unwrap().clone()
    }

    async fn ends(&self, job: JobId, status: JobStatus) -> Job {
        self.sandbox.job_ends(job, status).await;
        self.sandbox.store.job_by_id(job).await.unwrap().unwrap()
    }

    async fn stop(self) {
        self.sandbox.stop().await;
    }
}

/// Rows: F10.
#[tokio::test(start_paused = true)]
async fn a_cancelled_job_stops_at_once_and_frees_its_slots() {
    let control = Control::with_slots(1).await;
    let unwanted = control.job("unwanted", 2, &["first"], JobConfig::default()).await;
    assert_eq!(control.diary(1).await, ["unwanted I1 first"]);
    let before = Instant::now();
    control.act(unwanted, JobAction::Cancel).await;
    assert_eq!(control.diary(2).await[1], "unwanted I1 first stopped");
    assert_eq!(
        before.elapsed(),
        Duration::ZERO,
        "told, and not found out by a heartbeat"
    );

    control.latch.open();
    let wanted = control.job("wanted", 2, &["first"], JobConfig::default()).await;
    control.ends(wanted, JobStatus::Completed).await;
    let cancelled = control.ends(unwanted, JobStatus::Cancelled).await;
    assert!(cancelled.finished_at.is_some());
    let tasks = control.sandbox.store.tasks(unwanted).await.unwrap();
    for task in &tasks {
        assert_eq!(
            (task.fence(), task.status, task.attempts, task.interruptions),
            (None, TaskStatus::Pending, 0, 0)
        );
    }
    let history = control.sandbox.store.stage_runs(tasks[0].id).await.unwrap();
    let ends: Vec<StageRunStatus> = history.iter().map(|run| run.status).collect();
    assert_eq!(ends, [StageRunStatus::Cancelled]);
    assert_eq!(
        control.diary(4).await[2..],
        ["wanted I1 first", "wanted I2 first"]
    );
    control.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_paused_job_lets_its_stages_end_and_goes_on_where_it_stood() {
    let control = Control::with_slots(1).await;
    let job = control
        .job("job", 2, &["first", "second"], JobConfig::default())
        .await;
    control.diary(1).await;
    control.act(job, JobAction::Pause).await;
    control.latch.open();
    control.sandbox.orchestrator.idle(job).await.unwrap();
    let other = control
        .job("other", 1, &["first", "second"], JobConfig::default())
        .await;
    control.ends(other, JobStatus::Completed).await;

    let tasks = control.sandbox.store.tasks(job).await.unwrap();
    let places: Vec<_> = tasks
        .iter()
        .map(|task| (task.position.as_str(), task.status))
        .collect();
    assert_eq!(
        places,
        [("first", TaskStatus::Done), ("pending", TaskStatus::Pending)],
        "what ran came to its end, and nothing else was begun"
    );
    control.act(job, JobAction::Resume).await;
    control.ends(job, JobStatus::Completed).await;
    let done = control.diary(6).await;
    assert_eq!(done.iter().filter(|entry| entry.starts_with("job")).count(), 4);
    control.stop().await;
}

#[tokio::test(start_paused = true)]
async fn free_slots_go_by_priority_as_it_is_now() {
    let control = Control::with_slots(1).await;
    let priority = |priority| JobConfig {
        priority,
        ..JobConfig::default()
    };
    let low = control.job("low", 2, &["first"], priority(0)).await;
    control.diary(1).await;
    control.job("high", 2, &["first"], priority(5)).await;
    let late = control.job("late", 1, &["first"], priority(-1)).await;
    control.adjust(late, "priority=9").await;
    control.latch.open();
    control.ends(low, JobStatus::Completed).await;
    assert_eq!(
        control.diary(5).await,
        [
            "low I1 first",
            "late I1 first",
            "high I1 first",
            "high I2 first",
            "low I2 first"
        ]
    );
    control.stop().await;
}

#[tokio::test(start_paused = true)]
async fn jobs_of_equal_priority_run_side_by_side() {
    let control = Control::with_slots(2).await;
    let limited = JobConfig {
        max_running: 1,
        ..JobConfig::default()
    };
    let first = control.job("first", 3, &["first"], limited).await;
    control.diary(1).await;
    control.job("second", 3, &["first"], JobConfig::default()).await;
    control.diary(2).await;
    control.adjust(first, "max_running=0").await;
    control.latch.open();
    control.ends(first, JobStatus::Completed).await;
    let diary = control.diary(6).await;
    assert_eq!(diary[..2], ["first I1 first", "second I1 first"]);
    control.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_limit_that_is_lifted_takes_effect_at_once() {
    let control = Control::with_slots(3).await;
    let limited = JobConfig {
        max_running: 1,
        ..JobConfig::default()
    };
    let job = control.job("job", 3, &["first"], limited).await;
    control.diary(1).await;
    let before = Instant::now();
    control.adjust(job, "max_running=2").await;
    assert_eq!(control.diary(2).await, ["job I1 first", "job I2 first"]);
    assert_eq!(before.elapsed(), Duration::ZERO);
    assert_eq!(control.sandbox.store.tasks(job).await.unwrap()[2].lease, None);
    control.latch.open();
    control.ends(job, JobStatus::Completed).await;
    control.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_rerun_does_a_stage_and_what_follows_again() {
    let control = Control::with_slots(1).await;
    control.latch.open();
    let job = control
        .job("job", 2, &["first", "second"], JobConfig::default())
        .await;
    control.ends(job, JobStatus::Completed).await;
    assert_eq!(control.diary(4).await.len(), 4);

    control.rerun(job, "second", "W1-I2", false).await;
    control.ends(job, JobStatus::Completed).await;
    assert_eq!(control.diary(5).await[4..], ["job I2 second"]);
    control.rerun(job, "first", "W?-I1", true).await;
    control.ends(job, JobStatus::Completed).await;
    assert_eq!(
        control.diary(7).await[5..],
        ["job I1 first forced", "job I1 second forced"]
    );
    for task in control.sandbox.store.tasks(job).await.unwrap() {
        assert_eq!((task.position, task.generation.0), (Position::Done, 1));
        assert!(!task.forced);
    }
    control.stop().await;
}

/// Rows: F15.
#[tokio::test(start_paused = true)]
async fn a_rerun_of_running_work_cuts_it_off() {
    let control = Control::with_slots(1).await;
    let job = control.job("job", 1, &["first"], JobConfig::default()).await;
    control.diary(1).await;
    control.rerun(job, "first", "W1-I1", false).await;
    // The worker hears of it by its heartbeat, and is cut off; only then is its slot free.
    assert_eq!(control.diary(2).await, ["job I1 first", "job I1 first"]);
    control.latch.open();
    control.ends(job, JobStatus::Completed).await;
    let task = control.sandbox.store.tasks(job).await.unwrap().remove(0);
    let history = control.sandbox.store.stage_runs(task.id).await.unwrap();
    let begun = history.iter().filter(|run| run.status == StageRunStatus::Done);
    assert_eq!(begun.count(), 1, "{history:#?}");
    assert_eq!((task.attempts, task.interruptions), (0, 0));
    assert!(
        history.len() < 12,
        "a pool that has no room is not asked again and again"
    );
    control.stop().await;
}
