//! Commits: changes of tasks, applied in batches.
//!
//! A transaction that waits for the disk costs the same for one change as for hundreds, so the orchestrator commits what has
//! arrived in one batch. Every transition of a task, whoever decided it, comes through [`apply_all`], which checks it with the
//! same function as the memory store, on rows that are locked.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};

use chrono::{DateTime, Utc};
use sqlx::Connection;
use sqlx::postgres::{PgConnection, PgPool};
use tracing::warn;

use super::leadership;
use super::rows::{JobRow, TaskRow, job_columns, storable, task_columns};
use crate::change::{apply, instead_of};
use crate::{Change, Outcome, StateError};
use parkhang_core::domain::{Epoch, Fence, Job, JobId, RetryScope, StageRun, Task, TaskId, VolumeResults};
use parkhang_core::failpoint::Failpoint;
use parkhang_core::policy::transition::is_terminal;

/// Statements that begin the transaction of a batch. Its statements are planned once a connection: for the ids at hand the planner would
/// find the same plan each time, and takes as long as it takes to carry out a batch of one. An index is used whatever the tables hold when
/// that is, as most of them are empty then.
const BEGIN: &str = "begin; set local plan_cache_mode = force_generic_plan; set local enable_seqscan = off";

/// Rows to be written for a batch of changes, of which each task has been locked.
#[derive(Default)]
struct Batch {
    /// Tasks before and after the batch, with the retry scope of their job, in the order of task ids.
    moved: BTreeMap<TaskId, (Task, Task, RetryScope)>,
    /// History rows in the order in which they began.
    runs: Vec<StageRun>,
    /// Index in `runs` of each lease.
    places: HashMap<Fence, usize>,
    /// Results of volumes.
    results: BTreeMap<TaskId, VolumeResults>,
}

impl Batch {
    /// Takes in a history row; a lease that begins and ends in one batch is one row.
    fn record(&mut self, run: StageRun) {
        match self.places.entry(run.fence.clone()) {
            Entry::Occupied(place) => self.runs[*place.get()] = run,
            Entry::Vacant(place) => {
                place.insert(self.runs.len());
                self.runs.push(run);
            }
        }
    }
}

/// Applies all changes in one transaction.
pub(super) async fn commit(
    pool: &PgPool,
    epoch: Option<Epoch>,
    changes: &[Change],
    now: DateTime<Utc>,
) -> Result<Vec<Outcome>, StateError> {
    if changes.is_empty() {
        return Ok(Vec::new());
    }
    // The epoch is compared in this transaction and stays locked until its end, so that no successor begins in between.
    let mut transaction = leadership::begin_with(pool, BEGIN, epoch).await?;
    let outcomes = match apply_all(&mut transaction, changes, now).await {
        Err(StateError::Refused(reason)) => {
            warn!(
                changes = changes.len(),
                reason, "the database refuses a change; looking for it"
            );
            transaction.rollback().await?;
            transaction = leadership::begin_with(pool, BEGIN, epoch).await?;
            apply_apart(&mut transaction, changes, now).await?
        }
        outcomes => outcomes?,
    };
    Failpoint::ChangesWritten.pass();
    transaction.commit().await?;
    Failpoint::ChangesCommitted.pass();
    Ok(outcomes)
}

/// Applies changes of which the database refuses some: each half has a savepoint, and is halved in its turn where it is refused.
async fn apply_apart(
    connection: &mut PgConnection,
    changes: &[Change],
    now: DateTime<Utc>,
) -> Result<Vec<Outcome>, StateError> {
    // All at once, and in the order of ids: the halves lock them in another one.
    lock_tasks(connection, changes).await?;
    let mut outcomes = Vec::with_capacity(changes.len());
    // Parts to be tried, the next one last.
    let mut parts = vec![changes];
    while let Some(part) = parts.pop() {
        match (apply_or_undo(connection, part, now).await?, part) {
            (Ok(applied), _) => outcomes.extend(applied),
            (Err(reason), [change]) => {
                outcomes.extend(apply_instead(connection, change, reason, now).await?);
            }
            (Err(_), _) => {
                let (first, second) = part.split_at(part.len() / 2);
                parts.extend([second, first]);
            }
        }
    }
    Ok(outcomes)
}

