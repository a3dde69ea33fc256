//! Messages of services about their jobs, as they come in by the webhook.

use parkhang_service::JobLook;
use serde_json::Value;

/// Usual names of the field with the id of the row or the task.
const ID: [&str; 4] = ["leadId", "entityId", "taskId", "id"];

/// End of a job, or how it goes on, as its service tells it.
#[derive(Debug, Clone, PartialEq)]
pub struct JobMessage {
    pub stage: String,
    /// Id of the row or the task.
    pub id: String,
    pub job: String,
    pub status: String,
    pub result: Value,
    pub error: Value,
}

/// Reason why a body is no message about a job.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MalformedMessage {
    #[error("the body is no JSON: {0}")]
    NotJson(String),
    #[error("the body has no {0}")]
    Missing(&'static str),
}

impl JobMessage {
    /// Reads `{stage, leadId, jobId, status, result, error}`. The id may have the name `id_field`, or a usual one.
    ///
    /// # Errors
    ///
    /// [`MalformedMessage`] with the first fault.
    pub fn read(body: &[u8], id_field: Option<&str>) -> Result<Self, MalformedMessage> {
        let body: Value =
            serde_json::from_slice(body).map_err(|error| MalformedMessage::NotJson(error.to_string()))?;
        let text = |names: &[&str]| {
            names.iter().find_map(|name| match body.get(name) {
                Some(Value::String(text)) if !text.is_empty() => Some(text.clone()),
                Some(Value::Number(number)) => Some(number.to_string()),
                _ => None,
            })
        };
        let ids: Vec<&str> = id_field.into_iter().chain(ID).collect();
        let value = |name: &str| body.get(name).cloned().unwrap_or_default();
        Ok(Self {
            stage: text(&["stage"]).ok_or(MalformedMessage::Missing("stage"))?,
            id: text(&ids).ok_or(MalformedMessage::Missing("leadId or entityId"))?,
            job: text(&["jobId", "job_id"]).ok_or(MalformedMessage::Missing("jobId"))?,
            status: text(&["status"]).ok_or(MalformedMessage::Missing("status"))?,
            result: value("result"),
            error: value("error"),
        })
    }

    pub(crate) fn look(&self) -> JobLook {
        JobLook::told(&self.status, self.result.clone(), Some(&self.error))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// Rows: 230.
    #[test]
    fn a_message_names_its_row_in_any_of_the_usual_ways() {
        let body =
            json!({"stage": "scrape", "leadId": 7, "jobId": "j", "status": "completed", "result": {"a": 1}});
        let message = JobMessage::read(body.to_string().as_bytes(), None).unwrap();
        assert_eq!(
            (message.stage.as_str(), message.id.as_str(), message.job.as_str()),
            ("scrape", "7", "j")
        );
        assert_eq!(message.look(), JobLook::Completed(json!({"a": 1})));
        for name in ["entityId", "companyId"] {
            let body =
                json!({"stage": "s", name: "x", "jobId": "j", "status": "failed", "error": "HTTP 404"});
            let message = JobMessage::read(body.to_string().as_bytes(), Some("companyId")).unwrap();
            assert!(matches!(
                (message.id.as_str(), message.look()),
                ("x", JobLook::Failed(_))
            ));
        }
        let read = |body: &str| JobMessage::read(body.as_bytes(), None).unwrap_err();
        assert!(matches!(read("{"), MalformedMessage::NotJson(_)));
        assert_eq!(
            read("{\"stage\": \"s\"}"),
            MalformedMessage::Missing("leadId or entityId")
        );
        assert_eq!(
            read("{\"stage\": \"s\", \"leadId\": 1}"),
            MalformedMessage::Missing("jobId")
        );
    }

    proptest! {
        #[test]
        fn no_body_panics(body in prop::collection::vec(any::<u8>(), 0..60)) {
            prop_assert!(JobMessage::read(&body, Some("x")).is_err());
        }
    }
}
