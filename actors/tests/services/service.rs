//! Service in the process of a test that behaves like a real one, and like a bad one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::{Method, Request, Response};
use parkhang_actors::services::{Heard, JobListener, JobMessage, RetryOverrides, StageService};
use parkhang_service::{JobsClient, JobsSettings, Paths, Transport};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::serving::serve;

/// Rows and tasks that can never be scraped, and the one that no model can read.
pub(crate) const UNREACHABLE: i64 = 10;
pub(crate) const UNREADABLE: i64 = 7;

/// Numbers of submits from which on the next one meets a fault, and the faults in their order.
pub(crate) const FAULTS: [(usize, Fault); 13] = [
    (3, Fault::Early),
    (8, Fault::Slow),
    (10, Fault::Never),
    (15, Fault::Twice),
    (22, Fault::Busy),
    (30, Fault::Forgotten),
    (40, Fault::Broken),
    (41, Fault::Broken),
    (42, Fault::Broken),
    (55, Fault::Early),
    (70, Fault::Slow),
    (90, Fault::Forgotten),
    (120, Fault::Busy),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The webhook comes before the answer to the submit.
    Early,
    /// The job is taken, and the answer never comes.
    Slow,
    /// The webhook comes twice.
    Twice,
    /// 429 with a time to wait.
    Busy,
    /// 503.
    Broken,
    /// The job is taken and forgotten.
    Forgotten,
    /// The job is taken and has no end.
    Never,
}

#[derive(Debug, Default)]
struct State {
    faults: &'static [(usize, Fault)],
    submits: usize,
    /// Message about each job that is known.
    jobs: BTreeMap<String, Value>,
    /// Messages about the ends of jobs, whether they are known or not.
    ends: Vec<Value>,
    /// Jobs by the keys of their submits.
    keys: BTreeMap<String, String>,
    /// Keys by what was asked for: a stage of a row or a task, and the number of the try.
    tries: BTreeMap<(String, i64, i64), BTreeSet<String>>,
    /// Jobs that are no longer wanted.
    cancelled: Vec<String>,
    met: Vec<Fault>,
    heard: Vec<Heard>,
    told: Option<Weak<dyn JobListener>>,
}

/// Service that ends with this value.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) url: String,
    state: Arc<Mutex<State>>,
    _server: JoinSet<()>,
}

impl Service {
    /// Starts a service with faults, each with the number of the submit from which on the next one meets it.
    pub(crate) async fn start(faults: &'static [(usize, Fault)]) -> Self {
        let state = Arc::new(Mutex::new(State {
            faults,
            ..State::default()
        }));
        let shared = state.clone();
        let (url, server) = serve(move |request| answer(shared.clone(), request)).await;
        Self {
            url,
            state,
            _server: server,
        }
    }

    /// Names whom the webhook tells from now on.
    pub(crate) fn tell(&self, told: Arc<dyn JobListener>) {
        self.state.lock().unwrap().told = Some(Arc::downgrade(&told));
    }

    /// The service under a name, as it does a stage.
    pub(crate) fn at_stage(&self, name: &str, has_webhook: bool) -> StageService {
        let settings = JobsSettings {
            timeout: Duration::from_millis(1500),
            paths: Paths {
                cancel: Some("/jobs/{job}".to_owned()),
                ..Paths::default()
            },
            ..JobsSettings::at(&self.url)
        };
        StageService {
            name: name.to_owned(),
            client: Arc::new(JobsClient::new(settings, Transport::new().unwrap()).unwrap()),
            template: None,
            max_body: 1 << 20,
            poll_interval: Duration::from_millis(50),
            has_webhook,
            retry: RetryOverrides::default(),
            reader: None,
        }
    }

    /// Number of submits, and the keys that they had.
    pub(crate) fn submits(&self) -> (usize, Vec<String>) {
        let state = self.state.lock().unwrap();
        (state.submits, state.keys.keys().cloned().collect())
    }

    /// Messages about the jobs that there are, as their ends are told.
    pub(crate) fn messages(&self) -> Vec<JobMessage> {
        let state = self.state.lock().unwrap();
        state.ends.iter().map(read).collect()
    }

    /// Jobs that it was told to cancel.
    pub(crate) fn cancelled(&self) -> Vec<String> {
        self.state.lock().unwrap().cancelled.clone()
    }

    /// Checks that no try was submitted under two keys.
    pub(crate) fn assert_one_key_a_try(&self) {
        for (tried, keys) in &self.state.lock().unwrap().tries {
            assert_eq!(keys.len(), 1, "{tried:?}: {keys:?}");
        }
    }

    /// Checks that each kind of fault was met, and that each webhook about a known job was heard.
    pub(crate) fn assert_faults(&self) {
        let state = self.state.lock().unwrap();
        for (_, fault) in state.faults {
            assert!(state.met.contains(fault), "{fault:?} was not met");
        }
        // The message came before the answer to its submit.
        assert_eq!(state.heard.first(), Some(&Heard::Processed));
    }
}