/// Outcome of a change that the database refuses, for this reason.
async fn apply_instead(
    connection: &mut PgConnection,
    change: &Change,
    reason: String,
    now: DateTime<Utc>,
) -> Result<Vec<Outcome>, StateError> {
    let task = change.expected.task();
    warn!(%task, event = change.event.name(), reason, "the database refuses this change");
    if let Some(failure) = instead_of(change, &reason)
        && let Ok(outcomes) = apply_or_undo(connection, &[failure], now).await?
    {
        return Ok(outcomes);
    }
    Ok(vec![Outcome::Refused(reason)])
}

/// Applies changes, or none of them; the inner error is the reason for which the database refuses one.
async fn apply_or_undo(
    connection: &mut PgConnection,
    changes: &[Change],
    now: DateTime<Utc>,
) -> Result<Result<Vec<Outcome>, String>, StateError> {
    let mut savepoint = connection.begin().await?;
    match apply_all(&mut savepoint, changes, now).await {
        Ok(outcomes) => {
            savepoint.commit().await?;
            Ok(Ok(outcomes))
        }
        Err(StateError::Refused(reason)) => {
            savepoint.rollback().await?;
            Ok(Err(reason))
        }
        Err(error) => Err(error),
    }
}

/// Applies changes within a transaction: locks their tasks, decides in Rust, and writes everything in three statements. The
/// number of statements does not grow with the batch, as each costs a round trip while the rows are locked.
pub(super) async fn apply_all(
    connection: &mut PgConnection,
    changes: &[Change],
    now: DateTime<Utc>,
) -> Result<Vec<Outcome>, StateError> {
    let mut tasks = lock_tasks(connection, changes).await?;
    let jobs = jobs_of(connection, tasks.values()).await?;

    // Changes of one task see each other: the second one is decided on the row as the first one leaves it, and the row is
    // written once.
    let mut batch = Batch::default();
    let mut outcomes = Vec::with_capacity(changes.len());
    for change in changes {
        let id = change.expected.task();
        let row = tasks
            .get(&id)
            .and_then(|task| Some((task, jobs.get(&task.job_id)?)));
        let Some((task, job)) = row else {
            // The task was deleted with its job since the writer read it.
            outcomes.push(Outcome::Fenced(None));
            continue;
        };
        let (outcome, run) = apply(task, job, change, now);
        if let Outcome::Applied(after) = &outcome {
            let scope = job.config.retry_scope;
            // The state before the batch stays, as the write compares it with the row.
            batch
                .moved
                .entry(id)
                .or_insert_with(|| (task.clone(), after.clone(), scope))
                .1 = after.clone();
            if let Some(results) = &change.results {
                batch.results.insert(id, results.clone());
            }
            tasks.insert(id, after.clone());
        }
        if let Some(run) = run {
            batch.record(run);
        }
        outcomes.push(outcome);
    }

    if !batch.moved.is_empty() {
        write_tasks(connection, &batch.moved).await?;
        write_stage_runs(connection, &batch.runs).await?;
        write_results(connection, &batch.results).await?;
    }
    Ok(outcomes)
}

/// Locks and returns the tasks of the changes.
async fn lock_tasks(
    connection: &mut PgConnection,
    changes: &[Change],
) -> Result<HashMap<TaskId, Task>, StateError> {
    // In the order of ids, so that two batches over the same tasks wait for each other and do not deadlock. Nothing is skipped:
    // a change is about this task and no other, and must be told apart from one whose lease is over. `of t` leaves the volumes
    // unlocked.
    let ids: Vec<i64> = changes.iter().map(|change| change.expected.task().0).collect();
    let rows: Vec<TaskRow> = sqlx::query_as(concat!(
        "select ",
        task_columns!(),
        " from tasks t join volumes v on v.id = t.volume_id where t.id = any($1) order by t.id for update of t"
    ))
    .bind(ids)
    .fetch_all(connection)
    .await?;
    Ok(rows.into_iter().map(|row| (row.0.id, row.0)).collect())
}

/// Returns the jobs of the tasks.
async fn jobs_of(
    connection: &mut PgConnection,
    tasks: impl Iterator<Item = &Task>,
) -> Result<HashMap<JobId, Job>, StateError> {
    // Not locked, or all commits of a job would take turns. What a transition needs of a job never changes but for the status:
    // a pause that comes while a lease is being written may as well have come after it, and leases that a cancellation misses
    // so are found by the next pass.
    let mut ids: Vec<i64> = tasks.map(|task| task.job_id.0).collect();
    ids.sort_unstable();
    ids.dedup();
    let rows: Vec<JobRow> = sqlx::query_as(concat!(
        "select ",
        job_columns!(),
        " from jobs j where j.id = any($1)"
    ))
    .bind(ids)
    .fetch_all(connection)
    .await?;
    Ok(rows.into_iter().map(|row| (row.0.id, row.0)).collect())
}

