//! What a node's supervisor does at an operator's order. Time is paused: it passes when nobody has anything to do.

use std::sync::Arc;

use parkhang_actors::supervisor::NodeSupervisor;
use parkhang_core::domain::{
    ActorKind, ActorRecord, ActorState, CommandOutcome, Hardware, JobStatus, Level, PageOutcome, StageReport,
    StageRunStatus, StageVerdict, TaskStatus,
};
use parkhang_sandbox::{FakeStage, Latch, NodePlan, Run, Sandbox, Script, job_through};

async fn work(run: Run, latch: Latch) -> StageVerdict {
    let progress = &run.context.progress;
    progress.started(2);
    progress.page_finished(PageOutcome::Succeeded);
    latch.opened().await;
    progress.page_finished(PageOutcome::Succeeded);
    StageVerdict::Succeeded(StageReport::default())
}

/// A node with two slots for a stage that ends only once the latch is open.
struct Site {
    sandbox: Sandbox,
    stage: Arc<FakeStage>,
    latch: Latch,
    node: NodeSupervisor,
}

impl Site {
    async fn new() -> Self {
        let latch = Latch::new();
        let held = latch.clone();
        let script = Script::custom(move |run| work(run, held.clone()));
        let stage = FakeStage::new("waiting", script).on(Hardware::Gpu).shared();
        let sandbox = Sandbox::builder()
            .job(job_through(&[stage.logic()], 2))
            .start()
            .await;
        let plan = NodePlan::new(vec![stage.clone()]).slots(2).with_fast_health();
        let node = sandbox.node(plan).await;
        stage.has_begun(2).await;
        Self {
            sandbox,
            stage,
            latch,
            node,
        }
    }

    async fn actor(&self, name: &str) -> Option<ActorRecord> {
        let actors = self.node.actors().await;
        actors.into_iter().find(|actor| actor.name == name)
    }

    /// Lets the job come to its end, and returns the losses of its tasks.
    async fn end(self) -> Vec<i32> {
        self.latch.open();
        let tasks = self.sandbox.ends(JobStatus::Completed).await;
        for task in &tasks {
            assert_eq!((task.status, task.attempts), (TaskStatus::Done, 0));
        }
        let mut interrupted = Vec::new();
        for task in &tasks {
            let runs = self.sandbox.store.stage_runs(task.id).await.unwrap();
            let lost = runs
                .iter()
                .filter(|run| run.status == StageRunStatus::Interrupted);
            interrupted.push(i32::try_from(lost.count()).unwrap());
        }
        self.node.drain().await;
        self.sandbox.stop().await;
        interrupted
    }
}

fn is_done(outcome: &CommandOutcome) -> bool {
    matches!(outcome, CommandOutcome::Done { .. })
}

/// Rows: 249.
#[tokio::test(start_paused = true)]
async fn a_node_shows_its_supervisor_its_pools_and_their_workers() {
    let site = Site::new().await;
    let actors = site.node.actors().await;
    let names: Vec<&str> = actors.iter().map(|actor| actor.name.as_str()).collect();
    let job = &site.sandbox.job().key;
    let workers = ["W1-I1", "W1-I2"].map(|volume| format!("waiting/{job}/{volume}"));
    assert_eq!(names, ["supervisor", "waiting", &workers[0], &workers[1]]);
    let pool = &actors[1];
    assert_eq!(
        (pool.kind, pool.state, pool.parent.as_deref(), pool.restarts),
        (ActorKind::Pool, ActorState::Working, Some("supervisor"), 0)
    );
    let full = Level {
        used: 2,
        capacity: Some(2),
    };
    assert_eq!((pool.slots, pool.incarnation), (Some(full), Some(1)));
    let work = actors[2].work.as_ref().unwrap();
    assert_eq!((work.pages, work.pages_finished), (Some(2), Some(1)));
    assert_eq!(work.volume.to_string(), "W1-I1");
    assert_eq!(site.end().await, [0, 0]);
}

#[tokio::test(start_paused = true)]
async fn a_pool_that_is_restarted_gives_its_leases_back_uncharged() {
    let site = Site::new().await;
    assert!(is_done(&site.node.restart("waiting").await));
    site.stage.has_begun(4).await;
    let pool = site.actor("waiting").await.unwrap();
    assert_eq!((pool.restarts, pool.incarnation), (1, Some(2)));
    assert_eq!(site.stage.renewals(), 1);
    let tasks = site.sandbox.tasks().await;
    assert!(
        tasks.iter().all(|task| task.interruptions == 0),
        "nothing was lost"
    );
    // They may be offered to the pool that ends, which hands them back once more.
    assert!(site.end().await.iter().all(|lost| *lost >= 1));
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_is_restarted_gives_its_lease_back_and_one_that_is_killed_is_found_out() {
    let site = Site::new().await;
    let job = site.sandbox.job().key.clone();
    let worker = |volume: &str| format!("waiting/{job}/{volume}");
    assert!(is_done(&site.node.restart(&worker("W1-I1")).await));
    site.stage.has_begun(3).await;
    assert!(is_done(&site.node.kill(&worker("W1-I2")).await));
    site.stage.has_begun(4).await;
    let tasks = site.sandbox.tasks().await;
    let lost: Vec<i32> = tasks.iter().map(|task| task.interruptions).collect();
    assert_eq!(lost, [0, 1]);
    let pool = site.actor("waiting").await.unwrap();
    assert_eq!((pool.restarts, pool.incarnation), (0, Some(1)), "the pool stands");
    assert_eq!(site.end().await, [1, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_pool_that_is_killed_is_replaced() {
    let site = Site::new().await;
    assert!(is_done(&site.node.kill("waiting").await));
    site.stage.has_begun(4).await;
    assert_eq!(site.actor("waiting").await.unwrap().restarts, 1);
    assert!(site.end().await.iter().all(|lost| *lost >= 1));
}

#[tokio::test(start_paused = true)]
async fn what_is_not_there_and_what_must_not_end_is_refused() {
    let site = Site::new().await;
    for (actor, reason) in [
        ("poetry", "there is no actor poetry"),
        ("waiting/press/W9-I9", "there is no actor waiting/press/W9-I9"),
        ("supervisor", "the supervisor ends with its process"),
    ] {
        match site.node.restart(actor).await {
            CommandOutcome::Refused { reason: said } => assert!(said.starts_with(reason), "{said}"),
            outcome => panic!("{outcome:?}"),
        }
    }
    site.latch.open();
    site.sandbox.ends(JobStatus::Completed).await;
    site.node.drain().await;
    assert!(
        !is_done(&site.node.restart("waiting").await),
        "nothing is started any more"
    );
    assert_eq!(
        site.actor("supervisor").await.unwrap().state,
        ActorState::Draining
    );
    assert_eq!(site.end().await, [0, 0]);
}
