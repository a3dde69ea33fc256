//! The role entity as an operator runs it: a table of somebody else's, a service, and what it tells by the webhook.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;
use parkhang_service::webhook::sign;
use parkhang_state::EmbeddedPostgres;
use parkhang_test_support::Wait;
use secrecy::SecretString;
use serde_json::{Value, json};
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions};
use tokio::runtime::Runtime;

use crate::api::{Answer, Api};
use crate::process::{Process, Ready, memory_of};
use crate::support::{Finished, finish, node, workspace};

pub(crate) const SECRET: &str = "hunter2";
const THEIRS: &str = "create table leads (
        id bigint generated always as identity primary key,
        email text, company_url text, account_id text, created_at timestamptz not null default now()
    );
    insert into leads (email, company_url) values ('a@a.example', 'https://a.example'), ('b@b.example', 'https://b.example');";

/// Service that takes every job, calls it by its stage and row, and never says by itself that it is over. It ends with the test.
pub(crate) fn service() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            serve(stream.unwrap());
        }
    });
    url
}

fn serve(mut stream: TcpStream) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let (mut length, mut authorized) = (0, false);
    let mut line = String::new();
    while reader.read_line(&mut line).unwrap_or_default() > 2 {
        let head = line.to_lowercase();
        if let Some(value) = head.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        authorized |= head.trim() == "authorization: bearer token-of-llm";
        line.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let answer = match serde_json::from_slice::<Value>(&body) {
        Ok(body) if authorized => {
            json!({"jobId": format!("{}-{}", body["task"].as_str().unwrap(), body["lead"])})
        }
        Ok(_) => json!({"error": "who asks?"}),
        Err(_) => json!({"status": "running"}),
    };
    let answer = answer.to_string();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        answer.len()
    );
    // Fails when the node has been stopped meanwhile.
    let _ = stream.write_all((head + &answer).as_bytes());
}

struct World {
    runtime: Runtime,
    folder: tempfile::TempDir,
    options: PgConnectOptions,
    /// Database of the cluster, where the table is not in it.
    apart: Option<PgConnectOptions>,
    llm: String,
    _server: EmbeddedPostgres,
}

impl World {
    fn new() -> Self {
        let runtime = Runtime::new().unwrap();
        let server = EmbeddedPostgres::temporary().unwrap();
        let options = runtime.block_on(server.create_database("crm")).unwrap();
        let world = Self {
            runtime,
            folder: tempfile::tempdir().unwrap(),
            options,
            apart: None,
            llm: service(),
            _server: server,
        };
        world.run(THEIRS);
        world
    }

    /// The same, with the table in a database of its own.
    fn apart() -> Self {
        let mut world = Self::new();
        let cluster = world._server.create_database("cluster");
        world.apart = Some(world.runtime.block_on(cluster).unwrap());
        world
    }

    fn run(&self, script: &str) {
        self.runtime.block_on(async {
            let mut connection = self.options.connect().await.unwrap();
            let script = AssertSqlSafe(script.to_owned());
            sqlx::raw_sql(script).execute(&mut connection).await.unwrap();
        });
    }

    fn command<const N: usize>(&self, arguments: [&str; N]) -> Command {
        let mut command = node(arguments);
        let table = self.options.to_url_lossy();
        let cluster = self.apart.as_ref().map(ConnectOptions::to_url_lossy);
        if cluster.is_some() {
            command.env("LEADS_DATABASE_URL", table.as_str());
        }
        command
            .arg("--config-file")
            .arg(workspace().join("docs/examples/leads.toml"))
            .env("DATABASE_URL", cluster.unwrap_or(table).as_str())
            .env("LLM_URL", &self.llm)
            .env("LLM_AUTH_TOKEN", "token-of-llm")
            .env("WEBHOOK_SECRET", SECRET)
            .env("PARKHANG_NODE__STATE_DIR", self.folder.path());
        command
    }

    fn status(&self) -> Value {
        let mut status = finish(self.command(["entities", "status", "leads", "--json"]))
            .exits(0)
            .json();
        status["stages"].take()
    }

