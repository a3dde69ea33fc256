//! Failures that a stage has tried again, or not, otherwise than usual.

use std::collections::BTreeMap;

use parkhang_core::domain::FailureKind;
use parkhang_service::{FailureCategory, JobFailure, JobLook, ServiceError, category_of};

/// Categories of failures, each with whether they are tried again; others are as usual.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RetryOverrides(pub BTreeMap<FailureCategory, bool>);

impl RetryOverrides {
    /// Makes the failure of a job that was not submitted for this error.
    pub(crate) fn failure(&self, error: ServiceError) -> JobFailure {
        let category = error.category();
        self.judged(error.into(), Some(category))
    }

    /// Makes of a look at a job what it means to the stage. The category of a failure is told by its text.
    pub(crate) fn look(&self, look: JobLook) -> JobLook {
        match look {
            JobLook::Failed(failure) => {
                let category = category_of(&failure.message);
                JobLook::Failed(self.judged(failure, category))
            }
            look => look,
        }
    }

    fn judged(&self, failure: JobFailure, category: Option<FailureCategory>) -> JobFailure {
        let is_retried = category.and_then(|category| self.0.get(&category));
        let kind = match is_retried {
            Some(true) => FailureKind::Retriable,
            Some(false) => FailureKind::Hard,
            None => failure.kind,
        };
        JobFailure { kind, ..failure }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused() -> ServiceError {
        ServiceError::Refused {
            host: "llm.example".to_owned(),
        }
    }

    fn server() -> ServiceError {
        ServiceError::Status {
            status: 500,
            retry_after: None,
            message: String::new(),
        }
    }

    /// Rows: 234, 235.
    #[test]
    fn a_stage_may_say_otherwise_what_is_tried_again() {
        let (usual, own) = (
            RetryOverrides::default(),
            RetryOverrides([(FailureCategory::Refused, true), (FailureCategory::Server, false)].into()),
        );
        let kinds = |overrides: &RetryOverrides| {
            let told = |message: &str| match overrides.look(JobLook::Failed(JobFailure::new(message))) {
                JobLook::Failed(failure) => failure.kind,
                look => panic!("{look:?}"),
            };
            [
                overrides.failure(refused()).kind,
                overrides.failure(server()).kind,
                overrides.failure(ServiceError::NoContent).kind,
                told("connect ECONNREFUSED 127.0.0.1:80"),
                told("ENOTFOUND: DNS lookup failed"),
                told("worker crashed"),
            ]
        };
        use FailureKind::{Hard, Retriable};
        assert_eq!(kinds(&usual), [Hard, Retriable, Hard, Hard, Hard, Retriable]);
        assert_eq!(kinds(&own), [Retriable, Hard, Hard, Retriable, Hard, Retriable]);
    }
}
