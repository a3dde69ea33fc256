//! Queues as the leader last saw them, for answers and alarms. Whoever asks here asks no queue: a console asks every few seconds, and each
//! request to SQS costs.

use chrono::{DateTime, Utc};
use parkhang_core::domain::{Alarm, AlarmKind, JobKey, QueuePurpose, QueueRecord};
use parkhang_queue::QueueKind;
use parkhang_queue::limits::{FIFO_SCANNED, MAX_IN_FLIGHT};
use serde::Serialize;
use utoipa::ToSchema;

use super::QueueName;
use crate::admin::text::{away, lasting, table};
use crate::admin::{Admin, Refusal};
use crate::config::Sqs;
use crate::queues::{CREATE_QUEUES, named_queues};
use crate::words::pluralize;

/// Queue as the leader last saw it. The numbers are approximate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct QueueLook {
    #[serde(flatten)]
    name: QueueName,
    looked_at: DateTime<Utc>,
    /// Messages that wait.
    visible: u64,
    /// Messages that were received and are held.
    in_flight: u64,
    /// Messages whose delay is not over.
    delayed: u64,
    /// Messages in the dead-letter queue; absent if there is none.
    dead_letters: Option<u64>,
    /// Time since which a message waits. Of a stage, the time at which the oldest was published whose task still waits, by the database and
    /// not by the queue; of a standing job, since when the leader has seen messages without a break.
    oldest: Option<DateTime<Utc>>,
    /// Alarms that stand: age, dead_letters, failures, crashes, in_flight, backlog, retention or missing.
    /// Of a queue that is missing, the numbers are 0.
    alarms: Vec<&'static str>,
}

impl From<QueueRecord> for QueueLook {
    fn from(record: QueueRecord) -> Self {
        Self {
            name: QueueName::new(&record.purpose, record.queue),
            looked_at: record.looked_at,
            visible: record.visible,
            in_flight: record.in_flight,
            delayed: record.delayed,
            dead_letters: record.dead_letters,
            oldest: record.oldest,
            alarms: record.alarms.iter().map(|alarm| alarm.kind.as_str()).collect(),
        }
    }
}

/// Returns the latest looks at the queues of the configuration; one that is not there any more is not shown.
pub async fn queue_looks(admin: &Admin) -> Result<Vec<QueueRecord>, Refusal> {
    let queues = named_queues(&admin.loaded.config);
    if queues.is_empty() {
        return Ok(Vec::new());
    }
    let mut looks = admin.store.queue_records().await?;
    looks.retain(|look| queues.iter().any(|queue| queue.purpose == look.purpose));
    Ok(looks)
}

/// Returns the messages that ask for volumes of a job and have not been taken in, in words; `None` if there are none.
pub fn requests(looks: &[QueueRecord], job: &JobKey, now: DateTime<Utc>) -> Option<String> {
    let is_of = |look: &&QueueRecord| matches!(&look.purpose, QueuePurpose::StandingJob(of) if of == job);
    let look = looks.iter().find(is_of)?;
    let waiting = look.visible + look.in_flight + look.delayed;
    let dead = look.dead_letters.filter(|letters| *letters > 0);
    let queue = &look.queue;
    let seen = away(look.looked_at, now);
    let mut parts = Vec::new();
    if waiting > 0 {
        parts.push(format!("{} in {queue}", pluralize(waiting, "message")));
    }
    if let Some(letters) = dead {
        parts.push(format!(
            "{} in its dead-letter queue",
            pluralize(letters, "message")
        ));
    }
    if parts.is_empty() {
        return None;
    }
    Some(format!("{seen} there were {}", parts.join(" and ")))
}

/// Formats looks as a table.
pub fn in_a_table(looks: &[QueueLook]) -> String {
    let header = [
        "queue",
        "visible",
        "in flight",
        "delayed",
        "oldest",
        "dead",
        "seen",
    ];
    let rows = looks.iter().map(|look| {
        let age = look
            .oldest
            .map_or(String::new(), |oldest| lasting(look.looked_at - oldest));
        [
            look.name.queue.clone(),
            look.visible.to_string(),
            look.in_flight.to_string(),
            look.delayed.to_string(),
            age,
            look.dead_letters
                .map_or(String::new(), |letters| letters.to_string()),
            away(look.looked_at, Utc::now()),
        ]
    });
    table(header, rows, 1)
}

/// Alarms about a queue in words, with what to do about them.
pub fn alarms(look: &QueueRecord, config: &Sqs, now: DateTime<Utc>) -> impl Iterator<Item = String> {
    let since = move |alarm: &Alarm| format!("; an alarm that was raised {}", away(alarm.since, now));
    look.alarms
        .iter()
        .map(move |alarm| in_words(look, alarm.kind, config, now) + &since(alarm))
}

