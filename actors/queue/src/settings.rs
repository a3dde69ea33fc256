use std::time::Duration;

use super::limits::{MAX_RECEIVES, MAX_RETENTION};

/// Ending of the names of FIFO queues, by which the protocol tells them.
const FIFO: &str = ".fifo";

/// Kind of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum QueueKind {
    /// Messages in any order.
    Standard,
    /// Those of a group in order, and one holder of a group at a time.
    Fifo,
}

impl QueueKind {
    /// Kind of the queue with this name or URL.
    pub fn of(name: &str) -> Self {
        if name.ends_with(FIFO) {
            Self::Fifo
        } else {
            Self::Standard
        }
    }
}

/// Queue for messages that were received too often, or cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetters {
    /// Name of the queue.
    pub queue: String,
    /// Receives after which the server moves a message there, when it would be received once more.
    pub max_receives: u32,
}

/// Description of a queue that is to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueSpec {
    /// Name, which ends with `.fifo` if it is a FIFO queue.
    pub name: String,
    /// Visibility for receives of other programs, which do not ask for one.
    pub visibility: Duration,
    /// Time for which messages are kept.
    pub retention: Duration,
    /// The dead-letter queue, which is made too; it keeps its messages for as long as any queue may.
    pub dead_letters: Option<DeadLetters>,
}

impl QueueSpec {
    /// Queue with a visibility of ten minutes that keeps messages for fourteen days, and has a dead-letter queue `NAME-dlq`, for what
    /// was received five times.
    pub fn new(name: impl Into<String>) -> Self {
        let name = name.into();
        let dead_letters = match name.strip_suffix(FIFO) {
            Some(stem) => format!("{stem}-dlq{FIFO}"),
            None => format!("{name}-dlq"),
        };
        Self {
            visibility: Duration::from_secs(600),
            retention: MAX_RETENTION,
            dead_letters: Some(DeadLetters {
                queue: dead_letters,
                max_receives: MAX_RECEIVES,
            }),
            name,
        }
    }

    pub fn kind(&self) -> QueueKind {
        QueueKind::of(&self.name)
    }

    /// Settings in which a queue that is there differs from this description, in words.
    pub fn drift(&self, facts: &QueueFacts) -> Vec<String> {
        let mut drift = Vec::new();
        let mut compare = |what: &str, is: Duration, wanted: Duration| {
            if is != wanted {
                drift.push(format!(
                    "{what} {} s and not {} s",
                    is.as_secs(),
                    wanted.as_secs()
                ));
            }
        };
        compare("messages are kept for", facts.retention, self.retention);
        compare("the visibility is", facts.visibility, self.visibility);
        match (&facts.dead_letters, &self.dead_letters) {
            (None, Some(_)) => drift.push("no dead-letter queue is attached".to_owned()),
            (Some(is), Some(wanted)) => {
                if is.queue != wanted.queue {
                    drift.push(format!(
                        "dead letters go to {} and not to {}",
                        is.queue, wanted.queue
                    ));
                }
                if is.max_receives != wanted.max_receives {
                    drift.push(format!(
                        "messages are dead after {} receives and not {}",
                        is.max_receives, wanted.max_receives
                    ));
                }
            }
            (Some(is), None) => drift.push(format!("dead letters go to {}", is.queue)),
            (None, None) => {}
        }
        drift
    }

    /// Description of the dead-letter queue.
    pub(crate) fn of_dead_letters(&self) -> Option<Self> {
        self.dead_letters.as_ref().map(|letters| Self {
            name: letters.queue.clone(),
            visibility: self.visibility,
            retention: MAX_RETENTION,
            dead_letters: None,
        })
    }
}

/// Settings of a queue that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueFacts {
    pub visibility: Duration,
    pub retention: Duration,
    pub dead_letters: Option<DeadLetters>,
}

/// Numbers of messages in a queue. On AWS they are approximate: they settle within a minute or so, and zero never means that there is
/// nothing left to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Messages that wait; in a FIFO queue also those whose group is held.
    pub visible: u64,
    /// Messages that were received and are held.
    pub in_flight: u64,
    /// Messages whose delay is not over.
    pub delayed: u64,
}

impl Counts {
    /// Number of messages, whatever their state.
    pub const fn total(self) -> u64 {
        self.visible + self.in_flight + self.delayed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows: U14.
    #[test]
    fn what_differs_from_a_description_is_told() {
        let spec = QueueSpec::new("work");
        let mut facts = QueueFacts {
            visibility: spec.visibility,
            retention: spec.retention,
            dead_letters: spec.dead_letters.clone(),
        };
        assert_eq!(spec.drift(&facts), [""; 0]);
        facts.dead_letters = None;
        facts.visibility = Duration::from_secs(30);
        assert_eq!(
            spec.drift(&facts),
            [
                "the visibility is 30 s and not 600 s",
                "no dead-letter queue is attached"
            ]
        );
        facts.dead_letters = Some(DeadLetters {
            queue: "other".to_owned(),
            max_receives: 3,
        });
        facts.visibility = spec.visibility;
        facts.retention = Duration::from_secs(345_600);
        assert_eq!(
            spec.drift(&facts),
            [
                "messages are kept for 345600 s and not 1209600 s",
                "dead letters go to other and not to work-dlq",
                "messages are dead after 3 receives and not 5"
            ]
        );
    }
}
