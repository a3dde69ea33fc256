//! Server that follows a script, for the tests of engines. It answers as the documentations of the services have it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// Answer of the script: a status and a body.
pub(crate) type Said = (u16, String);

/// Makes the answer to a request, of which it gets the path and the body.
pub(crate) type Script = dyn FnMut(&str, &Value) -> Said + Send;

/// Server that ends with this value.
pub(crate) struct Scripted {
    pub(crate) url: String,
    /// Bodies of the requests, in order.
    pub(crate) asked: Arc<Mutex<Vec<Value>>>,
    _server: JoinSet<()>,
}

impl Scripted {
    /// Server that gives these answers one after the other, and the last one for good.
    pub(crate) async fn saying(answers: impl IntoIterator<Item = Said>) -> Self {
        let mut answers: VecDeque<Said> = answers.into_iter().collect();
        Self::by(move |_, _| match answers.len() {
            1 => answers[0].clone(),
            _ => answers.pop_front().expect("a script has an answer"),
        })
        .await
    }

    pub(crate) async fn by(script: impl FnMut(&str, &Value) -> Said + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked: Arc<Mutex<Vec<Value>>> = Arc::default();
        let script: Arc<Mutex<Box<Script>>> = Arc::new(Mutex::new(Box::new(script)));
        let noted = asked.clone();
        let mut server = JoinSet::new();
        server.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (noted, script) = (noted.clone(), script.clone());
                let service = service_fn(move |request: Request<Incoming>| {
                    let (noted, script) = (noted.clone(), script.clone());
                    async move {
                        let path = request.uri().path().to_owned();
                        let sent = request.into_body().collect().await.unwrap().to_bytes();
                        let sent: Value = serde_json::from_slice(&sent).unwrap_or_default();
                        let (status, body) = (script.lock().unwrap())(&path, &sent);
                        noted.lock().unwrap().push(sent);
                        Response::builder()
                            .status(status)
                            .body(Full::new(Bytes::from(body)))
                    }
                });
                connections.spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        Self {
            url,
            asked,
            _server: server,
        }
    }

    pub(crate) fn asked(&self) -> Vec<Value> {
        self.asked.lock().unwrap().clone()
    }
}
