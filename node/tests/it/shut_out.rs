//! What unauthenticated clients at the HTTP ports of an orchestrator can do: not be an administrator, and shut nobody out.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;
use std::time::Duration;

use parkhang_test_support::Wait;

use crate::api::Api;
use crate::nodes::{Node, Site};
use crate::support::finish;

/// Streams of events that one token may have open, as docs/api.md says.
const STREAMS: usize = 24;

#[test]
fn an_empty_token_file_makes_nobody_an_administrator() {
    let site = Site::with_volumes(1, 1);
    std::fs::create_dir_all(site.path("state")).unwrap();
    std::fs::write(site.path("state/api-token"), "").unwrap();
    let mut command = site.command(["--role", "orchestrator"]);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut said)
        .unwrap();
    child.kill().unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(said, "", "it came up with an empty token");
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("api-token holds no token; remove it"), "{error}");

    std::fs::remove_file(site.path("state/api-token")).unwrap();
    let orchestrator = Node::start(&site, "orchestrator", &["127.0.0.1:1"]);
    let api = Api::of(&site, &orchestrator);
    for nothing in ["Cookie: parkhang_session=", "Authorization: Bearer "] {
        api.ask("GET", "/api/v1/jobs", &[nothing], "")
            .refuses(401, "unauthorized");
    }
    api.ask("POST", "/api/v1/session", &[], r#"{"token":""}"#)
        .refuses(401, "unauthorized");
    api.get("/jobs").is(200);
}

#[test]
fn a_port_that_somebody_else_has_is_an_error() {
    let site = Site::with_volumes(1, 1);
    let squatter = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut command = site.command(["--role", "orchestrator"]);
    command.arg("--set");
    command.arg(format!("api.listen={}", squatter.local_addr().unwrap()));
    let refused = finish(command).exits(1).stderr;
    let message = "(api.listen): another process has the port; set another one";
    assert!(refused.contains(message), "{refused}");
}

/// The head of a request and one byte of its body.
fn half_a_request(address: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!("POST /api/v1/session HTTP/1.1\r\nHost: {address}\r\nContent-Length: 4096\r\n\r\n{{");
    // One that has been closed again already is as good.
    let _ = stream.write_all(head.as_bytes());
    stream
}

#[test]
fn sockets_without_a_token_shut_out_nobody() {
    let site = Site::with_volumes(1, 1);
    let orchestrator = Node::start_with(&site, "orchestrator", &["127.0.0.1:1"], |command| {
        command.args(["--set", "health.listen=127.0.0.1:0"]);
    });
    let api = Api::of(&site, &orchestrator);
    let _crowd: Vec<TcpStream> = (0..300).map(|_| half_a_request(&api.address)).collect();
    api.get("/jobs").is(200);
    api.ask("GET", "/", &[], "").is(200);
    finish(site.command(["job", "list"])).exits(0);

    let health = orchestrator.health();
    let _crowd: Vec<TcpStream> = (0..100).map(|_| half_a_request(health)).collect();
    let probe = Api {
        address: health.to_owned(),
        ..Api::of(&site, &orchestrator)
    };
    probe.ask("GET", "/healthz", &[], "").is(200);
}

#[test]
fn one_token_opens_so_many_streams_of_events() {
    let site = Site::with_volumes(1, 1);
    let orchestrator = Node::start(&site, "orchestrator", &["127.0.0.1:1"]);
    let api = Api::of(&site, &orchestrator);
    let open = || {
        let stream = api.send("GET", "/api/v1/events", &[&api.bearer()], "");
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut stream = BufReader::new(stream);
        let mut status = String::new();
        stream.read_line(&mut status).unwrap();
        (stream, status)
    };
    let mut streams: Vec<_> = (0..STREAMS).map(|_| open()).collect();
    for (_, status) in &streams {
        assert!(status.starts_with("HTTP/1.1 200 "), "{status}");
    }
    let refused = api.ask("GET", "/api/v1/events", &[&api.bearer()], "");
    let message = refused.refuses(429, "too_many");
    assert!(message.starts_with("api-token has 24 streams"), "{message}");
    streams.pop();
    Wait::until("the place of the stream that was closed is free")
        .sees(|| open().1, |status| status.starts_with("HTTP/1.1 200 "));
}

#[test]
fn whoever_hangs_up_is_in_the_audit_log_and_the_command_goes_on() {
    let site = Site::with_volumes(1, 1);
    let orchestrator = Node::start(&site, "orchestrator", &["127.0.0.1:1"]);
    let worker = Node::start(&site, "cpu,gpu", &[orchestrator.address()]);
    let api = Api::of(&site, &orchestrator);
    let gone = worker.name().to_owned();
    Wait::until("the worker is known").sees(|| api.get(&format!("/nodes/{gone}")).is_ok(), |known| *known);
    // An order to a node that does not answer takes its time.
    worker.kill();
    let path = format!("/api/v1/nodes/{gone}/drain");
    let asked = api.send("POST", &path, &[&api.bearer()], "{}");
    let last = || api.get("/audit").is(200).json()["entries"][0].clone();
    let begun = Wait::until("the order is written down").sees(last, |last| last["command"] == "nodes drain");
    assert_eq!(begun["done_at"], serde_json::Value::Null);
    drop(asked);
    let ended = Wait::until("its end is written down").sees(last, |last| last["done_at"].is_string());
    let refusal = ended["refusal"].as_str().unwrap();
    assert!(refusal.contains(&gone), "{refusal}");
}
