//! Nodes that take their work themselves, from a state store or from shards, over stages that follow a script.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use parkhang_actors::source::{
    Claim, Clock, Dispatcher, JobManifest, ShardOptions, ShardSize, ShardSurvey, Shards, SourceError,
    SourceHealth, StateClaims, StoreClock, SystemClock, WorkSource,
};
use parkhang_actors::stage::StageLogic;
use parkhang_actors::supervisor::{ControlPlane, NodeSupervisor};
use parkhang_core::domain::testing::stage;
use parkhang_core::domain::{
    ErrorCategory, Fence, Job, JobKey, JobStatus, LayoutName, LeaseReport, LeaseStatus, NewJob, ReportReply,
    Task, TaskStatus,
};
use parkhang_core::policy::claim::Offer;
use parkhang_sandbox::{FakeStage, NodePlan, Sandbox, Script, job_through};
use parkhang_state::{MemoryStore, StateError, StateStore};
use parkhang_store::artifact::{ArtifactLayout, VolumeDone, VolumeFailed};
use parkhang_store::storage::{ArtifactStore, MemoryArtifacts};
use parkhang_test_support::Wait;

/// Short, as these tests have nobody to wake their nodes.
const POLL: Duration = Duration::from_millis(20);

struct Node {
    dispatcher: Dispatcher,
    supervisor: NodeSupervisor,
}

impl Node {
    async fn start(source: Arc<dyn WorkSource>, name: &str, stages: Vec<Arc<dyn StageLogic>>) -> Self {
        Self::polling(POLL, source, name, stages).await
    }

    async fn polling(
        poll: Duration,
        source: Arc<dyn WorkSource>,
        name: &str,
        stages: Vec<Arc<dyn StageLogic>>,
    ) -> Self {
        let dispatcher = Dispatcher::start(source, poll).await.unwrap();
        let plan = NodePlan::new(stages).named(name);
        Self {
            supervisor: plan.start(Arc::new(dispatcher.clone())).await,
            dispatcher,
        }
    }

    async fn leave(self) {
        self.dispatcher.drain().await;
        self.supervisor.drain().await;
        self.supervisor.stop().await;
        self.dispatcher.stop().await;
    }
}

/// A source that has nothing, or only trouble, and counts how often it is asked.
#[derive(Debug, Default)]
struct Barren {
    fails: bool,
    asked: AtomicUsize,
}

#[async_trait]
impl WorkSource for Barren {
    async fn claim(&self, _: &[Offer]) -> Result<Vec<Claim>, SourceError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        if self.fails {
            Err(SourceError::State(StateError::Unavailable("away".to_owned())))
        } else {
            Ok(Vec::new())
        }
    }

    async fn renew(&self, fences: &[Fence]) -> Result<Vec<LeaseStatus>, SourceError> {
        Ok(vec![LeaseStatus::Lost; fences.len()])
    }

    async fn complete(&self, _: LeaseReport) -> Result<ReportReply, SourceError> {
        Ok(ReportReply::Fenced)
    }
}

/// A clock that is not that of this machine.
#[derive(Debug)]
struct ClockOff(TimeDelta);

#[async_trait]
impl Clock for ClockOff {
    async fn now(&self) -> Result<DateTime<Utc>, SourceError> {
        Ok(Utc::now() + self.0)
    }
}

/// A job in a state store that has no orchestrator.
struct Unled {
    store: Arc<dyn StateStore>,
    job: Job,
}

impl Unled {
    async fn of(stages: &[Arc<dyn StageLogic>]) -> Self {
        let store: Arc<dyn StateStore> = Arc::new(MemoryStore::new());
        let job = store
            .create_job(&job_through(stages, 2), Utc::now())
            .await
            .unwrap();
        Self { store, job }
    }

    fn source(&self) -> Arc<dyn WorkSource> {
        self.source_by(Arc::new(StoreClock(self.store.clone())))
    }

    fn source_by(&self, clock: Arc<dyn Clock>) -> Arc<dyn WorkSource> {
        Arc::new(StateClaims::new(
            self.store.clone(),
            clock,
            TimeDelta::seconds(60),
            2,
        ))
    }

    async fn ends(&self, status: JobStatus) -> Vec<Task> {
        let job = Wait::until("the job ends")
            .sees_async(
                async || self.store.job_by_id(self.job.id).await.unwrap().unwrap(),
                |job| job.status.is_final(),
            )
            .await;
        assert_eq!(job.status, status);
        self.store.tasks(job.id).await.unwrap()
    }
}

