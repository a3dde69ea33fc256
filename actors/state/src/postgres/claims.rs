//! Claims: tasks for workers that take work themselves.
//!
//! Rows that another claim has locked are passed over and not waited for. Any task that is due will do, so a wait would only
//! make all workers take turns, and end at a row that is leased by then. A commit, whose change names one task, waits instead.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use sqlx::postgres::{PgConnection, PgPool};

use super::backlog::held;
use super::commit::apply_all;
use super::{jobs, tasks};
use crate::backlog::waiting_for;
use crate::claim::cancellation;
use crate::{Change, ClaimRequest, StateError};
use parkhang_core::domain::{Job, Position, StageName, Task, TaskStatus};
use parkhang_core::policy::claim::{Offer, is_idle};
use parkhang_core::policy::placement::Shares;
use parkhang_core::policy::poison::SUSPECT_AFTER;

/// Largest number of leases of each kind that one claim ends; the next one ends more.
const MAX_ENDED: i64 = 100;

/// Locks up to `$5` tasks of the lanes that are due, the lanes in their order: suspects if `$7` is true, otherwise all others.
/// The inner limits keep each lane's search within the index `tasks_open`; the outer one stops the loop over the lanes, so that
/// hardly a row is locked that is not taken.
pub(super) const LOCK_READY: &str = "select ready.id \
     from unnest($1::bigint[], $2::text[], $3::text[]) as lane (job_id, stage, status) \
     cross join lateral ( \
         select t.id from tasks t \
         where t.job_id = lane.job_id and t.current_stage = lane.stage and t.status = lane.status::task_status \
             and t.current_stage <> 'done' and not t.terminal and (t.not_before is null or t.not_before <= $4) \
             and (t.interruptions >= $6) = $7 \
         order by t.id limit $5 for update skip locked \
     ) ready \
     limit $5";

/// Locks tasks whose lease ran out, but for those of [`LOCK_UNWANTED`], which are charged no loss, and those of services, which only an
/// orchestrator can judge.
pub(super) const LOCK_EXPIRED: &str = "select t.id from tasks t join jobs j on j.id = t.job_id \
     where t.status = 'running' and t.lease_until <= $2 and t.worker_id not like 'service:%' and not (j.status = 'cancelled' and j.finished_at is null) \
     order by t.id limit $1 for update of t skip locked";

/// Locks tasks of cancelled jobs that are leased, whether the lease is in force or has run out.
pub(super) const LOCK_UNWANTED: &str = "select t.id from tasks t join jobs j on j.id = t.job_id \
     where t.status = 'running' and j.status = 'cancelled' and j.finished_at is null \
     order by t.id limit $1 for update of t skip locked";

/// Ends leases that are over and leases tasks to the offers' workers, in one transaction.
pub(super) async fn claim(
    pool: &PgPool,
    request: &ClaimRequest,
    now: DateTime<Utc>,
) -> Result<Vec<(Task, Arc<Job>)>, StateError> {
    // The transaction waits for the disk: a lease that a crash of the server could undo might be handed out twice with the same
    // fence.
    let mut transaction = pool.begin().await?;
    let connection = &mut *transaction;
    // Jobs before tasks, as everywhere. The tasks are all locked with `skip locked`, so that no claim waits for a task.
    let jobs = claimable_jobs(connection).await?;
    let lost = if request.ends_leases {
        lock_leased(connection, LOCK_EXPIRED, Some(now)).await?
    } else {
        Vec::new()
    };
    let unwanted = lock_leased(connection, LOCK_UNWANTED, None).await?;
    let ends: Vec<Change> = lost
        .iter()
        .filter_map(|task| request.end_of(task, now))
        .chain(unwanted.iter().map(cancellation))
        .collect();
    if !ends.is_empty() {
        apply_all(connection, &ends, now).await?;
    }
    // Counted after the ends, whose room is free again. Leases that other claims have written and not committed are missing
    // here: for jobs with a limit the lock on the job excludes that, and the shares of the others need not be exact.
    let held = held(&mut *connection, now).await?;
    let mut shares = Shares::of(&held);
    let mut claimed = Vec::new();
    // Volumes near their end finish first; those that have just begun a stage would pile up.
    let mut offers: Vec<&Offer> = request.offers.iter().collect();
    offers.sort_by_key(|offer| stages_to_go(&jobs, &offer.pool.stage));
    // A suspect runs alone on its node, so only an idle process takes one, and nothing beside it.
    if is_idle(&request.offers) {
        for offer in offers.iter().filter(|offer| offer.free > 0) {
            let turns = turns(&shares, &jobs, offer);
            let alone = lock_ready(connection, &turns, Wanted::Suspects, offer, 1, now).await?;
            claimed = lease_all(connection, request, offer, &jobs, &alone, now).await?;
            if !claimed.is_empty() {
                transaction.commit().await?;
                return Ok(claimed);
            }
        }
    }
    for offer in offers {
        let mut free = offer.free;
        while free > 0 {
            let turns = turns(&shares, &jobs, offer);
            // One at a time, as after each task the next turn may be another job's, and a limit may be reached; all at once where
            // there is one job without a limit.
            let sole = matches!(turns[..], [job] if !is_limited(job));
            let limit = if sole { free } else { 1 };
            let ready = lock_ready(connection, &turns, Wanted::Others, offer, limit, now).await?;
            // Nothing is left, or others are about to take it: a caller may get less than there is.
            if ready.is_empty() {
                break;
            }
            for (task, job) in lease_all(connection, request, offer, &jobs, &ready, now).await? {
                shares.grow(job.id, &offer.pool.stage, 1);
                claimed.push((task, job));
            }
            free = free.saturating_sub(ready.len());
        }
    }
    transaction.commit().await?;
    Ok(claimed)
}

