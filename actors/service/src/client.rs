//! Client of a service of the kind `jobs`.

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, USER_AGENT};
use hyper::{Method, Request, Uri};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use secrecy::ExposeSecret;
use serde_json::Value;

use crate::answer::{JobLook, job_of, look_of};
use crate::error::ServiceError;
use crate::settings::{InvalidService, JOB, JobsSettings};
use crate::transport::{Bounds, Transport};

const AGENT: &str = concat!("parkhang/", env!("CARGO_PKG_VERSION"));
const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// Characters of an id of a job that are escaped in a path.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_');

/// Client of one service. Clones share its connections.
#[derive(Debug, Clone)]
pub struct JobsClient {
    settings: JobsSettings,
    authorization: Option<HeaderValue>,
    transport: Transport,
}

impl JobsClient {
    /// Makes a client; nothing is sent.
    ///
    /// # Errors
    ///
    /// [`InvalidService`] if the settings name no service.
    pub fn new(settings: JobsSettings, transport: Transport) -> Result<Self, InvalidService> {
        settings.check()?;
        let header = |token: &secrecy::SecretString| {
            let value = HeaderValue::from_str(&format!("Bearer {}", token.expose_secret()));
            let mut value = value.map_err(|_| InvalidService::Token)?;
            // Kept out of every text about the request.
            value.set_sensitive(true);
            Ok(value)
        };
        let authorization = settings.token.as_ref().map(header).transpose()?;
        Ok(Self {
            settings,
            authorization,
            transport,
        })
    }

    /// Submits a job and returns its id, without waiting for the work. Submits with the same `key` are one.
    ///
    /// # Errors
    ///
    /// [`ServiceError`] if the service did not take the job, or did not say so.
    pub async fn submit(&self, key: &str, body: String) -> Result<String, ServiceError> {
        let limit = self.settings.max_body;
        if body.len() > limit {
            return Err(ServiceError::TooLarge { limit });
        }
        let path = self.settings.paths.submit.clone();
        let key = HeaderValue::from_str(key).map_err(|error| ServiceError::Malformed(error.to_string()))?;
        let mut request = self.request(Method::POST, &path, body.into())?;
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(IDEMPOTENCY_KEY, key);
        job_of(&self.answer(request).await?, &self.settings.fields)
    }

    /// Asks how a job stands, and for its result if it is completed.
    ///
    /// # Errors
    ///
    /// [`ServiceError`] if the service did not say: nothing is known of the job then.
    pub async fn look(&self, job: &str) -> Result<JobLook, ServiceError> {
        let status = self.get(&self.settings.paths.status, job).await;
        let look = match status {
            Err(ServiceError::Status {
                status: 404 | 410, ..
            }) => return Ok(JobLook::Lost),
            status => look_of(&status?, &self.settings.fields)?,
        };
        match (look, &self.settings.paths.result) {
            (JobLook::Completed(_), Some(path)) => {
                let result = match self.get(path, job).await {
                    Err(ServiceError::NoContent) => Value::Null,
                    result => result?,
                };
                Ok(JobLook::Completed(result).with_content())
            }
            (look, _) => Ok(look.with_content()),
        }
    }

    /// Asks for any answer at all, to find out whether the service is there.
    ///
    /// # Errors
    ///
    /// [`ServiceError`] if none came.
    pub async fn reach(&self) -> Result<(), ServiceError> {
        let request = self.request(Method::GET, "/", Bytes::new())?;
        match self.transport.exchange(request, self.bounds()).await {
            Err(ServiceError::Status { status, .. }) if status < 500 && status != 429 => Ok(()),
            Err(ServiceError::TooLarge { .. }) => Ok(()),
            answer => answer.map(drop),
        }
    }

    async fn get(&self, path: &str, job: &str) -> Result<Value, ServiceError> {
        let job = utf8_percent_encode(job, ESCAPED).to_string();
        let request = self.request(Method::GET, &path.replace(JOB, &job), Bytes::new())?;
        self.answer(request).await
    }

    async fn answer(&self, request: Request<Full<Bytes>>) -> Result<Value, ServiceError> {
        let body = self.transport.exchange(request, self.bounds()).await?;
        if body.iter().all(u8::is_ascii_whitespace) {
            return Err(ServiceError::NoContent);
        }
        serde_json::from_slice(&body).map_err(|error| ServiceError::Malformed(error.to_string()))
    }

    fn request(&self, method: Method, path: &str, body: Bytes) -> Result<Request<Full<Bytes>>, ServiceError> {
        let malformed = |error: &dyn std::error::Error| ServiceError::Malformed(error.to_string());
        let uri: Uri = self.settings.uri_of(path).map_err(|error| malformed(&error))?;
        let mut request = Request::builder()
            .method(method)
            .uri(uri)
            .header(USER_AGENT, AGENT)
            .header(ACCEPT, "application/json")
            .body(Full::new(body))
            .map_err(|error| malformed(&error))?;
        if let Some(authorization) = &self.authorization {
            request.headers_mut().insert(AUTHORIZATION, authorization.clone());
        }
        Ok(request)
    }

    fn bounds(&self) -> Bounds {
        Bounds {
            time: self.settings.timeout,
            body: self.settings.max_body,
        }
    }
}

#[cfg(test)]
mod tests;