    fn start(&self) -> (Process, Ready) {
        let mut command = self.command(["--role", "entity", "--entity", "leads"]);
        for setting in ["health.listen=127.0.0.1:0", "webhook.listen=127.0.0.1:0"] {
            command.args(["--set", setting]);
        }
        let mut process = Process::spawn({
            command.stdout(Stdio::piped());
            command
        });
        let mut line = String::new();
        BufReader::new(process.stdout()).read_line(&mut line).unwrap();
        let ready = line.strip_prefix("READY ").unwrap_or_else(|| panic!("{line:?}"));
        (process, Ready(ready.trim().to_owned()))
    }
}

/// Message of a service, signed with a secret.
pub(crate) fn tell(address: &str, secret: &str, message: &Value) -> Answer {
    let body = message.to_string();
    let now = chrono::Utc::now().timestamp().to_string();
    let signature = sign(&SecretString::from(secret), &now, body.as_bytes());
    let headers = [format!("X-Timestamp: {now}"), format!("X-Signature: {signature}")];
    let api = Api {
        address: address.to_owned(),
        token: String::new(),
    };
    api.ask(
        "POST",
        "/job-complete",
        &headers.each_ref().map(String::as_str),
        &body,
    )
}

fn said(done: &Finished) -> &str {
    done.stdout.trim_end()
}

/// Rows: 221, 225, 230, 232, 233, 238, 239, 240, 244, 245.
#[test]
fn rows_of_a_table_go_through_services_that_tell_of_their_end() {
    let world = World::new();
    let lacking = finish(world.command(["entities", "check", "leads"])).exits(1);
    assert!(
        said(&lacking).contains("there is no column scrape_status text\n"),
        "{lacking:?}"
    );
    let schema = finish(world.command(["entities", "schema", "leads"])).exits(0);
    world.run(&schema.stdout);
    let checked = finish(world.command(["entities", "check", "leads"])).exits(0);
    assert_eq!(said(&checked), "leads: the table has all that its pipeline needs");

    let (mut process, ready) = world.start();
    let address = ready.said("webhook=http://").to_owned();
    // The stage begins where the test can follow it.
    let triggered =
        finish(world.command(["entities", "trigger", "leads", "--id", "2", "--stage", "intel"])).exits(0);
    assert_eq!(said(&triggered), "1 row queued for intel");
    let started = |stages: &Value| stages[1]["started"] == 1;
    Wait::until("the row is started").sees(|| world.status(), started);

    let ended = |stage: &str| {
        json!({
            "stage": stage, "leadId": 2, "jobId": format!("{stage}-2"), "status": "completed", "result": {"text": "hello"},
        })
    };
    let processed = json!({"status": "processed"});
    let refused = tell(&address, "other", &ended("intel")).is(401).json();
    assert_eq!(refused["message"], "the signature is not that of the body");
    tell(&address, SECRET, &ended("subject")).is(404);
    for _ in 0..2 {
        assert_eq!(tell(&address, SECRET, &ended("intel")).is(200).json(), processed);
    }
    // The next stage was queued by it, and submitted with what was found so far.
    let started = |stages: &Value| stages[2]["started"] == 1;
    let stages = Wait::until("the next stage is started").sees(|| world.status(), started);
    assert_eq!(stages[1]["completed"], 1);
    let broken = json!({"stage": "strategy", "leadId": 2, "jobId": "strategy-2", "status": "failed", "error": "403 Forbidden"});
    assert_eq!(tell(&address, SECRET, &broken).is(200).json(), processed);
    assert_eq!(world.status()[2]["failed"], 1);
    let retried = finish(world.command(["entities", "retry", "leads", "--stage", "strategy"])).exits(0);
    assert_eq!(said(&retried), "1 row queued for strategy");

    let audit = finish(world.command(["audit", "list", "--json"])).exits(0).json();
    let entries = audit["entries"].as_array().unwrap();
    let of = |command: &str| entries.iter().find(|entry| entry["command"] == command).unwrap();
    assert_eq!(
        of("job-complete")["refusal"],
        "the signature is not that of the body"
    );
    assert!(of("entities trigger")["refusal"].is_null());
    process.signal(Signal::SIGTERM);
    assert_eq!(process.wait().code(), Some(0));
    let stuck = finish(world.command(["entities", "stuck", "leads", "--json"]))
        .exits(0)
        .json();
    assert_eq!(stuck["stages"][1]["queued"], 0);
}

