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

/// Answer to an open request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The first stage runs, and may have looked at the volume before the request came.
    Wait,
    /// The volume was read, or is going to be, as it is now.
    Settled,
    /// The version that was read is another one than that of now: do it again.
    Again,
}

/// Answer to an open request for the volume of `task`, of which the first stage `read` a version and the source has the version
/// `current`; each is `None` if it has none.
pub fn on_version(task: &Task, job: &Job, read: Option<&str>, current: Option<&str>) -> Answer {
    let is_first = task.position == Position::At(job.pipeline.first().clone());
    match Phase::of(task, job.config.retry_scope) {
        Ok(Phase::Running) if is_first => Answer::Wait,
        // The first stage is still to come, and looks at the volume anew.
        Ok(Phase::Fresh) => Answer::Settled,
        Ok(_) if is_first && task.status != TaskStatus::Done => Answer::Settled,
        Ok(_) if read.zip(current).is_some_and(|(read, current)| read != current) => Answer::Again,
        Ok(_) | Err(_) => Answer::Settled,
    }
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
    fn a_volume_is_done_again_for_another_version_only() {
        let job = job();
        let versions = [
            (Some("a"), Some("b"), Answer::Again),
            (Some("a"), Some("a"), Answer::Settled),
            (None, Some("a"), Answer::Settled),
            (Some("a"), None, Answer::Settled),
        ];
        for task in [
            task_at(1, "detect", TaskStatus::Done),
            leased_task(1, "read", "w", at(60)),
            done(),
        ] {
            for (read, current, answer) in versions {
                assert_eq!(on_version(&task, &job, read, current), answer, "{task:?}");
            }
        }
        // What the first stage has not looked at yet is read as it is then, whatever an earlier run has read.
        for task in [
            task(1),
            failed("detect", ErrorCategory::Network),
            task_at(1, "detect", TaskStatus::Pending),
        ] {
            assert_eq!(on_version(&task, &job, Some("a"), Some("b")), Answer::Settled);
        }
        let looking = leased_task(1, "detect", "w", at(60));
        assert_eq!(on_version(&looking, &job, Some("a"), Some("b")), Answer::Wait);
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
