//! Commands of the table as requests to orchestrators.

use std::time::Duration;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::sync::watch;

use super::InTouch;
use crate::admin::{Entry, Reply, Verb};
use crate::client::{Call, CallError, Exchanged, Met, Method, Orchestrators, REPLY, Survey};

/// Longest time for the answer to a command: somewhat longer than an orchestrator takes before it gives up.
const ANSWER: Duration = Duration::from_secs(70);
/// Letters of a path that stand for themselves.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// The reason why a command has no reply.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// It was not sent.
    #[error("no orchestrator is in touch")]
    Disconnected,
    #[error("{0}")]
    Refused(String),
    #[error("{0}")]
    Call(CallError),
}

#[derive(Debug, Clone, Default)]
struct View {
    leader: Option<String>,
    asked: Option<Met>,
}

/// The orchestrators of a cluster, as they were seen last.
#[derive(Debug, Clone)]
pub struct Remote {
    orchestrators: Orchestrators,
    view: watch::Sender<View>,
}

impl Remote {
    pub fn new(orchestrators: Orchestrators) -> Self {
        Self {
            orchestrators,
            view: watch::Sender::default(),
        }
    }

    /// Looks which of them answer, and which leads.
    pub async fn look(&self) -> Survey {
        let survey = self.orchestrators.survey().await;
        let now = View {
            leader: survey.leader.clone(),
            asked: survey.best().cloned(),
        };
        self.view.send_if_modified(|view| {
            let node = |view: &View| view.asked.as_ref().map(|met| met.node.clone());
            let is_other = (&view.leader, node(view)) != (&now.leader, node(&now));
            // The view is replaced even where nobody is notified, since the same node may answer at another
            // address.
            *view = now;
            is_other
        });
        survey
    }

    pub fn in_touch(&self) -> InTouch {
        let view = self.view.borrow();
        InTouch {
            leader: view.leader.clone(),
            asked: view.asked.as_ref().map(|met| met.node.clone()),
        }
    }

    pub async fn changed_from(&self, known: &InTouch) -> InTouch {
        let mut changes = self.view.subscribe();
        loop {
            let now = self.in_touch();
            if now != *known {
                return now;
            }
            // This value holds the sender.
            let _ = changes.changed().await;
        }
    }

    /// Has a command carried out.
    ///
    /// # Errors
    ///
    /// When it is refused, or nobody answers.
    pub async fn ask(&self, entry: &Entry, given: &Map<String, Value>) -> Result<Reply, AskError> {
        let asked = self.view.borrow().asked.clone();
        let Met { server, .. } = asked.ok_or(AskError::Disconnected)?;
        let answer = self.orchestrators.call(&server, &call(entry, given)).await;
        match answer {
            Ok(answer) => reply(answer).unwrap_or_else(|status| {
                let error = CallError::stranger(&server, status);
                Err(AskError::Call(error))
            }),
            Err(error) => {
                // Other failures, such as a refused token, would be the same at the next try and leave the
                // orchestrator in view.
                if error.may_pass() {
                    // Asked again once it says who it is.
                    self.view.send_modify(|view| view.asked = None);
                }
                Err(AskError::Call(error))
            }
        }
    }
}

/// Body of an answer of the type [`REPLY`].
#[derive(Deserialize)]
struct Answered {
    data: Value,
    text: String,
    failed: bool,
}

#[derive(Deserialize)]
struct Problem {
    message: String,
}

/// The reply to a command, or the refusal. Fails with the status where it is neither.
fn reply(answer: Exchanged) -> Result<Result<Reply, AskError>, axum::http::StatusCode> {
    let status = answer.status;
    let body = answer.body.ok_or(status)?;
    // A success of another type comes from a proxy or from another version, and is no reply to the command.
    if status.is_success() && answer.kind == REPLY {
        let Answered { data, text, failed } = serde_json::from_value(body).map_err(|_| status)?;
        return Ok(Ok(Reply { data, text, failed }));
    }
    let Problem { message } = serde_json::from_value(body).map_err(|_| status)?;
    Ok(Err(AskError::Refused(message)))
}

