//! Server for the tests of clients.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// Request that came: its method and path, its headers, its body.
pub(crate) type Seen = (String, HeaderMap, String);

/// Service that gives the same answer to everything, and ends with this value.
pub(crate) struct Answering {
    pub(crate) url: String,
    pub(crate) seen: Arc<Mutex<Vec<Seen>>>,
    _server: JoinSet<()>,
}

impl Answering {
    pub(crate) async fn with(
        status: u16,
        headers: &'static [(&'static str, &'static str)],
        body: &str,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
        let (noted, body) = (seen.clone(), Bytes::from(body.to_owned()));
        let mut server = JoinSet::new();
        server.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (noted, body) = (noted.clone(), body.clone());
                let service = service_fn(move |request: Request<Incoming>| {
                    let (noted, body) = (noted.clone(), body.clone());
                    async move {
                        let (head, sent) = request.into_parts();
                        let sent = sent.collect().await.unwrap().to_bytes();
                        let sent = String::from_utf8(sent.to_vec()).unwrap();
                        noted.lock().unwrap().push((
                            format!("{} {}", head.method, head.uri),
                            head.headers,
                            sent,
                        ));
                        let mut answer = Response::builder().status(status);
                        for (name, value) in headers {
                            answer = answer.header(*name, *value);
                        }
                        answer.body(Full::new(body))
                    }
                });
                connections.spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        Self {
            url,
            seen,
            _server: server,
        }
    }
}
