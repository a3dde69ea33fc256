//! Messages of the archive's programs, taken in and worked on by processes of ours, over a server of other people's.

use parkhang_test_support::Wait;
use serde_json::{Value, json};

use crate::named_models::scraped;
use crate::nodes::{JOB, Node, undisturbed};
use crate::queues::{CLIENT, Queues};
use crate::support::{assert_same_files, finish};

/// The queues of a job as `bec jobs create` makes them, and what `bec queue enqueue` sends.
const ARCHIVE: &str = "
def make_queues(job):
    letters = sqs.create_queue(
        QueueName=f'bec_{job}_dlq', tags={'Project': 'BEC'},
        Attributes={'MessageRetentionPeriod': '864000', 'ReceiveMessageWaitTimeSeconds': '20'})['QueueUrl']
    arn = sqs.get_queue_attributes(QueueUrl=letters, AttributeNames=['QueueArn'])['Attributes']['QueueArn']
    sqs.create_queue(
        QueueName=f'bec_{job}_tasks', tags={'Project': 'BEC'},
        Attributes={'MessageRetentionPeriod': '864000', 'ReceiveMessageWaitTimeSeconds': '20', 'VisibilityTimeout': '450',
                    'RedrivePolicy': json.dumps({'deadLetterTargetArn': arn, 'maxReceiveCount': '3'})})

def enqueue(job, volumes):
    entries = []
    for place, (w_id, i_id) in enumerate(volumes):
        text = lambda value: {'StringValue': value, 'DataType': 'String'}
        entries.append({'Id': str(place), 'MessageBody': json.dumps({'w_id': w_id, 'i_id': i_id}),
                        'MessageAttributes': {'w_id': text(w_id), 'i_id': text(i_id)}})
    sqs.send_message_batch(QueueUrl=url(f'bec_{job}_tasks'), Entries=entries)

def counts(job):
    for name in [f'bec_{job}_tasks', f'bec_{job}_dlq']:
        found = sqs.get_queue_attributes(QueueUrl=url(name), AttributeNames=['All'])['Attributes']
        print(found['ApproximateNumberOfMessages'], found['ApproximateNumberOfMessagesNotVisible'])
";

/// Runs a line of Python after those of the archive.
fn archive(queues: &Queues, line: &str) -> String {
    queues.boto3(&format!("{CLIENT}{ARCHIVE}{line}"))
}

fn with_state<'a>(tasks: &'a Value, state: &str) -> Vec<&'a Value> {
    let tasks = tasks["tasks"].as_array().unwrap();
    tasks.iter().filter(|task| task["state"] == state).collect()
}

/// The archive's own commands feed our nodes, whatever source these have: volumes are worked on once however often they are sent, only
/// what asks for no volume is left in the dead-letter queue, and a volume that is not there has a row that says so.
/// Rows: U14, U23, U29.
#[test]
#[ignore = "needs ministack and boto3 beside $PYTHON: tests/python/requirements.txt"]
fn messages_of_the_archive_are_worked_on_over_sqs() {
    let mut queues = Queues::beside_volumes(3, 2);
    let named = format!("{JOB}=bec_press_tasks");
    let source = ("source.kind", "postgres".to_owned());
    queues.site.settings.extend([("intake.queues", named), source]);
    let site = &queues.site;
    archive(&queues, "make_queues('press')");
    let mut settings = json!({
        "queues": [{
            "purpose": "standing_job",
            "serves": JOB,
            "queue": "bec_press_tasks",
            "visibility_s": 450,
            "retention_s": 864_000,
            "dead_letters": "bec_press_dlq",
            "max_receives": 3,
            "drift": [],
            "changed": []
        }],
        "missing": []
    });
    assert_eq!(queues.json(&["queue", "create"]), settings);
    assert_eq!(queues.json(&["queue", "list"]), settings);
    let change =
        "sqs.set_queue_attributes(QueueUrl=url('bec_press_tasks'), Attributes={'VisibilityTimeout': '30'})";
    archive(&queues, change);
    settings["queues"][0]["changed"] = json!([
        "bec_press_tasks: the visibility was 30 s and is 450 s now",
        "bec_press_dlq: the retention was 864000 s and is 1209600 s now",
        "bec_press_dlq: the visibility was 30 s and is 450 s now",
    ]);
    assert_eq!(queues.json(&["queue", "create", "--reconcile"]), settings);
    settings["queues"][0]["changed"] = json!([]);
    assert_eq!(queues.json(&["queue", "list"]), settings);

    let send = "enqueue('press', [('W1', 'I0'), ('W1', 'I1'), ('W1', 'I2')])";
    archive(&queues, send);
    let leader = Node::start(site, "orchestrator", &[]);
    let _worker = Node::start(site, "cpu,gpu", &[]);
    // The messages wait until there is the job.
    let created = finish(site.command(["job", "create", JOB, "--standing"])).exits(0);
    assert_eq!(created.stdout, "press: 0 volumes\n");
    let malformed = "
for body in ['no JSON', json.dumps({'w_id': 'W1', 'i_id': 'I0', 'source': 'elsewhere'})]:
    sqs.send_message(QueueUrl=url('bec_press_tasks'), MessageBody=body)
# As older programs wrote them.
sqs.send_message(QueueUrl=url('bec_press_tasks'), MessageBody=json.dumps({'w_id': 'W1', 'i_id': 'I0'}))";
    let has_begun = |tasks: &Value| !tasks["tasks"].as_array().unwrap().is_empty();
    Wait::until("messages are taken").sees(|| site.tasks(), has_begun);
    leader.kill();
    archive(&queues, malformed);
    let _leader = Node::start(site, "orchestrator", &[]);
    Wait::until("the volumes are done").sees(|| site.tasks(), |tasks| with_state(tasks, "done").len() == 3);
    let is_taken = |counts: &String| counts == "0 0\n2 0\n";
    Wait::until("only what asks for no volume is left")
        .sees(|| archive(&queues, "counts('press')"), is_taken);
    let done = site.tasks();
    assert_same_files(&site.path("artifacts/jobs"), &undisturbed(site).join("jobs"));

    archive(&queues, send);
    Wait::until("the messages are deleted once more").sees(|| archive(&queues, "counts('press')"), is_taken);
    assert_eq!(site.tasks(), done, "nothing is done twice");
    let status = queues.json(&["job", "status", JOB]);
    assert_eq!(
        (&status["status"], &status["standing"]),
        (&json!("running"), &json!(true))
    );

    archive(&queues, "enqueue('press', [('W9', 'I9')])");
    let is_failed = |tasks: &Value| with_state(tasks, "failed").len() == 1;
    let tasks = Wait::until("what is not there has failed").sees(|| site.tasks(), is_failed);
    let failed = with_state(&tasks, "failed")[0];
    assert!(
        failed.to_string().contains("W9-I9 is not in this source"),
        "{failed:#}"
    );
    finish(site.command(["job", "close", JOB])).exits(0);
    finish(site.command(["job", "status", JOB, "--wait"])).exits(1);
}

