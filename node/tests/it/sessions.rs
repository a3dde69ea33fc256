//! Sessions of browsers at the HTTP interface of orchestrators.

use serde_json::{Value, json};

use crate::api::Api;
use crate::nodes::{Node, Site};

#[test]
fn a_session_stands_for_its_token_until_the_browser_signs_out() {
    let site = Site::with_volumes(1, 1);
    let [first, second] = [(), ()].map(|()| Node::start(&site, "orchestrator", &["127.0.0.1:1"]));
    let (api, other) = (Api::of(&site, &first), Api::of(&site, &second));
    let body = json!({ "token": api.token }).to_string();
    let sign_in = |headers: &[&str]| {
        let session = api.ask("POST", "/api/v1/session", headers, &body).is(204);
        let cookie = session.head.lines();
        let cookie = cookie
            .into_iter()
            .find(|line| line.to_lowercase().starts_with("set-cookie"));
        cookie.unwrap().to_owned()
    };
    let cookie = sign_in(&[]);
    for promised in ["HttpOnly", "SameSite=Strict", "Max-Age=43200"] {
        assert!(cookie.contains(promised), "{cookie}");
    }
    assert!(
        !cookie.contains(&api.token) && !cookie.contains("Secure"),
        "{cookie}"
    );
    let behind_a_proxy = sign_in(&["X-Forwarded-Proto: https"]);
    assert!(behind_a_proxy.ends_with("; Secure"), "{behind_a_proxy}");
    let shown = |cookie: &str| format!("Cookie: {}", cookie.split([' ', ';']).nth(1).unwrap());
    let (session, kept) = (shown(&cookie), shown(&sign_in(&[])));
    let signed_in =
        |api: &Api, session: &str| api.ask("GET", "/api/v1/session", &[session], "").is(200).json();
    for orchestrator in [&api, &other] {
        assert_eq!(signed_in(orchestrator, &session)["name"], "api-token");
        orchestrator.ask("GET", "/api/v1/jobs", &[&session], "").is(200);
    }
    // What the cookie has is no token.
    let bearer = session.replace("Cookie: parkhang_session=", "Authorization: Bearer ");
    api.ask("GET", "/api/v1/jobs", &[&bearer], "")
        .refuses(401, "unauthorized");

    let elsewhere = [&session, "Origin: http://elsewhere.example"];
    api.ask("DELETE", "/api/v1/session", &elsewhere, "")
        .refuses(403, "forbidden");
    other.ask("DELETE", "/api/v1/session", &[&session], "").is(204);
    for orchestrator in [&api, &other] {
        let over = orchestrator.ask("GET", "/api/v1/jobs", &[&session], "");
        assert_eq!(
            over.refuses(401, "unauthorized"),
            "the session is over; sign in again"
        );
        assert_eq!(signed_in(orchestrator, &session), Value::Null);
        orchestrator.ask("GET", "/api/v1/jobs", &[&kept], "").is(200);
    }
    api.ask("DELETE", "/api/v1/session", &[&session], "").is(204);
    api.ask("POST", "/api/v1/session", &[], r#"{"token":"x"}"#)
        .refuses(401, "unauthorized");
}
