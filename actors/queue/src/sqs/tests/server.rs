//! SQS server in the process of a test, with faults.

use std::collections::VecDeque;
use std::error::Error;
use std::future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::protocol::{Protocol, Refused};

/// What happens to a request instead of its answer.
#[derive(Debug, Clone, Copy)]
pub(super) enum Fault {
    /// Nothing is done; the answer is this status and error code.
    Refuse(u16, &'static str),
    /// Nothing is done and no answer comes.
    Silence,
    /// The request is carried out, then the connection closes without an answer.
    LoseAnswer,
    /// The request is carried out, and the answer is cut short.
    CutAnswer,
    /// Every second entry of a batch fails, for no fault of the sender.
    FailEntries,
}

/// Faults to come, and the requests that came.
#[derive(Debug, Default)]
pub(super) struct Faults {
    planned: VecDeque<(&'static str, Fault)>,
    /// One request in so many meets one of these in turn.
    weather: Option<(usize, Vec<Fault>)>,
    pub(super) requests: Vec<(String, Value)>,
}

impl Faults {
    /// Does these faults to the next requests of an action, one to each.
    pub(super) fn plan(&mut self, action: &'static str, faults: &[Fault]) {
        self.planned.extend(faults.iter().map(|fault| (action, *fault)));
    }

    /// From now on one request in `period` meets one of `faults`.
    pub(super) fn come_round(&mut self, period: usize, faults: Vec<Fault>) {
        self.weather = Some((period, faults));
    }

    /// Requests of an action.
    pub(super) fn of(&self, action: &str) -> Vec<&Value> {
        let requests = self.requests.iter().filter(|(name, _)| name == action);
        requests.map(|(_, request)| request).collect()
    }

    fn strike(&mut self, action: &str, request: &Value) -> Option<Fault> {
        self.requests.push((action.to_owned(), request.clone()));
        let planned = self.planned.iter().position(|(planned, _)| *planned == action);
        if let Some((_, fault)) = planned.and_then(|place| self.planned.remove(place)) {
            return Some(fault);
        }
        let (period, faults) = self.weather.as_ref()?;
        let number = self.requests.len();
        number
            .is_multiple_of(*period)
            .then(|| faults[number / period % faults.len()])
    }
}

/// Server that ends with this value.
#[derive(Debug)]
pub(super) struct Endpoint {
    pub(super) url: String,
    faults: Arc<Mutex<Faults>>,
    _server: JoinSet<()>,
}

impl Endpoint {
    pub(super) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let protocol = Arc::new(Protocol::new(&url));
        let faults: Arc<Mutex<Faults>> = Arc::default();
        let mut server = JoinSet::new();
        server.spawn(accept(listener, protocol, faults.clone()));
        Self {
            url,
            faults,
            _server: server,
        }
    }

    pub(super) fn faults(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn accept(listener: TcpListener, protocol: Arc<Protocol>, faults: Arc<Mutex<Faults>>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let (protocol, faults) = (protocol.clone(), faults.clone());
        connections.spawn(async move {
            let answer = service_fn(|request| answer(&protocol, &faults, request));
            // A connection that ends in an error is what a fault looks like from here.
            let _ = http1::Builder::new()
                .serve_connection(TokioIo::new(stream), answer)
                .await;
        });
    }
}

type Answer = Result<Response<Full<Bytes>>, Box<dyn Error + Send + Sync>>;

async fn answer(protocol: &Protocol, faults: &Mutex<Faults>, request: Request<Incoming>) -> Answer {
    let target = request.headers()["x-amz-target"].to_str()?.to_owned();
    let action = target.trim_start_matches("AmazonSQS.");
    let request: Value = serde_json::from_slice(&request.into_body().collect().await?.to_bytes())?;
    let fault = faults
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .strike(action, &request);
    match fault {
        None => respond(protocol.call(action, &request).await),
        Some(Fault::Refuse(500, "")) => Ok(Response::builder().status(500).body(Full::default())?),
        Some(Fault::Refuse(status, code)) => refuse(status, code, "a fault"),
        Some(Fault::Silence) => future::pending().await,
        Some(Fault::LoseAnswer) => {
            let _ = protocol.call(action, &request).await;
            Err("the answer is lost".into())
        }
        Some(Fault::CutAnswer) => {
            let answer = protocol.call(action, &request).await;
            let text = answer.unwrap_or_default().to_string();
            Ok(Response::new(Full::from(text[..text.len() / 2].to_owned())))
        }
        Some(Fault::FailEntries) => respond(fail_entries(protocol, action, request).await),
    }
}

/// Carries out the entries of a batch with even ids; a request that is no batch as a whole.
async fn fail_entries(protocol: &Protocol, action: &str, mut request: Value) -> Result<Value, Refused> {
    let mut failed = Vec::new();
    if let Some(entries) = request["Entries"].as_array_mut() {
        let is_odd = |entry: &Value| {
            entry["Id"]
                .as_str()
                .is_some_and(|id| id.ends_with(['1', '3', '5', '7', '9']))
        };
        failed = entries.extract_if(.., |entry| is_odd(entry)).collect();
    }
    let mut answer = protocol.call(action, &request).await?;
    if let Some(answers) = answer["Failed"].as_array_mut() {
        let fail = |entry: &Value| json!({ "Id": entry["Id"], "Code": "InternalError", "Message": "a fault", "SenderFault": false });
        answers.extend(failed.iter().map(fail));
    }
    Ok(answer)
}

fn respond(answer: Result<Value, Refused>) -> Answer {
    match answer {
        Ok(answer) => Ok(Response::new(Full::from(answer.to_string()))),
        Err((code, message)) => refuse(400, code, &message),
    }
}

/// An error as AWS sends it: with the code of the older protocol along.
fn refuse(status: u16, code: &str, message: &str) -> Answer {
    let old = match code {
        "QueueDoesNotExist" => "AWS.SimpleQueueService.NonExistentQueue",
        "QueueNameExists" => "QueueAlreadyExists",
        "PurgeQueueInProgress" => "AWS.SimpleQueueService.PurgeQueueInProgress",
        other => other,
    };
    let body = json!({ "__type": format!("com.amazonaws.sqs#{code}"), "message": message });
    Ok(Response::builder()
        .status(status)
        .header("x-amzn-query-error", format!("{old};Sender"))
        .body(Full::from(body.to_string()))?)
}