/// The queue of a standing job is counted, watched, emptied and redriven as those of stages are.
/// Rows: 152, 153.
#[test]
#[ignore = "needs ministack and boto3 beside $PYTHON: tests/python/requirements.txt"]
fn an_operator_sees_and_steers_the_queue_of_a_standing_job_over_sqs() {
    let mut queues = Queues::beside_volumes(1, 1);
    let named = format!("{JOB}=bec_press_tasks");
    let source = ("source.kind", "postgres".to_owned());
    queues.site.settings.extend([("intake.queues", named), source]);
    let site = &queues.site;
    finish(site.command(["queue", "create"])).exits(0);
    archive(&queues, "enqueue('press', [('W1', 'I0'), ('W1', 'I1')])");
    archive(
        &queues,
        "sqs.send_message(QueueUrl=url('bec_press_dlq'), MessageBody='no JSON')",
    );
    let counted = |stats: &Value| {
        let queue = &stats["queues"][0];
        (queue["visible"].clone(), queue["dead_letters"].clone())
    };
    let of_press =
        |stats: &Value| stats["queues"][0]["serves"] == JOB && counted(stats) == (json!(2), json!(1));
    Wait::until("what waits is counted").sees(|| queues.json(&["queue", "stats"]), of_press);

    // Nobody has made the job, so the leader takes nothing in.
    let leader = Node::start(site, "orchestrator", &[]);
    let of_queue = "{stage=\"\",standing_job=\"press\",queue=\"bec_press_tasks\"}";
    let level = |name: &str| scraped(&leader, &format!("parkhang_queue_{name}{of_queue}"));
    Wait::until("the queue was looked at").sees(|| level("visible"), |visible| *visible == Some(2.0));
    let alarm = "parkhang_alarm{stage=\"\",standing_job=\"press\",alarm=\"dead_letters\"}";
    assert_eq!(scraped(&leader, alarm), Some(1.0));
    let cluster = queues.json(&["cluster", "status"]);
    let seen = &cluster["queues"][0];
    assert_eq!(
        (&seen["purpose"], &seen["serves"], &seen["alarms"]),
        (&json!("standing_job"), &json!(JOB), &json!(["dead_letters"])),
        "{cluster:#}"
    );
    let alarms = cluster["alarms"].to_string();
    assert!(
        alarms.contains("1 message in the dead-letter queue of bec_press_tasks"),
        "{alarms}"
    );
    leader.kill();

    finish(site.command(["job", "create", JOB, "--standing"])).exits(0);
    let why = finish(site.command(["tasks", "why", JOB, "W1-I0"]))
        .exits(1)
        .stderr;
    assert!(
        why.contains("there were 2 messages in bec_press_tasks and 1 message in its dead-letter queue"),
        "{why}"
    );
    let redriven = queues.json(&["queue", "redrive", "bec_press_tasks"]);
    assert_eq!(
        (&redriven["serves"], &redriven["moved"]),
        (&json!(JOB), &json!(1)),
        "{redriven:#}"
    );
    Wait::until("the dead letter is back").sees(
        || queues.json(&["queue", "stats"]),
        |stats| counted(stats) == (json!(3), json!(0)),
    );
    let purged = queues.json(&["queue", "purge", JOB]);
    assert_eq!(purged["published_again"], Value::Null, "{purged:#}");
    Wait::until("the queue is empty").sees(
        || queues.json(&["queue", "stats"]),
        |stats| counted(stats) == (json!(0), json!(0)),
    );
    let unknown = finish(site.command(["queue", "purge", "ocr"])).exits(1).stderr;
    assert!(
        unknown.contains("there is no queue ocr; the queues are bec_press_tasks of standing job press"),
        "{unknown}"
    );
}