fn in_words(look: &QueueRecord, kind: AlarmKind, config: &Sqs, now: DateTime<Utc>) -> String {
    let QueueRecord { purpose, queue, .. } = look;
    let waited = look
        .oldest
        .map_or("too long".to_owned(), |oldest| lasting(now - oldest));
    match kind {
        AlarmKind::Age => {
            let taker = match purpose {
                QueuePurpose::Stage(_) => String::new(),
                QueuePurpose::StandingJob(job) => {
                    format!("; the leading orchestrator takes them in while job {job} stands open")
                }
            };
            format!("a message has waited in {queue} for {waited}, which is over source.sqs.max_age{taker}")
        }
        AlarmKind::DeadLetters => format!(
            "{} in the dead-letter queue of {queue}; `node queue redrive {queue}` moves them back once the cause is gone",
            pluralize(look.dead_letters.unwrap_or(0), "message")
        ),
        AlarmKind::Failures => {
            format!("most runs of {purpose} fail; `node job errors JOB` tells the reasons")
        }
        AlarmKind::Crashes => {
            format!("nodes that run {purpose} are lost one after the other; their logs tell why")
        }
        AlarmKind::InFlight => {
            let most = match QueueKind::of(queue) {
                QueueKind::Fifo => config.max_in_flight.get(),
                QueueKind::Standard => MAX_IN_FLIGHT as u64,
            };
            let held = pluralize(look.in_flight, "message");
            format!("{held} of {queue} in flight, of {most} that SQS allows")
        }
        AlarmKind::Backlog => {
            let waiting = pluralize(look.visible, "message");
            format!("{waiting} in {queue}, where SQS finds free groups among the first {FIFO_SCANNED} alone")
        }
        AlarmKind::Missing => format!("the queue {queue} of {purpose} does not exist; {CREATE_QUEUES}"),
        AlarmKind::Retention => format!(
            "a message has waited in {queue} for {waited}, and the queue deletes it soon; `node queue list` tells for how long it keeps any"
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use super::*;
    use crate::config::{BucketArgs, Loaded};
    use parkhang_core::domain::testing::{at, stage};

    /// Rows: 153, D12.
    #[test]
    fn each_alarm_names_its_queue_or_stage_and_when_it_was_raised() {
        let look = QueueRecord {
            purpose: QueuePurpose::Stage(stage("ocr")),
            queue: "reading.fifo".to_owned(),
            looked_at: at(1000),
            visible: 100_000,
            in_flight: 17_000,
            delayed: 0,
            dead_letters: Some(1),
            oldest: Some(at(0)),
            alarms: AlarmKind::ALL
                .map(|kind| Alarm {
                    kind,
                    since: at(940),
                    held_at: at(1000),
                })
                .to_vec(),
        };
        let mut config = Loaded::apart(&BucketArgs::default()).unwrap().config.source.sqs;
        config.max_in_flight = NonZeroU64::new(21_000).unwrap();
        let lines: Vec<String> = alarms(&look, &config, at(1000)).collect();
        assert_eq!(lines.len(), AlarmKind::ALL.len());
        for line in &lines {
            assert!(line.contains("reading.fifo") || line.contains("ocr"), "{line}");
            assert!(line.ends_with("; an alarm that was raised 1m ago"), "{line}");
        }
        assert!(
            lines[0].starts_with("a message has waited in reading.fifo for 16m 40s,"),
            "{}",
            lines[0]
        );
        assert!(
            lines[1].starts_with("1 message in the dead-letter queue"),
            "{}",
            lines[1]
        );
        assert!(
            lines[4].contains("17000 messages of reading.fifo in flight, of 21000"),
            "{}",
            lines[4]
        );
    }
    #[test]
    fn messages_that_nobody_has_taken_in_are_told_of_with_the_job() {
        let press: JobKey = "press".parse().unwrap();
        let look = |visible, dead_letters| QueueRecord {
            purpose: QueuePurpose::StandingJob(press.clone()),
            queue: "bec_press_tasks".to_owned(),
            looked_at: at(0),
            visible,
            in_flight: 0,
            delayed: 0,
            dead_letters,
            oldest: None,
            alarms: Vec::new(),
        };
        let told = |visible, letters| requests(&[look(visible, letters)], &press, at(60));
        assert_eq!(told(0, Some(0)), None);
        assert_eq!(told(0, None), None);
        assert_eq!(
            told(2, Some(1)).unwrap(),
            "1m ago there were 2 messages in bec_press_tasks and 1 message in its dead-letter queue"
        );
        let of_stage = QueueRecord {
            purpose: QueuePurpose::Stage(stage("press")),
            ..look(2, None)
        };
        assert_eq!(requests(&[of_stage], &press, at(60)), None);
    }
}
