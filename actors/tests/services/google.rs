//! Google as a server of the tests: operations as cloud.google.com/vision/docs/reference/rest has them, and bad ones. Beside it a volume
//! whose pages it reads, and a leader.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::{Method, Request, Response};
use parkhang_actors::engines::VisionOperations;
use parkhang_actors::external::ExternalStages;
use parkhang_actors::services::{RetryOverrides, StageService};
use parkhang_answers::vision::Feature;
use parkhang_core::domain::testing::{new_job, stage};
use parkhang_core::domain::{Attempt, Job, JobConfig, NewJob, Task};
use parkhang_sandbox::Sandbox;
use parkhang_service::{Bounds, Transport, VisionClient};
use parkhang_state::{MemoryStore, ServiceStore, StateStore};
use parkhang_store::artifact::{
    ArtifactLayout, Digest, Fingerprint, LineDetectionRow, LineImageRow, Provenance, write_table,
};
use parkhang_store::storage::{ArtifactKey, ArtifactStore, MemoryArtifacts};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::serving::serve;
use crate::tasks::{BUCKET, external, leader};

pub(crate) const PAGES: usize = 30;
pub(crate) const STAGE: &str = "google";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The operation is carried out, and the answer to its submit never comes.
    Silent,
    /// The same, and the operation runs until [`Google::finish`].
    SilentAndSlow,
    /// The operation runs until [`Google::finish`].
    Slow,
    /// The same, and the answer to its submit waits for [`Google::answer`].
    LateAndSlow,
    /// The operation is carried out and forgotten.
    Forgotten,
    /// The operation is forgotten before it is carried out.
    Expired,
    /// The operation fails as a whole.
    Failed,
    /// A success that holds an error and names no operation.
    Refused,
}

struct State {
    faults: VecDeque<Fault>,
    submits: usize,
    /// Images that were read.
    paid: usize,
    operations: BTreeMap<String, Value>,
    /// Operations that run, each with what was asked.
    running: Vec<(String, Value)>,
    /// Operations that are no longer wanted.
    cancelled: Vec<String>,
    /// Becomes true when answers that are late may come.
    answers: watch::Sender<bool>,
    storage: Arc<MemoryArtifacts>,
}

pub(crate) struct Google {
    url: String,
    state: Arc<Mutex<State>>,
    _server: JoinSet<()>,
}

impl Google {
    pub(crate) async fn start(storage: &Arc<MemoryArtifacts>, faults: &[Fault]) -> Self {
        let state = Arc::new(Mutex::new(State {
            faults: faults.iter().copied().collect(),
            submits: 0,
            paid: 0,
            operations: BTreeMap::new(),
            running: Vec::new(),
            cancelled: Vec::new(),
            answers: watch::Sender::new(false),
            storage: storage.clone(),
        }));
        let shared = state.clone();
        let (url, server) = serve(move |request| answer(shared.clone(), request)).await;
        Self {
            url,
            state,
            _server: server,
        }
    }

    /// Submits that came, and images that were paid for.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let state = self.state.lock().unwrap();
        (state.submits, state.paid)
    }

    /// Lets answers come that are late.
    pub(crate) fn answer(&self) {
        self.state.lock().unwrap().answers.send_replace(true);
    }

    /// Operations that are no longer wanted.
    pub(crate) fn cancelled(&self) -> Vec<String> {
        self.state.lock().unwrap().cancelled.clone()
    }

    /// Carries out the operations that run.
    pub(crate) async fn finish(&self) {
        let (running, storage) = {
            let mut state = self.state.lock().unwrap();
            (std::mem::take(&mut state.running), state.storage.clone())
        };
        for (name, body) in running {
            let read = carry_out(&storage, &body).await;
            let mut state = self.state.lock().unwrap();
            state.paid += read;
            state.operations.insert(name.clone(), done(&name));
        }
    }

    /// Google as the service of the stage, whose answers are waited for so long.
    pub(crate) fn at_stage(&self, time: Duration) -> StageService {
        let bounds = Bounds { time, body: 1 << 20 };
        let client = VisionClient::new(&self.url, None, bounds, Transport::new().unwrap()).unwrap();
        let feature = Feature {
            model: "builtin/weekly".to_owned(),
            languages: Vec::new(),
        };
        StageService {
            name: "vision".to_owned(),
            client: Arc::new(VisionOperations { client, feature }),
            template: None,
            max_body: 1 << 20,
            poll_interval: Duration::from_millis(50),
            has_webhook: false,
            retry: RetryOverrides::default(),
            reader: Some(Digest::of(b"builtin/weekly")),
        }
    }
}

