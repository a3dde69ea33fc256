//! Client of a service of the kind `jobs`.

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;
use hyper::Method;
use hyper::header::HeaderValue;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use crate::answer::{JobLook, job_of, look_of};
use crate::endpoint::{Credential, Endpoint};
use crate::error::ServiceError;
use crate::settings::{InvalidService, JOB, JobsSettings};
use crate::transport::{Bounds, Transport};

const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// Characters of an id of a job that are escaped in a path.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_');

/// Service that takes jobs, as its callers know it.
#[async_trait]
pub trait JobService: Send + Sync + fmt::Debug {
    /// Submits a job and returns its id, without waiting for the work. Submits with the same `key` are one, where the service
    /// [knows keys](Self::knows_keys).
    ///
    /// # Errors
    ///
    /// [`ServiceError`] if the service did not take the job, or did not say so.
    async fn submit(&self, key: &str, body: String) -> Result<String, ServiceError>;

    /// Divides a body into those that are submitted one after the other: the job is all of them, and its id their ids, with spaces in between.
    ///
    /// # Errors
    ///
    /// [`ServiceError`] if the body is none of this service.
    fn parts(&self, body: String) -> Result<Vec<String>, ServiceError> {
        Ok(vec![body])
    }

    /// Returns whether the service takes submits with the same key for one. Who may have submitted to another must find the job first.
    fn knows_keys(&self) -> bool {
        true
    }

    /// Asks how a job stands, and for its result if it is completed.
    ///
    /// # Errors
    ///
    /// [`ServiceError`] if the service did not say: nothing is known of the job then.
    async fn look(&self, job: &str) -> Result<JobLook, ServiceError>;

    /// Tells the service that a job is no longer wanted, if it can be told. One that it does not know is none either.
    ///
    /// # Errors
    ///
    /// [`ServiceError`] if the service did not take it in.
    async fn cancel(&self, job: &str) -> Result<(), ServiceError>;

    /// Asks for any answer at all, to find out whether the service is there.
    ///
    /// # Errors
    ///
    /// [`ServiceError`] if none came.
    async fn reach(&self) -> Result<(), ServiceError>;
}

/// Client of one service. Clones share its connections.
#[derive(Debug, Clone)]
pub struct JobsClient {
    settings: JobsSettings,
    endpoint: Endpoint,
}

impl JobsClient {
    /// Makes a client; nothing is sent.
    ///
    /// # Errors
    ///
    /// [`InvalidService`] if the settings name no service.
    pub fn new(settings: JobsSettings, transport: Transport) -> Result<Self, InvalidService> {
        settings.check()?;
        let credential = settings.token.clone().map(Credential::Bearer);
        let bounds = Bounds {
            time: settings.timeout,
            body: settings.max_body,
        };
        let endpoint = Endpoint::new(&settings.url, credential, bounds, transport)?;
        Ok(Self { settings, endpoint })
    }

    async fn get(&self, path: &str, job: &str) -> Result<Value, ServiceError> {
        self.endpoint.get(&of_job(path, job)).await
    }
}

#[async_trait]
impl JobService for JobsClient {
    async fn submit(&self, key: &str, body: String) -> Result<String, ServiceError> {
        let limit = self.settings.max_body;
        if body.len() > limit {
            return Err(ServiceError::TooLarge { limit });
        }
        let path = self.settings.paths.submit.clone();
        let key = HeaderValue::from_str(key).map_err(|error| ServiceError::Malformed(error.to_string()))?;
        let mut request = self.endpoint.request(Method::POST, &path, body.into())?;
        request.headers_mut().insert(IDEMPOTENCY_KEY, key);
        job_of(&self.endpoint.answer(request).await?, &self.settings.fields)
    }

    async fn look(&self, job: &str) -> Result<JobLook, ServiceError> {
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

    async fn cancel(&self, job: &str) -> Result<(), ServiceError> {
        let Some(path) = &self.settings.paths.cancel else {
            return Ok(());
        };
        let request = self
            .endpoint
            .request(Method::DELETE, &of_job(path, job), Bytes::new())?;
        match self.endpoint.exchange(request).await {
            Err(ServiceError::Status {
                status: 404 | 410, ..
            }) => Ok(()),
            answer => answer.map(drop),
        }
    }

    async fn reach(&self) -> Result<(), ServiceError> {
        let request = self.endpoint.request(Method::GET, "/", Bytes::new())?;
        match self.endpoint.exchange(request).await {
            Err(ServiceError::Status { status, .. }) if status < 500 && status != 429 => Ok(()),
            Err(ServiceError::TooLarge { .. }) => Ok(()),
            answer => answer.map(drop),
        }
    }
}

/// Path of a job, whose id may have any characters.
fn of_job(path: &str, job: &str) -> String {
    path.replace(JOB, &utf8_percent_encode(job, ESCAPED).to_string())
}

#[cfg(test)]
mod tests;