/// A job that lives in an artifact store, a volume to a shard.
struct Sharded {
    store: Arc<MemoryArtifacts>,
    key: JobKey,
}

impl Sharded {
    async fn of(stages: &[Arc<dyn StageLogic>]) -> Self {
        Self::laid_out(stages, LayoutName::BdrcV2).await
    }

    async fn laid_out(stages: &[Arc<dyn StageLogic>], layout: LayoutName) -> Self {
        let store = Arc::new(MemoryArtifacts::new());
        let key = JobKey::new("job").unwrap();
        let mut job = NewJob {
            key: Some(key.clone()),
            ..job_through(stages, 2)
        };
        job.config.layout = layout;
        JobManifest::create(store.as_ref(), &job, ShardSize::new(1).unwrap(), Utc::now())
            .await
            .unwrap();
        Self { store, key }
    }

    fn source(&self, worker: &str) -> Arc<dyn WorkSource> {
        let options = ShardOptions {
            worker: worker.to_owned(),
            jobs: vec![self.key.clone()],
            lease: TimeDelta::seconds(60),
            max_interruptions: 2,
        };
        Arc::new(Shards::new(self.store.clone(), Arc::new(SystemClock), options))
    }

    async fn survey(&self) -> ShardSurvey {
        ShardSurvey::of(self.store.as_ref(), &self.key).await.unwrap()
    }

    async fn ends(&self) -> ShardSurvey {
        Wait::until("the shards end")
            .sees_async(async || self.survey().await, ShardSurvey::is_finished)
            .await
    }
}

#[tokio::test]
async fn a_job_runs_without_an_orchestrator() {
    let [first, second] = ["first", "second"].map(|name| FakeStage::new(name, Script::Succeed).shared());
    let stages: Vec<Arc<dyn StageLogic>> = vec![first.clone(), second.clone()];
    let unled = Unled::of(&stages).await;
    let node = Node::start(unled.source(), "node", stages).await;
    for task in unled.ends(JobStatus::Completed).await {
        let runs = unled.store.stage_runs(task.id).await.unwrap();
        let stages: Vec<&str> = runs.iter().map(|run| run.fence.stage.as_str()).collect();
        assert_eq!(stages, ["first", "second"]);
        assert!(runs.iter().all(|run| run.worker.0.starts_with("node/")));
    }
    assert_eq!(first.runs(), 2);
    assert_eq!(second.runs(), 2);
    node.leave().await;
}

#[tokio::test]
async fn nodes_for_some_of_the_stages_share_a_job() {
    let [first, second] = ["first", "second"].map(|name| FakeStage::new(name, Script::Succeed).shared());
    let unled = Unled::of(&[first.logic(), second.logic()]).await;
    let nodes = [
        Node::start(unled.source(), "one", vec![first.clone()]).await,
        Node::start(unled.source(), "other", vec![second.clone()]).await,
    ];
    unled.ends(JobStatus::Completed).await;
    for node in nodes {
        node.leave().await;
    }

    let sharded = Sharded::of(&[first.logic(), second.logic()]).await;
    let nodes = [
        Node::start(sharded.source("one"), "one", vec![first.clone()]).await,
        Node::start(sharded.source("other"), "other", vec![second.clone()]).await,
    ];
    assert_eq!(sharded.ends().await.done(), 2);
    for node in nodes {
        node.leave().await;
    }
    assert_eq!(first.runs(), 4);
    assert_eq!(second.runs(), 4);
}

#[tokio::test]
async fn a_job_runs_from_shards_alone() {
    let [first, second] = ["first", "second"].map(|name| FakeStage::new(name, Script::Succeed).shared());
    let stages: Vec<Arc<dyn StageLogic>> = vec![first.clone(), second.clone()];
    let sharded = Sharded::of(&stages).await;
    let nodes = [
        Node::start(sharded.source("one"), "one", stages.clone()).await,
        Node::start(sharded.source("other"), "other", stages).await,
    ];
    assert_eq!(sharded.ends().await.done(), 2);
    assert_eq!(first.runs(), 2);
    assert_eq!(second.runs(), 2);
    for node in nodes {
        node.leave().await;
    }
}

