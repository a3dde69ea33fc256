//! An S3 server in the test process: objects in memory, conditional writes that hold, signatures that are checked, and
//! faults and delays on request. The protocol is `s3s`'s; what the bucket does is ours. It knows nothing of Parkhang.

#![allow(clippy::panic, clippy::unwrap_used, reason = "test code fails by panicking")]

pub mod external;
mod faults;
mod multipart;
mod objects;

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use futures::{StreamExt, future, stream};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::header::CONTENT_LENGTH;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use s3s::auth::SimpleAuth;
use s3s::service::{S3Service, S3ServiceBuilder};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::Instant;

pub use faults::{Fault, Faults};
pub use hyper::Method;
pub use objects::{BUCKET, Objects};

pub const ACCESS_KEY: &str = "reader";
pub const SECRET_KEY: &str = "a-secret-that-no-log-shows";

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type Body = UnsyncBoxBody<Bytes, BoxError>;

/// A server with one bucket; it ends with this value.
#[derive(Debug)]
pub struct Endpoint {
    pub url: String,
    pub objects: Objects,
    pub faults: Arc<Faults>,
    _server: JoinSet<()>,
}

impl Endpoint {
    pub async fn start() -> Self {
        Self::serve(Objects::new(true)).await
    }

    /// As old servers are: conditions on writes are ignored.
    pub async fn without_conditions() -> Self {
        Self::serve(Objects::new(false)).await
    }

    async fn serve(objects: Objects) -> Self {
        let faults = Arc::new(Faults::default());
        let mut builder = S3ServiceBuilder::new(objects.clone());
        builder.set_auth(SimpleAuth::from_single(ACCESS_KEY, SECRET_KEY));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let mut server = JoinSet::new();
        server.spawn(accept(listener, builder.build(), Arc::clone(&faults)));
        Self {
            url,
            objects,
            faults,
            _server: server,
        }
    }
}

async fn accept(listener: TcpListener, service: S3Service, faults: Arc<Faults>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let (service, faults) = (service.clone(), Arc::clone(&faults));
        connections.spawn(async move {
            let answer = service_fn(|request| answer(&service, &faults, request));
            // A connection that ends in an error is what a fault looks like from here.
            let _ = http1::Builder::new()
                .serve_connection(TokioIo::new(stream), answer)
                .await;
        });
    }
}

/// Answers a request, or does to it what the faults say. An error closes the connection without an answer.
async fn answer(
    service: &S3Service,
    faults: &Faults,
    request: Request<Incoming>,
) -> Result<Response<Body>, BoxError> {
    let fault = faults.strike(request.method(), &request.uri().to_string());
    if let Some(latency) = faults.latency(request.method()) {
        tokio::time::sleep_until(Instant::now() + latency).await;
    }
    match fault {
        Some(Fault::Refuse(status, code)) => {
            request.into_body().collect().await?;
            let text = format!("<Error><Code>{code}</Code><Message>a fault</Message></Error>");
            Ok(Response::builder().status(status).body(full(text.into()))?)
        }
        Some(Fault::Silence) => future::pending().await,
        Some(Fault::LoseAnswer) => {
            respond(service, request).await?;
            Err("the answer is lost".into())
        }
        Some(Fault::CutBody(length)) => {
            let lost = stream::once(future::ready(Err(BoxError::from("the body is cut"))));
            cut(respond(service, request).await?, length, lost).await
        }
        Some(Fault::StallBody(length)) => {
            cut(respond(service, request).await?, length, stream::pending()).await
        }
        None => respond(service, request).await,
    }
}

async fn respond(service: &S3Service, request: Request<Incoming>) -> Result<Response<Body>, BoxError> {
    let request = request.map(s3s::Body::from);
    let response = service
        .call(request)
        .await
        .map_err(|error| format!("{error:?}"))?;
    Ok(response.map(|body| body.boxed_unsync()))
}

/// The head of an answer and the first bytes of its body, then `rest`.
async fn cut(
    response: Response<Body>,
    length: usize,
    rest: impl stream::Stream<Item = Result<Frame<Bytes>, BoxError>> + Send + 'static,
) -> Result<Response<Body>, BoxError> {
    let (mut head, body) = response.into_parts();
    let bytes = body.collect().await?.to_bytes();
    head.headers.insert(CONTENT_LENGTH, bytes.len().into());
    let start = Ok(Frame::data(bytes.slice(..length.min(bytes.len()))));
    let body = stream::once(future::ready(start)).chain(rest);
    Ok(Response::from_parts(head, StreamBody::new(body).boxed_unsync()))
}

fn full(bytes: Bytes) -> Body {
    Full::new(bytes)
        .map_err(|never: Infallible| match never {})
        .boxed_unsync()
}
