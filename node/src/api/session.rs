//! Sessions of browsers: a browser presents its token once and gets a cookie with a session, which scripts cannot read and other sites
//! cannot use, and which is over when it signs out.

use axum::body::Body;
use axum::http::header::SET_COOKIE;
use axum::http::{HeaderMap, Request, StatusCode};
use axum::response::{IntoResponse, Response};
use chrono::Utc;
use serde::Deserialize;
use serde_json::json;

use super::answer::{Denied, json};
use super::body::read_body;
use super::files::internal;
use super::state::{ApiState, COOKIE_NAME, Callers, UNKNOWN_TOKEN, is_foreign};
use crate::access::LASTS;

/// Largest body of a sign-in, in bytes.
const MAX_BODY: usize = 4096;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Shown {
    token: String,
}

/// Answers with the name and the role of the signed-in caller, or null.
pub async fn show(state: ApiState, headers: HeaderMap) -> Result<Response, Denied> {
    refuse_foreign(&headers)?;
    let shown = state
        .caller(&headers)
        .map(|caller| json!({ "name": caller.name, "access": caller.access.as_str() }));
    Ok(json(StatusCode::OK, &json!(shown)))
}

pub async fn open(state: ApiState, request: Request<Body>) -> Result<Response, Denied> {
    let (parts, body) = request.into_parts();
    refuse_foreign(&parts.headers)?;
    // Nobody is authenticated yet here, so only little is read.
    let bytes = read_body(body, MAX_BODY).await?;
    let Shown { token } = serde_json::from_slice(&bytes)
        .map_err(|_| Denied::invalid("the body must be a JSON object with the member token"))?;
    let Callers { tokens, sessions } = &state.callers;
    let unknown = || Denied::new(StatusCode::UNAUTHORIZED, "unauthorized", UNKNOWN_TOKEN);
    let session = sessions.begin(tokens, &token, Utc::now()).ok_or_else(unknown)?;
    let is_secure = state.is_secure(&parts.headers);
    Ok(with_cookie(&session, LASTS.num_seconds(), is_secure))
}

/// Ends the session. Also answers a browser whose session is over already, which must be able to sign out.
pub async fn close(state: ApiState, headers: HeaderMap) -> Result<Response, Denied> {
    refuse_foreign(&headers)?;
    let ended = tokio::task::spawn_blocking(move || state.callers.end_session(&headers));
    ended.await.map_err(internal)?.map_err(internal)?;
    // A cookie of the same name without lifetime makes the browser delete the one it has.
    Ok(with_cookie("", 0, false))
}

fn refuse_foreign(headers: &HeaderMap) -> Result<(), Denied> {
    if is_foreign(headers) {
        return Err(Denied::foreign());
    }
    Ok(())
}

fn with_cookie(session: &str, seconds: i64, secure: bool) -> Response {
    // A browser drops a cookie with `Secure` that comes over plain HTTP, so it is set only where TLS is
    // spoken.
    let secure = if secure { "; Secure" } else { "" };
    let cookie =
        // The path keeps the session out of requests for the console's files, which need none.
        format!("{COOKIE_NAME}={session}; Path=/api; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}");
    (StatusCode::NO_CONTENT, [(SET_COOKIE, cookie)]).into_response()
}
