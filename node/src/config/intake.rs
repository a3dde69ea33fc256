//! Section about the queues whose messages ask for volumes.

use std::fmt;
use std::str::FromStr;

use parkhang_core::domain::JobKey;
use serde::{Deserialize, Serialize};

/// Section about the queues of other programs, whose messages ask for volumes of standing jobs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Intake {
    /// Queues by job.
    pub queues: Vec<IntakeQueue>,
}

/// Queue of a standing job, written `JOB=NAME` or `JOB=URL`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct IntakeQueue {
    pub job: JobKey,
    /// Name or URL.
    pub queue: String,
}

impl TryFrom<String> for IntakeQueue {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let (job, queue) = whose_queue(&text, "JOB=QUEUE, such as press=bec_press_tasks")?;
        Ok(Self { job, queue })
    }
}

/// Reads `NAME=QUEUE`: whom a queue serves, and the name or the URL of the queue.
///
/// # Errors
///
/// A text that says what was expected, `form`, or what is wrong with the name.
pub fn whose_queue<T: FromStr<Err: fmt::Display>>(text: &str, form: &str) -> Result<(T, String), String> {
    let (served, queue) = text
        .split_once('=')
        .filter(|(_, queue)| !queue.is_empty())
        .ok_or_else(|| format!("{text:?} is not {form}"))?;
    let served = served.parse().map_err(|error: T::Err| error.to_string())?;
    Ok((served, queue.to_owned()))
}

impl From<IntakeQueue> for String {
    fn from(IntakeQueue { job, queue }: IntakeQueue) -> Self {
        format!("{job}={queue}")
    }
}