fn locked(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap()
}

async fn answer(
    state: Arc<Mutex<State>>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let (head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    if head.method == Method::GET {
        let job = head.uri.path().rsplit('/').next().unwrap_or_default();
        return Ok(match locked(&state).jobs.get(job) {
            Some(message) => reply(200, message),
            None => reply(404, &json!({"error": "no such job"})),
        });
    }
    if head.method == Method::DELETE {
        let job = head.uri.path().rsplit('/').next().unwrap_or_default();
        locked(&state).cancelled.push(job.replace("%2F", "/"));
        return Ok(reply(200, &json!({})));
    }
    let key = head.headers["idempotency-key"].to_str().unwrap().to_owned();
    Ok(submit(&state, key, &serde_json::from_slice(&body).unwrap()).await)
}

async fn submit(state: &Arc<Mutex<State>>, key: String, body: &Value) -> Response<Full<Bytes>> {
    let (fault, job, message) = {
        let mut state = locked(state);
        state.submits += 1;
        let number = state.submits;
        // The last try of the row that no model can read must fail for that reason.
        let (id, attempt) = (id_of(body), body["attempt"].as_i64());
        let fault = match state.faults.get(state.met.len()) {
            Some((from, fault)) if number >= *from && id != UNREADABLE => Some(*fault),
            _ => None,
        };
        // Rows do not say which try it is.
        if let Some(attempt) = attempt {
            let stage = body["stage"].as_str().unwrap().to_owned();
            state
                .tries
                .entry((stage, id, attempt))
                .or_default()
                .insert(key.clone());
        }
        state.met.extend(fault);
        match fault {
            Some(Fault::Busy) => {
                let mut busy = reply(429, &json!({"error": "slow down"}));
                busy.headers_mut().insert("retry-after", "1".parse().unwrap());
                return busy;
            }
            Some(Fault::Broken) => return reply(503, &json!({"error": "restarting"})),
            _ => {}
        }
        let fresh = format!("job/{number}");
        let job = state.keys.entry(key).or_insert(fresh).clone();
        let message = end_of(&job, body);
        state.ends.push(message.clone());
        // A path has the id escaped.
        let path = job.replace('/', "%2F");
        match fault {
            Some(Fault::Forgotten) => {}
            Some(Fault::Never) => drop(state.jobs.insert(path, json!({"status": "running"}))),
            _ => drop(state.jobs.insert(path, message.clone())),
        }
        (fault, job, message)
    };
    let taken = reply(202, &json!({"jobId": job, "status": "queued"}));
    match fault {
        Some(Fault::Slow) => std::future::pending().await,
        Some(Fault::Early) => {
            // It is on its way before the answer is.
            let mut telling = Box::pin(tell(state.clone(), message));
            let _ = futures::poll!(telling.as_mut());
            tokio::spawn(telling);
        }
        Some(Fault::Twice) => {
            tokio::spawn(tell(state.clone(), message.clone()));
            tokio::spawn(tell(state.clone(), message));
        }
        _ => {}
    }
    taken
}

async fn tell(state: Arc<Mutex<State>>, message: Value) {
    let told = locked(&state).told.as_ref().and_then(Weak::upgrade);
    if let Some(told) = told {
        let heard = told.hear(&read(&message)).await.unwrap();
        locked(&state).heard.push(heard);
    }
}

fn read(message: &Value) -> JobMessage {
    JobMessage::read(message.to_string().as_bytes(), None).unwrap()
}

fn id_of(body: &Value) -> i64 {
    let id = body.get("taskId").unwrap_or(&body["row"]["id"]);
    id.as_i64().unwrap()
}

/// Message about the end of a job: its result names the stage, and holds what the stage before has found.
fn end_of(job: &str, body: &Value) -> Value {
    let (stage, id) = (body["stage"].as_str().unwrap(), id_of(body));
    let mut message = json!({"stage": stage, "leadId": id, "jobId": job, "status": "completed"});
    if stage == "scrape" && id % UNREACHABLE == 0 {
        message["status"] = "failed".into();
        message["error"] = "ENOTFOUND: DNS lookup failed".into();
    } else if stage == "intel" && id == UNREADABLE {
        message["status"] = "failed".into();
        message["error"] = "HTTP 500: out of memory".into();
    } else {
        message["result"] = match body["artifacts"].as_object() {
            Some(artifacts) => json!({"stage": stage, "task": id, "before": artifacts}),
            None => {
                let found = body["results"].as_object().unwrap().len();
                json!({"stage": stage, "email": body["row"]["email"], "before": found})
            }
        };
    }
    message
}

fn reply(status: u16, body: &Value) -> Response<Full<Bytes>> {
    let body = Full::new(Bytes::from(body.to_string()));
    Response::builder().status(status).body(body).unwrap()
}
