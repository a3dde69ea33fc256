//! Export of spans in batches by HTTP.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use axum::body::{Body, Bytes};
use axum::http::header::{CONTENT_TYPE, HOST};
use axum::http::{Request, Uri};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout, timeout_at};
use tracing::warn;

/// Largest number of spans that wait for the collector. More are dropped, since work must not wait for it.
const WAITING: usize = 4096;
/// Largest number of spans in one request.
const BATCH: usize = 512;
const BATCH_TIME: Duration = Duration::from_secs(1);
const REQUEST_LIMIT: Duration = Duration::from_secs(5);
/// Longest time that the end of a process waits for the collector. A full queue is several requests, each of which may take its
/// [`REQUEST_LIMIT`], and a node that is stopped must not be held up that long by spans.
const FLUSH_LIMIT: Duration = Duration::from_secs(5);
/// Path of traces below a collector's endpoint.
const PATH: &str = "/v1/traces";

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("must be a URL such as http://127.0.0.1:4318")]
pub struct InvalidEndpoint;

/// Queue of spans for a collector.
#[derive(Debug, Clone)]
pub struct Collector(mpsc::Sender<Item>);

enum Item {
    Span(Value),
    /// Request to send all spans before it now.
    Flush(oneshot::Sender<()>),
}

impl Collector {
    /// Returns `HOST:PORT` of an endpoint.
    ///
    /// # Errors
    ///
    /// If it is not an http URL without path and query.
    pub fn authority(endpoint: &str) -> Result<String, InvalidEndpoint> {
        let uri: Uri = endpoint.parse().map_err(|_| InvalidEndpoint)?;
        let host = uri.host().filter(|_| uri.scheme_str() == Some("http"));
        let bare = matches!(uri.path(), "" | "/") && uri.query().is_none();
        match (host, bare) {
            (Some(host), true) => Ok(format!("{host}:{}", uri.port_u16().unwrap_or(4318))),
            _ => Err(InvalidEndpoint),
        }
    }

    /// Starts the export to the collector at `endpoint`, in the name of `node`.
    ///
    /// # Errors
    ///
    /// If the endpoint is not valid.
    pub fn at(endpoint: &str, node: &str) -> Result<Self, InvalidEndpoint> {
        let authority = Self::authority(endpoint)?;
        let (sender, items) = mpsc::channel(WAITING);
        tokio::spawn(export(authority, node.to_owned(), items));
        Ok(Self(sender))
    }

    pub(super) fn take(&self, span: Value) {
        // Fails if the queue is full or the process is ending; the span is dropped then.
        let _ = self.0.try_send(Item::Span(span));
    }

    /// Waits until the spans so far have been sent, or cannot be, for [`FLUSH_LIMIT`] at most.
    pub async fn flush(&self) {
        let flushed = async {
            let (sender, sent) = oneshot::channel();
            if self.0.send(Item::Flush(sender)).await.is_ok() {
                // An error means that the exporter has ended, so there is nothing to wait for either.
                let _ = sent.await;
            }
        };
        if timeout(FLUSH_LIMIT, flushed).await.is_err() {
            warn!("the collector does not answer, and the last traces are lost");
        }
    }
}

async fn export(authority: String, node: String, mut items: mpsc::Receiver<Item>) {
    loop {
        let (mut spans, mut flushed) = (Vec::new(), Vec::new());
        let mut next = items.recv().await;
        // From the first span of a batch, so that none waits for longer than this.
        let deadline = Instant::now() + BATCH_TIME;
        loop {
            match next {
                Some(Item::Span(span)) => spans.push(span),
                Some(Item::Flush(sent)) => flushed.push(sent),
                None if spans.is_empty() => return,
                None => break,
            }
            if spans.len() >= BATCH || !flushed.is_empty() {
                break;
            }
            match timeout_at(deadline, items.recv()).await {
                Ok(item) => next = item,
                Err(_) => break,
            }
        }
        // A batch that fails is dropped: keeping it would delay the next ones while a collector is down.
        if !spans.is_empty() {
            let count = spans.len();
            let sent = timeout(REQUEST_LIMIT, post(&authority, payload(&node, spans))).await;
            if let Err(error) = sent.context("no answer").flatten() {
                warn!(
                    spans = count,
                    collector = authority,
                    error = format!("{error:#}"),
                    "traces are lost"
                );
            }
        }
        for sent in flushed {
            // Whoever flushes may have given up waiting.
            let _ = sent.send(());
        }
    }
}

fn payload(node: &str, spans: Vec<Value>) -> Value {
    let text = |key: &str, value: &str| json!({ "key": key, "value": { "stringValue": value } });
    let resource = [
        text("service.name", "parkhang"),
        text("service.version", env!("CARGO_PKG_VERSION")),
        text("service.instance.id", node),
    ];
    json!({ "resourceSpans": [{
        "resource": { "attributes": resource },
        "scopeSpans": [{ "scope": { "name": "parkhang" }, "spans": spans }],
    }] })
}

async fn post(authority: &str, payload: Value) -> Result<()> {
    let stream = TcpStream::connect(authority).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let request = Request::post(PATH)
        .header(HOST, authority)
        .header(CONTENT_TYPE, "application/json")
        .body(Body::from(Bytes::from(payload.to_string())))?;
    let answer = async move {
        let answer = sender.send_request(request).await?;
        match answer.status() {
            status if status.is_success() => Ok(()),
            status => bail!("the collector answers {status}"),
        }
    };
    // The connection is driven by this task and ends when the sender is dropped.
    let (answer, _) = tokio::join!(answer, connection);
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_collector_that_hangs_does_not_hold_up_the_end() {
        // It takes connections, as the system does so for it, and answers nothing.
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", silent.local_addr().unwrap());
        let collector = Collector::at(&endpoint, "gpu-1").unwrap();
        for _ in 0..WAITING {
            collector.take(json!({}));
        }
        let began = Instant::now();
        collector.flush().await;
        assert!(began.elapsed() <= FLUSH_LIMIT * 2, "{:?}", began.elapsed());
    }

    #[test]
    fn an_endpoint_is_a_bare_address() {
        let authority = |endpoint| Collector::authority(endpoint).ok();
        assert_eq!(
            authority("http://127.0.0.1:9999").as_deref(),
            Some("127.0.0.1:9999")
        );
        assert_eq!(authority("http://collector/").as_deref(), Some("collector:4318"));
        assert_eq!(authority("http://[::1]:1").as_deref(), Some("[::1]:1"));
        for wrong in [
            "",
            "collector:4318",
            "https://collector",
            "http://collector/v1/traces",
            "grpc://x",
        ] {
            assert_eq!(authority(wrong), None, "{wrong}");
        }
    }
}
