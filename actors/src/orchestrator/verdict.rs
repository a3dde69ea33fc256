//! From what a pool reports to the change that is written.

use std::collections::HashMap;

use chrono::{DateTime, Utc};

use super::handle::Report;
use crate::domain::{ErrorCategory, Fence, StageError, StageName, StageRun, StageRunStatus, Task};
use crate::policy::poison::{Loss, lost_lease};
use crate::policy::retry;
use crate::policy::transition::Event;
use crate::stage::StageVerdict;
use crate::state::{Change, Expected, StateError, StateStore};

/// What decides what a report means, beside the report itself.
#[derive(Debug, Default)]
pub(crate) struct Known {
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

/// The change that a report means, by what the store knows.
pub(crate) async fn change_for(
    store: &dyn StateStore,
    report: Report,
    max_interruptions: i32,
    jitter: f64,
    now: DateTime<Utc>,
) -> Result<Change, StateError> {
    let fence = &report.fence;
    let mut known = Known {
        max_interruptions,
        jitter,
        ..Known::default()
    };
    match &report.verdict {
        Some(StageVerdict::Succeeded(success)) if success.results.is_some() => {
            let runs = store.stage_runs(fence.task).await?;
            known.processing_ms = processing_ms(&runs, fence, now);
        }
        None => known.task = store.task(fence.task).await?,
        Some(StageVerdict::Failed(_)) => {
            if let Some(task) = store.task(fence.task).await? {
                let job = store.job_by_id(task.job_id).await?;
                known.retry_backoff_s = job.map(|job| job.config.retry_backoff_s);
                known.task = Some(task);
            }
        }
        Some(StageVerdict::Succeeded(_) | StageVerdict::Interrupted) => {}
    }
    Ok(change_of(report, known, now))
}

/// The change that a report means. A failure that will be retried carries the time before which it must not be.
pub(crate) fn change_of(report: Report, known: Known, now: DateTime<Utc>) -> Change {
    let Report { fence, verdict } = report;
    match verdict {
        Some(StageVerdict::Succeeded(success)) => {
            let mut results = success.results;
            if let Some(results) = &mut results {
                results.processing_duration_ms = known.processing_ms;
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
            let held = known.task.filter(|task| task.fence().as_ref() == Some(&fence));
            // A lease that is over is fenced off by the store, whatever the event.
            let event = held.map_or(Event::Interrupted, |task| {
                lost_lease(&task, Loss::Worker, known.max_interruptions)
            });
            Change::new(Expected::Lease(fence), event)
        }
        Some(StageVerdict::Interrupted) => Change::new(Expected::Lease(fence), Event::Released),
        Some(StageVerdict::Failed(error)) if error.is_outage() => {
            let outages = known.task.map_or(0, |task| task.outages).saturating_add(1);
            let count = u32::try_from(outages).unwrap_or(u32::MAX);
            let delay = retry::outage_backoff(known.retry_backoff_s.unwrap_or(1.0), count, known.jitter);
            let what = match error.category {
                ErrorCategory::Node => "node out of order",
                _ => "storage unavailable",
            };
            let error = StageError {
                message: format!("{what}, tried {outages} times: {}", error.message),
                ..error
            };
            let not_before = later(now, delay);
            Change::new(Expected::Lease(fence), Event::Deferred { error, not_before })
        }
        Some(StageVerdict::Failed(error)) if error.category == ErrorCategory::Stalled => {
            let held = known.task.filter(|task| task.fence().as_ref() == Some(&fence));
            let event = held.map_or(Event::Interrupted, |task| {
                stood_still(&task, &error, known.max_interruptions)
            });
            Change::new(Expected::Lease(fence), event)
        }
        Some(StageVerdict::Failed(error)) => {
            let attempt = u32::try_from(fence.attempt.0).unwrap_or(1);
            let delay = retry::backoff(known.retry_backoff_s.unwrap_or(1.0), attempt, known.jitter);
            let not_before = later(now, delay);
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

fn later(now: DateTime<Utc>, delay: std::time::Duration) -> Option<DateTime<Utc>> {
    Some(now + chrono::Duration::from_std(delay).ok()?)
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
            by_stage.insert(&run.fence.stage, ended - run.started_at);
        }
    }
    by_stage
        .values()
        .map(|took| took.num_microseconds().unwrap_or(i64::MAX) as f32 / 1000.0)
        .sum()
}
