//! Server for the tests of clients.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};

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

/// Frame of a body that is sent piece by piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Frame {
    /// Its length stands in the head.
    Length,
    Chunks,
    /// It ends with the connection.
    Connection,
}

/// Service that answers one request with 100 MiB.
pub(crate) struct Streaming {
    pub(crate) url: String,
    written: JoinHandle<usize>,
}

impl Streaming {
    const BODY: usize = 100 << 20;
    const PIECE: usize = 64 << 10;

    pub(crate) async fn with(status: u16, frame: Frame) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let written = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.unwrap());
            }
            let framing = match frame {
                Frame::Length => format!("content-length: {}", Self::BODY),
                Frame::Chunks => "transfer-encoding: chunked".to_owned(),
                Frame::Connection => "connection: close".to_owned(),
            };
            let head = format!("HTTP/1.1 {status} Said\r\n{framing}\r\n\r\n");
            stream.write_all(head.as_bytes()).await.unwrap();
            let mut piece = vec![b' '; Self::PIECE];
            if frame == Frame::Chunks {
                piece = [format!("{:x}\r\n", Self::PIECE).as_bytes(), &piece, b"\r\n"].concat();
            }
            for number in 0..Self::BODY / Self::PIECE {
                if stream.write_all(&piece).await.is_err() {
                    return number * Self::PIECE;
                }
            }
            Self::BODY
        });
        Self { url, written }
    }

    /// Bytes of the body that the connection took before the client closed it.
    pub(crate) async fn written(self) -> usize {
        self.written.await.unwrap()
    }
}
