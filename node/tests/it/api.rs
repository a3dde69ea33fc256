//! The HTTP interface and the console of an orchestrator, asked as a browser and a script would.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use parkhang_test_support::Wait;
use serde_json::{Value, json};

use crate::nodes::{JOB, Node, Site};
use crate::support::{finish, node};

/// An orchestrator's interface, and the token of whoever runs it.
pub(crate) struct Api {
    pub(crate) address: String,
    pub(crate) token: String,
}

pub(crate) struct Answer {
    status: u16,
    pub(crate) head: String,
    body: Vec<u8>,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn is_ok(&self) -> bool {
        self.status == 200
    }

    #[track_caller]
    pub(crate) fn is(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", self.text());
        self
    }

    #[track_caller]
    pub(crate) fn refuses(self, status: u16, error: &str) -> String {
        let problem = self.is(status).json();
        assert_eq!(problem["error"], error, "{problem}");
        problem["message"].as_str().unwrap().to_owned()
    }
}

impl Api {
    pub(crate) fn of(site: &Site, orchestrator: &Node) -> Self {
        let token = std::fs::read_to_string(site.path("state/api-token")).unwrap();
        Self {
            address: orchestrator.api().to_owned(),
            token: token.trim().to_owned(),
        }
    }

    pub(crate) fn send(&self, method: &str, path: &str, headers: &[&str], body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
        let (host, length) = (&self.address, body.len());
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body.as_bytes()).unwrap();
        stream
    }

    pub(crate) fn ask(&self, method: &str, path: &str, headers: &[&str], body: &str) -> Answer {
        let mut bytes = Vec::new();
        self.send(method, path, headers, body)
            .read_to_end(&mut bytes)
            .unwrap();
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
        let body = bytes.split_off(end + 4);
        let head = String::from_utf8(bytes).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head, body }
    }

    pub(crate) fn bearer(&self) -> String {
        format!("Authorization: Bearer {}", self.token)
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.ask("GET", &format!("/api/v1{path}"), &[&self.bearer()], "")
    }

    fn post(&self, path: &str, body: &Value) -> Answer {
        self.ask(
            "POST",
            &format!("/api/v1{path}"),
            &[&self.bearer()],
            &body.to_string(),
        )
    }
}

#[test]
fn who_may_not_is_refused() {
    let site = Site::with_volumes(1, 1);
    let file = site.path("tokens");
    let made = finish(node(["token", "eva", "read"])).exits(0);
    std::fs::write(&file, &made.stdout).unwrap();
    let reader = made.stderr.trim().rsplit(' ').next().unwrap().to_owned();
    let orchestrator = Node::start_with(&site, "orchestrator", &["127.0.0.1:1"], |command| {
        command.args(["--set", &format!("api.tokens_file={}", file.display())]);
    });
    let api = Api::of(&site, &orchestrator);
    let anonymous = api.ask("GET", "/api/v1/jobs", &[], "");
    assert!(
        anonymous
            .head
            .to_lowercase()
            .contains("\r\nwww-authenticate: bearer"),
        "{}",
        anonymous.head
    );
    let unsaid = anonymous.refuses(401, "unauthorized");
    assert!(unsaid.starts_with("give a token"), "{unsaid}");
    let stranger = "Authorization: Bearer x";
    let unknown = api
        .ask("GET", "/api/v1/jobs", &[stranger], "")
        .refuses(401, "unauthorized");
    assert_eq!(unknown, "the token is not known");
    let mine = api.bearer();
    api.ask(
        "GET",
        "/api/v1/jobs",
        &[&mine, "Origin: http://elsewhere.example"],
        "",
    )
    .refuses(403, "forbidden");
    assert_eq!(api.get("/jobs").is(200).json(), json!({ "jobs": [] }));

    let eva = Api {
        token: reader,
        ..Api::of(&site, &orchestrator)
    };
    eva.get("/jobs").is(200);
    let refusal = eva
        .post("/jobs", &json!({ "job": JOB }))
        .refuses(403, "forbidden");
    assert_eq!(refusal, "job create requires the role operate; eva has read");
    let pause = format!("/api/v1/jobs/{JOB}/pause");
    api.ask("POST", &pause, &[&mine, "Origin: http://elsewhere.example"], "{}")
        .refuses(403, "forbidden");
    api.ask("POST", &pause, &["Origin: http://elsewhere.example"], "{}")
        .refuses(403, "forbidden");
    api.ask("POST", &pause, &[stranger], "{}")
        .refuses(401, "unauthorized");
    let long = json!({ "job": "x".repeat(20_000) });
    eva.post("/jobs", &long).refuses(403, "forbidden");
    api.ask("POST", &pause, &[&mine], "no JSON")
        .refuses(422, "invalid");
    let audit = api.get("/audit").is(200).json();
    let entries = audit["entries"].as_array().unwrap().iter();
    let entries = entries.map(|entry| {
        let said = entry["refusal"].as_str().unwrap();
        json!([
            entry["who"],
            entry["command"],
            entry["arguments"],
            said.split(' ').next()
        ])
    });
    assert_eq!(
        Value::from_iter(entries),
        json!([
            ["api-token", "job pause", { "job": JOB }, "the"],
            ["eva", "job create", {}, "job"],
            ["api-token", "job pause", { "job": JOB }, "requests"],
            ["eva", "job create", { "job": JOB }, "job"],
        ])
    );

    let mode = std::os::unix::fs::PermissionsExt::mode(
        &std::fs::metadata(site.path("state/api-token"))
            .unwrap()
            .permissions(),
    );
    assert_eq!(mode & 0o777, 0o600);
}