fn done(name: &str) -> Value {
    json!({"name": name, "done": true, "response": {}})
}

async fn answer(
    state: Arc<Mutex<State>>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let (head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let reply = |status: u16, body: &Value| {
        let body = Full::new(Bytes::from(body.to_string()));
        Response::builder().status(status).body(body).unwrap()
    };
    let path = head.uri.path();
    if head.method == Method::GET {
        let state = state.lock().unwrap();
        let operation = state.operations.get(path.trim_start_matches("/v1/"));
        return Ok(match operation {
            Some(operation) => reply(200, operation),
            None => reply(404, &json!({"error": {"code": 404, "message": "not found"}})),
        });
    }
    if let Some(operation) = path.strip_suffix(":cancel") {
        let name = operation.trim_start_matches("/v1/").to_owned();
        state.lock().unwrap().cancelled.push(name);
        return Ok(reply(200, &json!({})));
    }
    assert_eq!(path, "/v1/images:asyncBatchAnnotate");
    let body: Value = serde_json::from_slice(&body).unwrap();
    let (fault, name, storage) = {
        let mut state = state.lock().unwrap();
        state.submits += 1;
        let name = format!("operations/{}", state.submits);
        (state.faults.pop_front(), name, state.storage.clone())
    };
    if fault == Some(Fault::Refused) {
        let error = json!({"code": 8, "message": "too many images in processing"});
        return Ok(reply(200, &json!({ "error": error })));
    }
    if fault == Some(Fault::Failed) {
        let error = json!({"code": 14, "message": "later"});
        let operation = json!({"name": name, "done": true, "error": error});
        state.lock().unwrap().operations.insert(name.clone(), operation);
        return Ok(reply(200, &json!({ "name": name })));
    }
    match fault {
        Some(Fault::Expired) => {}
        Some(Fault::Slow | Fault::SilentAndSlow | Fault::LateAndSlow) => {
            let mut state = state.lock().unwrap();
            let operation = json!({"name": name, "metadata": {"state": "RUNNING"}});
            state.operations.insert(name.clone(), operation);
            state.running.push((name.clone(), body));
        }
        _ => {
            let read = carry_out(&storage, &body).await;
            let mut state = state.lock().unwrap();
            state.paid += read;
            if fault.is_none() {
                state.operations.insert(name.clone(), done(&name));
            }
        }
    }
    if matches!(fault, Some(Fault::Silent | Fault::SilentAndSlow)) {
        std::future::pending::<()>().await;
    }
    if fault == Some(Fault::LateAndSlow) {
        let mut answers = state.lock().unwrap().answers.subscribe();
        answers.wait_for(|answers| *answers).await.unwrap();
    }
    Ok(reply(200, &json!({ "name": name })))
}

/// Writes the answers to a request, the last first; that about the second image is an error. Returns the number of images.
async fn carry_out(storage: &MemoryArtifacts, body: &Value) -> usize {
    let place = BUCKET.replace("s3://", "gs://");
    let key = |uri: &str| uri.strip_prefix(&place).unwrap().trim_matches('/').to_owned();
    let output = key(body["outputConfig"]["gcsDestination"]["uri"].as_str().unwrap());
    let uris = body["requests"].as_array().unwrap().iter();
    let uris: Vec<&str> = uris
        .map(|request| request["image"]["source"]["imageUri"].as_str().unwrap())
        .collect();
    let mut from = 1;
    for chunk in uris.chunks(20) {
        let responses = chunk.iter().enumerate().rev().map(|(index, uri)| {
            let context = json!({ "uri": uri });
            match from + index {
                2 => json!({"context": context, "error": {"code": 14, "message": "later"}}),
                _ => json!({"context": context, "fullTextAnnotation": {"text": "ཀ"}}),
            }
        });
        let responses = json!({ "responses": responses.collect::<Vec<_>>() });
        let to = from + chunk.len() - 1;
        let file = ArtifactKey::new(format!("{output}/output-{from}-to-{to}.json")).unwrap();
        storage.put(&file, responses.to_string().into()).await.unwrap();
        from = to + 1;
    }
    uris.len()
}

/// Job whose only stage is Google's.
pub(crate) fn reading() -> NewJob {
    NewJob {
        config: JobConfig {
            retry_backoff_s: 0.02,
            max_attempts: 1,
            ..JobConfig::default()
        },
        ..new_job(&[STAGE], 1)
    }
}

pub(crate) async fn the_task(store: &MemoryStore, job: &Job) -> Task {
    store.tasks(job.id).await.unwrap().remove(0)
}

/// Names of the jobs that Google has had for a task, in their order.
pub(crate) async fn names_of_jobs(store: &MemoryStore, task: &Task) -> Vec<String> {
    let jobs = store.service_jobs(task.id).await.unwrap();
    jobs.into_iter().map(|job| job.job).collect()
}

/// Pages that were counted as calls of Google.
pub(crate) async fn counted(store: &MemoryStore, job: &Job) -> u64 {
    let spending = store.spending(Some(job.id)).await.unwrap();
    spending.iter().map(|spending| spending.usage.calls).sum()
}

/// Tables of a volume with so many pages, which are straightened and cut.
pub(crate) async fn put_pages(storage: &MemoryArtifacts, job: &Job, task: &Task, pages: usize) {
    let layout = ArtifactLayout::new(job.config.layout, &job.key).volume(&task.volume);
    let digest = Digest::of(b"x");
    let names: Vec<String> = (0..pages).map(|page| format!("p{page}")).collect();
    let fingerprint =
        |name: &str| Fingerprint::of("line_extraction", 1, digest, Digest::of(name.as_bytes()), &[]);
    let provenance = Provenance {
        job: job.key.clone(),
        volume: task.volume.clone(),
        stage: stage("line_extraction"),
        attempt: Attempt(1),
        models: Vec::new(),
        config_hash: digest,
        input_hash: digest,
        build: "0.1.0".to_owned(),
        fingerprint: fingerprint("all"),
        pages: names
            .iter()
            .map(|name| (name.clone(), fingerprint(name)))
            .collect(),
        service: None,
    };
    let row = |(index, name): (usize, &String)| LineDetectionRow {
        image_name: name.clone(),
        rotated_image_path: format!("pages/{name}.jpg"),
        rot_mask: Vec::new(),
        page_angle: 0.0,
        dewarping_applied: false,
        tps_ratio: None,
        filtered_contours: Vec::new(),
        page_index: i32::try_from(index).unwrap(),
        source_name: format!("{name}.tif"),
        image_width: 1,
        image_height: 1,
        rotated_width: 1,
        rotated_height: 1,
        tps_points: None,
        tps_alpha: None,
        input_sha256: digest.to_string(),
        is_binary: false,
        regions: None,
        is_negative: None,
    };
    let rows: Vec<LineDetectionRow> = names.iter().enumerate().map(row).collect();
    write_table(storage, &layout.line_detection(), rows, &provenance)
        .await
        .unwrap();
    let lines: Vec<LineImageRow> = Vec::new();
    write_table(storage, &layout.line_images(), lines, &provenance)
        .await
        .unwrap();
}

pub(crate) async fn lead(
    store: &Arc<MemoryStore>,
    storage: &Arc<MemoryArtifacts>,
    google: &Google,
) -> (Sandbox, Arc<ExternalStages>, JoinHandle<()>) {
    lead_within(store, storage, google, Duration::from_secs(20)).await
}

/// Leads, and waits so long for each answer of Google.
pub(crate) async fn lead_within(
    store: &Arc<MemoryStore>,
    storage: &Arc<MemoryArtifacts>,
    google: &Google,
    time: Duration,
) -> (Sandbox, Arc<ExternalStages>, JoinHandle<()>) {
    let sandbox = leader(store.clone()).start().await;
    let (stages, running) = external(
        &sandbox.orchestrator,
        store.clone(),
        store.clone(),
        storage.clone(),
        vec![(STAGE, google.at_stage(time))],
    );
    (sandbox, stages, running)
}
