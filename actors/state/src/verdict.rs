//! The change of state that a pool's report on a lease leads to.

use std::collections::HashMap;

use chrono::{DateTime, Utc};

use super::{Change, Expected, StateError, StateStore};
use parkhang_core::domain::{
    ErrorCategory, Fence, LeaseReport, StageError, StageName, StageRun, StageRunStatus, StageVerdict, Task,
};
use parkhang_core::policy::poison::{Loss, lost_lease};
use parkhang_core::policy::retry;
use parkhang_core::policy::transition::Event;

/// State that decides the change a report leads to, beside the report itself.
#[derive(Debug, Default)]
pub struct ReportContext {
    /// Time of the report by the clock of the store; `None` where the change does not depend on it.
    pub now: Option<DateTime<Utc>>,
    /// The task as it is now.
    pub task: Option<Task>,
    /// Delay before the first retry, as the job has it.
    pub retry_backoff_s: Option<f64>,
    /// Time that the stages of the task took, up to the report.
    pub processing_ms: f32,
    pub max_interruptions: i32,
    /// Shifts the delay of a retry, by -1 to 1.
    pub jitter: f64,
}

/// Change that a report leads to; reads what it depends on from the store. `now` gives the time by the store's clock and is asked only
/// where the change depends on it, as most reports would wait for an answer that they do not need.
///
/// # Errors
///
/// When the store cannot be read.
pub async fn change_for(
    store: &dyn StateStore,
    report: LeaseReport,
    max_interruptions: i32,
    jitter: f64,
    now: impl Future<Output = Result<DateTime<Utc>, StateError>> + Send,
) -> Result<Change, StateError> {
    let fence = &report.fence;
    let mut context = ReportContext {
        max_interruptions,
        jitter,
        ..ReportContext::default()
    };
    match &report.verdict {
        // Only the last stage of a volume brings results, so its history is read once.
        Some(StageVerdict::Succeeded(success)) if success.results.is_some() => {
            let runs = store.stage_runs(fence.task).await?;
            context.processing_ms = processing_ms(&runs, fence, now.await?);
        }
        None => context.task = store.task(fence.task).await?,
        Some(StageVerdict::Failed(_)) => {
            if let Some(task) = store.task(fence.task).await? {
                let job = store.job_by_id(task.job_id).await?;
                context.retry_backoff_s = job.map(|job| job.config.retry_backoff_s);
                context.task = Some(task);
                context.now = Some(now.await?);
            }
        }
        Some(StageVerdict::Succeeded(_) | StageVerdict::Interrupted) => {}
    }
    Ok(change_of(report, context))
}

/// Change that a report leads to. A failure that will be retried carries the time before which it must not be.
pub fn change_of(report: LeaseReport, context: ReportContext) -> Change {
    let LeaseReport { fence, verdict } = report;
    match verdict {
        Some(StageVerdict::Succeeded(success)) => {
            let mut results = success.results;
            if let Some(results) = &mut results {
                results.processing_duration_ms = context.processing_ms;
            }
            Change {
                expected: Expected::Lease(fence),
                event: Event::Succeeded,
                metrics: Some(success.metrics),
                fingerprint: success.fingerprint,
                results,
            }
        }
        None => {
            let held = context.task.filter(|task| task.fence().as_ref() == Some(&fence));
            // A lease that is over is fenced off by the store, whatever the event.
            let event = held.map_or(Event::Interrupted, |task| {
                lost_lease(&task, Loss::Worker, context.max_interruptions)
            });
            Change::new(Expected::Lease(fence), event)
        }
        Some(StageVerdict::Interrupted) => Change::new(Expected::Lease(fence), Event::Released),
        Some(StageVerdict::Failed(error)) if error.is_outage() => {
            let outages = context.task.map_or(0, |task| task.outages).saturating_add(1);
            let count = u32::try_from(outages).unwrap_or(u32::MAX);
            // Without a job the task was deleted: the change will be fenced off, whatever its delay.
            let delay = retry::outage_backoff(context.retry_backoff_s.unwrap_or(1.0), count, context.jitter);
            let message = match error.category {
                ErrorCategory::Node => {
                    format!("node out of order, tried {outages} times: {}", error.message)
                }
                ErrorCategory::Service | ErrorCategory::Pending => {
                    format!("waiting for {}, tried {outages} times", error.message)
                }
                _ => format!("storage unavailable, tried {outages} times: {}", error.message),
            };
            let error = StageError { message, ..error };
            let not_before = later(context.now, delay);
            Change::new(Expected::Lease(fence), Event::Deferred { error, not_before })
        }
        Some(StageVerdict::Failed(error)) if error.category == ErrorCategory::Stalled => {
            let held = context.task.filter(|task| task.fence().as_ref() == Some(&fence));
            let event = held.map_or(Event::Interrupted, |task| {
                stood_still(&task, &error, context.max_interruptions)
            });
            Change::new(Expected::Lease(fence), event)
        }
        Some(StageVerdict::Failed(error)) => {
            let attempt = u32::try_from(fence.attempt.0).unwrap_or(1);
            let delay = retry::backoff(context.retry_backoff_s.unwrap_or(1.0), attempt, context.jitter);
            let not_before = later(context.now, delay);
            Change::new(Expected::Lease(fence), Event::Failed { error, not_before })
        }
    }
}

/// What it means for a volume that it stood still on a pool that works: as if the pool had died of it, with whatever ran beside
/// it there.
fn stood_still(task: &Task, evidence: &StageError, max_interruptions: i32) -> Event {
    match lost_lease(task, Loss::Node, max_interruptions) {
        Event::Quarantined { error } => Event::Quarantined {
            error: StageError {
                message: format!("{}: {}", error.message, evidence.message),
                ..error
            },
        },
        event => event,
    }
}

fn later(now: Option<DateTime<Utc>>, delay: std::time::Duration) -> Option<DateTime<Utc>> {
    Some(now? + chrono::Duration::from_std(delay).ok()?)
}

/// Time that the stages of a task took: the last completed run of each, and the run of `current` up to `now`.
fn processing_ms(runs: &[StageRun], current: &Fence, now: DateTime<Utc>) -> f32 {
    let mut by_stage: HashMap<&StageName, chrono::Duration> = HashMap::new();
    for run in runs {
        let ended = match run.status {
            StageRunStatus::Done => run.ended_at,
            StageRunStatus::Running if run.fence == *current => Some(now),
            _ => None,
        };
        if let Some(ended) = ended {
            // Runs come in the order in which they began, so a later run of a stage takes the place of an
            // earlier one.
            by_stage.insert(&run.fence.stage, ended - run.started_at);
        }
    }
    by_stage
        .values()
        .map(|took| took.num_microseconds().unwrap_or(i64::MAX) as f32 / 1000.0)
        .sum()
}
