use std::sync::Arc;
use std::time::Duration;

use parkhang_actors::stage::ocr_pipeline;
use parkhang_core::domain::testing::{self, at, new_job, worker};
use parkhang_core::domain::{
    ErrorCategory, Job, JobConfig, NewJob, Position, StageError, StageName, Task, TaskStatus, VolumeId,
};
use parkhang_core::policy::job_action::JobAction;
use parkhang_core::policy::transition::{Event, runnable_stage};
use parkhang_state::{Change, EmbeddedPostgres, Expected, Outcome, PostgresStore, StateStore};
use parkhang_store::artifact::ArtifactLayout;
use serde_json::{Value, json};

use crate::admin::reading::Freshness;
use crate::admin::{Admin, Refusal, table};
use crate::config::{ConfigArgs, Loaded};

/// A cluster without nodes, and a job of six volumes in it.
struct Cluster {
    _server: EmbeddedPostgres,
    folder: tempfile::TempDir,
    admin: Admin,
    job: Job,
}

impl Cluster {
    async fn new() -> Self {
        Self::with_attempts(1).await
    }

    /// A cluster whose volumes may fail so often.
    async fn with_attempts(max_attempts: i32) -> Self {
        let server = EmbeddedPostgres::temporary().unwrap();
        let options = server.create_database("cluster").await.unwrap();
        let store = PostgresStore::connect_with(options).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let set = vec![format!("storage.folder={}", folder.path().display())];
        let loaded = Loaded::read(&ConfigArgs {
            set,
            ..ConfigArgs::default()
        });
        let new = NewJob {
            key: Some("press".parse().unwrap()),
            pipeline: ocr_pipeline(),
            config: JobConfig {
                max_attempts,
                ..JobConfig::default()
            },
            ..new_job(&["ocr"], 6)
        };
        let job = store.create_job(&new, at(0)).await.unwrap();
        Self {
            _server: server,
            folder,
            admin: Admin::new(store, Arc::new(loaded.unwrap())),
            job,
        }
    }

    async fn task(&self, number: i64) -> Task {
        let task = self
            .admin
            .store
            .task_of(self.job.id, &testing::volume(number))
            .await;
        task.unwrap().unwrap()
    }

    async fn happens(&self, task: &Task, event: Event) -> Outcome {
        let change = Change::new(Expected::of(task), event);
        self.admin.store.commit(&[change], at(0)).await.unwrap().remove(0)
    }

    async fn leased(&self, number: i64, holder: &str) -> Task {
        let task = self.task(number).await;
        let stage = runnable_stage(&task, &self.job.pipeline, self.job.config.retry_scope).unwrap();
        let lease = Event::Leased {
            stage: stage.clone(),
            worker: worker(holder),
            until: at(60),
        };
        self.happens(&task, lease).await.applied().unwrap()
    }

    async fn fails(&self, number: i64, category: ErrorCategory, message: &str) {
        let running = self.leased(number, "gpu-2").await;
        let error = StageError::new("line_detection", category, message);
        let failed = Event::Failed {
            error,
            not_before: None,
        };
        self.happens(&running, failed).await.applied().unwrap();
    }

    async fn ask(&self, command: &str, given: Value) -> Result<Value, Refusal> {
        let words: Vec<&str> = command.split(' ').collect();
        let entry = table().named(&words).unwrap();
        let reply = entry
            .run_given(given.as_object().unwrap(), self.admin.clone())
            .await?;
        assert!(!reply.text.is_empty());
        Ok(reply.data)
    }

    async fn dead(&self) -> Vec<String> {
        let given = json!({ "job": "press", "state": "failed" });
        let listed = self.ask("tasks list", given).await.unwrap();
        let dead = listed["tasks"].as_array().unwrap();
        dead.iter()
            .map(|dead| dead["volume"].as_str().unwrap().to_owned())
            .collect()
    }
}

