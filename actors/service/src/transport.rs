//! HTTP to services: pooled connections, TLS, limits on time and size.

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use futures::FutureExt;
use futures::future::BoxFuture;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::header::RETRY_AFTER;
use hyper::{HeaderMap, Request, Response, StatusCode};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::{GaiAddrs, GaiResolver, Name};
use hyper_util::client::legacy::{self, Client};
use hyper_util::rt::TokioExecutor;
use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, RootCertStore};
use tokio::time::timeout;
use tower_service::Service;

use crate::error::ServiceError;
use crate::settings::InvalidService;

/// Longest time to open a connection.
const CONNECT: Duration = Duration::from_secs(10);
/// Characters of an error's body that are kept.
const SHOWN: usize = 200;

/// Words of systems that know that a host has no address.
const NO_SUCH_HOST: [&str; 6] = [
    // glibc
    "Name or service not known",
    "No address associated with hostname",
    // musl
    "Name does not resolve",
    "Name has no usable address",
    // macOS and Windows
    "nodename nor servname provided, or not known",
    "No such host is known",
];
/// Errors of a machine that has no files, addresses or room for another connection: EMFILE, ENFILE, EADDRNOTAVAIL and ENOBUFS of Linux.
const EXHAUSTED: [i32; 4] = [24, 23, 99, 105];

/// Connections to services. Clones share them.
#[derive(Debug, Clone)]
pub struct Transport {
    client: Client<HttpsConnector<HttpConnector<Resolver>>, Full<Bytes>>,
}

/// Bounds of one exchange.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    pub time: Duration,
    /// Largest body of the answer, in bytes.
    pub body: usize,
}

impl Transport {
    /// Makes a transport that believes the authorities of this machine.
    ///
    /// # Errors
    ///
    /// [`InvalidService::Tls`] if the provider of TLS refuses its own defaults.
    pub fn new() -> Result<Self, InvalidService> {
        let mut roots = RootCertStore::empty();
        // Some that a machine comes with may be unusual; services over plain HTTP need none of them.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        let tls = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| InvalidService::Tls(error.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let mut http = HttpConnector::new_with_resolver(Resolver(GaiResolver::new()));
        http.enforce_http(false);
        http.set_nodelay(true);
        http.set_connect_timeout(Some(CONNECT));
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .wrap_connector(http);
        Ok(Self {
            client: Client::builder(TokioExecutor::new()).build(connector),
        })
    }

    /// Sends a request and returns the body of its answer, if that is of success. Redirects are not followed: a token goes to the host that
    /// it is for, and to no other.
    pub(crate) async fn exchange(
        &self,
        request: Request<Full<Bytes>>,
        bounds: Bounds,
    ) -> Result<Bytes, ServiceError> {
        let host = request.uri().authority().map(ToString::to_string);
        let host = host.unwrap_or_default();
        let exchanged = async {
            let answer = self.client.request(request).await;
            let answer = answer.map_err(|error| unanswered(&host, &error))?;
            read(&host, answer, bounds.body).await
        };
        let limit = bounds.time;
        match timeout(limit, exchanged).await {
            Ok(exchanged) => exchanged,
            Err(_) => Err(ServiceError::Timeout { host, limit }),
        }
    }
}

async fn read(host: &str, answer: Response<Incoming>, limit: usize) -> Result<Bytes, ServiceError> {
    let (head, body) = answer.into_parts();
    let body = Limited::new(body, limit).collect().await;
    let body = body.map(|body| body.to_bytes());
    if !head.status.is_success() {
        // The status says enough where the body cannot be read.
        return Err(refusal(
            head.status,
            &head.headers,
            &body.unwrap_or_default(),
            Utc::now(),
        ));
    }
    body.map_err(|error| match error.downcast_ref::<LengthLimitError>() {
        Some(_) => ServiceError::TooLarge { limit },
        None => ServiceError::Broken {
            host: host.to_owned(),
            reason: error.to_string(),
        },
    })
}