/// Rows: 75, 118, F9.
#[test]
fn a_job_is_made_steered_and_read_over_http() {
    let site = Site::with_volumes(2, 2);
    let orchestrator = Node::start(&site, "orchestrator", &["127.0.0.1:1"]);
    let api = Api::of(&site, &orchestrator);
    let create = json!({ "job": JOB, "priority": 3, "config": ["max_running=1"] });
    let created = api.post("/jobs", &create).is(200).json();
    assert_eq!(
        (&created["job"], &created["volumes"], &created["priority"]),
        (&json!(JOB), &json!(2), &json!(3))
    );
    api.post("/jobs", &create).refuses(409, "conflict");
    let refused = api
        .post("/jobs", &json!({ "job": "x", "volumes_from": "/etc/passwd" }))
        .refuses(422, "invalid");
    assert_eq!(refused, "there is no argument volumes_from");
    api.post("/jobs", &json!({ "job": "../x" }))
        .refuses(422, "invalid");
    let tried = api.post("/jobs", &json!({ "volume": ["W1-I1"], "dry_run": true }));
    let tried = tried.is(200).json();
    assert_eq!((&tried["chosen"], &tried["dry_run"]), (&json!(1), &json!(true)));
    let query = json!({ "query": ["collection=W9"] });
    api.post("/jobs", &query).refuses(422, "invalid");
    let local = api
        .post("/volumes", &json!({ "paths": ["/etc"] }))
        .refuses(422, "invalid");
    assert_eq!(local, "there is no argument paths");
    let listed = api.get("/volumes?collection=W1&limit=1").is(200).json();
    assert_eq!(listed["volumes"][0]["volume"], "W1-I0");
    let shown = api.get("/volumes/W1-I1").is(200).json();
    assert_eq!(shown["jobs"][0]["job"], JOB);
    api.get("/volumes/W9-I9").refuses(404, "not_found");
    let refused = api.post("/jobs", &json!({ "job": 7 })).refuses(422, "invalid");
    assert_eq!(refused, "job must be a text");
    let refused = api
        .post("/jobs", &json!({ "job": "x", "priority": "high" }))
        .refuses(422, "invalid");
    assert_eq!(
        refused,
        "invalid value 'high' for 'priority': invalid digit found in string"
    );
    let refused = api
        .post("/jobs", &json!({ "model": "M" }))
        .refuses(422, "invalid");
    assert_eq!(refused, "model must be a list");
    let named = json!({ "volume": ["W1-I1"], "model": ["M"], "dry_run": true });
    let chosen = api.post("/jobs", &named).is(200).json();
    assert_eq!(
        (&chosen["chosen"], &chosen["named"]),
        (&json!(1), &json!(["W1-I1"]))
    );
    api.get("/jobs/nobody").refuses(404, "not_found");
    api.get(&format!("/jobs/{JOB}/tasks?limit=0"))
        .refuses(422, "invalid");
    api.ask("DELETE", "/api/v1/nodes", &[&api.bearer()], "")
        .refuses(405, "invalid");

    let why = |volume: &str| api.get(&format!("/jobs/{JOB}/tasks/{volume}/why")).is(200).json();
    let missing =
        Wait::until("the missing node is named").sees(|| why("W1-I0"), |why| why["blocker"] == "no_pool");
    let advice = missing["advice"].as_str().unwrap();
    assert!(advice.contains("node --role"), "{advice}");
    api.post(&format!("/jobs/{JOB}/pause"), &json!({})).is(200);
    assert_eq!(why("W1-I0")["blocker"], "job");

    let mut events = BufReader::new(api.send("GET", "/api/v1/events", &[&api.bearer()], ""));
    let mut line = String::new();
    while line.trim() != "" || line.is_empty() {
        line.clear();
        assert_ne!(events.read_line(&mut line).unwrap(), 0, "the stream ended");
    }
    api.post(&format!("/jobs/{JOB}/resume"), &json!({})).is(200);
    while !line.starts_with("event: changed") {
        line.clear();
        assert_ne!(events.read_line(&mut line).unwrap(), 0, "the stream ended");
    }

    let _worker = Node::start(&site, "cpu,gpu", &[orchestrator.address()]);
    finish(site.command(["job", "status", JOB, "--wait"])).exits(0);
    let status = api.get(&format!("/jobs/{JOB}")).is(200).json();
    assert_eq!(
        (&status["status"], &status["done"]),
        (&json!("completed"), &json!(2))
    );
    assert_eq!(
        status["stages"][3],
        json!({ "stage": "reduce", "waiting": 0, "running": 0, "retrying": 0, "failed": 0, "done": 2 })
    );
    let task = api.get(&format!("/jobs/{JOB}/tasks/W1-I0")).is(200).json();
    assert_eq!(task["runs"].as_array().unwrap().len(), 4, "{task:#}");

    let volume = format!("/jobs/{JOB}/volumes/W1-I0");
    let pages = api.get(&format!("{volume}/pages")).is(200).json();
    assert_eq!(pages["pages"].as_array().unwrap().len(), 2);
    let page = api.get(&format!("{volume}/pages/1")).is(200).json();
    let text = page["lines"][0]["text"].as_str().unwrap();
    api.get(&format!("{volume}/pages/3")).refuses(404, "not_found");
    let image = api.get(&format!("{volume}/pages/1/image")).is(200);
    let head = image.head.to_lowercase();
    assert!(head.contains("x-content-type-options: nosniff"), "{head}");
    assert!(
        head.contains("content-security-policy: default-src 'none'"),
        "{head}"
    );
    assert_eq!(image.body[..3], [0xff, 0xd8, 0xff], "a JPEG");
    let (width, height) = (page["width"].as_u64().unwrap(), page["height"].as_u64().unwrap());
    for (query, shown) in [
        (String::from("width=100"), (100, 100 * height / width)),
        (format!("region=7,5,{0},40&width={0}", width - 7), (width - 7, 40)),
        (String::from("region=7,5,200,40&width=50"), (50, 10)),
    ] {
        let part = api.get(&format!("{volume}/pages/1/image?{query}")).is(200);
        let part = image::load_from_memory(&part.body).unwrap();
        assert_eq!(
            (u64::from(part.width()), u64::from(part.height())),
            shown,
            "{query}"
        );
    }
    for query in [
        format!("region=8,5,{},40", width - 7),
        String::from("width=0"),
        String::from("size=9"),
    ] {
        api.get(&format!("{volume}/pages/1/image?{query}"))
            .refuses(422, "invalid");
    }
    assert!(api.get(&format!("{volume}/text")).is(200).text().contains(text));
    assert!(
        api.get(&format!("{volume}/pages/1/pagexml"))
            .is(200)
            .text()
            .contains("<PcGts")
    );
    assert_eq!(api.get(&format!("{volume}/parquet")).is(200).body[..4], *b"PAR1");
    for (file, begins) in [("alto", "<alto"), ("hocr", "<html")] {
        let read = api.get(&format!("{volume}/pages/1/{file}")).is(200).text();
        assert!(read.contains(begins) && read.contains("བ"), "{file}: {read}");
    }
    let lines = api.get(&format!("{volume}/lines")).is(200).text();
    let first: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    assert_eq!(first["text"], text);

    let manifest = api
        .get(&format!("/jobs/{JOB}/iiif/W1-I0/manifest.json"))
        .is(200)
        .json();
    let root = format!("http://{}/api/v1", api.address);
    let below = |id: &Value| id.as_str().unwrap().strip_prefix(&root).unwrap().to_owned();
    assert_eq!(
        below(&manifest["id"]),
        format!("/jobs/{JOB}/iiif/W1-I0/manifest.json")
    );
    let canvas = &manifest["items"][0];
    let annotations = api.get(&below(&canvas["annotations"][0]["id"])).is(200).json();
    assert_eq!(annotations["items"][0]["body"]["value"], text);
    let painting = api
        .get(&below(&canvas["items"][0]["items"][0]["body"]["id"]))
        .is(200);
    assert_eq!(painting.body, image.body);
    api.get(&format!("/jobs/{JOB}/iiif/W1-I0/images/none.jpg"))
        .refuses(404, "not_found");
    let stages = api.get(&format!("/jobs/{JOB}/stats")).is(200).json();
    let durations = stages["stages"][0]["durations"].as_array().unwrap();
    let runs: u64 = durations
        .iter()
        .map(|count| count["runs"].as_u64().unwrap())
        .sum();
    assert_eq!((runs, &durations[0]["under_s"]), (2, &json!(0.1)));
    // A syllable and no marks, of which the index has none.
    let syllables = text.split(|sign: char| "༄༅། ་".contains(sign));
    let wanted = syllables.max_by_key(|syllable| syllable.chars().count()).unwrap();
    let query: String = form_urlencoded::byte_serialize(wanted.as_bytes()).collect();
    let found = api
        .get(&format!("/search?query={query}&job={JOB}&wait=true"))
        .is(200)
        .json();
    assert_eq!(found["hits"][0]["volume"], "W1-I0", "{found:#}");
    assert_eq!(found["hits"][0]["page"], 1);

    let audit = api.get("/audit").is(200).json();
    let commands: Vec<&str> = audit["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["command"].as_str().unwrap())
        .collect();
    assert_eq!(commands[..2], ["job resume", "job pause"], "{audit:#}");
    assert_eq!(audit["entries"][0]["who"], "api-token");
    let refusals = audit["entries"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|entry| entry["refusal"].is_string());
    assert_eq!(refusals.count(), 8, "{audit:#}");
}

#[test]
fn the_interface_describes_every_command_and_the_console_is_served() {
    let site = Site::with_volumes(1, 1);
    let orchestrator = Node::start(&site, "orchestrator", &["127.0.0.1:1"]);
    let api = Api::of(&site, &orchestrator);
    let document = api.ask("GET", "/api/v1/openapi.json", &[], "").is(200).json();
    let paths = document["paths"].as_object().unwrap();
    for (path, item) in paths {
        for operation in item.as_object().unwrap().values() {
            assert!(
                operation["summary"].as_str().is_some_and(|text| !text.is_empty()),
                "{path}"
            );
            for parameter in operation["parameters"].as_array().unwrap() {
                assert!(parameter["schema"]["type"].is_string(), "{path} {parameter}");
            }
        }
    }
    let body = |command: &str| {
        let operation = &paths[&format!("/api/v1/jobs/{{job}}/{command}")]["post"];
        &operation["requestBody"]["content"]["application/json"]["schema"]
    };
    let rerun = body("rerun");
    assert_eq!(body("priority")["required"], json!(["priority"]));
    assert_eq!(rerun["required"], json!([]), "from may be left out");
    assert_eq!(rerun["properties"]["dry_run"]["type"], json!(["boolean", "null"]));
    assert!(
        paths["/api/v1/jobs"]["post"]["requestBody"]
            .to_string()
            .contains("volume")
    );
    assert!(!document.to_string().contains("volumes_from"));
    let references = document.to_string();
    for reference in references.split("\"#/components/schemas/").skip(1) {
        let name = reference.split('"').next().unwrap();
        assert!(document["components"]["schemas"][name].is_object(), "{name}");
    }

    let page = api.ask("GET", "/", &[], "").is(200);
    let head = page.head.to_lowercase();
    assert!(
        head.contains("content-security-policy: default-src 'none'"),
        "{head}"
    );
    assert!(head.contains("text/html"), "{head}");
    for link in page
        .text()
        .split(['"'])
        .filter(|part| part.starts_with("/assets/"))
    {
        api.ask("GET", link, &[], "").is(200);
    }
    api.ask("GET", "/api/v1/nothing", &[], "")
        .refuses(404, "not_found");
}
