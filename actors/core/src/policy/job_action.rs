//! Actions of operators on jobs, and the status that follows.

use std::fmt;

use crate::domain::JobStatus;

/// Action on a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum JobAction {
    /// Nothing more is handed out; stages that run go on to their end.
    Pause,
    /// Tasks are handed out again.
    Resume,
    /// Nothing more is handed out, ever, and the leases in force are taken back.
    Cancel,
    /// Finished tasks are to be done again.
    Rerun,
    /// The job is taken up again, whatever it was doing.
    Reopen,
    /// The configuration is changed in keys that may not change while the job runs.
    Update,
    /// A standing job takes no more volumes, and ends with its tasks.
    Close,
    /// The job is deleted with all its tasks. From then on nothing else can be done to it.
    Delete,
}

impl JobAction {
    pub const ALL: [Self; 8] = [
        Self::Pause,
        Self::Resume,
        Self::Cancel,
        Self::Rerun,
        Self::Reopen,
        Self::Update,
        Self::Close,
        Self::Delete,
    ];
}

impl fmt::Display for JobAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pause => "paused",
            Self::Resume => "resumed",
            Self::Cancel => "cancelled",
            Self::Rerun => "rerun",
            Self::Reopen => "taken up again",
            Self::Update => "updated",
            Self::Close => "closed",
            Self::Delete => "deleted",
        })
    }
}

/// Error for an action that the job's status forbids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a job that is {} cannot be {action}", .status.as_str())]
pub struct Forbidden {
    pub status: JobStatus,
    pub action: JobAction,
}

/// Status after `action`. An action may be repeated: a job that is paused can be paused.
///
/// # Errors
///
/// [`Forbidden`] if the status does not allow the action.
pub fn after(status: JobStatus, action: JobAction) -> Result<JobStatus, Forbidden> {
    use JobStatus::{Cancelled, Completed, Created, Failed, Paused, Running};
    match (status, action) {
        (Created | Running | Paused, JobAction::Pause) => Ok(Paused),
        (Created | Running | Paused, JobAction::Resume) => Ok(Running),
        (Created | Running | Paused | Cancelled, JobAction::Cancel) => Ok(Cancelled),
        (Created | Running | Paused, JobAction::Rerun) => Ok(status),
        (Completed | Failed, JobAction::Rerun) => Ok(Running),
        (Created | Running | Paused | Completed | Failed, JobAction::Reopen) => Ok(Running),
        (Created | Paused | Completed | Failed, JobAction::Update) => Ok(status),
        // Also once it has ended, which may have happened because it was closed a moment ago.
        (Created | Running | Paused | Completed | Failed, JobAction::Close) => Ok(status),
        (Created | Completed | Failed | Cancelled, JobAction::Delete) => Ok(Cancelled),
        (Completed | Failed, JobAction::Pause | JobAction::Resume | JobAction::Cancel)
        | (Running, JobAction::Update)
        | (Running | Paused, JobAction::Delete)
        | (
            Cancelled,
            JobAction::Pause
            | JobAction::Resume
            | JobAction::Rerun
            | JobAction::Reopen
            | JobAction::Update
            | JobAction::Close,
        ) => Err(Forbidden { status, action }),
    }
}

/// True if a job that stands goes on standing after `action`, and false for any other.
pub const fn stands_after(standing: bool, action: JobAction) -> bool {
    match action {
        JobAction::Close | JobAction::Cancel | JobAction::Delete => false,
        JobAction::Pause | JobAction::Resume | JobAction::Rerun | JobAction::Reopen | JobAction::Update => {
            standing
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cancelled_is_final() {
        for action in JobAction::ALL {
            let end = after(JobStatus::Cancelled, action);
            let is_allowed = matches!(action, JobAction::Cancel | JobAction::Delete);
            assert_eq!(end.is_ok(), is_allowed, "{action:?}");
            assert!(end.is_err() || end == Ok(JobStatus::Cancelled));
        }
    }

    #[test]
    fn a_rerun_wakes_what_has_ended_and_leaves_a_pause_alone() {
        let rerun = |status| after(status, JobAction::Rerun);
        assert_eq!(rerun(JobStatus::Completed), Ok(JobStatus::Running));
        assert_eq!(rerun(JobStatus::Failed), Ok(JobStatus::Running));
        assert_eq!(rerun(JobStatus::Paused), Ok(JobStatus::Paused));
    }

    #[test]
    fn an_action_can_be_repeated() {
        for status in JobStatus::ALL {
            for action in JobAction::ALL {
                if let Ok(once) = after(status, action) {
                    assert_eq!(after(once, action), Ok(once), "{status:?} {action:?}");
                }
            }
        }
    }

    #[test]
    fn what_runs_or_may_go_on_is_neither_updated_nor_deleted() {
        assert!(after(JobStatus::Running, JobAction::Update).is_err());
        assert_eq!(after(JobStatus::Paused, JobAction::Update), Ok(JobStatus::Paused));
        for status in [JobStatus::Running, JobStatus::Paused] {
            assert!(after(status, JobAction::Delete).is_err(), "{status:?}");
        }
        assert_eq!(
            after(JobStatus::Failed, JobAction::Delete),
            Ok(JobStatus::Cancelled)
        );
    }

    #[test]
    fn a_job_stands_until_it_is_closed_and_ended_jobs_never_do() {
        for action in JobAction::ALL {
            assert!(!stands_after(false, action), "{action:?}");
            for status in JobStatus::ALL.into_iter().filter(|status| !status.is_final()) {
                let ends = after(status, action).is_ok_and(JobStatus::is_final);
                assert!(!(ends && stands_after(true, action)), "{status:?} {action:?}");
            }
        }
        assert!(stands_after(true, JobAction::Pause) && !stands_after(true, JobAction::Close));
        assert_eq!(after(JobStatus::Paused, JobAction::Close), Ok(JobStatus::Paused));
        assert_eq!(
            after(JobStatus::Completed, JobAction::Close),
            Ok(JobStatus::Completed)
        );
    }

    #[test]
    fn a_refusal_says_why() {
        let refused = after(JobStatus::Failed, JobAction::Pause).unwrap_err();
        assert_eq!(refused.to_string(), "a job that is failed cannot be paused");
    }
}