fn refusal(status: StatusCode, headers: &HeaderMap, body: &[u8], now: DateTime<Utc>) -> ServiceError {
    let text = String::from_utf8_lossy(body);
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let asked = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok());
    ServiceError::Status {
        status: status.as_u16(),
        retry_after: asked.and_then(|value| wait_of(value, now)),
        message: words.chars().take(SHOWN).collect(),
    }
}

/// Time that a `Retry-After` asks for, which is in seconds or a date.
fn wait_of(value: &str, now: DateTime<Utc>) -> Option<Duration> {
    let value = value.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = DateTime::parse_from_rfc2822(value).ok()?;
    Some((date.with_timezone(&Utc) - now).to_std().unwrap_or_default())
}

/// Error of a request that has no answer, by the causes in its chain.
fn unanswered(host: &str, error: &legacy::Error) -> ServiceError {
    let host = host.to_owned();
    let is_unsent = error.is_connect();
    let mut reason = error.to_string();
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(LookupFailed(error)) = error.downcast_ref() {
            return match is_no_such_host(error) {
                true => ServiceError::Dns { host },
                false => ServiceError::Here {
                    host,
                    reason: error.to_string(),
                },
            };
        }
        let code = error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::raw_os_error);
        if let Some(code) = code.filter(|code| is_unsent && EXHAUSTED.contains(code)) {
            let reason = io::Error::from_raw_os_error(code).to_string();
            return ServiceError::Here { host, reason };
        }
        if error.downcast_ref::<io::Error>().map(io::Error::kind) == Some(io::ErrorKind::ConnectionRefused) {
            return ServiceError::Refused { host };
        }
        // The innermost tells most.
        reason = error.to_string();
        cause = error.source();
    }
    match is_unsent {
        true => ServiceError::Unconnected { host, reason },
        false => ServiceError::Broken { host, reason },
    }
}

/// Returns whether an answer was that there is no such host. The library gives the words of the system only; others say that there was no answer.
fn is_no_such_host(error: &io::Error) -> bool {
    let words = error.to_string();
    error.raw_os_error().is_none() && NO_SUCH_HOST.iter().any(|known| words.contains(known))
}

/// Resolver of the system whose errors are told from those of connections.
#[derive(Debug, Clone)]
struct Resolver(GaiResolver);

#[derive(Debug, thiserror::Error)]
#[error("lookup failed: {0}")]
struct LookupFailed(io::Error);

impl Service<Name> for Resolver {
    type Response = GaiAddrs;
    type Error = LookupFailed;
    type Future = BoxFuture<'static, Result<GaiAddrs, LookupFailed>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), LookupFailed>> {
        self.0.poll_ready(context).map_err(LookupFailed)
    }

    fn call(&mut self, name: Name) -> Self::Future {
        self.0.call(name).map(|found| found.map_err(LookupFailed)).boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_answer_says_that_there_is_no_such_host() {
        let said = |words: &str| io::Error::other(format!("failed to lookup address information: {words}"));
        assert!(is_no_such_host(&said("Name or service not known")));
        assert!(!is_no_such_host(&said("Temporary failure in name resolution")));
        assert!(!is_no_such_host(&io::Error::from_raw_os_error(EXHAUSTED[0])));
    }

    #[test]
    fn a_wait_is_in_seconds_or_until_a_date() {
        let now = DateTime::from_timestamp(1_445_412_470, 0).unwrap();
        assert_eq!(wait_of(" 7 ", now), Some(Duration::from_secs(7)));
        let date = "Wed, 21 Oct 2015 07:28:00 GMT";
        assert_eq!(wait_of(date, now), Some(Duration::from_secs(10)));
        let later = now + chrono::TimeDelta::seconds(100);
        assert_eq!(wait_of(date, later), Some(Duration::ZERO));
        assert_eq!(wait_of("soon", now), None);
    }
}
