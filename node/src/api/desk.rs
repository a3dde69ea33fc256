//! Who is at the door.

use std::sync::Arc;

use axum::http::header::{AUTHORIZATION, COOKIE, HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderValue, StatusCode};

use super::answer::Denied;
use crate::access::{Access, Caller, Tokens};
use crate::admin::Admin;

/// Said of a token that nobody has.
pub const UNKNOWN_TOKEN: &str = "the token is not known";

/// Cookie of a browser that has shown a token.
pub const COOKIE_NAME: &str = "parkhang_token";

/// What requests are answered with, and who may make them.
#[derive(Debug, Clone)]
pub struct Desk {
    pub admin: Admin,
    pub tokens: Arc<Tokens>,
    /// Whether requests come through TLS.
    pub secure: bool,
}

impl Desk {
    /// Who asks, if that is known.
    pub fn caller(&self, headers: &HeaderMap) -> Option<&Caller> {
        caller(&self.tokens, headers)
    }

    /// Lets in who has the role that `what` asks for.
    pub fn admit(&self, headers: &HeaderMap, access: Access, what: &str) -> Result<Caller, Denied> {
        if is_foreign(headers) {
            return Err(Denied::foreign());
        }
        let Some(caller) = self.caller(headers) else {
            let message = match presented(headers) {
                Some(_) => UNKNOWN_TOKEN,
                None => "give a token: Authorization: Bearer TOKEN",
            };
            return Err(Denied::new(StatusCode::UNAUTHORIZED, "unauthorized", message));
        };
        if caller.access < access {
            let (asked, has) = (access.as_str(), caller.access.as_str());
            let message = format!("{what} asks for the role {asked}; {} has {has}", caller.name);
            return Err(Denied::new(StatusCode::FORBIDDEN, "forbidden", message));
        }
        Ok(caller.clone())
    }
}

/// Whose token a request shows.
pub fn caller<'t>(tokens: &'t Tokens, headers: &HeaderMap) -> Option<&'t Caller> {
    presented(headers).and_then(|token| tokens.caller(token))
}

/// A page of another site must not act with the cookie of this one.
pub fn is_foreign(headers: &HeaderMap) -> bool {
    let text = |name| {
        headers
            .get(name)
            .and_then(|value: &HeaderValue| value.to_str().ok())
    };
    match (text(ORIGIN), text(HOST)) {
        (Some(origin), Some(host)) => origin.split_once("://").map(|(_, rest)| rest) != Some(host),
        (Some(_), None) => true,
        (None, _) => false,
    }
}

fn presented(headers: &HeaderMap) -> Option<&str> {
    let bearer = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let bearer = bearer.and_then(|value| value.strip_prefix("Bearer "));
    bearer.or_else(|| {
        let cookies = headers
            .get_all(COOKIE)
            .iter()
            .filter_map(|value| value.to_str().ok());
        let mut pairs = cookies
            .flat_map(|cookies| cookies.split(';'))
            .filter_map(|pair| pair.trim().split_once('='));
        pairs.find_map(|(name, value)| (name == COOKIE_NAME).then_some(value))
    })
}
