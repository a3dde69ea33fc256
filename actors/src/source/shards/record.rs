use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use parkhang_core::domain::{JobId, Position, StageName, Task, TaskId, VolumeId, VolumeResults};
use parkhang_core::policy::transition::Event;
use parkhang_state::Change;

/// Record of an event of a volume, and of the state that it led to: one object of the store, which never changes. The objects of a
/// volume are numbered, and each is made only if it is absent, so that of two writers who know the same state one is fenced
/// off.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskRecord {
    /// The event.
    pub event: Event,
    /// Time of the event.
    pub at: DateTime<Utc>,
    /// The state after the event.
    pub task: Task,
    /// Measurements of a stage that succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<Value>,
    /// Fingerprint of the artifact of a stage that succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
    /// Results of the volume, with the success of its last stage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub results: Option<VolumeResults>,
    /// Milliseconds that each stage took when it last succeeded.
    pub took_ms: BTreeMap<StageName, f32>,
}

/// State of a volume, with the number of changes that led to it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct VolumeLog {
    /// Changes so far.
    pub step: u32,
    pub task: Task,
    pub took_ms: BTreeMap<StageName, f32>,
}

impl VolumeLog {
    /// The log of a volume before any change.
    pub(super) fn new(id: TaskId, job: JobId, volume: VolumeId, max_attempts: i32) -> Self {
        Self {
            step: 0,
            task: Task::fresh(id, job, volume, max_attempts),
            took_ms: BTreeMap::new(),
        }
    }

    /// The log that ends with `record`. Its ids stay: those of the record are of the process that wrote it.
    pub(super) fn ending(&self, step: u32, record: TaskRecord) -> Self {
        Self {
            step,
            task: Task {
                id: self.task.id,
                job_id: self.task.job_id,
                ..record.task
            },
            took_ms: record.took_ms,
        }
    }

    /// The record of a change that leads to `after`.
    pub(super) fn record(&self, change: &Change, after: &Task, now: DateTime<Utc>) -> TaskRecord {
        let mut took_ms = self.took_ms.clone();
        if let (Event::Succeeded, Position::At(stage)) = (&change.event, &self.task.position) {
            took_ms.insert(stage.clone(), self.current_ms(now));
        }
        TaskRecord {
            event: change.event.clone(),
            at: now,
            task: after.clone(),
            metrics: change.metrics.clone(),
            fingerprint: change.fingerprint.clone(),
            results: change.results.clone(),
            took_ms,
        }
    }

    /// Milliseconds that all stages took, with the running one up to `now`.
    pub(super) fn processing_ms(&self, now: DateTime<Utc>) -> f32 {
        // The running stage may be there from an earlier success, in a volume that was sent back to it.
        self.took_ms
            .iter()
            .filter(|(stage, _)| stage.as_str() != self.task.position.as_str())
            .map(|(_, took)| took)
            .sum::<f32>()
            + self.current_ms(now)
    }

    fn current_ms(&self, now: DateTime<Utc>) -> f32 {
        let started = self.task.started_at.unwrap_or(now);
        (now - started).num_microseconds().unwrap_or(i64::MAX) as f32 / 1000.0
    }
}
