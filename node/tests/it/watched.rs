//! What a node tells those who watch it: READY, health, metrics, log lines.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use parkhang_test_support::Wait;
use serde_json::Value;

use crate::nodes::{JOB, Node, Site};
use crate::support::finish;

const STAGES: [&str; 4] = ["line_detection", "line_extraction", "ocr", "reduce"];

/// Status and body of the answer to a GET.
pub(crate) fn get(address: &str, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, body.to_owned())
}

/// Series of a page of metrics, each with its value.
struct Scrape(BTreeMap<String, f64>);

impl Scrape {
    fn of(node: &Node) -> Self {
        let (status, page) = get(node.health(), "/metrics");
        assert_eq!(status, 200);
        let series = page
            .lines()
            .filter(|line| !line.starts_with('#') && !line.is_empty());
        let series = series.map(|line| {
            let (name, value) = line.rsplit_once(' ').unwrap();
            (name.to_owned(), value.parse().unwrap())
        });
        Self(series.collect())
    }

    #[track_caller]
    fn value(&self, series: &str) -> f64 {
        *self
            .0
            .get(series)
            .unwrap_or_else(|| panic!("no {series}: {:#?}", self.0))
    }

    /// Over all series of a metric.
    fn sum(&self, metric: &str) -> f64 {
        let family = format!("{metric}{{");
        let of_metric = |name: &&String| *name == metric || name.starts_with(&family);
        let names = self.0.keys().filter(of_metric);
        names.map(|name| self.0[name]).sum()
    }
}

/// Rows: F39.
#[test]
fn the_counters_of_a_cluster_add_up_to_what_its_job_did() {
    let site = Site::with_volumes(2, 3);
    let led = site.path("lead.log");
    let orchestrator = Node::start_with(&site, "orchestrator", &["127.0.0.1:1"], logging_to(&led));
    assert_eq!(get(orchestrator.health(), "/healthz"), (200, "ok\n".to_owned()));
    let ready = |node: &Node| {
        let (status, body) = get(node.health(), "/readyz");
        (status, serde_json::from_str::<Value>(&body).unwrap())
    };
    let (status, _) = Wait::until("the orchestrator leads")
        .sees(|| ready(&orchestrator), |(_, body)| body["leads"] == true);
    assert_eq!(status, 200);

    let log = site.path("work.log");
    let worker = Node::start_with(&site, "cpu,gpu", &[orchestrator.address()], logging_to(&log));
    Wait::until("the node has joined").sees(|| ready(&worker), |(status, _)| *status == 200);
    finish(site.command(["job", "create", JOB])).exits(0);
    finish(site.command(["job", "status", JOB, "--wait"])).exits(0);

    let (reported, done) = (Scrape::of(&orchestrator), Scrape::of(&worker));
    for stage in STAGES {
        let recorded =
            format!("parkhang_reports_total{{stage=\"{stage}\",verdict=\"done\",recording=\"recorded\"}}");
        assert_eq!(reported.value(&recorded), 2.0);
        let runs = format!("parkhang_stage_runs_total{{stage=\"{stage}\",outcome=\"done\"}}");
        assert_eq!(done.value(&runs), 2.0);
        let started = done.value(&format!("parkhang_stage_runs_started_total{{stage=\"{stage}\"}}"));
        let accepted = reported.value(&format!(
            "parkhang_assignments_total{{stage=\"{stage}\",answer=\"accepted\"}}"
        ));
        assert_eq!(started, accepted, "{stage}");
    }
    for stage in &STAGES[..3] {
        let pages = format!("parkhang_pages_total{{stage=\"{stage}\",outcome=\"succeeded\"}}");
        assert_eq!(done.value(&pages), 6.0);
        assert_eq!(
            done.value(&format!("parkhang_page_seconds_count{{stage=\"{stage}\"}}")),
            6.0
        );
    }
    assert_eq!(reported.sum("parkhang_assign_seconds_count"), 8.0);
    assert_eq!(
        reported.sum("parkhang_stage_advance_seconds_count"),
        6.0,
        "each volume has three steps"
    );
    assert_eq!(
        reported.value("parkhang_jobs_settled_total{status=\"completed\"}"),
        1.0
    );
    // Those of the job's pipeline, and `page_text`, `page_ocr`, `doctags`, `combine`, `line_blocks`, `chunk`, `embed` and `index`, as a node has pools of all stages of its roles.
    assert_eq!(reported.sum("parkhang_pools"), 12.0);
    // A lease and its end for each of eight stage runs; what a pool had no room for after all is given back.
    let returned = reported.sum("parkhang_assignments_total") - 8.0;
    assert_eq!(
        reported.value("parkhang_mirror_batch_changes_sum"),
        16.0 + 2.0 * returned
    );
    assert_eq!(
        reported.value("parkhang_mirror_batch_changes_count"),
        reported.value("parkhang_mirror_commit_seconds_count")
    );
    assert!(done.value("parkhang_storage_bytes_total{direction=\"written\"}") > 0.0);
    assert!(done.sum("parkhang_inference_batch_requests_sum") >= 6.0);
    assert!(done.value("process_resident_memory_bytes") > 1e6);
    assert_eq!(done.value("parkhang_connections_total"), 1.0);

    let leader = orchestrator.name().to_owned();
    orchestrator.kill();
    Wait::until("the node misses its orchestrator").sees(|| ready(&worker), |(status, _)| *status == 503);
    assert_lines_name_their_work(&log, worker.name(), &["stage starts", "stage ended"]);
    assert_lines_name_their_work(&led, &leader, &["report recorded"]);
}

