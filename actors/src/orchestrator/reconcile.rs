//! One pass: read, decide, write, assign. Idempotent; a pass that is cut off anywhere is finished by the next.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use chrono::{DateTime, Utc};
use tokio::time::Instant;

use super::committer::{GroupCommitter, GroupCommitterGone};
use super::executor::Executor;
use super::plan::{PassLimits, Plan, node_lost};
use crate::telemetry::JobFinished;
use parkhang_core::domain::{Assignment, Fence, Job, JobId, PoolInfo, TaskStatus, WorkerId};
use parkhang_core::failpoint::Failpoint;
use parkhang_core::policy::placement::Conduct;
use parkhang_core::policy::service::ServiceTerms;
use parkhang_state::{Change, Outcome, StateError, StateStore};

/// Reason why a pass ended early. The next one starts over.
#[derive(Debug, thiserror::Error)]
pub(super) enum PassError {
    #[error(transparent)]
    State(#[from] StateError),
    #[error(transparent)]
    GroupCommitter(#[from] GroupCommitterGone),
}

/// Result of a pass, as far as the orchestrator needs it.
#[derive(Debug, Default)]
pub(super) struct Pass {
    /// Time of the store by which the pass has decided.
    pub decided_at: DateTime<Utc>,
    /// Time at which the next task that is backing off becomes due.
    pub next_due: Option<DateTime<Utc>>,
    /// Jobs that this pass completed or failed, and cancelled ones that hold no lease any more.
    pub finished: Vec<Job>,
    /// Something was written.
    pub progressed: bool,
    /// Leases that were ended because their jobs are cancelled.
    pub cancelled: HashMap<WorkerId, Vec<Fence>>,
    /// Expired leases that were ended: their tasks wait again, for the next pass.
    pub ended: usize,
}

/// Offers a written lease to its pool; takes the time at which it was decided. Must not wait for the answer.
pub(super) type AssignFn<'a> = dyn Fn(&Arc<dyn Executor>, Assignment, Instant) + Send + Sync + 'a;

/// Runs one pass over the pools, in view of what they have shown of themselves.
pub(super) async fn reconcile(
    store: &Arc<dyn StateStore>,
    committer: &GroupCommitter,
    (pools, conduct): (&[Arc<dyn Executor>], &Conduct),
    assign: &AssignFn<'_>,
    limits: PassLimits,
) -> Result<Pass, PassError> {
    // The one clock that all leaders share: by its own, one whose clock is ahead would write leases that its successor waits for.
    let now = store.now().await?;
    let offers: Vec<PoolInfo> = pools.iter().map(|pool| pool.info().clone()).collect();
    let terms: BTreeMap<WorkerId, ServiceTerms> = pools
        .iter()
        .filter_map(|pool| Some((pool.info().worker.clone(), pool.terms()?)))
        .collect();
    let mut plan = Plan::make(store.as_ref(), &offers, &terms, conduct, limits, now).await?;
    let decided = Instant::now();
    let next_due = plan.next_due;
    let changes = std::mem::take(&mut plan.changes);
    if !changes.is_empty() {
        Failpoint::PassDecided.pass();
    }
    // Written before anything is offered: should this process die in between, the leases expire, and no pool is at work on
    // something that the store does not know of.
    let outcomes = committer.commit_all(changes).await?;
    let granted = plan.granted(outcomes);
    let progressed = granted.ended > 0 || !granted.cancelled.is_empty() || !granted.assignments.is_empty();
    if !granted.assignments.is_empty() {
        Failpoint::LeasesWritten.pass();
        let by_worker: HashMap<&WorkerId, &Arc<dyn Executor>> =
            pools.iter().map(|pool| (&pool.info().worker, pool)).collect();
        for (worker, assignment) in granted.assignments {
            // Always there, as the plan places work with these pools and no others.
            if let Some(pool) = by_worker.get(&worker) {
                assign(pool, assignment, decided);
            }
        }
    }
    // A step of its own and not part of a report, so that a job whose last report was recorded by a leader that died then is
    // finished all the same.
    Failpoint::JobsUnsettled.pass();
    let finished = store.finish_jobs(now).await?;
    for job in &finished {
        JobFinished(job).emit();
    }
    Ok(Pass {
        decided_at: now,
        next_due,
        finished,
        progressed,
        cancelled: granted.cancelled,
        ended: granted.ended,
    })
}

/// Ends the leases of processes that are known to be dead, and returns their number. For a process that is the only one to work
/// on the job.
///
/// # Errors
///
/// When the store cannot be read or written.
pub async fn release_abandoned_leases(
    store: &Arc<dyn StateStore>,
    job: JobId,
    max_interruptions: i32,
    now: DateTime<Utc>,
) -> Result<usize, StateError> {
    let tasks = store.tasks(job).await?;
    let changes: Vec<Change> = tasks
        .iter()
        .filter(|task| task.status == TaskStatus::Running)
        .map(|task| node_lost(task, max_interruptions))
        .collect();
    let outcomes = store.commit(&changes, now).await?;
    Ok(outcomes
        .iter()
        .filter(|outcome| matches!(outcome, Outcome::Applied(_)))
        .count())
}
