//! The example stage of CONTRIBUTING.md in the stage table: whatever goes by the table counts it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use chrono::{TimeDelta, Utc};
use parkhang_actors::launcher::{
    Autoscaler, AutoscalerConfig, Launcher, LauncherError, StoreDemand, Workers,
};
use parkhang_actors::stage::{StageDefinition, StageTable};
use parkhang_core::domain::{
    Hardware, JobConfig, NewJob, NodeRecord, NodeState, Pipeline, Task, VolumeId, WorkerId, WorkerRecord,
};
use parkhang_core::policy::autoscale::Limits;
use parkhang_core::policy::transition::{Event, runnable_stage};
use parkhang_state::{Change, EmbeddedPostgres, Expected, NodeSnapshot, PostgresStore, StateStore};
use serde_json::{Value, json};

use super::{Admin, Refusal, table};
use crate::config::{ConfigArgs, Loaded};

#[path = "../../../tests/it/new_stage.rs"]
mod syllables;

/// Cluster of one volume whose table has the example stage and whose configuration has a pipeline with it.
struct Cluster {
    _server: EmbeddedPostgres,
    _folder: tempfile::TempDir,
    admin: Admin,
}

/// The example, as if `limit` decided its results.
fn with_example() -> StageTable {
    let example = StageDefinition {
        settings: |config| [("limit".to_owned(), json!(config.limit))].into_iter().collect(),
        ..syllables::STAGE
    };
    let built_in = StageTable::built_in();
    StageTable::new(built_in.stages().iter().copied().chain([example]))
}

fn volume() -> VolumeId {
    "W1-I1".parse().unwrap()
}

/// Node of another build that has started one pool.
fn node(name: &str, role: &str, stage: &str) -> NodeRecord {
    NodeRecord {
        name: name.to_owned(),
        roles: vec![role.to_owned()],
        tags: Vec::new(),
        host: None,
        build: "0.0.1".to_owned(),
        protocol: 1,
        health: None,
        started_at: None,
        resident: None,
        last_seen: Utc::now(),
        state: NodeState::Joined,
        workers: vec![WorkerRecord {
            worker: WorkerId(format!("{name}/{stage}")),
            stage: stage.parse().unwrap(),
            models: Vec::new(),
            slots: 1,
            in_use: 0,
            incarnation: 1,
            last_heartbeat: None,
            pages: None,
            pages_finished: None,
        }],
        engines: Vec::new(),
    }
}

impl Cluster {
    async fn new() -> Self {
        let server = EmbeddedPostgres::temporary().unwrap();
        let options = server.create_database("example").await.unwrap();
        let store = PostgresStore::connect_with(options).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let scans = folder.path().join("scans/W1-I1");
        std::fs::create_dir_all(&scans).unwrap();
        std::fs::write(scans.join("1.jpg"), b"scan").unwrap();
        let set = [
            ("storage.folder", folder.path().join("artifacts")),
            ("pages.folder", folder.path().join("scans")),
            ("node.state_dir", folder.path().join("state")),
            ("launcher.kind", "local".into()),
        ];
        let set = set.map(|(key, value)| format!("{key}={}", value.display()));
        let mut loaded = Loaded::read(&ConfigArgs {
            set: set.to_vec(),
            ..ConfigArgs::default()
        })
        .unwrap();
        let stages = "['line_detection', 'line_extraction', 'ocr', 'syllables']";
        loaded.config.pipeline = toml::from_str(&format!("counts.stages = {stages}")).unwrap();
        Self {
            _server: server,
            _folder: folder,
            admin: Admin {
                stages: with_example(),
                ..Admin::new(store, Arc::new(loaded))
            },
        }
    }

    async fn ask(&self, command: &str, given: Value) -> Result<Value, Refusal> {
        let words: Vec<&str> = command.split(' ').collect();
        let entry = table().named(&words).unwrap();
        let given = given.as_object().unwrap();
        Ok(entry.run_given(given, self.admin.clone()).await?.data)
    }

    async fn refusal(&self, command: &str, given: Value) -> String {
        self.ask(command, given).await.unwrap_err().to_string()
    }

    async fn has(&self, node: NodeRecord) {
        let snapshot = NodeSnapshot {
            nodes: vec![node],
            ..NodeSnapshot::default()
        };
        self.admin.store.record_nodes(&snapshot).await.unwrap();
    }

    async fn task(&self, job: &str) -> (Task, Pipeline) {
        let store = &self.admin.store;
        let job = store.job(&job.parse().unwrap()).await.unwrap().unwrap();
        let task = store.task_of(job.id, &volume()).await.unwrap().unwrap();
        (task, job.pipeline)
    }

    /// Lets the volume pass the stage that it waits for.
    async fn passes_a_stage(&self, job: &str) {
        let (waiting, pipeline) = self.task(job).await;
        let scope = JobConfig::default().retry_scope;
        let lease = Event::Leased {
            stage: runnable_stage(&waiting, &pipeline, scope).unwrap().clone(),
            worker: WorkerId("somebody".to_owned()),
            until: Utc::now() + TimeDelta::minutes(1),
        };
        for event in [lease, Event::Succeeded] {
            let (task, _) = self.task(job).await;
            let change = Change::new(Expected::of(&task), event);
            let outcomes = self.admin.store.commit(&[change], Utc::now()).await.unwrap();
            assert!(outcomes.into_iter().all(|outcome| outcome.applied().is_some()));
        }
    }

