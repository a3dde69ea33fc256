//! Identifiers of jobs, tasks, workers and leases.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::pipeline::StageName;
use super::volume::InvalidName;

/// Beginning of the names of services among the holders of leases. The name of a node has no colon.
const SERVICE: &str = "service:";

/// Row id of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobId(pub i64);

/// Row id of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TaskId(pub i64);

/// Number of a try of a task: 1 for the first. Interrupted tries are not counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Attempt(pub i32);

/// Fencing number of a task: grows whenever the same stage and attempt would be handed out again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Generation(pub i64);

/// Number of a leadership among those of all orchestrators: a leader with a smaller one has been succeeded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Epoch(pub i64);

/// Name of the holder of a lease: `NODE/STAGE/INCARNATION`, unique per process start, or `service:SERVICE/STAGE`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WorkerId(pub String);

impl WorkerId {
    /// Node that the worker belongs to: the part before the first slash.
    pub fn node(&self) -> &str {
        self.0.split_once('/').map_or(self.0.as_str(), |(node, _)| node)
    }

    /// Holder of the leases of a stage that a service does. It is the same under every leader, so that a new one finds what the service
    /// has in hand.
    pub fn of_service(service: &str, stage: &StageName) -> Self {
        Self(format!("{SERVICE}{service}/{stage}"))
    }

    /// Service that holds the lease, if it is one.
    pub fn service(&self) -> Option<&str> {
        self.node().strip_prefix(SERVICE)
    }

    /// Number of pools that the node has started, including this one: the part behind the last slash.
    pub fn incarnation(&self) -> Option<u64> {
        self.0.rsplit_once('/')?.1.parse().ok()
    }
}

/// Public name of a job, safe as a path segment of artifact keys. The default for a job without a name is `J{id}`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct JobKey(String);

impl JobKey {
    /// Accepts 1 to 128 of `A-Z a-z 0-9 . _ -`, not starting with a dot.
    ///
    /// # Errors
    ///
    /// [`InvalidName`] for any other text.
    pub fn new(key: impl Into<String>) -> Result<Self, InvalidName> {
        let key = key.into();
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if key.is_empty() || key.len() > 128 || key.starts_with('.') || !key.chars().all(legal) {
            return Err(InvalidName {
                kind: "job name",
                rule: "1 to 128 letters (A-Z, a-z), digits, '.', '_' and '-', not starting with '.'",
                name: key,
            });
        }
        Ok(Self(key))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for JobKey {
    type Err = InvalidName;

    fn from_str(key: &str) -> Result<Self, InvalidName> {
        Self::new(key)
    }
}

impl TryFrom<String> for JobKey {
    type Error = InvalidName;

    fn try_from(key: String) -> Result<Self, InvalidName> {
        Self::new(key)
    }
}

impl From<JobKey> for String {
    fn from(key: JobKey) -> Self {
        key.0
    }
}

impl fmt::Display for JobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

macro_rules! display_inner {
    ($($name:ident),+) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )+};
}

display_inner!(JobId, TaskId, Attempt, Generation, Epoch, WorkerId);