#[tokio::test]
async fn a_stage_that_panics_or_fails_is_tried_again_and_given_up() {
    for (script, tries, category) in [
        (Script::Panic, 4, ErrorCategory::Poison),
        (Script::Fail, 6, ErrorCategory::Transient),
    ] {
        let stage = FakeStage::new("stage", script).shared();
        let unled = Unled::of(&[stage.logic()]).await;
        let node = Node::start(unled.source(), "node", vec![stage.clone()]).await;
        for task in unled.ends(JobStatus::Failed).await {
            assert_eq!(task.status, TaskStatus::Failed);
            assert_eq!(task.last_error.unwrap().category, category);
        }
        node.leave().await;
        assert_eq!(stage.runs(), tries);

        let sharded = Sharded::of(&[stage.logic()]).await;
        let node = Node::start(sharded.source("node"), "node", vec![stage.clone()]).await;
        let survey = sharded.ends().await;
        assert_eq!(survey.failed().count(), 2);
        assert!(
            survey
                .failed()
                .all(|(_, error)| error.as_ref().unwrap().category == category)
        );
        node.leave().await;
        assert_eq!(stage.runs(), 2 * tries);
    }
}

/// Rows: F34.
#[tokio::test]
async fn finished_volumes_are_marked_where_their_layout_has_markers() {
    let succeeds = FakeStage::new("stage", Script::Succeed).shared();
    let fails = FakeStage::new("stage", Script::Fail).shared();
    for (stage, is_done) in [(succeeds, true), (fails, false)] {
        for layout in [LayoutName::BdrcV1, LayoutName::BdrcV2] {
            let sharded = Sharded::laid_out(&[stage.logic()], layout).await;
            let node = Node::start(sharded.source("node"), "node", vec![stage.clone()]).await;
            sharded.ends().await;
            node.leave().await;
            for volume in ["W1-I1", "W1-I2"].map(|volume| volume.parse().unwrap()) {
                let keys = ArtifactLayout::new(layout, &sharded.key)
                    .volume(&volume)
                    .markers();
                let Some(keys) = keys else { continue };
                let done = sharded.store.head(&keys.done).await.unwrap().is_some();
                let failed = sharded.store.head(&keys.error).await.unwrap().is_some();
                assert_eq!((done, failed), (is_done, !is_done));
                if is_done {
                    let marker = sharded.store.get(&keys.done).await.unwrap();
                    let marker: VolumeDone = serde_json::from_slice(&marker).unwrap();
                    assert_eq!((&marker.job, &marker.volume_id), (&sharded.key, &volume));
                    assert_eq!(marker.took_ms.len(), 1);
                } else {
                    let marker = sharded.store.get(&keys.error).await.unwrap();
                    let marker: VolumeFailed = serde_json::from_slice(&marker).unwrap();
                    assert_eq!(
                        (marker.attempts, marker.error.unwrap().message.as_str()),
                        (3, "as told")
                    );
                }
            }
            let marked = sharded
                .store
                .list(&"output".to_owned().try_into().unwrap())
                .await
                .unwrap();
            assert_eq!(marked.is_empty(), layout == LayoutName::BdrcV2);
        }
    }
}

/// Whether a node takes the work from the state store or is given it, the leading orchestrator marks what is finished.
/// Rows: 94, 101, F34.
#[tokio::test]
async fn finished_volumes_of_a_state_store_are_marked_whoever_hands_out_the_work() {
    for takes_work in [true, false] {
        let stage = FakeStage::new("stage", Script::Succeed).shared();
        let mut job = job_through(&[stage.logic()], 2);
        job.config.layout = LayoutName::BdrcV1;
        let artifacts = Arc::new(MemoryArtifacts::new());
        let sandbox = Sandbox::builder().job(job).configured(|config| {
            config.full_pass = POLL;
            config.markers = Some(artifacts.clone());
        });
        let sandbox = sandbox.start().await;
        let unled = Unled {
            store: sandbox.store.clone(),
            job: sandbox.job().clone(),
        };
        let source: Arc<dyn WorkSource> = if takes_work {
            unled.source()
        } else {
            Arc::new(Barren::default())
        };
        let dispatcher = Dispatcher::start(source, POLL).await.unwrap();
        let control_plane: Arc<dyn ControlPlane> = if takes_work {
            Arc::new(dispatcher.clone())
        } else {
            Arc::new(sandbox.orchestrator.clone())
        };
        let node = NodePlan::new(vec![stage]).start(control_plane).await;
        unled.ends(JobStatus::Completed).await;
        Wait::until("the ends of all volumes are marked")
            .sees_async(
                async || unled.store.volumes_to_mark(None, 2).await.unwrap(),
                Vec::is_empty,
            )
            .await;
        for task in unled.store.tasks(unled.job.id).await.unwrap() {
            let layout = ArtifactLayout::new(LayoutName::BdrcV1, &unled.job.key).volume(&task.volume);
            let marker = artifacts.get(&layout.markers().unwrap().done).await.unwrap();
            let marker: VolumeDone = serde_json::from_slice(&marker).unwrap();
            assert_eq!((marker.volume_id, marker.took_ms.len()), (task.volume, 1));
        }
        dispatcher.drain().await;
        node.stop().await;
        dispatcher.stop().await;
        sandbox.stop().await;
    }
}