/// Volume 1 is intact; 2 and 3 share a cause; 4 has no try left; 5 has cost two nodes.
async fn with_dead() -> Cluster {
    let cluster = Cluster::new().await;
    cluster
        .fails(2, ErrorCategory::Input, "page 7 of \"a.jpg\" is no image")
        .await;
    cluster
        .fails(3, ErrorCategory::Input, "page 31 of \"b.jpg\" is no image")
        .await;
    cluster.fails(4, ErrorCategory::Network, "reset").await;
    for worker in ["gpu-1", "gpu-3"] {
        let running = cluster.leased(5, worker).await;
        cluster
            .happens(&running, Event::Interrupted)
            .await
            .applied()
            .unwrap();
    }
    let error = StageError::new("line_detection", ErrorCategory::Poison, "lost 2 nodes");
    let waiting = cluster.task(5).await;
    cluster
        .happens(&waiting, Event::Quarantined { error })
        .await
        .applied()
        .unwrap();
    cluster
}

#[tokio::test]
async fn volumes_that_failed_for_good_are_listed_and_shown_with_their_evidence() {
    let cluster = with_dead().await;
    assert_eq!(cluster.dead().await, ["W1-I2", "W1-I3", "W1-I4", "W1-I5"]);
    let shown = cluster
        .ask("tasks show", json!({ "job": "press", "volume": "W1-I5" }))
        .await
        .unwrap();
    assert_eq!(shown["state"], "failed");
    assert_eq!(shown["category"], "poison");
    assert_eq!(shown["error"], "lost 2 nodes");
    assert_eq!(shown["interruptions"], 2);
    let runs = shown["runs"].as_array().unwrap();
    let lost: Vec<&Value> = runs
        .iter()
        .filter(|run| run["status"] == "interrupted")
        .map(|run| &run["worker"])
        .collect();
    assert_eq!(lost, ["gpu-1", "gpu-3"]);
    assert_eq!(runs.len(), 2);
}

#[tokio::test]
async fn a_rerun_gives_new_tries_to_the_failed_it_means_and_to_no_others() {
    let cluster = with_dead().await;
    let rerun = async |mut given: Value| {
        given["job"] = json!("press");
        given["status"] = json!("failed");
        cluster.ask("job rerun", given).await
    };
    let Err(Refusal::Invalid(reported)) = cluster.ask("job rerun", json!({ "job": "press" })).await else {
        panic!("it must be told which");
    };
    assert!(reported.contains("--from"), "{reported}");
    let causes = cluster
        .ask("job errors", json!({ "job": "press" }))
        .await
        .unwrap();
    let cause = causes["groups"][0]["cause"].clone();
    assert_eq!(cause, "input: page * of * is no image");
    let asked = rerun(json!({ "cause": cause, "dry_run": true })).await.unwrap();
    assert_eq!(asked["volumes"], json!(["W1-I2", "W1-I3"]));
    assert_eq!(cluster.dead().await.len(), 4, "it was only asked");

    assert_eq!(rerun(json!({ "cause": cause })).await.unwrap()["number"], 2);
    assert_eq!(cluster.dead().await, ["W1-I4", "W1-I5"]);
    assert_eq!(
        rerun(json!({ "volume": ["W1-I4", "W1-I1"] })).await.unwrap()["number"],
        1
    );
    let again = cluster.task(4).await;
    assert_eq!((again.status, again.stage_attempts), (TaskStatus::Pending, 0));
    assert_eq!((again.attempts, again.max_attempts), (1, 2));
    assert_eq!(rerun(json!({})).await.unwrap()["volumes"], json!(["W1-I5"]));
    assert_eq!(cluster.dead().await, [""; 0]);
    let none = rerun(json!({})).await;
    assert!(matches!(none, Err(Refusal::Conflict(_))));
    let unknown = rerun(json!({ "volume": ["W9-*"] })).await;
    assert!(matches!(unknown, Err(Refusal::NotFound(_))));
}