/// Leases locked tasks to the offer's worker; returns them as leased.
async fn lease_all(
    connection: &mut PgConnection,
    request: &ClaimRequest,
    offer: &Offer,
    jobs: &[Arc<Job>],
    ready: &[Task],
    now: DateTime<Utc>,
) -> Result<Vec<(Task, Arc<Job>)>, StateError> {
    let leases: Vec<Change> = ready
        .iter()
        .map(|task| request.lease(task, offer.pool.stage.clone(), offer.pool.worker.clone()))
        .collect();
    let outcomes = apply_all(connection, &leases, now).await?;
    Ok(outcomes
        .into_iter()
        .filter_map(|outcome| {
            // Not applied where the job was paused or cancelled since the jobs were read: only those with a
            // limit are locked.
            let task = outcome.applied()?;
            let job = jobs.iter().find(|job| job.id == task.job_id)?;
            Some((task, Arc::clone(job)))
        })
        .collect())
}

/// Jobs that the offer's worker may run its stage for, in their turn.
fn turns<'a>(shares: &Shares<'_>, jobs: &'a [Arc<Job>], offer: &Offer) -> Vec<&'a Job> {
    let suited = jobs.iter().map(|job| &**job).filter(|job| offer.pool.suits(job));
    shares.turns(suited, &offer.pool.stage)
}

/// Kind of the tasks that a claim looks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Suspects,
    Others,
}

/// Number of stages from this one to the end of its pipeline, the least where the pipelines of jobs differ.
fn stages_to_go(jobs: &[Arc<Job>], stage: &StageName) -> usize {
    jobs.iter()
        .map(|job| job.pipeline.to_go(stage))
        .filter(|to_go| *to_go > 0)
        .min()
        .unwrap_or(usize::MAX)
}

/// True for a job that limits the number of its running tasks.
fn is_limited(job: &Job) -> bool {
    job.config.max_running > 0 || job.config.max_running_per_stage > 0
}

/// Locks and returns up to `limit` tasks of the jobs, in their turn, for the stage of the offer.
async fn lock_ready(
    connection: &mut PgConnection,
    turns: &[&Job],
    wanted: Wanted,
    offer: &Offer,
    limit: usize,
    now: DateTime<Utc>,
) -> Result<Vec<Task>, StateError> {
    let lanes: Vec<(i64, Position, TaskStatus)> = turns
        .iter()
        .flat_map(|job| {
            // Tasks that were given back or failed come before those that have not begun the stage: they are older.
            waiting_for(&job.pipeline, &offer.pool.stage)
                .into_iter()
                .rev()
                .map(|(position, status)| (job.id.0, position, status))
        })
        // Suspects stand where a lost lease leaves its task, and in no other lane.
        .filter(|(_, position, status)| {
            wanted == Wanted::Others
                || (*status == TaskStatus::Pending && *position == Position::At(offer.pool.stage.clone()))
        })
        .collect();
    let ids: Vec<i64> = sqlx::query_scalar(LOCK_READY)
        .bind(lanes.iter().map(|(job, ..)| *job).collect::<Vec<_>>())
        .bind(
            lanes
                .iter()
                .map(|(_, position, _)| position.as_str())
                .collect::<Vec<_>>(),
        )
        .bind(
            lanes
                .iter()
                .map(|(.., status)| status.as_str())
                .collect::<Vec<_>>(),
        )
        .bind(now)
        .bind(i64::try_from(limit).unwrap_or(i64::MAX))
        .bind(SUSPECT_AFTER)
        .bind(wanted == Wanted::Suspects)
        .fetch_all(&mut *connection)
        .await?;
    tasks::by_ids(connection, &ids).await
}

/// Locks and returns leased tasks by one of the statements above; `by` is the deadline of those that go by one.
async fn lock_leased(
    connection: &mut PgConnection,
    statement: &'static str,
    by: Option<DateTime<Utc>>,
) -> Result<Vec<Task>, StateError> {
    let mut query = sqlx::query_scalar(statement).bind(MAX_ENDED);
    if let Some(by) = by {
        query = query.bind(by);
    }
    let ids: Vec<i64> = query.fetch_all(&mut *connection).await?;
    tasks::by_ids(connection, &ids).await
}

/// Returns the jobs that run.
async fn claimable_jobs(connection: &mut PgConnection) -> Result<Vec<Arc<Job>>, StateError> {
    let jobs = jobs::running(&mut *connection).await?;
    // Jobs with a limit are locked until the end of the claim, so that of two claims the second counts what the first has
    // leased. This lock is waited for: a job passed over would be left without work although it has room.
    let limited: Vec<i64> = jobs
        .iter()
        .filter(|job| is_limited(job))
        .map(|job| job.id.0)
        .collect();
    if !limited.is_empty() {
        sqlx::query("select from jobs where id = any($1) order by id for no key update")
            .bind(limited)
            .execute(connection)
            .await?;
    }
    Ok(jobs)
}
