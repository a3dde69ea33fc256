//! Routes, and the way of a request to its command.

use axum::Router;
use axum::body::Body;
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{RawPathParams, RawQuery};
use axum::http::header::{
    ACCEPT, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Request, StatusCode, Uri};
use axum::middleware::map_response;
use axum::response::Response;
use axum::routing::{MethodFilter, get, on, post};
use serde_json::{Map, Value, json};

use super::answer::{Denied, json};
use super::body::read_body;
use super::documents;
use super::edits;
use super::events::{Pulse, events};
use super::files::{OFFERS, Place, file};
use super::openapi::document;
use super::session;
use super::state::ApiState;
use crate::access::Access;
use crate::admin::{Argument, Entry, Operator, Refusal, Reply, Verb, table};
use crate::client::{ORCHESTRATOR, REPLY, ROOT};
use crate::console;

/// Largest body of a request: a list of a hundred thousand volumes.
const MAX_BODY: usize = 4 << 20;
/// Largest body whose arguments the audit log keeps when the caller's role does not allow the command.
const MAX_DENIED_BODY: usize = 16 << 10;

/// Values of the parameters in a route's path.
type Named = Result<RawPathParams, RawPathParamsRejection>;

/// The console at `/`, and below `/api/v1` the commands of the table, which describe themselves in `openapi.json`.
/// `node` is the name of the orchestrator that answers.
pub fn router(state: ApiState, node: &str) -> Router {
    let pulse = Pulse::start(state.admin.store.clone());
    let (watching, introduced, node) = (state.clone(), state.clone(), node.to_owned());
    let (opening, asked, closing) = (state.clone(), state.clone(), state.clone());
    let session = post(move |request| session::open(opening.clone(), request))
        .get(move |headers| session::show(asked.clone(), headers))
        .delete(move |headers| session::close(closing.clone(), headers));
    let router = console::router()
        .route(
            &format!("{ROOT}/openapi.json"),
            // The description needs no token, as it holds nothing that the documentation does not.
            get(|| async { json(StatusCode::OK, &document()) }),
        )
        .route(&format!("{ROOT}/session"), session)
        .route(
            &format!("{ROOT}{ORCHESTRATOR}"),
            get(move |headers: HeaderMap| introduction(introduced.clone(), headers, node.clone())),
        )
        .route(
            &format!("{ROOT}/events"),
            get(move |headers: HeaderMap| events(watching.clone(), pulse.clone(), headers)),
        );
    let router = OFFERS.iter().fold(router, |router, offer| {
        let state = state.clone();
        // The path is read without types: a parameter that does not parse must give our error object and not
        // axum's text.
        let handler = move |parameters: Named, RawQuery(query): RawQuery, headers: HeaderMap| async move {
            let place = place(named(parameters)?);
            file(&state, &headers, place, query.as_deref(), offer).await
        };
        router.route(&format!("{ROOT}/jobs/{{job}}{}", offer.path), get(handler))
    });
    let router = documents::paths().fold(router, |router, path| {
        let state = state.clone();
        let handler = move |parameters: Named, headers: HeaderMap| async move {
            let place = named(parameters)?.into_iter().collect();
            documents::boxes(&state, &headers, place).await
        };
        router.route(&path, get(handler))
    });
    let editing = state.clone();
    let router = router.route(
        &format!("{ROOT}{}", edits::PATH),
        post(move |parameters: Named, request: Request<Body>| async move {
            edits::edit(&editing, place(named(parameters)?), request).await
        }),
    );
    let router = table().entries().iter().fold(router, |router, entry| {
        let state = state.clone();
        let handler = move |parameters: Named, request: Request<Body>| async move {
            let path = named(parameters)?.into_iter();
            let path = path.map(|(name, value)| (name, Value::String(value)));
            let with_text = asks_for_text(request.headers());
            let reply = state.carry_out(entry, path.collect(), request).await?;
            Ok::<_, Denied>(if with_text {
                whole(&reply)
            } else {
                json(StatusCode::OK, &reply.data)
            })
        };
        router.route(&format!("{ROOT}{}", entry.path), on(method(entry.verb), handler))
    });
    router
        .fallback(|| async { Denied::new(StatusCode::NOT_FOUND, "not_found", "no such path") })
        // Axum's own answers for these two cases have no body; clients rely on every error being a JSON
        // object.
        .method_not_allowed_fallback(|| async {
            let message = "method not allowed for this path";
            Denied::new(StatusCode::METHOD_NOT_ALLOWED, "invalid", message)
        })
        .layer(map_response(guarded))
}

/// Keeps browsers from taking an answer for something else than it is, and from running anything in it.
async fn guarded(mut response: Response) -> Response {
    for (name, value) in [
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (
            CONTENT_SECURITY_POLICY,
            "default-src 'none'; frame-ancestors 'none'",
        ),
    ] {
        // The console has a policy of its own.
        let header = response.headers_mut().entry(name);
        header.or_insert(HeaderValue::from_static(value));
    }
    response
}

/// The name of the orchestrator that answers, and of the one that leads, if any does.
async fn introduction(state: ApiState, headers: HeaderMap, node: String) -> Result<Response, Denied> {
    state.admit(&headers, Access::Read, "the name of the leader")?;
    let leader = state.admin.store.leader().await.map_err(Refusal::from)?;
    Ok(json(
        StatusCode::OK,
        &json!({ "node": node, "leader": leader, "build": env!("CARGO_PKG_VERSION") }),
    ))
}