pub(crate) fn logging_to(path: &Path) -> impl FnOnce(&mut Command) {
    let log = File::create(path).unwrap();
    move |command| {
        command.args(["--log-format", "json"]).stderr(log);
    }
}

fn assert_lines_name_their_work(log: &Path, node: &str, messages: &[&str]) {
    let log = std::fs::read_to_string(log).unwrap();
    let lines: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(lines.iter().all(|line| line["node"] == node), "{log}");
    for message in messages {
        let reported: Vec<&Value> = lines.iter().filter(|line| line["message"] == *message).collect();
        assert_eq!(reported.len(), 8, "{message}: {log}");
        for line in reported {
            assert_eq!(line["job"], JOB);
            assert!(STAGES.contains(&line["stage"].as_str().unwrap()), "{line}");
            for field in ["task", "volume", "attempt", "generation"] {
                assert!(line[field].is_string(), "{field}: {line}");
            }
        }
    }
}

#[test]
fn whoever_waits_is_told_that_a_node_is_ready() {
    let site = Site::with_volumes(1, 1);
    let notify = site.path("notify");
    let manager = UnixDatagram::bind(&notify).unwrap();
    let ready = site.path("ready");
    // A shell opens the file descriptor that the node is told of.
    let node = site.command(["--role", "orchestrator", "--ready-fd", "7"]);
    let mut shell = Command::new("sh");
    shell
        .current_dir(site.path(""))
        .args(["-c", "exec \"$@\" 7>ready", "sh"])
        .arg(node.get_program())
        .args(node.get_args())
        .env_remove("DATABASE_URL")
        .env("NOTIFY_SOCKET", &notify)
        .stdout(Stdio::piped());
    let mut child = shell.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert!(line.starts_with("READY "), "{line:?}");
    let mut message = [0; 256];
    let length = manager.recv(&mut message).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();

    let health = line.split(' ').find_map(|word| word.strip_prefix("health="));
    assert!(
        health.is_some_and(|address| address.starts_with("127.0.0.1:")),
        "{line}"
    );
    assert_eq!(std::fs::read_to_string(ready).unwrap(), line);
    let message = std::str::from_utf8(&message[..length]).unwrap();
    assert!(message.lines().any(|line| line == "READY=1"), "{message}");
}

/// Takes spans as a collector does. Returns its endpoint.
fn collector() -> (String, Receiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let (sender, spans) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut request = BufReader::new(stream.unwrap());
            let mut length = 0;
            let mut line = String::new();
            while request.read_line(&mut line).unwrap() > 2 {
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                line.clear();
            }
            let mut body = vec![0; length];
            request.read_exact(&mut body).unwrap();
            request
                .get_mut()
                .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
                .unwrap();
            if sender.send(serde_json::from_slice(&body).unwrap()).is_err() {
                return;
            }
        }
    });
    (endpoint, spans)
}

