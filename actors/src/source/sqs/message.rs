//! Message about a task.

use serde::{Deserialize, Serialize};

use parkhang_core::domain::{Attempt, Fence, Generation, StageName, TaskId};
use parkhang_queue::{NewMessage, QueueKind};
use parkhang_state::Outgoing;

/// Version of the body that this build writes, and the last one that it reads.
const VERSION: u32 = 1;

/// Body of a message: the seven fields of the first design, by which other programs may send messages too, and two more. The stage is
/// that of the queue. Fields that are not known are passed over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskMessage {
    pub task_id: i64,
    pub job_id: i64,
    pub volume_id: i64,
    pub bdrc_w_id: String,
    pub bdrc_i_id: String,
    pub attempt: i32,
    pub job_key: String,
    /// Generation of the task, which a rerun raises; senders that know of none mean 0.
    #[serde(default)]
    pub generation: i64,
    #[serde(default = "first_version")]
    pub version: u32,
}

const fn first_version() -> u32 {
    1
}

/// Reason why a message cannot be understood.
#[derive(Debug, thiserror::Error)]
pub enum MalformedMessage {
    #[error("the body is no message about a task: {0}")]
    Body(#[from] serde_json::Error),
    #[error("the body has version {0}; this program reads version {VERSION} and earlier ones")]
    Version(u32),
}

impl TaskMessage {
    /// Message for the next lease of a task.
    pub(super) fn of(outgoing: &Outgoing) -> Self {
        Self {
            task_id: outgoing.fence.task.0,
            job_id: outgoing.job.0,
            volume_id: outgoing.volume_number,
            bdrc_w_id: outgoing.volume.w_id().to_owned(),
            bdrc_i_id: outgoing.volume.i_id().to_owned(),
            attempt: outgoing.fence.attempt.0,
            job_key: outgoing.job_key.to_string(),
            generation: outgoing.fence.generation.0,
            version: VERSION,
        }
    }

    /// Reads a body.
    ///
    /// # Errors
    ///
    /// [`MalformedMessage`], for which no other worker could do anything either.
    pub fn read(body: &str) -> Result<Self, MalformedMessage> {
        let message: Self = serde_json::from_str(body)?;
        if message.version > VERSION {
            return Err(MalformedMessage::Version(message.version));
        }
        Ok(message)
    }

    /// Fence of the lease that the message was sent for.
    pub(super) fn fence(&self, stage: &StageName) -> Fence {
        Fence {
            task: TaskId(self.task_id),
            stage: stage.clone(),
            attempt: Attempt(self.attempt),
            generation: Generation(self.generation),
        }
    }
}

/// The message as a queue of the kind takes it: in the group of its volume, so that one volume is worked on in order. What is
/// published again has a group of its own: the message of a worker that died is held until its visibility is over, and until then its
/// queue would give nobody another one of the group, though the lease has ended long before.
///
/// # Errors
///
/// When it has no JSON form.
pub(super) fn new_message(outgoing: &Outgoing, kind: QueueKind) -> Result<NewMessage, serde_json::Error> {
    let message = NewMessage::new(serde_json::to_string(&TaskMessage::of(outgoing))?);
    Ok(match kind {
        QueueKind::Fifo => {
            let Fence {
                task, stage, attempt, ..
            } = &outgoing.fence;
            let (volume, again) = (outgoing.volume_number, again(outgoing));
            let group = match again.as_str() {
                "" => volume.to_string(),
                again => format!("{volume}-{}{again}", attempt.0),
            };
            message.in_group(group, format!("{}-{stage}-{}{again}", task.0, attempt.0))
        }
        QueueKind::Standard => message,
    })
}

/// Ending of the ids of what is published again. A queue drops what comes twice under one deduplication id without a word, so a task of
/// a later generation and a deliberate repetition have ids of their own.
fn again(outgoing: &Outgoing) -> String {
    let mut ending = String::new();
    if outgoing.fence.generation.0 > 0 {
        ending += &format!("-g{}", outgoing.fence.generation.0);
    }
    if outgoing.repetition > 0 {
        ending += &format!("-r{}", outgoing.repetition);
    }
    ending
}

#[cfg(test)]
mod tests {
    use super::*;
    use parkhang_core::domain::testing::{stage, volume};
    use parkhang_core::domain::{JobId, JobKey, VolumeId};
    use parkhang_queue::limits::{MAX_BYTES, MAX_ID};

