//! What a message leads to, by the state of its task.

use chrono::{DateTime, TimeDelta, Utc};

use parkhang_core::domain::{Fence, Job, JobStatus, Task};
use parkhang_core::policy::transition::runnable_stage;

/// Time until a message is published again that this process could not work on and another one may.
const ELSEWHERE: TimeDelta = TimeDelta::seconds(10);

/// Decision about a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    /// The task waits for the stage: lease it.
    Lease,
    /// The lease that the message stands for has run out: end it, and lease the task anew.
    TakeOver,
    /// Another worker has the lease that the message stands for, until this time.
    HeldUntil(DateTime<Utc>),
    /// The task cannot be worked on here and now. Published again from this time on, instead of going round in the queue, where every
    /// receive counts towards the dead letters.
    Withdraw(DateTime<Utc>),
    /// The task has moved on, or is no more: delete the message.
    Obsolete,
}

/// Circumstances in this process.
#[derive(Debug, Clone, Copy)]
pub(super) struct Here {
    /// Leases that have run out may be ended: their holders had the time to renew them.
    pub may_end: bool,
    /// A worker of the stage has a free slot.
    pub is_free: bool,
    /// Such a worker has the models of the job.
    pub is_suited: bool,
    /// The task may be run, for a suspect runs alone.
    pub has_place: bool,
}

/// Decides about a message that was sent for the lease `fence`. A task that waits is leased whatever attempt or generation the message
/// names: the lease has the fence of now, and only one of two messages finds the task waiting.
pub(super) fn decide(
    fence: &Fence,
    known: Option<(&Task, &Job)>,
    here: Here,
    now: DateTime<Utc>,
) -> Decision {
    let Some((task, job)) = known else {
        return Decision::Obsolete;
    };
    if let Some(lease) = &task.lease {
        return match task.fence() {
            Some(held) if held == *fence && lease.until > now => Decision::HeldUntil(lease.until),
            Some(held) if held == *fence && !here.may_end => Decision::HeldUntil(now + ELSEWHERE),
            Some(held) if held == *fence && !here.is_free => Decision::HeldUntil(now),
            // It stays for somebody who can run the task: ending the lease is all that this process could do.
            Some(held) if held == *fence && !(here.is_suited && here.has_place) => {
                Decision::HeldUntil(now + ELSEWHERE)
            }
            Some(held) if held == *fence => Decision::TakeOver,
            _ => Decision::Obsolete,
        };
    }
    if runnable_stage(task, &job.pipeline, job.config.retry_scope) != Some(&fence.stage) {
        return Decision::Obsolete;
    }
    match job.status {
        // Published again once it runs.
        JobStatus::Created | JobStatus::Paused => return Decision::Withdraw(now),
        JobStatus::Running => {}
        JobStatus::Completed | JobStatus::Failed | JobStatus::Cancelled => return Decision::Obsolete,
    }
    match task.not_before {
        Some(due) if due > now => Decision::Withdraw(due),
        // For whoever has room. Visible again at once it would come straight back, and each time count towards the dead letters.
        _ if !here.is_free => Decision::Withdraw(now),
        _ if !here.is_suited || !here.has_place => Decision::Withdraw(now + ELSEWHERE),
        _ => Decision::Lease,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parkhang_core::domain::testing::{self, at, leased_task, pipeline, stage, task, task_at};
    use parkhang_core::domain::{Attempt, Generation, TaskId, TaskStatus};

    const HERE: Here = Here {
        may_end: true,
        is_free: true,
        is_suited: true,
        has_place: true,
    };

    fn job() -> Job {
        Job {
            pipeline: pipeline(&["detect", "read"]),
            ..testing::job()
        }
    }

    fn fence(stage_name: &str, attempt: i32, generation: i64) -> Fence {
        Fence {
            task: TaskId(1),
            stage: stage(stage_name),
            attempt: Attempt(attempt),
            generation: Generation(generation),
        }
    }

    #[test]
    fn a_task_that_waits_is_leased_by_any_message_of_its_stage() {
        let job = job();
        let waits = task(1);
        for message in [
            fence("detect", 1, 0),
            fence("detect", 1, 7),
            fence("detect", 9, 0),
        ] {
            assert_eq!(
                decide(&message, Some((&waits, &job)), HERE, at(0)),
                Decision::Lease
            );
        }
        assert_eq!(
            decide(&fence("read", 1, 0), Some((&waits, &job)), HERE, at(0)),
            Decision::Obsolete
        );
        let between = task_at(1, "detect", TaskStatus::Done);
        assert_eq!(
            decide(&fence("read", 1, 0), Some((&between, &job)), HERE, at(0)),
            Decision::Lease
        );
        assert_eq!(
            decide(&fence("detect", 1, 0), Some((&between, &job)), HERE, at(0)),
            Decision::Obsolete
        );
        assert_eq!(
            decide(&fence("detect", 1, 0), None, HERE, at(0)),
            Decision::Obsolete
        );
    }

    #[test]
    fn a_leased_task_is_waited_for_by_the_message_of_its_lease_alone() {
        let job = job();
        let running = leased_task(1, "read", "w", at(60));
        let own = running.fence().unwrap();
        let decide = |fence: &Fence, now| decide(fence, Some((&running, &job)), HERE, at(now));
        assert_eq!(decide(&own, 59), Decision::HeldUntil(at(60)));
        assert_eq!(decide(&own, 60), Decision::TakeOver);
        let after_an_outage = Here {
            may_end: false,
            ..HERE
        };
        assert_eq!(
            super::decide(&own, Some((&running, &job)), after_an_outage, at(60)),
            Decision::HeldUntil(at(60) + ELSEWHERE)
        );
        let mut older = own;
        older.attempt = Attempt(older.attempt.0 + 1);
        assert_eq!(decide(&older, 59), Decision::Obsolete);
        assert_eq!(decide(&older, 60), Decision::Obsolete);
    }

    #[test]
    fn what_cannot_be_done_here_and_now_is_withdrawn() {
        let mut job = job();
        let mut waits = task(1);
        let message = fence("detect", 1, 0);
        let elsewhere = Decision::Withdraw(at(0) + ELSEWHERE);
        let unsuited = Here {
            is_suited: false,
            ..HERE
        };
        assert_eq!(decide(&message, Some((&waits, &job)), unsuited, at(0)), elsewhere);
        let no_place = Here {
            has_place: false,
            ..HERE
        };
        assert_eq!(decide(&message, Some((&waits, &job)), no_place, at(0)), elsewhere);
        let full = Here {
            is_free: false,
            is_suited: false,
            ..HERE
        };
        assert_eq!(
            decide(&message, Some((&waits, &job)), full, at(0)),
            Decision::Withdraw(at(0))
        );
        waits.not_before = Some(at(9));
        assert_eq!(
            decide(&message, Some((&waits, &job)), HERE, at(8)),
            Decision::Withdraw(at(9))
        );
        assert_eq!(
            decide(&message, Some((&waits, &job)), HERE, at(9)),
            Decision::Lease
        );
        job.status = JobStatus::Paused;
        assert_eq!(
            decide(&message, Some((&waits, &job)), HERE, at(9)),
            Decision::Withdraw(at(9))
        );
        for over in [JobStatus::Completed, JobStatus::Failed, JobStatus::Cancelled] {
            job.status = over;
            assert_eq!(
                decide(&message, Some((&waits, &job)), HERE, at(9)),
                Decision::Obsolete
            );
        }
    }
}
