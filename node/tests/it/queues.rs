//! Nodes that take their work from queues, of a server of other people's: processes that meet in the database and the queues.

use std::collections::BTreeSet;
use std::process::Command;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use parkhang_test_s3::external::{Server, ministack};
use parkhang_test_support::Wait;
use serde_json::{Value, json};

use crate::named_models::scraped;
use crate::nodes::{JOB, Node, OF_A_JOB, Site, assert_finished, runs_at, undisturbed};
use crate::support::finish;
use crate::watched::{get, logging_to};
use crate::workers::Fleet;

/// A site whose work goes through queues.
pub(crate) struct Queues {
    pub(crate) site: Site,
    server: Server,
}

impl Queues {
    fn with_volumes(volumes: u8, pages: u8) -> Self {
        let mut queues = Self::beside_volumes(volumes, pages);
        queues.site.settings.extend([
            ("source.kind", "sqs".to_owned()),
            ("source.sqs.visibility", "30s".to_owned()),
        ]);
        queues
    }

    /// A site beside a server of queues that its work does not go through.
    pub(crate) fn beside_volumes(volumes: u8, pages: u8) -> Self {
        let server = Server::start(ministack("sqs"));
        let mut site = Site::with_volumes(volumes, pages);
        site.settings.extend([
            ("source.poll", "500ms".to_owned()),
            ("source.sqs.endpoint", server.url.clone()),
            ("source.sqs.region", "us-east-1".to_owned()),
            ("source.sqs.wait", "1s".to_owned()),
        ]);
        site.variables.extend([
            ("AWS_ACCESS_KEY_ID", "test".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", "test".to_owned()),
        ]);
        Self { site, server }
    }

    pub(crate) fn json(&self, words: &[&str]) -> Value {
        let mut command = self.site.command_of(words);
        command.arg("--json");
        finish(command).exits(0).json()
    }

    /// Runs a script with boto3 against the server; returns what it prints.
    pub(crate) fn boto3(&self, script: &str) -> String {
        let mut python = Command::new(std::env::var("PYTHON").unwrap());
        python
            .args(["-c", script])
            .env("ENDPOINT", &self.server.url)
            .env("AWS_ACCESS_KEY_ID", "test")
            .env("AWS_SECRET_ACCESS_KEY", "test");
        finish(python).exits(0).stdout
    }
}

pub(crate) const CLIENT: &str = "import boto3, json, os
sqs = boto3.client('sqs', endpoint_url=os.environ['ENDPOINT'], region_name='us-east-1')
url = lambda name: sqs.get_queue_url(QueueName=name)['QueueUrl']
";

/// Rows: 52, 100.
#[test]
#[ignore = "needs ministack beside $PYTHON: tests/python/requirements.txt"]
fn a_job_survives_the_death_of_a_node_and_of_its_publisher_over_sqs() {
    let queues = Queues::with_volumes(3, 4);
    let site = &queues.site;
    let created = queues.json(&["queue", "create"]);
    let names: Vec<&str> = created["queues"]
        .as_array()
        .unwrap()
        .iter()
        .map(|queue| queue["queue"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "ocr-line-detection.fifo",
            "ocr-line-extraction.fifo",
            "ocr-ocr.fifo",
            "ocr-clean.fifo",
            "ocr-combine.fifo",
            "ocr-page-text.fifo",
            "ocr-page-ocr.fifo",
            "ocr-doctags.fifo",
            "ocr-line-blocks.fifo",
            "ocr-chunk.fifo",
            "ocr-embed.fifo",
            "ocr-index.fifo",
            "ocr-reduce.fifo"
        ]
    );
    assert_eq!(created["queues"][0]["max_receives"], 5);
    assert_eq!(
        queues.json(&["queue", "list"]),
        created,
        "what is there is left as it is"
    );

    let leader = Node::start(site, "orchestrator", &[]);
    let doomed = Node::start(site, "cpu,gpu", &[]);
    finish(site.command(["job", "create", JOB])).exits(0);
    Wait::until("a stage runs on the node that will die")
        .sees(|| site.tasks(), |tasks| runs_at(tasks, doomed.name()));
    doomed.kill();
    leader.kill();
    let _leader = Node::start(site, "orchestrator", &[]);
    let _survivors = ["gpu", "cpu"].map(|role| Node::start(site, role, &[]));
    assert_finished(site, &undisturbed(site));
    let is_empty = |stats: &Value| {
        let queues = stats["queues"].as_array().unwrap();
        queues
            .iter()
            .all(|queue| queue["visible"] == 0 && queue["dead_letters"] == 0)
    };
    Wait::until("no message is left").sees(|| queues.json(&["queue", "stats"]), is_empty);
}

/// Messages of a program that knows nothing of outboxes, generations and versions, and counts as it sees them.
/// Rows: 54, 55.
#[test]
#[ignore = "needs ministack and boto3 beside $PYTHON: tests/python/requirements.txt"]
fn messages_of_another_program_are_worked_on_over_sqs() {
    let queues = Queues::with_volumes(1, 2);
    let site = &queues.site;
    finish(site.command(["queue", "create"])).exits(0);
    // Nobody publishes: the job waits, and another program tells of its task.
    finish(site.command(["job", "create", JOB])).exits(0);
    let _worker = Node::start(site, "gpu", &[]);
    let send = format!(
        "{CLIENT}
body = dict(task_id=1, job_id=1, volume_id=1, bdrc_w_id='W1', bdrc_i_id='I0', attempt=1, job_key='{JOB}')
sqs.send_message(QueueUrl=url('ocr-line-detection.fifo'), MessageBody=json.dumps(body), MessageGroupId='1',
                 MessageDeduplicationId='1-line_detection-1')
sqs.send_message(QueueUrl=url('ocr-line-detection.fifo'), MessageBody='no JSON', MessageGroupId='junk',
                 MessageDeduplicationId='junk')"
    );
    queues.boto3(&send);
    Wait::until("the first stage is done").sees(
        || site.tasks(),
        |tasks| tasks["tasks"][0]["stage"] == "line_extraction",
    );
    let counts = format!(
        "{CLIENT}
for name in ['ocr-line-detection.fifo', 'ocr-line-detection-dlq.fifo']:
    counts = sqs.get_queue_attributes(QueueUrl=url(name), AttributeNames=['All'])['Attributes']
    print(counts['ApproximateNumberOfMessages'], counts['ApproximateNumberOfMessagesNotVisible'])"
    );
    Wait::until("the message of the task is deleted, and the other one put aside")
        .sees(|| queues.boto3(&counts), |counts| counts == "0 0\n1 0\n");
    let reason = format!(
        "{CLIENT}
letter = sqs.receive_message(QueueUrl=url('ocr-line-detection-dlq.fifo'), MessageAttributeNames=['All'])['Messages'][0]
print(letter['MessageAttributes']['DeadLetterReason']['StringValue'])"
    );
    let reason = queues.boto3(&reason);
    assert!(reason.contains("no message about a task"), "{reason}");
}

/// Metric of the tasks that wait for a GPU, as an autoscaler counts them.
const BACKLOG: &str = "parkhang_autoscaler_backlog{hardware=\"gpu\"}";

/// An autoscaler that has looked at the queues that there are, and found them empty.
fn autoscaler(site: &Site, settings: &[&str]) -> Node {
    let autoscaler = Node::start_with(site, "autoscaler", &[], |command| {
        command.args(["--source", "sqs"]);
        let usual = [
            "launcher.kind=local",
            "launcher.interval=300ms",
            "autoscaler.enabled=true",
        ];
        for setting in usual.iter().chain(settings) {
            command.args(["--set", setting]);
        }
    });
    Wait::until("the queues were looked at")
        .sees(|| scraped(&autoscaler, BACKLOG), |backlog| *backlog == Some(0.0));
    autoscaler
}

/// Nobody but a process that knows queues and a launcher decides how many workers there are: none, as many as messages need, and none
/// again once the queues have been empty for two minutes.
/// Rows: 155.
#[test]
#[ignore = "needs ministack beside $PYTHON, and three minutes: tests/python/requirements.txt"]
fn a_fleet_comes_with_messages_and_goes_with_them_over_sqs() {
    let queues = Queues::with_volumes(3, 2);
    let site = &queues.site;
    finish(site.command(["queue", "create"])).exits(0);
    let fleet = Fleet(site);
    let workers = || fleet.names();
    let settings = [
        "autoscaler.scale_out_cooldown=0s",
        "autoscaler.scale_in_cooldown=1s",
        "autoscaler.gpu.cap=2",
        "autoscaler.cpu.cap=1",
    ];
    let autoscaler = autoscaler(site, &settings);
    assert_eq!(workers(), [""; 0], "nothing to do, nobody there");

    let leader = Node::start(site, "orchestrator", &[]);
    finish(site.command(["job", "create", JOB])).exits(0);
    let mut seen = BTreeSet::new();
    let finished = |status: &Value| status["status"] != "running";
    let status = Wait::until("the job has ended").at_most(OF_A_JOB).sees(
        || {
            seen.extend(workers());
            queues.json(&["job", "status", JOB])
        },
        finished,
    );
    assert_eq!(status["status"], "completed", "{status:#}");
    assert_finished(site, &undisturbed(site));
    let seen: Vec<&str> = seen.iter().map(String::as_str).collect();
    assert!(
        seen.contains(&"launched-gpu-1") && seen.contains(&"launched-cpu-1"),
        "{seen:?}"
    );
    assert!(seen.len() <= 3, "no more than the caps: {seen:?}");

    Wait::until("the fleet is gone")
        .at_most(OF_A_JOB)
        .sees(workers, Vec::is_empty);
    assert_eq!(scraped(&autoscaler, BACKLOG), Some(0.0));
    assert_eq!(autoscaler.stop(), Some(0));
    assert_eq!(leader.stop(), Some(0));
}

/// Rows: 143.
#[test]
#[ignore = "needs ministack beside $PYTHON: tests/python/requirements.txt"]
fn a_purge_loses_no_work_over_sqs() {
    let queues = Queues::with_volumes(2, 1);
    let site = &queues.site;
    finish(site.command(["queue", "create"])).exits(0);
    let _leader = Node::start(site, "orchestrator", &[]);
    finish(site.command(["job", "create", JOB])).exits(0);
    let waiting = |stats: &Value| stats["queues"][0]["visible"] == 2;
    Wait::until("the volumes are published").sees(|| queues.json(&["queue", "stats"]), waiting);
    let purged = queues.json(&["queue", "purge", "line_detection"]);
    assert_eq!(
        purged,
        json!({
            "purpose": "stage",
            "serves": "line_detection",
            "queue": "ocr-line-detection.fifo",
            "published_again": 2
        })
    );
    let _worker = Node::start(site, "cpu,gpu", &[]);
    assert_finished(site, &undisturbed(site));
}

/// Rows: 52.
#[test]
#[ignore = "needs ministack and boto3 beside $PYTHON: tests/python/requirements.txt"]
fn a_queue_that_is_missing_holds_up_no_other_over_sqs() {
    let queues = Queues::with_volumes(2, 1);
    let site = &queues.site;
    finish(site.command(["queue", "create"])).exits(0);
    queues.boto3(&format!(
        "{CLIENT}sqs.delete_queue(QueueUrl=url('ocr-reduce.fifo'))"
    ));
    let _leader = Node::start(site, "orchestrator", &[]);
    finish(site.command(["job", "create", JOB])).exits(0);
    let count = format!(
        "{CLIENT}
of = sqs.get_queue_attributes(QueueUrl=url('ocr-line-detection.fifo'), AttributeNames=['ApproximateNumberOfMessages'])
print(of['Attributes']['ApproximateNumberOfMessages'])"
    );
    Wait::until("the volumes are published").sees(|| queues.boto3(&count), |count| count.trim() == "2");
}

/// A node takes from the queues that are there, says which is not, and goes on with that one once it has been made.
/// Rows: 52.
#[test]
#[ignore = "needs ministack and boto3 beside $PYTHON: tests/python/requirements.txt"]
fn a_node_works_on_the_queues_that_are_there_and_finds_the_missing_one_over_sqs() {
    let queues = Queues::with_volumes(2, 1);
    let site = &queues.site;
    finish(site.command(["queue", "create"])).exits(0);
    let delete = format!("{CLIENT}sqs.delete_queue(QueueUrl=url('ocr-ocr.fifo'))");
    queues.boto3(&delete);
    let _leader = Node::start(site, "orchestrator", &[]);
    let log = site.path("work.log");
    let worker = Node::start_with(site, "cpu,gpu", &[], logging_to(&log));
    let ready = |node: &Node| {
        let (status, body) = get(node.health(), "/readyz");
        (status, serde_json::from_str::<Value>(&body).unwrap())
    };
    finish(site.command(["job", "create", JOB])).exits(0);
    let why = Wait::until("the volume has come as far as it can, and the reason is known").sees(
        || queues.json(&["tasks", "why", JOB, "W1-I1"]),
        |why| why["blocker"] == "no_queue",
    );
    let reason = why["reason"].as_str().unwrap();
    assert!(
        reason.starts_with("the queue ocr-ocr.fifo of stage ocr does not exist"),
        "{reason}"
    );
    assert!(
        why["advice"].as_str().unwrap().contains("node queue create"),
        "{why:#}"
    );
    let (status, told) = ready(&worker);
    assert_eq!(
        (status, &told["without_queue"]),
        (503, &json!(["ocr"])),
        "{told:#}"
    );
    let stats = queues.json(&["queue", "stats"]);
    assert_eq!(stats["missing"][0]["queue"], "ocr-ocr.fifo", "{stats:#}");
    let cluster = queues.json(&["cluster", "status"]);
    assert!(
        cluster["alarms"].to_string().contains("node queue create"),
        "{cluster:#}"
    );

    finish(site.command(["queue", "create"])).exits(0);
    assert_finished(site, &undisturbed(site));
    assert_eq!(ready(&worker).0, 200);
    let log = std::fs::read_to_string(log).unwrap();
    let said = |words: &str| log.lines().filter(|line| line.contains(words)).count();
    assert_eq!(
        said("the queue ocr-ocr.fifo of stage ocr cannot be opened"),
        1,
        "{log}"
    );
    assert_eq!(said("the queue is there now"), 1, "{log}");
}

/// Rows: 155.
#[test]
#[ignore = "needs ministack and boto3 beside $PYTHON: tests/python/requirements.txt"]
fn an_autoscaler_goes_by_the_queues_that_are_there_over_sqs() {
    let queues = Queues::with_volumes(1, 1);
    let site = &queues.site;
    finish(site.command(["queue", "create"])).exits(0);
    let delete = format!("{CLIENT}sqs.delete_queue(QueueUrl=url('ocr-ocr.fifo'))");
    queues.boto3(&delete);
    let autoscaler = autoscaler(site, &[]);
    let (status, told) = get(autoscaler.health(), "/readyz");
    assert!(
        status == 503 && told.contains("\"without_queue\":[\"ocr\"]"),
        "{told}"
    );
    finish(site.command(["queue", "create"])).exits(0);
    Wait::until("the queue is found").sees(
        || get(autoscaler.health(), "/readyz"),
        |(status, _)| *status == 200,
    );
    assert_eq!(autoscaler.stop(), Some(0));
}

/// What an operator is shown of queues: metrics, alarms, the overview, and of a volume why it waits.
/// Rows: 152, 153, 154.
#[test]
#[ignore = "needs ministack and boto3 beside $PYTHON: tests/python/requirements.txt"]
fn an_operator_sees_what_is_in_the_queues_over_sqs() {
    let mut queues = Queues::with_volumes(3, 1);
    // The node is frozen and must not count as lost.
    queues.site.settings.extend([
        ("cluster.heartbeat", "30s".to_owned()),
        ("cluster.lease", "120s".to_owned()),
    ]);
    let site = &queues.site;
    finish(site.command(["queue", "create"])).exits(0);
    let letter = format!(
        "{CLIENT}
sqs.send_message(QueueUrl=url('ocr-line-detection-dlq.fifo'), MessageBody='no JSON', MessageGroupId='junk',
                 MessageDeduplicationId='junk')"
    );
    queues.boto3(&letter);
    let leader = Node::start(site, "orchestrator", &[]);
    let of_queue = "{stage=\"line_detection\",standing_job=\"\",queue=\"ocr-line-detection.fifo\"}";
    let level = |name: &str| scraped(&leader, &format!("parkhang_queue_{name}{of_queue}"));
    Wait::until("the queues were looked at").sees(|| level("dead_letters"), |letters| *letters == Some(1.0));
    for name in ["visible", "in_flight", "delayed", "oldest_published_seconds"] {
        assert_eq!(level(name), Some(0.0), "{name}");
    }
    let alarm = "parkhang_alarm{stage=\"line_detection\",standing_job=\"\",alarm=\"dead_letters\"}";
    assert_eq!(scraped(&leader, alarm), Some(1.0));
    let cluster = queues.json(&["cluster", "status"]);
    let mut shown = cluster["queues"].as_array().unwrap().iter();
    let of_stage = shown.find(|queue| queue["serves"] == "line_detection").unwrap();
    assert_eq!(of_stage["dead_letters"], 1, "{cluster:#}");
    assert_eq!(of_stage["alarms"], json!(["dead_letters"]), "{cluster:#}");
    let alarms = cluster["alarms"].to_string();
    assert!(
        alarms.contains("1 message in the dead-letter queue of ocr-line-detection.fifo"),
        "{alarms}"
    );

    let worker = Node::start(site, "gpu", &[]);
    Wait::until("the worker has joined").sees(
        || queues.json(&["nodes", "list"]),
        |nodes| nodes["nodes"].to_string().contains(worker.name()),
    );
    // Whatever it was about to receive it has received by then.
    kill(Pid::from_raw(worker.id().cast_signed()), Signal::SIGSTOP).unwrap();
    finish(site.command(["job", "create", JOB])).exits(0);
    let why = Wait::until("the last volume waits in the queue").sees(
        || queues.json(&["tasks", "why", JOB, "W1-I2"]),
        |why| why["blocker"] == "in_queue",
    );
    let reason = why["reason"].as_str().unwrap();
    assert!(
        reason.starts_with("published, waiting in queue ocr-line-detection.fifo for ")
            && reason.contains(", 2 in front;"),
        "{reason}"
    );
    let stats = queues.json(&["queue", "stats"]);
    assert_eq!(stats["queues"][0]["dead_letters"], 1, "{stats:#}");
    assert!(stats["queues"][0]["oldest_s"].is_u64(), "{stats:#}");
    kill(Pid::from_raw(worker.id().cast_signed()), Signal::SIGCONT).unwrap();
}
