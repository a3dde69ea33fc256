//! Operations of Google that read the pages of a volume, with a server that behaves as cloud.google.com/vision/docs/reference/rest has it,
//! and badly: answers that are lost, operations that it forgets, errors within a success.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use chrono::Utc;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::{Method, Request, Response};
use parkhang_actors::engines::VisionOperations;
use parkhang_actors::external::ExternalStages;
use parkhang_actors::services::{RetryOverrides, StageService};
use parkhang_answers::vision::Feature;
use parkhang_core::domain::testing::{new_job, stage};
use parkhang_core::domain::{Attempt, Job, JobConfig, JobStatus, NewJob, Task, TaskStatus};
use parkhang_sandbox::Sandbox;
use parkhang_service::{Bounds, Transport, VisionClient};
use parkhang_state::{MemoryStore, ServiceStore, StateStore};
use parkhang_store::artifact::{
    ArtifactLayout, Digest, Fingerprint, LineDetectionRow, LineImageRow, Provenance, write_table,
};
use parkhang_store::storage::{ArtifactKey, ArtifactStore, MemoryArtifacts};
use parkhang_test_support::Wait;
use serde_json::{Value, json};
use tokio::task::{JoinHandle, JoinSet};

use crate::serving::serve;
use crate::shut::Shut;
use crate::tasks::{BUCKET, MAX_RETRIES, external, leader};

const PAGES: usize = 30;
const STAGE: &str = "google";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// The operation is carried out, and the answer to its submit never comes.
    Silent,
    /// The same, and the operation runs until [`Google::finish`].
    SilentAndSlow,
    /// The operation runs until [`Google::finish`].
    Slow,
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
    storage: Arc<MemoryArtifacts>,
}

struct Google {
    url: String,
    state: Arc<Mutex<State>>,
    _server: JoinSet<()>,
}