/// Rows: 225, 242.
#[test]
fn a_table_may_be_in_a_database_of_its_own() {
    let world = World::apart();
    let schema = finish(world.command(["entities", "schema", "leads"])).exits(0);
    world.run(&schema.stdout);
    finish(world.command(["entities", "check", "leads"])).exits(0);
    let (mut process, ready) = world.start();
    finish(world.command(["entities", "trigger", "leads", "--id", "2", "--stage", "intel"])).exits(0);
    let started = |stages: &Value| stages[1]["started"] == 1;
    Wait::until("the row is started").sees(|| world.status(), started);
    let ended =
        json!({"stage": "intel", "leadId": 2, "jobId": "intel-2", "status": "completed", "result": 1});
    tell(ready.said("webhook=http://"), SECRET, &ended).is(200);
    let tables = |options: &PgConnectOptions| -> Vec<String> {
        world.runtime.block_on(async {
            let mut connection = options.connect().await.unwrap();
            let tables = "select tablename::text from pg_tables where schemaname = 'public' and tablename in ('leads', 'jobs')";
            sqlx::query_scalar(tables).fetch_all(&mut connection).await.unwrap()
        })
    };
    assert_eq!(tables(&world.options), ["leads"], "nothing of the cluster");
    assert_eq!(tables(world.apart.as_ref().unwrap()), ["jobs"]);
    process.signal(Signal::SIGTERM);
    assert_eq!(process.wait().code(), Some(0));
}

/// Services, or anybody, post 100 MiB to the webhook, many at once: each is refused, and the process holds what it may hold and no more.
/// Rows: 230.
#[test]
fn bodies_of_100_mib_are_refused_by_the_webhook_in_bounded_memory() {
    const BODY: usize = 100 << 20;
    const AT_ONCE: usize = 16;
    let world = World::new();
    let schema = finish(world.command(["entities", "schema", "leads"])).exits(0);
    world.run(&schema.stdout);
    let (process, ready) = world.start();
    let address = ready.said("webhook=http://").to_owned();
    let before = memory_of(process.id());
    let posts: Vec<_> = (0..AT_ONCE)
        .map(|number| {
            let address = address.clone();
            std::thread::spawn(move || post_much(&address, BODY, number % 2 == 0))
        })
        .collect();
    for post in posts {
        let (taken, answer) = post.join().unwrap();
        assert!(taken < BODY, "the whole body was taken");
        // The connection may break before the answer is read.
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1.1 413 "),
            "{answer}"
        );
    }
    let after = memory_of(process.id());
    // Eight bodies of the largest size, which is 8 MiB, and as much again for what the allocator keeps.
    assert!(after < before + (128 << 10), "{before} KiB, then {after} KiB");
    let unknown = json!({"stage": "scrape", "leadId": 2, "jobId": "x", "status": "completed", "result": 1});
    tell(&address, SECRET, &unknown).is(404);
}

/// Posts so many bytes, with their number in the head or in chunks, as far as they are taken. Returns how many were, and the answer.
fn post_much(address: &str, bytes: usize, has_length: bool) -> (usize, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    let framing = if has_length {
        format!("content-length: {bytes}")
    } else {
        "transfer-encoding: chunked".to_owned()
    };
    write!(
        stream,
        "POST /job-complete HTTP/1.1\r\nhost: {address}\r\n{framing}\r\n\r\n"
    )
    .unwrap();
    let mut piece = vec![b'x'; 64 << 10];
    let size = piece.len();
    if !has_length {
        piece = [format!("{size:x}\r\n").as_bytes(), &piece, b"\r\n"].concat();
    }
    let mut taken = 0;
    while taken < bytes && stream.write_all(&piece).is_ok() {
        taken += size;
    }
    let mut answer = String::new();
    // Fails where the connection is broken.
    let _ = stream.read_to_string(&mut answer);
    (taken, answer)
}
