use std::fmt;
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

    /// Settings that it is made with.
    pub fn facts(&self) -> QueueFacts {
        QueueFacts {
            visibility: self.visibility,
            retention: self.retention,
            dead_letters: self.dead_letters.clone(),
        }
    }

    /// Settings in which a queue that is there differs from this description.
    pub fn drift(&self, facts: &QueueFacts) -> Vec<Difference> {
        let mut drift = Vec::new();
        let mut compare = |setting, is: String, wanted: String| {
            if is != wanted {
                drift.push(Difference {
                    queue: self.name.clone(),
                    setting,
                    is,
                    wanted,
                });
            }
        };
        let seconds = |time: Duration| format!("{} s", time.as_secs());
        compare("retention", seconds(facts.retention), seconds(self.retention));
        compare("visibility", seconds(facts.visibility), seconds(self.visibility));
        let queue = |letters: &Option<DeadLetters>| {
            let queue = letters.as_ref().map(|letters| letters.queue.clone());
            queue.unwrap_or_else(|| "none".to_owned())
        };
        let (is, wanted) = (&facts.dead_letters, &self.dead_letters);
        compare("dead-letter queue", queue(is), queue(wanted));
        if let (Some(is), Some(wanted)) = (is, wanted) {
            let receives = |letters: &DeadLetters| letters.max_receives.to_string();
            compare("number of receives", receives(is), receives(wanted));
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

/// Settings of a queue that is there, all of which can be changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueFacts {
    pub visibility: Duration,
    pub retention: Duration,
    pub dead_letters: Option<DeadLetters>,
}

impl QueueFacts {
    /// Description of a queue of this name that has these settings.
    pub(crate) fn of(&self, name: &str) -> QueueSpec {
        QueueSpec {
            name: name.to_owned(),
            visibility: self.visibility,
            retention: self.retention,
            dead_letters: self.dead_letters.clone(),
        }
    }
}

/// Setting in which a queue differs from its description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Name of the queue.
    pub queue: String,
    /// Name of the setting.
    pub setting: &'static str,
    pub is: String,
    pub wanted: String,
}

impl Difference {
    /// The difference in words once the setting was changed.
    pub fn mended(&self) -> String {
        let Self {
            queue,
            setting,
            is,
            wanted,
        } = self;
        format!("{queue}: the {setting} was {is} and is {wanted} now")
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            queue,
            setting,
            is,
            wanted,
        } = self;
        write!(f, "{queue}: the {setting} is {is} and not {wanted}")
    }
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
        let mut facts = spec.facts();
        let in_words = |facts: &QueueFacts| -> Vec<String> {
            let drift = spec.drift(facts);
            drift.iter().map(Difference::to_string).collect()
        };
        assert_eq!(in_words(&facts), [""; 0]);
        facts.dead_letters = None;
        facts.visibility = Duration::from_secs(30);
        assert_eq!(
            in_words(&facts),
            [
                "work: the visibility is 30 s and not 600 s",
                "work: the dead-letter queue is none and not work-dlq"
            ]
        );
        assert_eq!(
            spec.drift(&facts)[0].mended(),
            "work: the visibility was 30 s and is 600 s now"
        );
        facts.dead_letters = Some(DeadLetters {
            queue: "other".to_owned(),
            max_receives: 3,
        });
        facts.visibility = spec.visibility;
        facts.retention = Duration::from_secs(345_600);
        assert_eq!(
            in_words(&facts),
            [
                "work: the retention is 345600 s and not 1209600 s",
                "work: the dead-letter queue is other and not work-dlq",
                "work: the number of receives is 3 and not 5"
            ]
        );
    }
}