/// Writes the tasks of a batch.
async fn write_tasks(
    connection: &mut PgConnection,
    moved: &BTreeMap<TaskId, (Task, Task, RetryScope)>,
) -> Result<(), StateError> {
    fn column<'a, T>(
        moved: &'a BTreeMap<TaskId, (Task, Task, RetryScope)>,
        value: impl Fn(&'a Task, &'a Task) -> T,
    ) -> Vec<T> {
        moved
            .values()
            .map(|(before, after, _)| value(before, after))
            .collect()
    }
    let terminal: Vec<bool> = moved
        .values()
        .map(|(_, after, scope)| is_terminal(after, *scope))
        .collect();
    // One array for each column, taken apart by `unnest`: the text of the statement is the same for every number of rows, so it
    // is prepared once, and no batch meets the limit on parameters. Enumerations come as text and are cast, as the domain knows
    // no types of the database. The state before is compared once more: with the rows locked the comparison cannot fail, and if
    // it ever did, the count below would show it and nothing of the batch would be written.
    let written = sqlx::query(
        "update tasks t
         set current_stage = n.current_stage, status = n.status::task_status, attempts = n.attempts,
             max_attempts = n.max_attempts, stage_attempts = n.stage_attempts, stage_tries = n.stage_tries, generation = n.generation,
             interruptions = n.interruptions, outages = n.outages, terminal = n.terminal, not_before = n.not_before,
             worker_id = n.worker_id, lease_until = n.lease_until, last_error = n.last_error,
             started_at = n.started_at, done_at = n.done_at, forced = n.forced,
             pages_done = case when n.interruptions = 0 then 0 else t.pages_done end
         from unnest(
             $1::bigint[], $2::text[], $3::text[], $4::int[], $5::bigint[],
             $6::text[], $7::text[], $8::int[], $9::int[], $10::int[], $11::bigint[], $12::int[], $13::bool[],
             $14::timestamptz[], $15::text[], $16::timestamptz[], $17::jsonb[], $18::timestamptz[],
             $19::timestamptz[], $20::bool[], $21::int[], $22::int[]
         ) as n (
             id, was_stage, was_status, was_attempts, was_generation,
             current_stage, status, attempts, max_attempts, stage_attempts, generation, interruptions, terminal,
             not_before, worker_id, lease_until, last_error, started_at, done_at,
             forced, outages, stage_tries
         )
         where t.id = n.id and t.current_stage = n.was_stage and t.status = n.was_status::task_status
             and t.attempts = n.was_attempts and t.generation = n.was_generation",
    )
    .bind(column(moved, |before, _| before.id.0))
    .bind(column(moved, |before, _| before.position.as_str()))
    .bind(column(moved, |before, _| before.status.as_str()))
    .bind(column(moved, |before, _| before.attempts))
    .bind(column(moved, |before, _| before.generation.0))
    .bind(column(moved, |_, after| after.position.as_str()))
    .bind(column(moved, |_, after| after.status.as_str()))
    .bind(column(moved, |_, after| after.attempts))
    .bind(column(moved, |_, after| after.max_attempts))
    .bind(column(moved, |_, after| after.stage_attempts))
    .bind(column(moved, |_, after| after.generation.0))
    .bind(column(moved, |_, after| after.interruptions))
    .bind(terminal)
    .bind(column(moved, |_, after| after.not_before))
    .bind(column(moved, |_, after| {
        after.lease.as_ref().map(|lease| lease.worker.0.as_str())
    }))
    .bind(column(moved, |_, after| after.lease.as_ref().map(|lease| lease.until)))
    .bind(column(moved, |_, after| after.last_error.as_ref().map(storable)))
    .bind(column(moved, |_, after| after.started_at))
    .bind(column(moved, |_, after| after.done_at))
    .bind(column(moved, |_, after| after.forced))
    .bind(column(moved, |_, after| after.outages))
    .bind(column(moved, |_, after| after.stage_tries))
    .execute(connection)
    .await?
    .rows_affected();
    if written != moved.len() as u64 {
        return Err(StateError::Corrupt(format!(
            "{written} of {} locked tasks could be written",
            moved.len()
        )));
    }
    Ok(())
}

