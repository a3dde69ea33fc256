//! Tasks as a reconciler pass reads them: not all there are, but those that it can do something about. A pass costs what runs
//! and what has room to begin, however much waits.

use std::sync::Arc;

use chrono::{DateTime, Utc};

use parkhang_core::domain::{Job, Pipeline, Position, StageName, Task, TaskStatus};
use parkhang_core::policy::placement::Held;

/// Leases of all jobs, also of those that do not run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Leases {
    /// Leases in force, counted by worker and job.
    pub held: Vec<Held>,
    /// Tasks whose lease has run out, in task order.
    pub expired: Vec<Task>,
    /// Tasks of cancelled jobs that are still leased, in force or not, in task order. Their leases are among those held as
    /// long as they are in force.
    pub unwanted: Vec<Task>,
}

/// Tasks that wait for a stage.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Ready {
    /// Tasks that may begin now, in task order, with their jobs.
    pub tasks: Vec<(Task, Arc<Job>)>,
    /// Time at which the first of the tasks that are backing off becomes due.
    pub next_due: Option<DateTime<Utc>>,
}

/// Places of the tasks that may be leased for a stage: after the stage before it, given back, or failed and not for good.
pub(super) fn waiting_for(pipeline: &Pipeline, stage: &StageName) -> Vec<(Position, TaskStatus)> {
    let Some(before) = pipeline.before(stage) else {
        return Vec::new();
    };
    let fresh = match before {
        Position::Pending => TaskStatus::Pending,
        Position::At(_) | Position::Done => TaskStatus::Done,
    };
    let at = || Position::At(stage.clone());
    vec![
        (before, fresh),
        (at(), TaskStatus::Pending),
        (at(), TaskStatus::Failed),
    ]
}

/// True for places whose tasks may have to wait until some time: those whose last try failed, or was cut short.
pub(super) fn may_back_off(position: &Position, status: TaskStatus) -> bool {
    match status {
        TaskStatus::Failed => true,
        TaskStatus::Pending => *position != Position::Pending,
        TaskStatus::Running | TaskStatus::Done => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parkhang_core::domain::testing::{self, stage};

    #[test]
    fn a_stage_is_waited_for_behind_the_one_before_it_and_at_itself() {
        let pipeline = testing::pipeline(&["line_detection", "ocr"]);
        let [first, second, ..] = pipeline.stages() else {
            panic!("too short");
        };
        let places = |stage| -> Vec<(String, TaskStatus)> {
            waiting_for(&pipeline, stage)
                .into_iter()
                .map(|(position, status)| (position.to_string(), status))
                .collect()
        };
        let (first_name, second_name) = (first.to_string(), second.to_string());
        assert_eq!(
            places(first),
            [
                ("pending".to_owned(), TaskStatus::Pending),
                (first_name.clone(), TaskStatus::Pending),
                (first_name.clone(), TaskStatus::Failed),
            ]
        );
        assert_eq!(
            places(second),
            [
                (first_name, TaskStatus::Done),
                (second_name.clone(), TaskStatus::Pending),
                (second_name, TaskStatus::Failed),
            ]
        );
        assert!(places(&stage("elsewhere")).is_empty());
    }
}
