//! Service in the process of a bench whose jobs take 200 ms, and which notes when each was submitted and ended.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use parkhang_actors::services::{JobListener, JobMessage};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Notify;

use crate::STAGES;
use crate::support::pass;

const WORK: Duration = Duration::from_millis(200);

/// Stage and row of a job.
type Purpose = (String, String);

#[derive(Default)]
struct State {
    submitted: HashMap<Purpose, Instant>,
    ended: HashMap<Purpose, Instant>,
    /// Number of ends by stage, which whoever is told has heard of.
    ends: HashMap<String, usize>,
    told: Option<Arc<dyn JobListener>>,
}

/// The service. It lives as long as the runtime.
pub(crate) struct RowsService {
    pub(crate) url: String,
    state: Arc<Mutex<State>>,
    changed: Arc<Notify>,
}

impl RowsService {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (state, changed) = (Arc::<Mutex<State>>::default(), Arc::<Notify>::default());
        let shared = (state.clone(), changed.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let shared = shared.clone();
                let service = service_fn(move |request| answer(shared.clone(), request));
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        Self { url, state, changed }
    }

    /// Names whom the service tells of ends.
    pub(crate) fn tell(&self, told: Arc<dyn JobListener>) {
        self.state.lock().unwrap().told = Some(told);
    }

    pub(crate) async fn until_ended(&self, stage: &str, count: usize) {
        self.until(|state| {
            state
                .ends
                .get(stage)
                .is_some_and(|ends| *ends >= count)
                .then_some(())
        })
        .await;
    }

    /// Waits until a row is submitted for a stage, and returns when that was.
    pub(crate) async fn until_submitted(&self, stage: &str, id: i64) -> Instant {
        let purpose = (stage.to_owned(), id.to_string());
        self.until(|state| state.submitted.get(&purpose).copied()).await
    }

    async fn until<T>(&self, found: impl Fn(&State) -> Option<T>) -> T {
        loop {
            let changed = self.changed.notified();
            if let Some(found) = found(&self.state.lock().unwrap()) {
                return found;
            }
            changed.await;
        }
    }

    /// Times from the end of a job to the submit of the next one of the row.
    pub(crate) fn gaps(&self) -> Vec<Duration> {
        let state = self.state.lock().unwrap();
        let next = |stage: &str| STAGES.iter().skip_while(|of| **of != stage).nth(1);
        let gaps = state.ended.iter().filter_map(|((stage, id), ended)| {
            let purpose = ((*next(stage)?).to_owned(), id.clone());
            Some(*state.submitted.get(&purpose)? - *ended)
        });
        gaps.collect()
    }
}

async fn answer(
    (state, changed): (Arc<Mutex<State>>, Arc<Notify>),
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let (head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let name = head.uri.path().rsplit('/').next().unwrap_or_default();
    let answer = match name.split_once('-') {
        Some((stage, id)) if head.method == Method::GET => {
            match state
                .lock()
                .unwrap()
                .ended
                .contains_key(&(stage.to_owned(), id.to_owned()))
            {
                true => json!({"status": "completed", "result": {"text": "hello"}}),
                false => json!({"status": "running"}),
            }
        }
        _ => {
            let body: Value = serde_json::from_slice(&body).unwrap();
            let text = |name: &str| body[name].as_str().unwrap().to_owned();
            let (stage, id) = (text("stage"), text("id"));
            let job = format!("{stage}-{id}");
            state
                .lock()
                .unwrap()
                .submitted
                .insert((stage.clone(), id.clone()), Instant::now());
            changed.notify_waiters();
            tokio::spawn(work(state, changed, stage, id));
            json!({"jobId": job})
        }
    };
    Ok(Response::new(Full::new(Bytes::from(answer.to_string()))))
}

async fn work(state: Arc<Mutex<State>>, changed: Arc<Notify>, stage: String, id: String) {
    pass(WORK).await;
    let told = {
        let mut state = state.lock().unwrap();
        state.ended.insert((stage.clone(), id.clone()), Instant::now());
        state.told.clone()
    };
    if let Some(told) = told {
        let message = JobMessage {
            job: format!("{stage}-{id}"),
            stage: stage.clone(),
            id,
            status: "completed".to_owned(),
            result: json!({"text": "hello"}),
            error: Value::Null,
        };
        told.hear(&message).await.unwrap();
    }
    *state.lock().unwrap().ends.entry(stage).or_default() += 1;
    changed.notify_waiters();
}
