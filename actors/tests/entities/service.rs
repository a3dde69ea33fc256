//! Service in the process of a test that behaves like a real one, and like a bad one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use parkhang_actors::entity::{Entities, Heard, JobMessage};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// Rows that can never be scraped, and the one that no model can read.
pub(crate) const UNREACHABLE: i64 = 10;
pub(crate) const UNREADABLE: i64 = 7;

/// Numbers of submits from which on the next one meets a fault, and the faults in their order.
const FAULTS: [(usize, Fault); 12] = [
    (3, Fault::Early),
    (8, Fault::Slow),
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
enum Fault {
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
}

#[derive(Debug, Default)]
struct State {
    submits: usize,
    /// Message about each job that is known.
    jobs: BTreeMap<String, Value>,
    /// Jobs by the keys of their submits.
    keys: BTreeMap<String, String>,
    met: Vec<Fault>,
    heard: Vec<Heard>,
    told: Weak<Entities>,
}

/// Service that ends with this value.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) url: String,
    state: Arc<Mutex<State>>,
    _server: JoinSet<()>,
}

impl Service {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state: Arc<Mutex<State>> = Arc::default();
        let mut server = JoinSet::new();
        let shared = state.clone();
        server.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let shared = shared.clone();
                let service = service_fn(move |request| answer(shared.clone(), request));
                connections.spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        Self {
            url,
            state,
            _server: server,
        }
    }

    /// Names whom the webhook tells from now on.
    pub(crate) fn tell(&self, entities: &Arc<Entities>) {
        self.state.lock().unwrap().told = Arc::downgrade(entities);
    }

    /// Checks that each kind of fault was met, and that each webhook about a known job was heard.
    pub(crate) fn assert_faults(&self) {
        let state = self.state.lock().unwrap();
        for (_, fault) in FAULTS {
            assert!(state.met.contains(&fault), "{fault:?} was not met");
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
    let key = head.headers["idempotency-key"].to_str().unwrap().to_owned();
    Ok(submit(&state, key, &serde_json::from_slice(&body).unwrap()).await)
}

async fn submit(state: &Arc<Mutex<State>>, key: String, body: &Value) -> Response<Full<Bytes>> {
    let (fault, job, message) = {
        let mut state = locked(state);
        state.submits += 1;
        let number = state.submits;
        // The last try of the row that no model can read must fail for that reason.
        let fault = match FAULTS.get(state.met.len()) {
            Some((from, fault)) if number >= *from && body["row"]["id"] != UNREADABLE => Some(*fault),
            _ => None,
        };
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
        if fault != Some(Fault::Forgotten) {
            // A path has the id escaped.
            state.jobs.insert(job.replace('/', "%2F"), message.clone());
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
    let told = locked(&state).told.upgrade();
    if let Some(told) = told {
        let message = JobMessage::read(message.to_string().as_bytes(), None).unwrap();
        let heard = told.hear(&message).await.unwrap();
        locked(&state).heard.push(heard);
    }
}

/// Message about the end of a job: its result names the stage, and holds what the stage before has found.
fn end_of(job: &str, body: &Value) -> Value {
    let (stage, id) = (
        body["stage"].as_str().unwrap(),
        body["row"]["id"].as_i64().unwrap(),
    );
    let mut message = json!({"stage": stage, "leadId": id, "jobId": job, "status": "completed"});
    if stage == "scrape" && id % UNREACHABLE == 0 {
        message["status"] = "failed".into();
        message["error"] = "ENOTFOUND: DNS lookup failed".into();
    } else if stage == "intel" && id == UNREADABLE {
        message["status"] = "failed".into();
        message["error"] = "HTTP 500: out of memory".into();
    } else {
        let found = body["results"].as_object().unwrap().len();
        message["result"] = json!({"stage": stage, "email": body["row"]["email"], "before": found});
    }
    message
}

fn reply(status: u16, body: &Value) -> Response<Full<Bytes>> {
    let body = Full::new(Bytes::from(body.to_string()));
    Response::builder().status(status).body(body).unwrap()
}