#[tokio::test]
async fn what_keeps_a_volume_is_told_with_the_error_of_its_last_try() {
    let cluster = Cluster::with_attempts(2).await;
    let why = async || {
        let told = cluster
            .ask("tasks why", json!({ "job": "press", "volume": "W1-I4" }))
            .await
            .unwrap();
        [told["blocker"].clone(), told["last_error"].clone()]
    };
    assert_eq!(why().await, [json!("no_leader"), Value::Null]);
    cluster.fails(4, ErrorCategory::Network, "reset").await;
    assert_eq!(
        why().await,
        [
            json!("no_leader"),
            json!("network error in line_detection: reset")
        ]
    );
    cluster.fails(4, ErrorCategory::Network, "reset").await;
    assert_eq!(
        why().await,
        [json!("failed"), Value::Null],
        "the reason is the error"
    );
}

#[tokio::test]
async fn a_volume_that_is_taken_back_costs_no_try_and_fences_its_worker_off() {
    let cluster = Cluster::new().await;
    let requeue = async || {
        cluster
            .ask("tasks requeue", json!({ "job": "press", "volume": "W1-I1" }))
            .await
    };
    assert!(
        matches!(requeue().await, Err(Refusal::Conflict(_))),
        "nobody has it"
    );
    let running = cluster.leased(1, "gpu-1").await;
    let requeued = requeue().await.unwrap();
    assert_eq!(
        (&requeued["state"], &requeued["attempts"]),
        (&json!("waiting"), &json!(0))
    );
    let late = cluster.happens(&running, Event::Succeeded).await;
    assert!(matches!(late, Outcome::Fenced(_)), "{late:?}");
    let task = cluster.task(1).await;
    let first: StageName = "line_detection".parse().unwrap();
    assert_eq!((task.position, task.interruptions), (Position::At(first), 0));
}

/// Rows: F3.
#[tokio::test]
async fn artifacts_outlast_their_job_unless_they_are_to_go_with_it() {
    let cluster = Cluster::new().await;
    let other = "other".parse().unwrap();
    let store = cluster.admin.library.store().await.unwrap();
    let volume = VolumeId::new("W1", "I1").unwrap();
    let [own, others] = [&cluster.job.key, &other].map(|key| {
        let layout = ArtifactLayout::new(cluster.job.config.layout, key);
        layout.volume(&volume).ocr_results()
    });
    for key in [&own, &others] {
        store.put(key, "text".into()).await.unwrap();
    }
    cluster
        .admin
        .store
        .act_on_job(cluster.job.id, JobAction::Cancel)
        .await
        .unwrap();
    let delete = async |artifacts: bool| {
        let given = json!({ "job": "press", "artifacts": artifacts, "yes": true });
        cluster.ask("job delete", given).await.unwrap()
    };
    let deleted = delete(true).await;
    assert_eq!(
        deleted,
        json!({ "job": "press", "volumes": 6, "artifacts": 1, "left": 0 })
    );
    assert!(store.head(&own).await.unwrap().is_none());
    assert!(store.head(&others).await.unwrap().is_some());
    assert!(cluster.folder.path().exists());
}

/// The pipeline of the job has `ocr`, but somebody has deleted what it wrote.
#[tokio::test]
async fn a_search_passes_over_volumes_without_texts() {
    let cluster = Cluster::new().await;
    let hurried = Freshness {
        age: Duration::ZERO,
        patience: Duration::ZERO,
    };
    let indexes = &cluster.admin.indexes;
    let view = indexes
        .of_job(&cluster.admin, &cluster.job, hurried)
        .await
        .unwrap();
    assert!(view.is_updating, "{view:?}");
    while cluster.task(1).await.position != Position::Done {
        let running = cluster.leased(1, "gpu-1").await;
        cluster
            .happens(&running, Event::Succeeded)
            .await
            .applied()
            .unwrap();
    }
    let given = json!({ "query": "bod", "wait": true });
    let found = cluster.ask("pages search", given).await.unwrap();
    let expected =
        json!({ "total": 0, "hits": [], "volumes": 1, "behind": 0, "is_updating": false, "troubles": [] });
    assert_eq!(found, expected);
}
