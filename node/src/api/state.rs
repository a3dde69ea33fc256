//! Authentication of requests.

use std::sync::Arc;

use axum::http::header::{AUTHORIZATION, COOKIE, HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use chrono::Utc;

use super::answer::Denied;
use super::per_caller::PerCaller;
use super::pictures::Pictures;
use crate::access::{Access, Caller, Sessions, Tokens};
use crate::admin::Admin;

/// Message for a token that belongs to nobody.
pub const UNKNOWN_TOKEN: &str = "the token is not known";

/// Name of the cookie of a browser that has signed in.
pub const COOKIE_NAME: &str = "parkhang_session";

/// Header of a proxy that terminates TLS in front of an orchestrator without it.
const FORWARDED_PROTOCOL: &str = "x-forwarded-proto";

/// State of the interface: what requests are answered with, and who may give them.
#[derive(Debug, Clone)]
pub struct ApiState {
    pub admin: Admin,
    pub callers: Callers,
    pub pictures: Pictures,
    /// Places of callers whose files are made or sent.
    pub files: PerCaller,
    /// True if requests come over TLS.
    pub secure: bool,
}

/// Tokens and sessions by which requests are authenticated.
#[derive(Debug, Clone)]
pub struct Callers {
    pub tokens: Arc<Tokens>,
    pub sessions: Arc<Sessions>,
}

/// Credential that a request shows.
enum Shown<'h> {
    Token(&'h str),
    Session(&'h str),
}

impl Callers {
    /// Returns the caller that a request's token or session belongs to, if any.
    pub fn caller(&self, headers: &HeaderMap) -> Option<&Caller> {
        match shown(headers)? {
            Shown::Token(token) => self.tokens.caller(token),
            Shown::Session(session) => self.sessions.caller(&self.tokens, session, Utc::now()),
        }
    }

    /// Ends the session that a request shows, if it shows any.
    ///
    /// # Errors
    ///
    /// When the end cannot be written down.
    pub fn end_session(&self, headers: &HeaderMap) -> std::io::Result<()> {
        match session(headers) {
            Some(session) => self.sessions.end(&self.tokens, session, Utc::now()),
            None => Ok(()),
        }
    }
}

impl ApiState {
    /// Returns the caller that a request's token or session belongs to, if any.
    pub fn caller(&self, headers: &HeaderMap) -> Option<&Caller> {
        self.callers.caller(headers)
    }

    /// Returns whether a client speaks TLS, with this listener or with a proxy in front of it. A client can set the header of a proxy too;
    /// it only changes what it gets itself.
    pub fn is_secure(&self, headers: &HeaderMap) -> bool {
        let forwarded = headers.get(FORWARDED_PROTOCOL);
        self.secure || forwarded.is_some_and(|protocol| protocol.as_bytes() == b"https")
    }

    /// Authenticates a request, and checks that the caller has the role that `what` requires.
    ///
    /// # Errors
    ///
    /// 403 if the request comes from a page of another host or the role is too low, 401 if it has no known token.
    pub fn admit(&self, headers: &HeaderMap, access: Access, what: &str) -> Result<Caller, Denied> {
        // Whatever token the request carries: a foreign page acts with the cookie of a user who asked for
        // nothing.
        if is_foreign(headers) {
            return Err(Denied::foreign());
        }
        let Some(caller) = self.caller(headers) else {
            let message = match shown(headers) {
                Some(Shown::Token(_)) => UNKNOWN_TOKEN,
                Some(Shown::Session(_)) => "the session is over; sign in again",
                // A client without a token has forgotten it, one with an unknown token has the wrong one;
                // they need different advice.
                None => "give a token: Authorization: Bearer TOKEN",
            };
            return Err(Denied::new(StatusCode::UNAUTHORIZED, "unauthorized", message));
        };
        if caller.access < access {
            let (asked, has) = (access.as_str(), caller.access.as_str());
            let message = format!("{what} requires the role {asked}; {} has {has}", caller.name);
            return Err(Denied::new(StatusCode::FORBIDDEN, "forbidden", message));
        }
        Ok(caller.clone())
    }
}

/// Returns whether a request comes from a page of another host, which must not act with the cookie of this one.
pub fn is_foreign(headers: &HeaderMap) -> bool {
    let text = |name| {
        headers
            .get(name)
            .and_then(|value: &HeaderValue| value.to_str().ok())
    };
    match (text(ORIGIN), text(HOST)) {
        // Schemes are not compared, because behind a proxy with TLS the page has https and this listener does
        // not.
        (Some(origin), Some(host)) => origin.split_once("://").map(|(_, rest)| rest) != Some(host),
        // Nothing tells which host the request was meant for, so it is refused.
        (Some(_), None) => true,
        // Programs send no Origin, and browsers do with every request that could change something.
        (None, _) => false,
    }
}

fn shown(headers: &HeaderMap) -> Option<Shown<'_>> {
    let bearer = headers
        .get(AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.strip_prefix("Bearer "));
    // An explicit header wins over the cookie, which a browser adds without being asked.
    match bearer {
        Some(token) => Some(Shown::Token(token)),
        None => session(headers).map(Shown::Session),
    }
}

fn session(headers: &HeaderMap) -> Option<&str> {
    headers
        .get_all(COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|cookies| cookies.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .find_map(|(name, value)| (name == COOKIE_NAME).then_some(value))
}