    fn outgoing(generation: i64, repetition: i32) -> Outgoing {
        Outgoing {
            fence: Fence {
                task: TaskId(7),
                stage: stage("ocr"),
                attempt: Attempt(2),
                generation: Generation(generation),
            },
            repetition,
            job: JobId(3),
            job_key: JobKey::new("press").unwrap(),
            volume: volume(5),
            volume_number: 11,
        }
    }

    /// Rows: 53, 54, D1.
    #[test]
    fn an_id_is_that_of_the_first_design_and_no_two_messages_share_one() {
        let id = |generation, repetition| {
            let message = new_message(&outgoing(generation, repetition), QueueKind::Fifo).unwrap();
            let key = message.fifo.unwrap();
            (key.group, key.deduplication)
        };
        let is = |group: &str, deduplication: &str| (group.to_owned(), deduplication.to_owned());
        assert_eq!(id(0, 0), is("11", "7-ocr-2"));
        assert_eq!(id(1, 0), is("11-2-g1", "7-ocr-2-g1"));
        assert_eq!(id(0, 3), is("11-2-r3", "7-ocr-2-r3"));
        assert_eq!(id(4, 3), is("11-2-g4-r3", "7-ocr-2-g4-r3"));
    }

    /// Rows: 55.
    #[test]
    fn a_body_of_the_first_design_is_read() {
        let body = r#"{"task_id": 7, "job_id": 3, "volume_id": 11, "bdrc_w_id": "W1", "bdrc_i_id": "I1", "attempt": 2,
            "job_key": "press", "colour": "red"}"#;
        let message = TaskMessage::read(body).unwrap();
        assert_eq!((message.generation, message.version), (0, 1));
        assert_eq!(message.fence(&stage("ocr")), outgoing(0, 0).fence);
        let written = new_message(&outgoing(4, 0), QueueKind::Standard).unwrap();
        assert_eq!(written.fifo, None);
        assert_eq!(
            TaskMessage::read(&written.body).unwrap().fence(&stage("ocr")),
            outgoing(4, 0).fence
        );
    }

    /// Rows: 156, D12.
    #[test]
    fn a_body_is_a_hundredth_of_what_a_queue_takes_however_long_its_names_are() {
        let longest = Outgoing {
            fence: Fence {
                task: TaskId(i64::MAX),
                stage: stage("line_extraction"),
                attempt: Attempt(i32::MAX),
                generation: Generation(i64::MAX),
            },
            repetition: i32::MAX,
            job: JobId(i64::MAX),
            job_key: JobKey::new("k".repeat(128)).unwrap(),
            volume: VolumeId::new("W".repeat(96), "I".repeat(96)).unwrap(),
            volume_number: i64::MAX,
        };
        let message = new_message(&longest, QueueKind::Fifo).unwrap();
        assert!(message.body.len() * 100 < MAX_BYTES, "{}", message.body.len());
        let key = message.fifo.unwrap();
        assert!(
            key.group.len() <= MAX_ID && key.deduplication.len() <= MAX_ID,
            "{key:?}"
        );
    }

    #[test]
    fn what_is_no_message_says_why() {
        for (body, why) in [
            ("", "EOF"),
            ("[]", "invalid length"),
            (r#"{"task_id": 7}"#, "missing field"),
            (r#"{"task_id": "7"}"#, "invalid type"),
        ] {
            let error = TaskMessage::read(body).unwrap_err().to_string();
            assert!(error.contains(why), "{body}: {error}");
        }
        let mut later = TaskMessage::of(&outgoing(0, 0));
        later.version = 2;
        let error = TaskMessage::read(&serde_json::to_string(&later).unwrap()).unwrap_err();
        assert!(error.to_string().contains("version 2"), "{error}");
    }

    #[test]
    fn fuzz_task_messages() {
        let body = serde_json::to_string(&TaskMessage::of(&outgoing(5, 0))).unwrap();
        parkhang_fuzz::Fuzz::of_texts("task-messages", [body]).feeds_texts(|text| {
            if let Ok(message) = TaskMessage::read(text) {
                assert_eq!(message.fence(&stage("ocr")).task, TaskId(message.task_id));
            }
        });
    }
}
