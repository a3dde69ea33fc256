//! Requests for volumes of a standing job, which come as messages of other programs: what follows from one.
//!
//! A message asks for a volume in its latest version and says nothing of how far it is. Whoever sends it leaves out what is done in
//! that version, so one for a volume that failed is there to have it tried again, and one for a volume that is done may be there
//! because the archive has another version of it.

use super::transition::{Event, Phase, is_terminal};
use crate::domain::{Job, Position, Task, TaskStatus};

/// Effect of a request at the moment in which it is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// The volume is new to the job.
    Add,
    /// The volume has failed for good: do it again.
    Retry,
    /// The volume has begun: see whether another version of it is to be read.
    Open,
    /// The volume is about to begin, in its latest version.
    Known,
}

/// Effect of a request for the volume of `task`; `None` if the job has no task for it.
pub fn on_arrival(task: Option<&Task>, job: &Job) -> Arrival {
    match task {
        None => Arrival::Add,
        Some(task) if is_terminal(task, job.config.retry_scope) => Arrival::Retry,
        Some(task) if task.position == Position::Pending => Arrival::Known,
        Some(_) => Arrival::Open,
    }
}

/// Time at which an open request can be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// Later: the first stage runs, and may have looked at the volume before the request came.
    Later,
    /// Now, by the version that the source of the scans has, if that [is another](is_outdated).
    AtSource,
    /// Now, without a look: the volume is going to be read as it is then, or has no versions.
    Needless,
}

/// Time at which an open request for the volume of `task` can be answered, of which the first stage has `read` a version; `None` if it
/// has read none.
pub fn look(task: &Task, job: &Job, read: Option<&str>) -> Look {
    let is_first = task.position == Position::At(job.pipeline.first().clone());
    match (Phase::of(task, job.config.retry_scope), read) {
        (Ok(Phase::Running), _) if is_first => Look::Later,
        // The first stage is still to come, and looks at the volume anew.
        (Ok(Phase::Fresh), _) => Look::Needless,
        (Ok(_), _) if is_first && task.status != TaskStatus::Done => Look::Needless,
        (Ok(_), Some(_)) => Look::AtSource,
        (Ok(_), None) | (Err(_), _) => Look::Needless,
    }
}

/// True if a volume is to be done again, of which a version was read and the source has the version `current`, if it has one.
pub fn is_outdated(read: Option<&str>, current: Option<&str>) -> bool {
    read.zip(current).is_some_and(|(read, current)| read != current)
}

/// Event by which a request has a volume done again: from the first stage on, where what still stands is kept.
pub fn again(job: &Job) -> Event {
    Event::Rerun {
        stage: job.pipeline.first().clone(),
        force: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::testing::{at, job, leased_task, task, task_at};
    use crate::domain::{ErrorCategory, StageError};
    use crate::policy::transition;

    fn failed(stage: &str, category: ErrorCategory) -> Task {
        Task {
            attempts: 1,
            last_error: Some(StageError::new(stage, category, "no")),
            ..task_at(1, stage, TaskStatus::Failed)
        }
    }

    fn done() -> Task {
        Task {
            position: Position::Done,
            status: TaskStatus::Done,
            done_at: Some(at(9)),
            ..task(1)
        }
    }

    #[test]
    fn a_request_adds_what_is_new_and_retries_what_has_failed_for_good() {
        let job = job();
        assert_eq!(on_arrival(None, &job), Arrival::Add);
        assert_eq!(on_arrival(Some(&task(1)), &job), Arrival::Known);
        let hopeless = failed("read", ErrorCategory::Input);
        assert_eq!(on_arrival(Some(&hopeless), &job), Arrival::Retry);
        for begun in [
            leased_task(1, "detect", "w", at(60)),
            failed("read", ErrorCategory::Network),
            task_at(1, "read", TaskStatus::Done),
            done(),
        ] {
            assert_eq!(on_arrival(Some(&begun), &job), Arrival::Open, "{begun:?}");
        }
    }

    #[test]
    fn a_request_is_answered_once_the_first_stage_has_looked() {
        let job = job();
        for (task, expected) in [
            (leased_task(1, "detect", "w", at(60)), Look::Later),
            (task_at(1, "detect", TaskStatus::Done), Look::AtSource),
            (leased_task(1, "read", "w", at(60)), Look::AtSource),
            (failed("read", ErrorCategory::Network), Look::AtSource),
            (done(), Look::AtSource),
            // What the first stage has not looked at yet is read as it is then, whatever an earlier run has read.
            (task(1), Look::Needless),
            (failed("detect", ErrorCategory::Network), Look::Needless),
            (task_at(1, "detect", TaskStatus::Pending), Look::Needless),
        ] {
            assert_eq!(look(&task, &job, Some("a")), expected, "{task:?}");
            let without_versions = match expected {
                Look::Later => Look::Later,
                Look::AtSource | Look::Needless => Look::Needless,
            };
            assert_eq!(look(&task, &job, None), without_versions, "{task:?}");
        }
    }

    #[test]
    fn a_volume_is_done_again_for_another_version_only() {
        assert!(is_outdated(Some("a"), Some("b")));
        for (read, current) in [(Some("a"), Some("a")), (None, Some("a")), (Some("a"), None)] {
            assert!(!is_outdated(read, current));
        }
    }

    #[test]
    fn whatever_is_to_be_done_again_can_be() {
        let job = job();
        for task in [
            failed("read", ErrorCategory::Input),
            done(),
            leased_task(1, "read", "w", at(60)),
        ] {
            let after = transition::next(&task, &job.pipeline, job.config.retry_scope, &again(&job), at(9));
            let after = after.unwrap();
            assert_eq!((after.position, after.forced), (Position::Pending, false));
        }
    }
}