/// Writes history rows: a new one for each lease that begins, and the end of those that are there.
async fn write_stage_runs(connection: &mut PgConnection, runs: &[StageRun]) -> Result<(), StateError> {
    // One statement for beginnings and ends, as a batch may hold both of one lease. The row of a lease that has ended stays as
    // it is, so that a repeated change alters no history.
    sqlx::query(
        "insert into stage_runs (
             task_id, stage, attempt, generation, status, worker_id, started_at, done_at, error, metrics, fingerprint
         )
         select task_id, stage, attempt, generation, status::stage_run_status, worker_id, started_at, done_at, error,
             metrics, fingerprint
         from unnest(
             $1::bigint[], $2::text[], $3::int[], $4::bigint[], $5::text[], $6::text[], $7::timestamptz[],
             $8::timestamptz[], $9::jsonb[], $10::jsonb[], $11::text[]
         ) as n (
             task_id, stage, attempt, generation, status, worker_id, started_at, done_at, error, metrics, fingerprint
         )
         on conflict (task_id, stage, attempt, generation) do update
         set status = excluded.status, done_at = excluded.done_at, error = excluded.error,
             metrics = excluded.metrics, fingerprint = excluded.fingerprint
         where stage_runs.done_at is null",
    )
    .bind(runs.iter().map(|run| run.fence.task.0).collect::<Vec<_>>())
    .bind(runs.iter().map(|run| run.fence.stage.as_str()).collect::<Vec<_>>())
    .bind(runs.iter().map(|run| run.fence.attempt.0).collect::<Vec<_>>())
    .bind(runs.iter().map(|run| run.fence.generation.0).collect::<Vec<_>>())
    .bind(runs.iter().map(|run| run.status.as_str()).collect::<Vec<_>>())
    .bind(runs.iter().map(|run| run.worker.0.as_str()).collect::<Vec<_>>())
    .bind(runs.iter().map(|run| run.started_at).collect::<Vec<_>>())
    .bind(runs.iter().map(|run| run.ended_at).collect::<Vec<_>>())
    .bind(runs.iter().map(|run| run.error.as_ref().map(storable)).collect::<Vec<_>>())
    .bind(runs.iter().map(|run| storable(&run.metrics)).collect::<Vec<_>>())
    .bind(runs.iter().map(|run| run.fingerprint.as_deref()).collect::<Vec<_>>())
    .execute(connection)
    .await?;
    Ok(())
}

/// Writes results of volumes; a stage that is done again replaces them.
async fn write_results(
    connection: &mut PgConnection,
    results: &BTreeMap<TaskId, VolumeResults>,
) -> Result<(), StateError> {
    if results.is_empty() {
        return Ok(());
    }
    let rows: Vec<&VolumeResults> = results.values().collect();
    sqlx::query(
        "insert into volume_results (
             task_id, total_images, total_lines, total_characters, processing_duration_ms, dewarping_applied_count,
             nb_errors, confidence_mean, confidence_p10, confidence_p50, confidence_p90, perplexity
         )
         select * from unnest(
             $1::bigint[], $2::int[], $3::int[], $4::int[], $5::real[], $6::int[], $7::int[],
             $8::real[], $9::real[], $10::real[], $11::real[], $12::real[]
         )
         on conflict (task_id) do update
         set total_images = excluded.total_images, total_lines = excluded.total_lines,
             total_characters = excluded.total_characters,
             processing_duration_ms = excluded.processing_duration_ms,
             dewarping_applied_count = excluded.dewarping_applied_count, nb_errors = excluded.nb_errors,
             confidence_mean = excluded.confidence_mean, confidence_p10 = excluded.confidence_p10,
             confidence_p50 = excluded.confidence_p50, confidence_p90 = excluded.confidence_p90,
             perplexity = excluded.perplexity",
    )
    .bind(results.keys().map(|task| task.0).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.total_images).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.total_lines).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.total_characters).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.processing_duration_ms).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.dewarping_applied_count).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.nb_errors).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.confidence_mean).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.confidence_p10).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.confidence_p50).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.confidence_p90).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.perplexity).collect::<Vec<_>>())
    .execute(connection)
    .await?;
    Ok(())
}

#[cfg(test)]
mod tests;
