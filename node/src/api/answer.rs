//! Responses: JSON, and refusals with their HTTP status.

use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::{Value, json};
use tracing::{error, warn};
use utoipa::ToSchema;

use crate::admin::Refusal;

/// Body of the answer to a refused request.
#[derive(Debug, Serialize, ToSchema)]
pub struct Problem {
    /// unauthorized, forbidden, invalid, not_found, conflict, too_large, too_many, timeout, unavailable or internal
    pub error: &'static str,
    pub message: String,
}

/// Refusal of a request.
#[derive(Debug)]
pub struct Denied {
    pub status: StatusCode,
    pub error: &'static str,
    pub message: String,
}

impl Denied {
    pub fn new(status: StatusCode, error: &'static str, message: impl Into<String>) -> Self {
        let message = message.into();
        Self {
            status,
            error,
            message,
        }
    }

    /// Returns the refusal of a request from a page of another host, which a browser sends with the cookie of this one.
    pub fn foreign() -> Self {
        let message = "requests from pages of other hosts are not answered";
        Self::new(StatusCode::FORBIDDEN, "forbidden", message)
    }

    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", message)
    }
}

impl From<Refusal> for Denied {
    /// Converts a refusal. The cause of an internal error goes to the log and not to the client.
    fn from(refusal: Refusal) -> Self {
        let word = refusal.word();
        match refusal {
            Refusal::Invalid(message) => Self::invalid(message),
            Refusal::NotFound(message) => Self::new(StatusCode::NOT_FOUND, word, message),
            Refusal::Conflict(message) => Self::new(StatusCode::CONFLICT, word, message),
            Refusal::TooSlow => Self::new(StatusCode::GATEWAY_TIMEOUT, word, refusal.to_string()),
            Refusal::Unavailable(cause) => {
                // A database that is away is expected to come back, hence a warning and 503, which tells
                // clients to try again.
                warn!(error = cause, "a command could not be run");
                let message = "the state store does not answer; try again";
                Self::new(StatusCode::SERVICE_UNAVAILABLE, word, message)
            }
            Refusal::Internal(cause) => {
                // It may name hosts, paths and users of the cluster, which a client need not learn.
                error!(error = format!("{cause:#}"), "a command failed");
                let message = "the orchestrator's log says what went wrong";
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, word, message)
            }
        }
    }
}

impl IntoResponse for Denied {
    fn into_response(self) -> Response {
        let Self {
            status,
            error,
            message,
        } = self;
        let mut response = json(status, &json!(Problem { error, message }));
        if status == StatusCode::UNAUTHORIZED {
            // RFC 9110 requires this header with every 401.
            let scheme = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(WWW_AUTHENTICATE, scheme);
        }
        response
    }
}

pub fn json(status: StatusCode, value: &Value) -> Response {
    // Answers are about a state that changes, and depend on the caller's token, so neither a browser nor a
    // proxy may keep one.
    let headers = [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")];
    (status, headers, value.to_string()).into_response()
}
