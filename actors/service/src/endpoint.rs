//! Requests to one service, and their answers in JSON.

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue, USER_AGENT};
use hyper::{Method, Request, Uri};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

use crate::error::ServiceError;
use crate::settings::{InvalidService, check_url, uri_of};
use crate::transport::{Bounds, Transport};

const AGENT: &str = concat!("parkhang/", env!("CARGO_PKG_VERSION"));
/// Header of a key of Google's interfaces (cloud.google.com/docs/authentication/api-keys-use).
const GOOGLE_KEY: HeaderName = HeaderName::from_static("x-goog-api-key");

/// Token by which a service knows who asks.
#[derive(Debug, Clone)]
pub enum Credential {
    Bearer(SecretString),
    /// Key of a project at Google.
    GoogleKey(SecretString),
    /// Key of a service account at Google, as the JSON of its file, by which tokens are asked for.
    GoogleAccount(SecretString),
}

/// Place of a service and the way to speak with it. Clones share its connections.
#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    url: String,
    credential: Option<(HeaderName, HeaderValue)>,
    bounds: Bounds,
    transport: Transport,
}

impl Endpoint {
    pub(crate) fn new(
        url: &str,
        credential: Option<Credential>,
        bounds: Bounds,
        transport: Transport,
    ) -> Result<Self, InvalidService> {
        check_url(url)?;
        Ok(Self {
            url: url.to_owned(),
            credential: credential.as_ref().map(header).transpose()?.flatten(),
            bounds,
            transport,
        })
    }

    /// The same place, whose answers may have `times` the size.
    pub(crate) fn for_answers(&self, times: usize) -> Self {
        let mut endpoint = self.clone();
        endpoint.bounds.body = endpoint.bounds.body.saturating_mul(times.max(1));
        endpoint
    }

    /// The same place, with another token for each request.
    pub(crate) fn authorized(mut self, header: HeaderValue) -> Self {
        self.credential = Some((AUTHORIZATION, header));
        self
    }

    pub(crate) fn request(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<Request<Full<Bytes>>, ServiceError> {
        let malformed = |error: &dyn std::error::Error| ServiceError::Malformed(error.to_string());
        let uri: Uri = uri_of(&self.url, path).map_err(|error| malformed(&error))?;
        let has_body = method == Method::POST;
        let mut request = Request::builder()
            .method(method)
            .uri(uri)
            .header(USER_AGENT, AGENT)
            .header(ACCEPT, "application/json")
            .body(Full::new(body))
            .map_err(|error| malformed(&error))?;
        let headers = request.headers_mut();
        if has_body {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        if let Some((name, value)) = &self.credential {
            headers.insert(name, value.clone());
        }
        Ok(request)
    }

    pub(crate) async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<Bytes, ServiceError> {
        self.transport.exchange(request, self.bounds).await
    }

    pub(crate) async fn answer(&self, request: Request<Full<Bytes>>) -> Result<Value, ServiceError> {
        let body = self.exchange(request).await?;
        if body.iter().all(u8::is_ascii_whitespace) {
            return Err(ServiceError::NoContent);
        }
        serde_json::from_slice(&body).map_err(|error| ServiceError::Malformed(error.to_string()))
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Value, ServiceError> {
        self.answer(self.request(Method::GET, path, Bytes::new())?).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Result<Value, ServiceError> {
        let request = self.request(Method::POST, path, body.to_string().into())?;
        self.answer(request).await
    }
}

/// Header of a credential that is one by itself.
fn header(credential: &Credential) -> Result<Option<(HeaderName, HeaderValue)>, InvalidService> {
    let (name, text) = match credential {
        Credential::Bearer(token) => (AUTHORIZATION, format!("Bearer {}", token.expose_secret())),
        Credential::GoogleKey(key) => (GOOGLE_KEY, key.expose_secret().to_owned()),
        Credential::GoogleAccount(_) => return Ok(None),
    };
    let mut value = HeaderValue::from_str(&text).map_err(|_| InvalidService::Token)?;
    // Kept out of every text about the request.
    value.set_sensitive(true);
    Ok(Some((name, value)))
}