    /// Tasks that wait for hardware, by an autoscaler that goes by a table.
    async fn counted_by(&self, stages: StageTable) -> BTreeMap<Hardware, u64> {
        let limits = Limits {
            floor: 0,
            cap: 8,
            tasks_per_slot: 1,
            max_age: TimeDelta::hours(1),
            scale_out_cooldown: TimeDelta::zero(),
            scale_in_cooldown: TimeDelta::zero(),
        };
        let config = AutoscalerConfig {
            limits: Hardware::ALL.map(|hardware| (hardware, limits)).into(),
            slots: BTreeMap::new(),
            stages,
        };
        let store = Arc::new(self.admin.store.clone());
        Autoscaler::new(Arc::new(StoreDemand(store.clone())), Arc::new(NoWorkers), config)
            .pass()
            .await
            .unwrap();
        let records = store.scaling().await.unwrap().into_iter();
        records.map(|record| (record.hardware, record.waiting)).collect()
    }
}

/// Launcher that takes every number and launches nothing.
#[derive(Debug)]
struct NoWorkers;

#[async_trait]
impl Launcher for NoWorkers {
    fn hardware(&self) -> BTreeSet<Hardware> {
        Hardware::ALL.into()
    }

    async fn workers(&self, _: Hardware) -> Result<Workers, LauncherError> {
        Ok(Workers::default())
    }

    async fn set_desired(&self, _: Hardware, _: u32, _: &BTreeSet<String>) -> Result<(), LauncherError> {
        Ok(())
    }
}

/// Stages of a job by name.
fn stages(rows: &Value) -> Vec<&str> {
    let rows = rows.as_array().unwrap().iter();
    rows.map(|row| row["stage"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn the_example_stage_is_counted_because_it_is_in_the_table() {
    let cluster = Cluster::new().await;
    let create = |pipeline: &str| json!({ "job": "press", "pipeline": pipeline, "volume": ["W1-I1"] });
    assert_eq!(
        cluster.refusal("job create", create("count")).await,
        "there is no pipeline count (did you mean counts?); the pipelines are combine, counts, documents, ocr, ocr_documents, page_ocr"
    );

    // Creation goes by the nodes that are there.
    let old = node("old", "cpu", "line_extraction");
    cluster.has(old.clone()).await;
    let refusal = cluster.refusal("job create", create("counts")).await;
    assert!(
        refusal.starts_with("no node that is there has syllables:"),
        "{refusal}"
    );
    let mut forced = create("counts");
    forced["force"] = json!(true);
    forced["dry_run"] = json!(true);
    assert_eq!(cluster.ask("job create", forced).await.unwrap()["chosen"], 1);
    cluster
        .has(NodeRecord {
            state: NodeState::Left,
            ..old
        })
        .await;
    cluster.ask("job create", create("counts")).await.unwrap();
    let job = cluster.admin.store.job(&"press".parse().unwrap()).await;
    assert_eq!(job.unwrap().unwrap().operation, "counts");

    // Commands know its hardware and its settings.
    let plan = cluster.ask("job plan", json!({ "job": "press" })).await.unwrap();
    assert_eq!(
        stages(&plan["stages"]),
        ["line_detection", "line_extraction", "ocr", "syllables"]
    );
    assert_eq!(plan["stages"][3]["hardware"], "cpu");
    cluster.ask("job pause", json!({ "job": "press" })).await.unwrap();
    let update = json!({ "job": "press", "config": ["limit=3"] });
    let updated = cluster.ask("job update", update).await.unwrap();
    assert_eq!(updated["stale"], json!(["syllables"]));
    cluster
        .ask("job resume", json!({ "job": "press" }))
        .await
        .unwrap();

    // A volume that waits for it is counted and explained.
    for _ in 0..3 {
        cluster.passes_a_stage("press").await;
    }
    let waiting = cluster.counted_by(with_example()).await;
    assert_eq!(waiting, BTreeMap::from([(Hardware::Cpu, 1), (Hardware::Gpu, 0)]));
    let unknown = cluster.counted_by(StageTable::built_in()).await;
    assert_eq!(unknown[&Hardware::Cpu], 0, "it is the table that counts");
    cluster.has(node("reads", "gpu", "ocr")).await;
    let why = json!({ "job": "press", "volume": "W1-I1" });
    let why = cluster.ask("tasks why", why).await.unwrap();
    assert_eq!(why["blocker"], "no_pool");
    let advice = why["advice"].as_str().unwrap();
    assert!(advice.contains("node --role cpu"), "{advice}");
    let status = cluster
        .ask("job status", json!({ "job": "press" }))
        .await
        .unwrap();
    let advice = status["obstacles"].to_string();
    assert!(
        advice.contains("syllables; `node --role cpu` starts one"),
        "{advice}"
    );

    // Workers for a job of it alone have its hardware.
    let counting = NewJob {
        key: Some("counting".parse().unwrap()),
        operation: "counting".to_owned(),
        pipeline: Pipeline::new(vec![syllables::STAGE.name()]).unwrap(),
        config: JobConfig::default(),
        volumes: vec![volume()],
        standing: false,
    };
    cluster
        .admin
        .store
        .create_job(&counting, Utc::now())
        .await
        .unwrap();
    let scale = json!({ "job": "counting", "count": 0 });
    let scaled = cluster.ask("workers scale", scale).await.unwrap();
    let groups = scaled["groups"].as_array().unwrap().iter();
    let groups: Vec<&str> = groups.map(|group| group["hardware"].as_str().unwrap()).collect();
    assert_eq!(groups, ["cpu"]);
}
