//! One pass: read, decide, write, assign. Idempotent; a pass that is cut off anywhere is finished by the next.

use std::collections::HashMap;
use std::sync::Arc;

use chrono::{DateTime, Duration, Utc};
use tracing::{debug, info, warn};

use super::executor::Executor;
use super::mirror::{Mirror, MirrorGone};
use crate::domain::{Job, JobId, Task, TaskId, TaskStatus};
use crate::policy::placement::{self, Decision, Pool};
use crate::policy::transition::Event;
use crate::stage::Assignment;
use crate::state::{Change, Expected, Outcome, StateError, StateStore};

/// Why a pass ended early. The next one starts over.
#[derive(Debug, thiserror::Error)]
pub(super) enum PassError {
    #[error(transparent)]
    State(#[from] StateError),
    #[error(transparent)]
    Mirror(#[from] MirrorGone),
}

/// What a pass did, as far as the next one needs to know.
#[derive(Debug, Default)]
pub(super) struct Pass {
    /// When a task that is backing off becomes due.
    pub next_due: Option<DateTime<Utc>>,
    /// Jobs that this pass completed or failed.
    pub settled: Vec<Job>,
    /// Something was written, so another pass may find more to do.
    pub progressed: bool,
}

/// Limits of a pass.
#[derive(Debug, Clone, Copy)]
pub(super) struct PassLimits {
    pub lease: Duration,
    pub max_interruptions: i32,
}

/// `assign` hands a written lease to its pool; it must not wait for the answer.
pub(super) async fn reconcile(
    store: &Arc<dyn StateStore>,
    mirror: &Mirror,
    pools: &[Arc<dyn Executor>],
    assign: &(dyn Fn(&Arc<dyn Executor>, Assignment) + Send + Sync),
    limits: PassLimits,
    now: DateTime<Utc>,
) -> Result<Pass, PassError> {
    let open = store.open_tasks().await?;
    let offers: Vec<Pool> = pools
        .iter()
        .map(|pool| Pool {
            worker: pool.worker().clone(),
            stage: pool.stage().clone(),
            slots: pool.slots(),
        })
        .collect();
    let decisions = placement::decide(
        now,
        open.iter().map(|(task, job)| (task, job.as_ref())),
        &offers,
        limits.max_interruptions,
    );
    let next_due = placement::next_due(open.iter().map(|(task, _)| task), now);
    let by_id: HashMap<TaskId, &(Task, Arc<Job>)> = open.iter().map(|entry| (entry.0.id, entry)).collect();

    let mut changes = Vec::new();
    let mut assignments = Vec::new();
    for decision in decisions {
        let (id, event, lessee) = match decision {
            Decision::End { task, event } => (task, event, None),
            Decision::Lease { task, stage, worker } => {
                let event = Event::Leased {
                    stage,
                    worker: worker.clone(),
                    until: now + limits.lease,
                };
                (task, event, Some(worker))
            }
        };
        let Some((task, job)) = by_id.get(&id) else {
            continue;
        };
        changes.push(Change::new(Expected::of(task), event));
        assignments.push(lessee.map(|worker| (job.clone(), worker)));
    }
    let outcomes = mirror.commit_all(changes).await?;
    let mut progressed = false;
    for (outcome, assignment) in outcomes.into_iter().zip(assignments) {
        match (outcome, assignment) {
            (Outcome::Applied(task), Some((job, worker))) => {
                progressed = true;
                let pool = pools.iter().find(|pool| *pool.worker() == worker);
                if let (Some(pool), Some(assignment)) = (pool, assignment_of(task, &job)) {
                    assign(pool, assignment);
                }
            }
            (Outcome::Applied(task), None) => {
                progressed = true;
                warn!(task = %task.id, volume = %task.volume, status = task.status.as_str(), "lease lost");
            }
            (Outcome::Fenced(_), _) => debug!("a task moved on while the pass decided"),
            (Outcome::Illegal(reason), _) => warn!(reason, "the reconciler asked for an illegal transition"),
        }
    }
    let settled = store.settle_jobs(now).await?;
    for job in &settled {
        info!(job = %job.key, status = job.status.as_str(), "job settled");
    }
    Ok(Pass {
        next_due,
        settled,
        progressed,
    })
}

/// What the pool must know of a task that has just been leased.
fn assignment_of(task: Task, job: &Job) -> Option<Assignment> {
    Some(Assignment {
        fence: task.fence()?,
        lease_until: task.lease?.until,
        volume: task.volume,
        job: job.key.clone(),
        config: Arc::new(job.config.clone()),
    })
}

/// Ends the leases of processes that are known to be dead: for a process that is the only one to work on the job.
/// Returns how many there were.
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
        .map(|task| Change::new(Expected::of(task), placement::lost_lease(task, max_interruptions)))
        .collect();
    let outcomes = store.commit(&changes, now).await?;
    Ok(outcomes
        .iter()
        .filter(|outcome| matches!(outcome, Outcome::Applied(_)))
        .count())
}