/// True for a request that wants the text for people with its answer.
fn asks_for_text(headers: &HeaderMap) -> bool {
    headers
        .get(ACCEPT)
        // Compared as a whole, since only our own client asks for this type and it asks for nothing else.
        .is_some_and(|accept| accept.as_bytes() == REPLY.as_bytes())
}

fn whole(reply: &Reply) -> Response {
    let Reply { data, text, failed } = reply;
    let mut response = json(
        StatusCode::OK,
        &json!({ "data": data, "text": text, "failed": failed }),
    );
    let kind = HeaderValue::from_static(REPLY);
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

fn named(parameters: Named) -> Result<Vec<(String, String)>, Denied> {
    let parameters = parameters.map_err(|_| Denied::invalid("the path is not UTF-8"))?;
    Ok(parameters
        .iter()
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect())
}

fn place(parameters: Vec<(String, String)>) -> Place {
    let mut place = Place::default();
    for (name, value) in parameters {
        match name.as_str() {
            "job" => place.job = value,
            "volume" => place.volume = value,
            "page" => place.page = Some(value),
            _ => place.file = Some(value),
        }
    }
    place
}

fn method(verb: Verb) -> MethodFilter {
    match verb {
        Verb::Get => MethodFilter::GET,
        Verb::Post => MethodFilter::POST,
        Verb::Patch => MethodFilter::PATCH,
    }
}

impl ApiState {
    async fn carry_out(
        &self,
        entry: &'static Entry,
        path: Map<String, Value>,
        request: Request<Body>,
    ) -> Result<Reply, Denied> {
        let (parts, body) = request.into_parts();
        // The body is read only for a caller who may give the command.
        let caller = match self.admit(&parts.headers, entry.access, &entry.name.join(" ")) {
            Ok(caller) => caller,
            Err(denied) => {
                self.write_down_denied(entry, path, &parts, body, &denied).await;
                return Err(denied);
            }
        };
        let operator = Operator {
            who: &caller.name,
            via: "http",
        };
        let given = match read_body(body, MAX_BODY).await {
            // The path is cloned because a refusal below still has to be recorded with what it was about.
            Ok(bytes) => given(entry, path.clone(), &parts.uri, &bytes),
            Err(denied) => Err(denied),
        };
        match given {
            Ok(given) => Ok(entry.carry_out(given, operator, &self.admin).await?),
            Err(denied) => {
                // The caller is allowed to give the command, so a malformed attempt is of interest in the
                // audit log as well.
                let refusal = denied.message.clone();
                entry
                    .write_down_refused(path, operator, &self.admin, refusal)
                    .await;
                Err(denied)
            }
        }
    }

    /// Records in the audit log a command that the caller's role does not allow. Nothing of a client without a token is read or kept:
    /// it could fill the database.
    async fn write_down_denied(
        &self,
        entry: &Entry,
        path: Map<String, Value>,
        parts: &Parts,
        body: Body,
        denied: &Denied,
    ) {
        // A request from a foreign page with a valid cookie has a caller and is recorded under that name.
        let Some(caller) = self.caller(&parts.headers) else {
            return;
        };
        let given = match read_body(body, MAX_BODY).await {
            // The body is read to its end even if it is too long to keep, so that the client gets the
            // refusal: many clients do not read an answer while they still write.
            Ok(bytes) if bytes.len() <= MAX_DENIED_BODY => given(entry, path.clone(), &parts.uri, &bytes),
            Ok(_) => Ok(path.clone()),
            Err(denied) => Err(denied),
        };
        let operator = Operator {
            who: &caller.name,
            via: "http",
        };
        let refusal = denied.message.clone();
        entry
            .write_down_refused(given.unwrap_or(path), operator, &self.admin, refusal)
            .await;
    }
}

/// Combines the arguments of the path, the query and the body.
///
/// # Errors
///
/// 422 if the body is no JSON object, or an argument is given twice.
fn given(
    entry: &Entry,
    mut given: Map<String, Value>,
    uri: &Uri,
    body: &[u8],
) -> Result<Map<String, Value>, Denied> {
    let known = entry.arguments();
    let mut queried = Map::new();
    for (name, value) in form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()) {
        add(&mut queried, &known, &name, value.into_owned()).map_err(Denied::invalid)?;
    }
    let posted = match serde_json::from_slice::<Value>(body) {
        // A command without arguments may be posted without a body.
        _ if body.is_empty() => Map::new(),
        Ok(Value::Object(posted)) => posted,
        Ok(_) => return Err(Denied::invalid("the body must be a JSON object".to_owned())),
        Err(error) => return Err(Denied::invalid(format!("the body is not valid JSON: {error}"))),
    };
    for (name, value) in queried.into_iter().chain(posted) {
        // Taking either value could act on something else than the caller meant.
        if given.contains_key(&name) {
            return Err(Denied::invalid(format!("{name} is given twice")));
        }
        given.insert(name, value);
    }
    Ok(given)
}

/// Adds an argument of the query; only one that takes a list may be repeated.
fn add(
    queried: &mut Map<String, Value>,
    known: &[Argument],
    name: &str,
    value: String,
) -> Result<(), String> {
    let many = known
        .iter()
        .any(|argument| argument.name == name && argument.many);
    match queried.get_mut(name) {
        None if many => {
            queried.insert(name.to_owned(), Value::Array(vec![Value::String(value)]));
        }
        None => {
            queried.insert(name.to_owned(), Value::String(value));
        }
        // Every array in `queried` was put there by the branch for lists above, so this argument takes
        // several.
        Some(Value::Array(values)) => values.push(Value::String(value)),
        Some(_) => return Err(format!("{name} is given twice")),
    }
    Ok(())
}
