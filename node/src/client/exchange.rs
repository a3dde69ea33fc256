//! One request on one connection.

use std::fmt;
use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use axum::http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, USER_AGENT};
use axum::http::{HeaderValue, Request, StatusCode};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::ROOT;
use super::url::ServerUrl;

/// Longest time for a connection, and for a TLS handshake.
const CONNECT: Duration = Duration::from_secs(5);
/// Bytes of an answer.
// The whole answer is held in memory, so a server that is no orchestrator must not decide how long it is.
const MAX_ANSWER: usize = 256 << 20;
const AGENT: &str = concat!("parkhang/", env!("CARGO_PKG_VERSION"));

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    Get,
    Post,
    Patch,
}

impl Method {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Patch => "PATCH",
        }
    }
}

/// A request below the root of the interface.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    pub method: Method,
    /// With its query.
    pub path: String,
    pub body: Option<Value>,
    /// Media type that is asked for.
    pub accept: &'static str,
    /// Longest time for the answer.
    pub limit: Duration,
}

/// The answer to a request.
#[derive(Debug, Clone)]
pub struct Exchanged {
    pub status: StatusCode,
    /// The body, where it is JSON.
    pub body: Option<Value>,
    /// Its media type.
    pub kind: String,
}

/// The reason why a request has no answer.
#[derive(Debug)]
pub struct CallError {
    pub server: ServerUrl,
    pub failure: Failure,
}

#[derive(Debug)]
pub enum Failure {
    /// Nothing was sent.
    Connect(std::io::Error),
    /// Nothing was sent.
    Tls(std::io::Error),
    /// The request may have been carried out, or not.
    NoAnswer(String),
    /// The answer was a refusal of whoever asks.
    Denied(String),
    /// It is no orchestrator that answers there.
    Stranger(StatusCode),
}

impl CallError {
    /// Failure of a server whose answer makes no sense.
    pub fn stranger(server: &ServerUrl, status: StatusCode) -> Self {
        Self {
            server: server.clone(),
            failure: Failure::Stranger(status),
        }
    }

    /// True where nothing was sent.
    pub fn is_unsent(&self) -> bool {
        matches!(self.failure, Failure::Connect(_) | Failure::Tls(_))
    }

    /// True where the token was refused.
    pub fn is_denied(&self) -> bool {
        matches!(self.failure, Failure::Denied(_))
    }

    /// True where the same request may be answered later.
    pub fn may_pass(&self) -> bool {
        matches!(self.failure, Failure::Connect(_) | Failure::NoAnswer(_))
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let server = &self.server;
        match &self.failure {
            Failure::Connect(error) => write!(
                formatter,
                "{server}: {error}; is an orchestrator running there? --server names another"
            ),
            Failure::Tls(error) => write!(
                formatter,
                "{server}: {error}; its certificate must be for this name, and of an authority that this machine knows or \
                 cluster.tls.ca_file names"
            ),
            Failure::NoAnswer(reason) => write!(formatter, "{server} did not answer: {reason}"),
            Failure::Denied(message) => write!(formatter, "{server}: {message}"),
            Failure::Stranger(status) => {
                write!(
                    formatter,
                    "{server} answers as no orchestrator of this version does ({status})"
                )
            }
        }
    }
}

/// A connection's two sides, encrypted or not.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// Sends a request, and waits for its answer. It is encrypted where there is a `tls`.
pub async fn exchange(
    server: &ServerUrl,
    tls: Option<&TlsConnector>,
    token: &HeaderValue,
    call: &Call,
) -> Result<Exchanged, CallError> {
    let failed = |failure| CallError {
        server: server.clone(),
        failure,
    };
    let stream = connect(server, tls).await.map_err(failed)?;
    let answered = timeout(call.limit, send(stream, server, token, call)).await;
    match answered {
        Ok(answered) => answered.map_err(|error| failed(Failure::NoAnswer(format!("{error:#}")))),
        Err(_) => Err(failed(Failure::NoAnswer(format!(
            "nothing came within {}",
            humantime::format_duration(call.limit)
        )))),
    }
}

async fn connect(server: &ServerUrl, tls: Option<&TlsConnector>) -> Result<Box<dyn Stream>, Failure> {
    let address = &server.address;
    let dial = async {
        match server.dial {
            // The name stays the one that the certificate is checked against; only the address that is
            // dialled differs.
            Some(known) => TcpStream::connect(known).await,
            None => TcpStream::connect((address.host.as_str(), address.port)).await,
        }
    };
    let stream = timeout(CONNECT, dial).await.map_err(too_slow).flatten();
    let stream = stream.map_err(Failure::Connect)?;
    let Some(tls) = tls else {
        return Ok(Box::new(stream));
    };
    // A failure before the handshake counts as one of TLS, because no byte of the request has left this
    // process.
    let name = ServerName::try_from(address.host.clone());
    let name = name.map_err(|error| Failure::Tls(std::io::Error::other(error)))?;
    let shaken = timeout(CONNECT, tls.connect(name, stream)).await;
    let stream = shaken.map_err(too_slow).flatten().map_err(Failure::Tls)?;
    Ok(Box::new(stream))
}

fn too_slow(_: tokio::time::error::Elapsed) -> std::io::Error {
    std::io::ErrorKind::TimedOut.into()
}

async fn send(
    stream: Box<dyn Stream>,
    server: &ServerUrl,
    token: &HeaderValue,
    call: &Call,
) -> anyhow::Result<Exchanged> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let mut request = Request::builder()
        .method(call.method.as_str())
        .uri(format!("{ROOT}{}", call.path))
        .header(HOST, server.address.to_string())
        .header(USER_AGENT, AGENT)
        .header(ACCEPT, call.accept)
        .header(AUTHORIZATION, token);
    let mut body = Bytes::new();
    if let Some(value) = &call.body {
        request = request.header(CONTENT_TYPE, "application/json");
        body = value.to_string().into();
    }
    let request = request.body(Body::from(body))?;
    let answered = async move {
        let answer = sender.send_request(request).await?;
        let (parts, body) = answer.into_parts();
        let bytes = to_bytes(Body::new(body), MAX_ANSWER).await?;
        let kind = parts
            .headers
            .get(CONTENT_TYPE)
            .and_then(|kind| kind.to_str().ok());
        anyhow::Ok(Exchanged {
            status: parts.status,
            kind: kind.unwrap_or_default().to_owned(),
            // A body that is not JSON is no error here: proxies answer failures with HTML, and the status
            // says enough.
            body: serde_json::from_slice(&bytes).ok(),
        })
    };
    // The request makes progress only while `connection` is polled, so both are driven here instead of in a
    // task that would outlive a timeout.
    tokio::pin!(answered);
    tokio::select! {
        answered = &mut answered => answered,
        // It ends first where the other side closes it as soon as it has answered.
        ended = connection => {
            let answered = answered.await;
            match ended {
                Ok(()) => answered,
                // An answer that is complete stands, even if the connection broke behind it; otherwise the
                // error of the connection tells more than that the sender was closed.
                Err(error) => answered.or(Err(error.into())),
            }
        }
    }
}
