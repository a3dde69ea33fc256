//! Operations of Google Vision as jobs of a service.
//!
//! A job is the reading of the pages of a volume: as many operations as their number needs, whose names are its id. Google knows no keys
//! of submits. So the answers are written at a place that is made of what was asked, the same for each submit of the same pages, and one
//! whose operations nobody knows is found there: [`VisionOperations::FOUND`] is the id of such a job.

use std::collections::BTreeSet;

use async_trait::async_trait;
use parkhang_answers::vision::{
    Feature, OPERATION_IMAGES, OperationState, operation_body, operation_name, operation_state,
};
use parkhang_core::domain::FailureKind;
use parkhang_service::{JobFailure, JobLook, JobService, ServiceError, VisionClient};
use parkhang_store::artifact::Digest;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Digest of what is asked of a reader about pages, each with its name and what it is made of.
pub fn asked_about<'a>(reader: Digest, pages: impl IntoIterator<Item = (&'a str, Digest)>) -> Digest {
    let pages = pages
        .into_iter()
        .map(|(name, made_of)| request_about(reader, Digest::of_parts([name.as_bytes(), made_of.as_ref()])));
    Digest::of_parts(pages)
}

/// Digest of what is asked of a reader about one page that is made of this.
pub fn request_about(reader: Digest, made_of: Digest) -> Digest {
    Digest::of_parts([reader, made_of])
}

/// Pages that are to be read, and the place of the answers, all `gs://` URIs: the body of a submit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PagesToRead {
    pub images: Vec<String>,
    /// URI that ends in a slash.
    pub output: String,
}

/// Google Vision as a service that takes jobs.
#[derive(Debug, Clone)]
pub struct VisionOperations {
    pub client: VisionClient,
    pub feature: Feature,
}

impl VisionOperations {
    /// Id of a job all of whose answers are there, and whose operations nobody knows.
    pub const FOUND: &'static str = "found";
}

fn pages_of(body: &str) -> Result<PagesToRead, ServiceError> {
    serde_json::from_str(body).map_err(|error| ServiceError::Malformed(error.to_string()))
}

#[async_trait]
impl JobService for VisionOperations {
    /// Begins one operation.
    async fn submit(&self, _: &str, body: String) -> Result<String, ServiceError> {
        let PagesToRead { images, output } = pages_of(&body)?;
        if images.is_empty() {
            return Ok(Self::FOUND.to_owned());
        }
        let answer = self
            .client
            .begin(&operation_body(&images, &self.feature, &output))
            .await?;
        let name = operation_name(&answer).map_err(ServiceError::Malformed)?;
        Ok(name.to_owned())
    }

    /// One body for each operation.
    fn parts(&self, body: String) -> Result<Vec<String>, ServiceError> {
        let PagesToRead { images, output } = pages_of(&body)?;
        if images.is_empty() {
            return Ok(vec![body]);
        }
        let parts = images.chunks(OPERATION_IMAGES).zip(1..);
        let parts = parts.map(|(images, part)| {
            json!(PagesToRead {
                images: images.to_vec(),
                output: format!("{output}{part}/"),
            })
            .to_string()
        });
        Ok(parts.collect())
    }

    fn knows_keys(&self) -> bool {
        false
    }

    async fn look(&self, job: &str) -> Result<JobLook, ServiceError> {
        if job == Self::FOUND {
            return Ok(JobLook::Completed(json!({ "operations": 0 })));
        }
        let names: BTreeSet<&str> = job.split(' ').collect();
        let (mut done, mut lost, mut failures) = (0, 0, Vec::new());
        for name in &names {
            let answer = match self.client.operation(name).await {
                // Known for so long only.
                Err(ServiceError::Status {
                    status: 404 | 410, ..
                }) => {
                    lost += 1;
                    continue;
                }
                answer => answer?,
            };
            match operation_state(&answer) {
                OperationState::Running => return Ok(JobLook::Running),
                OperationState::Done => done += 1,
                OperationState::Failed(error) => failures.push(error),
            }
        }
        Ok(match (done, failures.first()) {
            (0, None) => JobLook::Lost,
            (0, Some(error)) => JobLook::Failed(JobFailure {
                message: error.to_string(),
                kind: match error.may_pass() {
                    true => FailureKind::Retriable,
                    false => FailureKind::Hard,
                },
            }),
            // The pages of the others are asked for again alone.
            _ => JobLook::Completed(json!({
                "operations": names.len(),
                "lost": lost,
                "failed": failures.iter().map(ToString::to_string).collect::<Vec<_>>(),
            })),
        })
    }

    async fn cancel(&self, job: &str) -> Result<(), ServiceError> {
        for name in job.split(' ').filter(|name| *name != Self::FOUND) {
            match self.client.cancel(name).await {
                Err(ServiceError::Status {
                    status: 404 | 410, ..
                }) => {}
                cancelled => cancelled?,
            }
        }
        Ok(())
    }

    async fn reach(&self) -> Result<(), ServiceError> {
        match self.client.operation("operations/none").await {
            Err(ServiceError::Status { status, .. }) if status < 500 && status != 429 => Ok(()),
            Err(ServiceError::NoContent | ServiceError::Malformed(_)) => Ok(()),
            answer => answer.map(drop),
        }
    }
}
