//! Answers of a service, read by the names of their fields.

use serde_json::Value;

use crate::error::ServiceError;
use crate::failure::JobFailure;
use crate::settings::Fields;

/// Usual names of fields, in the order in which they are looked for.
const JOB: [&str; 3] = ["jobId", "job_id", "id"];
const STATUS: [&str; 2] = ["status", "state"];
const RESULT: [&str; 3] = ["result", "output", "data"];
const ERROR: [&str; 3] = ["error", "failure", "message"];
/// Words for a job that is over, in small letters. One with any other status is not.
const COMPLETED: [&str; 6] = [
    "completed",
    "complete",
    "done",
    "succeeded",
    "success",
    "finished",
];
const FAILED: [&str; 8] = [
    "failed",
    "failure",
    "error",
    "errored",
    "cancelled",
    "canceled",
    "timed_out",
    "expired",
];
/// Longest id of a job, in bytes.
const MAX_JOB_ID: usize = 512;

/// State of a job at its service.
#[derive(Debug, Clone, PartialEq)]
pub enum JobLook {
    Running,
    Completed(Value),
    Failed(JobFailure),
    /// The service knows nothing of it: it may have been started anew, without its jobs.
    Lost,
}

impl JobLook {
    /// Reads how a job stands from what a service tells of it: the word for its status, its result, and its error. A job without a result
    /// has failed, as there is nothing to go on with.
    pub fn told(status: &str, result: Value, error: Option<&Value>) -> Self {
        look_by(status, result, error).with_content()
    }

    pub(crate) fn with_content(self) -> Self {
        match self {
            Self::Completed(result) if is_empty(&result) => {
                Self::Failed(JobFailure::new("no content: the job has no result"))
            }
            other => other,
        }
    }
}

/// Reads the id of the job from the answer to a submit.
pub(crate) fn job_of(body: &Value, fields: &Fields) -> Result<String, ServiceError> {
    let id = match field(body, fields.job.as_deref(), &JOB) {
        Some(Value::String(id)) => id.clone(),
        Some(Value::Number(id)) => id.to_string(),
        _ => return Err(ServiceError::Malformed("it names no job".to_owned())),
    };
    if id.is_empty() || id.len() > MAX_JOB_ID || id.chars().any(char::is_control) {
        return Err(ServiceError::Malformed("its id of the job is none".to_owned()));
    }
    Ok(id)
}

/// Reads how a job stands. The result is null if it is no part of the answer.
pub(crate) fn look_of(body: &Value, fields: &Fields) -> Result<JobLook, ServiceError> {
    let Some(Value::String(status)) = field(body, fields.status.as_deref(), &STATUS) else {
        return Err(ServiceError::Malformed("it names no status".to_owned()));
    };
    let result = || field(body, fields.result.as_deref(), &RESULT).cloned();
    let error = || field(body, fields.error.as_deref(), &ERROR);
    Ok(look_by(status, result().unwrap_or_default(), error()))
}

/// Returns how a job stands by the word for its status.
fn look_by(status: &str, result: Value, error: Option<&Value>) -> JobLook {
    let word = status.trim().to_lowercase().replace(['-', ' '], "_");
    if COMPLETED.contains(&word.as_str()) {
        JobLook::Completed(result)
    } else if FAILED.contains(&word.as_str()) {
        let message = error.map(text_of).filter(|text| !text.is_empty());
        JobLook::Failed(JobFailure::new(&message.unwrap_or(word)))
    } else {
        JobLook::Running
    }
}

fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        Value::Object(members) => match members.get("message") {
            Some(Value::String(text)) => text.clone(),
            _ => value.to_string(),
        },
        other => other.to_string(),
    }
}

fn field<'a>(body: &'a Value, named: Option<&str>, usual: &[&str]) -> Option<&'a Value> {
    match named {
        Some(path) => path.split('.').try_fold(body, |value, name| value.get(name)),
        None => usual
            .iter()
            .find_map(|name| body.get(name).filter(|value| !value.is_null())),
    }
}

/// True for a result that is none: nothing, or an empty text.
fn is_empty(result: &Value) -> bool {
    match result {
        Value::Null => true,
        Value::String(text) => text.trim().is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use parkhang_core::domain::FailureKind;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn answers_are_read_by_usual_and_by_configured_names() {
        let usual = Fields::default();
        for body in [
            json!({"id": "7"}),
            json!({"jobId": "7", "id": "x"}),
            json!({"job_id": 7}),
        ] {
            assert_eq!(job_of(&body, &usual).unwrap(), "7");
        }
        for body in [
            json!({}),
            json!({"id": ""}),
            json!({"id": "a\nb"}),
            json!([1]),
            json!({"id": "x".repeat(600)}),
        ] {
            assert!(job_of(&body, &usual).is_err(), "{body}");
        }
        let own = Fields {
            job: Some("data.job".to_owned()),
            status: Some("data.phase".to_owned()),
            result: Some("data.pages".to_owned()),
            error: None,
        };
        let body = json!({"data": {"job": "9", "phase": "Done", "pages": [1]}});
        assert_eq!(job_of(&body, &own).unwrap(), "9");
        assert_eq!(look_of(&body, &own).unwrap(), JobLook::Completed(json!([1])));
    }

    #[test]
    fn a_job_is_over_by_its_status_alone() {
        let look = |body: Value| look_of(&body, &Fields::default());
        assert_eq!(
            look(json!({"status": "COMPLETED", "output": {"a": 1}})).unwrap(),
            JobLook::Completed(json!({"a": 1}))
        );
        for running in ["queued", "IN_PROGRESS", "running", "whatever"] {
            assert_eq!(
                look(json!({"status": running, "result": 1})).unwrap(),
                JobLook::Running
            );
        }
        let failed = |body: Value| match look(body).unwrap() {
            JobLook::Failed(failure) => (failure.message, failure.kind),
            other => panic!("{other:?}"),
        };
        assert_eq!(
            failed(json!({"status": "failed", "error": "ENOTFOUND: DNS lookup failed"})),
            ("ENOTFOUND: DNS lookup failed".to_owned(), FailureKind::Hard)
        );
        assert_eq!(
            failed(json!({"state": "timed-out", "error": {"message": "too slow"}})),
            ("too slow".to_owned(), FailureKind::Retriable)
        );
        assert_eq!(failed(json!({"status": "failed"})).0, "failed");
        assert!(look(json!({"status": 3})).is_err() && look(json!("x")).is_err());
    }

    proptest! {
        #[test]
        fn no_answer_panics(text in "\\PC{0,60}") {
            let body = json!({"id": text, "status": text, "error": text});
            let _ = job_of(&body, &Fields { job: Some(text.clone()), ..Fields::default() });
            prop_assert!(look_of(&body, &Fields::default()).is_ok());
        }
    }
}