/// A command as a request: its arguments are in the path where that names them, else in the query of a question and the body of anything
/// else.
fn call(entry: &Entry, given: &Map<String, Value>) -> Call {
    let mut rest = given.clone();
    let mut path = String::new();
    for (place, part) in entry.path.split(['{', '}']).enumerate() {
        // Splitting at both braces leaves the fixed parts at even places and the names at odd ones.
        if place % 2 == 0 {
            path.push_str(part);
        } else if let Some(value) = rest.remove(part) {
            // A slash in a value, encoded, stays one segment of the path and cannot lead to another command.
            path.extend(utf8_percent_encode(&text(&value), PLAIN));
        }
    }
    let method = match entry.verb {
        Verb::Get => Method::Get,
        Verb::Post => Method::Post,
        Verb::Patch => Method::Patch,
    };
    let mut body = None;
    if method != Method::Get {
        body = Some(Value::Object(rest));
    } else if !rest.is_empty() {
        let mut query = form_urlencoded::Serializer::new(String::new());
        for (name, value) in &rest {
            match value {
                Value::Array(values) => {
                    for value in values {
                        query.append_pair(name, &text(value));
                    }
                }
                value => {
                    query.append_pair(name, &text(value));
                }
            }
        }
        path.push('?');
        path.push_str(&query.finish());
    }
    Call {
        method,
        path,
        body,
        accept: REPLY,
        limit: ANSWER,
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;
    use serde_json::json;

    use super::*;
    use crate::admin::table;

    fn called(words: [&str; 2], given: Value) -> (Method, String, Option<Value>) {
        let given = given.as_object().cloned().unwrap();
        let call = call(table().named(&words).unwrap(), &given);
        (call.method, call.path, call.body)
    }

    #[test]
    fn arguments_go_where_the_interface_takes_them() {
        assert_eq!(
            called(
                ["tasks", "list"],
                json!({ "job": "a b/c", "state": "failed", "limit": "3" })
            ),
            (
                Method::Get,
                "/jobs/a%20b%2Fc/tasks?limit=3&state=failed".to_owned(),
                None
            )
        );
        assert_eq!(
            called(["nodes", "list"], json!({ "all": true })),
            (Method::Get, "/nodes?all=true".to_owned(), None)
        );
        assert_eq!(
            called(
                ["job", "create"],
                json!({ "job": "press", "volume": ["W1-I1", "W1-I2"] })
            ),
            (
                Method::Post,
                "/jobs".to_owned(),
                Some(json!({ "job": "press", "volume": ["W1-I1", "W1-I2"] }))
            )
        );
    }

    #[test]
    fn an_answer_is_a_reply_a_refusal_or_of_somebody_else() {
        let answer = |status, kind: &str, body| Exchanged {
            status,
            kind: kind.to_owned(),
            body,
        };
        let whole = json!({ "data": { "job": "press" }, "text": "press", "failed": true });
        let read = reply(answer(StatusCode::OK, REPLY, Some(whole)))
            .unwrap()
            .unwrap();
        assert_eq!(
            (read.data["job"].as_str(), read.text.as_str(), read.failed),
            (Some("press"), "press", true)
        );
        let problem = json!({ "error": "not_found", "message": "there is no job x" });
        let refused = reply(answer(StatusCode::NOT_FOUND, "application/json", Some(problem))).unwrap();
        assert_eq!(refused.unwrap_err().to_string(), "there is no job x");
        for stranger in [
            answer(StatusCode::OK, "text/html", None),
            answer(StatusCode::OK, "application/json", Some(json!({ "jobs": [] }))),
        ] {
            assert_eq!(reply(stranger).unwrap_err(), StatusCode::OK);
        }
    }
}