fn text<'a>(attributes: &'a Value, key: &str) -> &'a str {
    let mut attributes = attributes.as_array().unwrap().iter();
    let attribute = attributes.find(|attribute| attribute["key"] == key).unwrap();
    attribute["value"]["stringValue"].as_str().unwrap()
}

#[test]
fn the_work_on_a_volume_is_one_trace_across_nodes() {
    let (endpoint, requests) = collector();
    let traced = || {
        let setting = format!("telemetry.otlp_endpoint={endpoint}");
        move |command: &mut Command| {
            command.args(["--set", &setting]);
        }
    };
    let site = Site::with_volumes(2, 1);
    let orchestrator = Node::start_with(&site, "orchestrator", &["127.0.0.1:1"], traced());
    let worker = Node::start_with(&site, "cpu,gpu", &[orchestrator.address()], traced());
    finish(site.command(["job", "create", JOB])).exits(0);
    finish(site.command(["job", "status", JOB, "--wait"])).exits(0);
    let (leader, workshop) = (orchestrator.name().to_owned(), worker.name().to_owned());
    for node in [worker, orchestrator] {
        assert_eq!(node.stop(), Some(0));
    }

    let mut traces: BTreeMap<String, Vec<(String, Value)>> = BTreeMap::new();
    for request in requests.try_iter() {
        let resource = &request["resourceSpans"][0];
        let node = text(&resource["resource"]["attributes"], "service.instance.id").to_owned();
        for span in resource["scopeSpans"][0]["spans"].as_array().unwrap() {
            let trace = span["traceId"].as_str().unwrap().to_owned();
            assert_eq!(trace.len(), 32);
            traces
                .entry(trace)
                .or_default()
                .push((node.clone(), span.clone()));
        }
    }
    assert_eq!(traces.len(), 2, "{traces:#?}");
    for spans in traces.values() {
        let of_node = |wanted: &str, name: &str| {
            let spans = spans
                .iter()
                .filter(|(node, span)| node == wanted && span["name"].as_str().unwrap().starts_with(name));
            spans.map(|(_, span)| span).collect::<Vec<_>>()
        };
        let (assigned, run) = (of_node(&leader, "assign "), of_node(&workshop, "run "));
        assert_eq!(run.len(), 4, "{spans:#?}");
        for span in &run {
            let parent = assigned
                .iter()
                .find(|assign| assign["spanId"] == span["parentSpanId"]);
            let stage = |span: &Value| text(&span["attributes"], "parkhang.stage").to_owned();
            assert_eq!(stage(parent.unwrap()), stage(span));
            let took = |edge: &str| span[edge].as_str().unwrap().parse::<u64>().unwrap();
            assert!(took("startTimeUnixNano") < took("endTimeUnixNano"));
        }
        let stages: Vec<&str> = run
            .iter()
            .map(|span| text(&span["attributes"], "parkhang.stage"))
            .collect();
        for stage in STAGES {
            assert!(stages.contains(&stage), "{stages:?}");
        }
    }
}

#[test]
fn an_orchestrator_that_stands_by_says_so_and_who_leads() {
    let site = Site::with_volumes(1, 1);
    let leader = Node::start(&site, "orchestrator", &["127.0.0.1:1"]);
    Wait::until("the first one leads").sees(
        || finish(site.command(["nodes", "list", "--json"])).exits(0).json(),
        |nodes| nodes["nodes"][0]["leads"] == true,
    );
    let path = site.path("standby.log");
    let log = File::create(&path).unwrap();
    let standby = Node::start_with(&site, "orchestrator", &["127.0.0.1:1"], |command| {
        command.stderr(log);
    });
    assert_eq!(standby.said(&format!("{},", leader.name())), "");
    let said = || std::fs::read_to_string(&path).unwrap();
    Wait::until("it waits in line").sees(said, |said| {
        said.contains("standing by: another orchestrator leads")
    });
    // From a second on a statement counts as slow.
    let waits = Instant::now();
    Wait::until("it has waited for long").sees(
        || {
            finish(site.command(["nodes", "list"])).exits(0);
            waits.elapsed()
        },
        |waited| *waited > Duration::from_millis(1500),
    );
    assert_eq!(standby.stop(), Some(0));
    let said = said();
    assert!(!said.contains("slow statement"), "{said}");
    let reported = "cluster.orchestrators does not have this one, 127.0.0.1:";
    assert!(said.contains(reported), "{said}");
}
