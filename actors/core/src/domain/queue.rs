//! Queues as the leader last saw them, and the message by which a task comes to a worker.

use std::fmt;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::{InvalidName, JobKey, StageName};

/// Purpose of a queue: whom its messages serve.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum QueuePurpose {
    /// The messages tell of tasks that may begin the stage.
    Stage(StageName),
    /// The messages ask for volumes of the standing job.
    StandingJob(JobKey),
}

impl QueuePurpose {
    /// Purpose by its kind and the name of whom it serves.
    ///
    /// # Errors
    ///
    /// [`InvalidName`] for a name that is not one, and for a kind that there is not.
    pub fn new(kind: &str, name: &str) -> Result<Self, InvalidName> {
        match kind {
            "stage" => name.parse().map(Self::Stage),
            "standing_job" => name.parse().map(Self::StandingJob),
            _ => Err(InvalidName {
                kind: "purpose of a queue",
                rule: "stage or standing_job",
                name: kind.to_owned(),
            }),
        }
    }

    /// Kind in answers, metrics and the database.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Stage(_) => "stage",
            Self::StandingJob(_) => "standing_job",
        }
    }

    /// Name of the stage or of the job.
    pub fn name(&self) -> &str {
        match self {
            Self::Stage(stage) => stage.as_str(),
            Self::StandingJob(job) => job.as_str(),
        }
    }

    /// Stage, if the queue serves one.
    pub const fn stage(&self) -> Option<&StageName> {
        match self {
            Self::Stage(stage) => Some(stage),
            Self::StandingJob(_) => None,
        }
    }
}

impl fmt::Display for QueuePurpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stage(stage) => write!(f, "stage {stage}"),
            Self::StandingJob(job) => write!(f, "standing job {job}"),
        }
    }
}

/// Latest look at a queue. The numbers are those of its server, and approximate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueRecord {
    pub purpose: QueuePurpose,
    /// Name of the queue.
    pub queue: String,
    pub looked_at: DateTime<Utc>,
    /// Messages that wait.
    pub visible: u64,
    /// Messages that were received and are held.
    pub in_flight: u64,
    /// Messages whose delay is not over.
    pub delayed: u64,
    /// Messages in the dead-letter queue; `None` if there is none.
    pub dead_letters: Option<u64>,
    /// Time since which a message waits, as SQS tells the age of its oldest message by CloudWatch alone. Of a stage, the time at which the
    /// oldest message was published whose task still waits, by our own outbox; of a standing job, whose messages others send, the
    /// time since which looks have seen some without a break.
    pub oldest: Option<DateTime<Utc>>,
    /// Alarms that stand, in the order of their kinds.
    pub alarms: Vec<Alarm>,
}

impl QueueRecord {
    /// True if the queue said that it has no messages.
    pub const fn is_empty(&self) -> bool {
        self.visible + self.in_flight + self.delayed == 0
    }

    /// True if the queue was not there.
    pub fn is_missing(&self) -> bool {
        self.alarms.iter().any(|alarm| alarm.kind == AlarmKind::Missing)
    }
}

/// Alarm that stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alarm {
    pub kind: AlarmKind,
    /// Time since which it stands.
    pub since: DateTime<Utc>,
    /// Latest time at which its cause was there.
    pub held_at: DateTime<Utc>,
}

/// Cause of an alarm about a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AlarmKind {
    /// A message has waited for too long.
    Age,
    /// Messages lie in the dead-letter queue.
    DeadLetters,
    /// Most runs of the stage fail.
    Failures,
    /// Nodes of the stage are lost one after the other.
    Crashes,
    /// Nearly as many messages are in flight as SQS allows.
    InFlight,
    /// Nearly as many messages wait as SQS looks through for a free group.
    Backlog,
    /// A message has waited for nearly as long as its queue keeps any.
    Retention,
    /// The queue does not exist.
    Missing,
}

impl AlarmKind {
    pub const ALL: [Self; 8] = [
        Self::Age,
        Self::DeadLetters,
        Self::Failures,
        Self::Crashes,
        Self::InFlight,
        Self::Backlog,
        Self::Retention,
        Self::Missing,
    ];

    /// Name in metrics, log lines and the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Age => "age",
            Self::DeadLetters => "dead_letters",
            Self::Failures => "failures",
            Self::Crashes => "crashes",
            Self::InFlight => "in_flight",
            Self::Backlog => "backlog",
            Self::Retention => "retention",
            Self::Missing => "missing",
        }
    }
}

/// State of the message for the next lease of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Publication {
    /// Sent, and the task still waits.
    Sent {
        at: DateTime<Utc>,
        /// Number of messages of the stage that were sent before it and whose tasks wait too, at most [`MOST_IN_FRONT`].
        in_front: u64,
    },
    /// Not sent, or withdrawn.
    Unsent {
        /// Time before which it is not sent.
        due: Option<DateTime<Utc>>,
        /// True if the limits of the job leave room for one more message.
        has_room: bool,
    },
}

/// Largest number of messages that is counted in front of another one: a look at a task must not cost what its queue holds.
pub const MOST_IN_FRONT: u64 = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_purpose_reads_back_and_no_other_word_is_one() {
        let purposes = [
            QueuePurpose::Stage(StageName::new("ocr").unwrap()),
            QueuePurpose::StandingJob(JobKey::new("ocr").unwrap()),
        ];
        for purpose in purposes {
            let read = QueuePurpose::new(purpose.kind(), purpose.name());
            assert_eq!(read, Ok(purpose));
        }
        assert!(QueuePurpose::new("job", "ocr").is_err());
        assert!(QueuePurpose::new("stage", "O C R").is_err());
    }

    #[test]
    fn names_of_alarms_are_those_of_the_database() {
        for kind in AlarmKind::ALL {
            let stored = serde_json::to_value(kind).unwrap();
            assert_eq!(stored, kind.as_str());
        }
        assert!(AlarmKind::ALL.is_sorted());
    }
}