#[tokio::test]
async fn a_node_that_leaves_gives_its_work_back() {
    let waits = FakeStage::new("stage", Script::UntilDrained).shared();
    let succeeds = FakeStage::new("stage", Script::Succeed).shared();

    let unled = Unled::of(&[waits.logic()]).await;
    let node = Node::start(unled.source(), "leaves", vec![waits.clone()]).await;
    waits.has_begun(1).await;
    let workers = node.dispatcher.workers(Utc::now()).await;
    assert_eq!((workers[0].slots, workers[0].in_use), (1, 1), "{workers:?}");
    assert!(workers[0].worker.0.starts_with("leaves/stage/") && workers.len() == 1);
    node.leave().await;
    for task in unled.store.tasks(unled.job.id).await.unwrap() {
        assert_eq!((task.fence(), task.attempts, task.interruptions), (None, 0, 0));
    }
    let next = Node::start(unled.source(), "next", vec![succeeds.clone()]).await;
    unled.ends(JobStatus::Completed).await;
    next.leave().await;

    let begun = waits.runs();
    let sharded = Sharded::of(&[waits.logic()]).await;
    let node = Node::start(sharded.source("leaves"), "leaves", vec![waits.clone()]).await;
    waits.has_begun(begun + 1).await;
    node.leave().await;
    let next = Node::start(sharded.source("next"), "next", vec![succeeds]).await;
    assert_eq!(sharded.ends().await.done(), 2);
    next.leave().await;
}

/// Of a node's own clock, or of the source's, minutes too fast or too slow.
#[tokio::test]
async fn a_node_works_whatever_its_clock_says() {
    for minutes in [-5, 5] {
        let stage = FakeStage::new("stage", Script::Succeed).shared();
        let unled = Unled::of(&[stage.logic()]).await;
        let source = unled.source_by(Arc::new(ClockOff(TimeDelta::minutes(minutes))));
        let node = Node::start(source, "node", vec![stage.clone()]).await;
        for task in unled.ends(JobStatus::Completed).await {
            assert_eq!((task.attempts, task.interruptions), (0, 0));
            assert_eq!(unled.store.stage_runs(task.id).await.unwrap().len(), 1);
        }
        node.leave().await;
        assert_eq!(stage.runs(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn what_many_nodes_hear_is_asked_for_once_and_less_often_where_it_is_in_vain() {
    let fake = FakeStage::new("stage", Script::Succeed).shared();
    let source = Arc::new(Barren::default());
    let seldom = Duration::from_secs(3600);
    let node = Node::polling(seldom, source.clone(), "node", vec![fake]).await;
    let asked_after = async |pause| {
        tokio::time::sleep(pause).await;
        source.asked.load(Ordering::Relaxed)
    };
    let second = Duration::from_secs(1);
    let asked = asked_after(second).await;
    assert_eq!(node.dispatcher.health(), SourceHealth::Answers);

    for _ in 0..1000 {
        node.dispatcher.wake(Some(stage("elsewhere")));
    }
    assert_eq!(asked_after(second).await, asked, "nobody here runs that stage");
    for _ in 0..1000 {
        node.dispatcher.wake(Some(stage("stage")));
        node.dispatcher.wake(None);
    }
    assert_eq!(asked_after(second).await, asked + 1);

    let mut last = asked + 1;
    for _ in 0..600 {
        node.dispatcher.wake(None);
        last = asked_after(second / 10).await;
    }
    assert!(last > asked + 1, "it is still asked");
    assert!(last < asked + 30, "{} times in a minute", last - asked);
    node.leave().await;
}

#[tokio::test(start_paused = true)]
async fn a_source_is_not_taken_to_answer_before_it_has() {
    let fake = FakeStage::new("stage", Script::Succeed).shared();
    let source = Arc::new(Barren {
        fails: true,
        ..Barren::default()
    });
    let dispatcher = Dispatcher::start(source.clone(), POLL).await.unwrap();
    assert_eq!(dispatcher.health(), SourceHealth::Unknown);
    dispatcher.stop().await;
    let node = Node::start(source, "node", vec![fake]).await;
    tokio::time::sleep(POLL * 2).await;
    assert_eq!(node.dispatcher.health(), SourceHealth::Fails);
    node.leave().await;
}
