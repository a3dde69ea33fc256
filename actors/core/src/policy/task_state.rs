//! State of a volume of a job, in the words that people are shown.

use std::fmt;

use serde::{Serialize, Serializer};

use super::transition::{Phase, runnable_stage};
use crate::domain::{ErrorCategory, Job, JobStatus, StageError, StageName, Task};

/// State of a volume, in the order in which a volume reaches them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum TaskState {
    At {
        /// Index of the stage in the pipeline, from 0.
        place: usize,
        doing: Doing,
        stage: StageName,
    },
    Done,
    /// Failed for good.
    Failed,
    /// Set aside, as it kept killing its workers; not tried again.
    Quarantined,
    /// The job was cancelled before the volume was done.
    Cancelled,
    /// Position and status to which no event leads: another build may have written them.
    Unknown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Doing {
    Waiting,
    /// Waiting for another try after a failure.
    WaitingToRetry,
    Running,
}

impl TaskState {
    pub fn of(task: &Task, job: &Job) -> Self {
        let at = |doing, stage: &StageName| {
            let place = job.pipeline.stages().iter().position(|known| known == stage);
            place.map(|place| Self::At {
                place,
                doing,
                stage: stage.clone(),
            })
        };
        let scope = job.config.retry_scope;
        let next = || runnable_stage(task, &job.pipeline, scope);
        let state = match Phase::of(task, scope) {
            Ok(Phase::Fresh | Phase::StageDone | Phase::Waiting | Phase::FailedRetryable)
                if job.status == JobStatus::Cancelled =>
            {
                Some(Self::Cancelled)
            }
            Ok(Phase::Fresh | Phase::StageDone | Phase::Waiting) => {
                next().and_then(|stage| at(Doing::Waiting, stage))
            }
            Ok(Phase::FailedRetryable) => next().and_then(|stage| at(Doing::WaitingToRetry, stage)),
            Ok(Phase::Running) => task.fence().and_then(|fence| at(Doing::Running, &fence.stage)),
            Ok(Phase::FailedTerminal) => Some(Self::of_failure(task.last_error.as_ref())),
            Ok(Phase::Finished) => Some(Self::Done),
            Err(_) => None,
        };
        state.unwrap_or(Self::Unknown)
    }

    /// State of a volume that failed for good.
    pub fn of_failure(error: Option<&StageError>) -> Self {
        match error.is_some_and(|error| error.category == ErrorCategory::Poison) {
            true => Self::Quarantined,
            false => Self::Failed,
        }
    }
}

impl fmt::Display for TaskState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At { doing, stage, .. } => match doing {
                Doing::Waiting => write!(f, "waiting for {stage}"),
                Doing::WaitingToRetry => write!(f, "waiting to retry {stage}"),
                Doing::Running => write!(f, "{stage} running"),
            },
            Self::Done => f.write_str("done"),
            Self::Failed => f.write_str("failed"),
            Self::Quarantined => f.write_str("quarantined"),
            Self::Cancelled => f.write_str("cancelled"),
            Self::Unknown => f.write_str("unknown"),
        }
    }
}

impl Serialize for TaskState {
    /// Serializes the words.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::TaskStatus;
    use crate::domain::testing::{self, at, leased_task, pipeline};

    fn job(status: JobStatus) -> Job {
        Job {
            pipeline: pipeline(&["line_detection", "line_extraction", "ocr", "reduce"]),
            status,
            ..testing::job()
        }
    }

    fn task(position: &str, status: TaskStatus) -> Task {
        Task {
            position: position.parse().unwrap(),
            status,
            ..testing::task(1)
        }
    }

    fn failed(attempts: i32, category: ErrorCategory) -> Task {
        Task {
            attempts,
            last_error: Some(StageError::new("ocr", category, "no")),
            ..task("ocr", TaskStatus::Failed)
        }
    }

    #[test]
    fn every_phase_has_plain_words() {
        let cases = [
            (task("pending", TaskStatus::Pending), "waiting for line_detection"),
            (task("line_extraction", TaskStatus::Done), "waiting for ocr"),
            (task("ocr", TaskStatus::Pending), "waiting for ocr"),
            (failed(1, ErrorCategory::Network), "waiting to retry ocr"),
            (leased_task(1, "ocr", "gpu-1", at(0)), "ocr running"),
            (task("done", TaskStatus::Done), "done"),
            (failed(3, ErrorCategory::Network), "failed"),
            (failed(0, ErrorCategory::Poison), "quarantined"),
            (task("done", TaskStatus::Running), "unknown"),
        ];
        let running = job(JobStatus::Running);
        for (task, words) in &cases {
            let state = TaskState::of(task, &running);
            assert_eq!(state.to_string(), *words);
            assert_eq!(serde_json::to_value(&state).unwrap(), *words);
        }
    }

    #[test]
    fn states_are_in_the_order_of_the_work() {
        let job = job(JobStatus::Running);
        let mut states = [
            task("done", TaskStatus::Done),
            task("reduce", TaskStatus::Pending),
            task("line_detection", TaskStatus::Running),
            task("pending", TaskStatus::Pending),
        ]
        .map(|task| TaskState::of(&task, &job));
        states.sort();
        let words = states.map(|state| state.to_string());
        let order = [
            "waiting for line_detection",
            "line_detection running",
            "waiting for reduce",
            "done",
        ];
        assert_eq!(words, order);
    }

    #[test]
    fn nothing_waits_in_a_cancelled_job() {
        let job = job(JobStatus::Cancelled);
        let waiting = [
            task("pending", TaskStatus::Pending),
            failed(1, ErrorCategory::Network),
        ];
        for task in waiting {
            assert_eq!(TaskState::of(&task, &job), TaskState::Cancelled);
        }
        assert_eq!(
            TaskState::of(&task("done", TaskStatus::Done), &job),
            TaskState::Done
        );
    }
}
