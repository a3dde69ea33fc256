//! Routes for health, readiness and metrics.

use std::fmt;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderName, StatusCode};
use axum::response::IntoResponse;
use axum::routing::get;
use serde_json::{Value, json};

use super::recorder::Recorder;

const TEXT: &str = "text/plain; charset=utf-8";
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";
const JSON: &str = "application/json";

/// Readiness of a node, with details.
#[derive(Debug, Clone, PartialEq)]
pub struct Readiness {
    pub ready: bool,
    /// Members of the answer's JSON object.
    pub details: Value,
}

/// Probe of a node's readiness. It must answer in bounded time.
#[async_trait]
pub trait Probe: Send + Sync + fmt::Debug {
    async fn readiness(&self) -> Readiness;
}

type Named = Arc<OnceLock<Arc<dyn Probe>>>;

pub fn router(recorder: Recorder, probe: Named) -> Router {
    Router::new()
        .route(
            "/healthz",
            get(|| async { page(StatusCode::OK, TEXT, "ok\n".to_owned()) }),
        )
        .route("/readyz", get(move || ready(probe.clone())))
        .route(
            "/metrics",
            get(move || async move { page(StatusCode::OK, PROMETHEUS, recorder.page()) }),
        )
}

async fn ready(probe: Named) -> impl IntoResponse {
    let readiness = match probe.get() {
        Some(probe) => probe.readiness().await,
        // The server listens before the node has begun to join, so that a service manager sees it alive while
        // models load.
        None => Readiness {
            ready: false,
            details: json!({ "reason": "starting" }),
        },
    };
    let status = if readiness.ready {
        StatusCode::OK
    } else {
        // Load balancers and service managers look at the status only; the details are for people.
        StatusCode::SERVICE_UNAVAILABLE
    };
    let mut answer = readiness.details;
    answer["ready"] = readiness.ready.into();
    page(status, JSON, format!("{answer}\n"))
}

fn page(
    status: StatusCode,
    kind: &'static str,
    text: String,
) -> (StatusCode, [(HeaderName, &'static str); 1], String) {
    (status, [(CONTENT_TYPE, kind)], text)
}