impl Google {
    async fn start(storage: &Arc<MemoryArtifacts>, faults: &[Fault]) -> Self {
        let state = Arc::new(Mutex::new(State {
            faults: faults.iter().copied().collect(),
            submits: 0,
            paid: 0,
            operations: BTreeMap::new(),
            running: Vec::new(),
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
    fn counts(&self) -> (usize, usize) {
        let state = self.state.lock().unwrap();
        (state.submits, state.paid)
    }

    /// Carries out the operations that run.
    async fn finish(&self) {
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
    fn at_stage(&self, time: Duration) -> StageService {
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
        Some(Fault::Slow | Fault::SilentAndSlow) => {
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
fn reading() -> NewJob {
    NewJob {
        config: JobConfig {
            retry_backoff_s: 0.02,
            max_attempts: 1,
            ..JobConfig::default()
        },
        ..new_job(&[STAGE], 1)
    }
}

async fn the_task(store: &MemoryStore, job: &Job) -> Task {
    store.tasks(job.id).await.unwrap().remove(0)
}

/// Names of the jobs that Google has had for a task, in their order.
async fn names_of_jobs(store: &MemoryStore, task: &Task) -> Vec<String> {
    let jobs = store.service_jobs(task.id).await.unwrap();
    jobs.into_iter().map(|job| job.job).collect()
}

/// Pages that were counted as calls of Google.
async fn counted(store: &MemoryStore, job: &Job) -> u64 {
    let spending = store.spending(Some(job.id)).await.unwrap();
    spending.iter().map(|spending| spending.usage.calls).sum()
}

/// Tables of a volume whose pages are straightened and cut.
async fn put_pages(storage: &MemoryArtifacts, job: &Job, task: &Task) {
    let layout = ArtifactLayout::new(job.config.layout, &job.key).volume(&task.volume);
    let digest = Digest::of(b"x");
    let names: Vec<String> = (0..PAGES).map(|page| format!("p{page}")).collect();
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

async fn lead(
    store: &Arc<MemoryStore>,
    storage: &Arc<MemoryArtifacts>,
    google: &Google,
) -> (Sandbox, Arc<ExternalStages>, JoinHandle<()>) {
    lead_within(store, storage, google, Duration::from_secs(20)).await
}

/// Leads, and waits so long for each answer of Google.
async fn lead_within(
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

/// The leader dies between the intent and the answer of a submit that Google carries out.
///
/// Rows: 84, 242.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operation_whose_answer_was_lost_is_found_by_what_it_writes_and_paid_once() {
    let storage = Arc::new(MemoryArtifacts::default());
    let google = Google::start(&storage, &[Fault::Silent]).await;
    let store = Arc::new(MemoryStore::new());
    let job = store.create_job(&reading(), Utc::now()).await.unwrap();
    put_pages(&storage, &job, &the_task(&store, &job).await).await;
    let (first, _, running) = lead(&store, &storage, &google).await;
    Wait::until("Google has read the pages")
        .sees_async(async || google.counts(), |counts| *counts == (1, PAGES))
        .await;
    running.abort();
    first.orchestrator.kill();
    let leased = the_task(&store, &job).await;
    let intended = store.intend_submit(&leased.fence().unwrap(), Utc::now()).await;
    assert!(!intended.unwrap(), "it was written before anything was sent");
    assert_eq!(store.service_jobs(leased.id).await.unwrap(), []);

    let (second, _, running) = lead(&store, &storage, &google).await;
    second.job_ends(job.id, JobStatus::Completed).await;
    running.abort();
    assert_eq!(google.counts(), (1, PAGES));
    let known = store.service_jobs(leased.id).await.unwrap();
    assert_eq!(known[0].job, VisionOperations::FOUND);
    second.stop().await;
}

/// The leader dies while Google works, and the lease runs out. The operation has a name, under which Google is asked about it.
///
/// Rows: 84, 237, 242.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operation_that_outlives_its_leader_and_its_lease_is_waited_for_and_paid_once() {
    let storage = Arc::new(MemoryArtifacts::default());
    let google = Google::start(&storage, &[Fault::Slow]).await;
    let store = Arc::new(MemoryStore::new());
    let job = store.create_job(&reading(), Utc::now()).await.unwrap();
    let task = the_task(&store, &job).await;
    put_pages(&storage, &job, &task).await;
    let (first, _, running) = lead(&store, &storage, &google).await;
    let names = async || names_of_jobs(&store, &task).await;
    Wait::until("the operation has a name")
        .sees_async(names, |names| names.len() == 1)
        .await;
    running.abort();
    first.orchestrator.kill();

    let (second, _, running) = lead(&store, &storage, &google).await;
    let taken_over = Wait::until("another lease has the operation")
        .sees_async(names, |names| names.len() == 2)
        .await;
    assert_eq!(taken_over, ["operations/1"; 2]);
    google.finish().await;
    second.job_ends(job.id, JobStatus::Completed).await;
    running.abort();
    assert_eq!(google.counts(), (1, PAGES));
    assert_eq!(counted(&store, &job).await, PAGES as u64);
    second.stop().await;
}

/// Google begins an operation, and its answer does not come in time.
///
/// Rows: 84, 235.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_google_may_have_begun_is_waited_for_and_not_submitted_again() {
    let storage = Arc::new(MemoryArtifacts::default());
    let google = Google::start(&storage, &[Fault::SilentAndSlow]).await;
    let store = Arc::new(MemoryStore::new());
    let job = store.create_job(&reading(), Utc::now()).await.unwrap();
    put_pages(&storage, &job, &the_task(&store, &job).await).await;
    let (sandbox, _, running) = lead_within(&store, &storage, &google, Duration::from_millis(500)).await;
    Wait::until("the answer to the submit is given up")
        .sees_async(
            async || store.services().await.unwrap(),
            |services| services.iter().any(|service| service.failures > 0),
        )
        .await;
    google.finish().await;
    sandbox.job_ends(job.id, JobStatus::Completed).await;
    assert_eq!(google.counts(), (1, PAGES));
    assert_eq!(counted(&store, &job).await, PAGES as u64);
    let runs = store.stage_runs(the_task(&store, &job).await.id).await.unwrap();
    assert_eq!(runs.len(), 1, "it costs no try: {runs:?}");
    running.abort();
    sandbox.stop().await;
}

/// Rows: 84, 235.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_volume_is_read_by_operations_though_google_refuses_fails_and_forgets() {
    let storage = Arc::new(MemoryArtifacts::default());
    let faults = [Fault::Refused, Fault::Failed, Fault::Expired, Fault::Forgotten];
    let google = Google::start(&storage, &faults).await;
    let store = Arc::new(MemoryStore::new());
    let job = store.create_job(&reading(), Utc::now()).await.unwrap();
    put_pages(&storage, &job, &the_task(&store, &job).await).await;
    let (sandbox, _, running) = lead(&store, &storage, &google).await;
    sandbox.job_ends(job.id, JobStatus::Completed).await;
    assert_eq!(
        google.counts(),
        (4, PAGES),
        "what it forgot was there all the same"
    );
    let task = the_task(&store, &job).await;
    assert_eq!(task.status, TaskStatus::Done);
    let names = [2, 3, 4].map(|number| format!("operations/{number}"));
    assert_eq!(
        names_of_jobs(&store, &task).await,
        [&names[..], &[VisionOperations::FOUND.to_owned()]].concat()
    );
    running.abort();
    sandbox.stop().await;
}

/// The bucket is shut for longer than the stage has tries.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_is_away_costs_no_try() {
    let storage = Arc::new(MemoryArtifacts::default());
    let google = Google::start(&storage, &[]).await;
    let store = Arc::new(MemoryStore::new());
    let job = store.create_job(&reading(), Utc::now()).await.unwrap();
    put_pages(&storage, &job, &the_task(&store, &job).await).await;
    // Each try reads two tables.
    let shut = Arc::new(Shut::for_reads(&storage, 2 * (MAX_RETRIES as usize + 2)));
    let sandbox = leader(store.clone()).start().await;
    let (_, running) = external(
        &sandbox.orchestrator,
        store.clone(),
        store.clone(),
        shut.clone(),
        vec![(STAGE, google.at_stage(Duration::from_secs(20)))],
    );
    sandbox.job_ends(job.id, JobStatus::Completed).await;
    assert_eq!(shut.reads_left(), 0);
    assert_eq!(the_task(&store, &job).await.status, TaskStatus::Done);
    assert_eq!(google.counts(), (1, PAGES));
    running.abort();
    sandbox.stop().await;
}
