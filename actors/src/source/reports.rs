//! Reports on leases, recorded in the state store.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use futures::stream::{self, StreamExt};
use tracing::{debug, info, warn};

use super::joined::Together;
use super::{Clock, SourceError};
use crate::telemetry::TaskReported;
use parkhang_core::domain::{Fence, Job, JobId, JobStatus, LeaseReport, ReportReply, StageName, Task};
use parkhang_core::policy::placement::due_stage;
use parkhang_core::policy::transition::is_finished;
use parkhang_state::{Change, Outcome, StateError, StateStore, change_for};

/// Reports for which the store is asked at a time what their changes depend on.
const READS: usize = 8;

/// Recording of reports: those that come together are one transaction.
pub(super) struct Reports {
    store: Arc<dyn StateStore>,
    clock: Arc<dyn Clock>,
    max_interruptions: i32,
}

impl Reports {
    pub(super) fn new(store: Arc<dyn StateStore>, clock: Arc<dyn Clock>, max_interruptions: i32) -> Self {
        Self {
            store,
            clock,
            max_interruptions,
        }
    }

    /// Changes that the reports lead to.
    async fn changes(
        &self,
        reports: Vec<LeaseReport>,
        now: DateTime<Utc>,
    ) -> Vec<Result<Change, StateError>> {
        let mut changes = Vec::new();
        for report in reports {
            let jitter = rand::random_range(-1.0..=1.0);
            let now = std::future::ready(Ok(now));
            let change = change_for(&*self.store, report, self.max_interruptions, jitter, now);
            changes.push(change);
        }
        stream::iter(changes).buffered(READS).collect().await
    }

    /// Does what follows from tasks that have moved on: jobs that end with them are finished, and what they may begin is announced.
    /// Both are found without it, somewhat later.
    async fn follow(&self, tasks: &[Task], now: DateTime<Utc>) -> Result<(), StateError> {
        let mut jobs: BTreeMap<JobId, Option<Job>> = BTreeMap::new();
        let mut due: BTreeSet<&StageName> = BTreeSet::new();
        let mut finished = false;
        for id in tasks.iter().map(|task| task.job_id) {
            if let Entry::Vacant(entry) = jobs.entry(id) {
                entry.insert(self.store.job_by_id(id).await?);
            }
        }
        for task in tasks {
            // The job was deleted since the report was recorded, and nobody waits for its end.
            let Some(Some(job)) = jobs.get(&task.job_id) else {
                continue;
            };
            if is_finished(task, job.config.retry_scope) {
                finished = true;
            } else if job.status == JobStatus::Running {
                due.extend(due_stage(task, job, now));
            }
        }
        if finished {
            for job in self.store.finish_jobs(now).await? {
                info!(job = %job.key, status = job.status.as_str(), "job finished");
            }
        }
        for stage in due {
            if let Err(error) = self.store.announce_work(stage).await {
                debug!(%error, "cannot announce a runnable task; nodes find it with their next poll");
            }
        }
        Ok(())
    }
}

/// Reply to a report by what became of its change; the task, if it has moved on.
fn replied(fence: &Fence, outcome: Outcome) -> (ReportReply, Option<Task>) {
    match outcome {
        Outcome::Applied(task) => {
            TaskReported(&task).emit();
            (ReportReply::Recorded, Some(task))
        }
        Outcome::Illegal(reason) => {
            warn!(task = %fence.task, reason, "a report asked for an illegal transition");
            (ReportReply::Fenced, None)
        }
        Outcome::Refused(reason) => {
            warn!(task = %fence.task, reason, "the database refuses a report; the lease runs out");
            (ReportReply::Fenced, None)
        }
        Outcome::Fenced(_) => {
            info!(task = %fence.task, stage = %fence.stage, "a stale report changed nothing");
            (ReportReply::Fenced, None)
        }
    }
}

#[async_trait]
impl Together for Reports {
    type Request = LeaseReport;
    type Answer = Result<ReportReply, SourceError>;
    const MOST: usize = 500;

    async fn carry_out(&self, reports: Vec<LeaseReport>) -> Vec<Self::Answer> {
        let now = match self.clock.now().await {
            Ok(now) => now,
            Err(error) => {
                let error = Arc::new(error);
                let failed = |_| Err(SourceError::Shared(error.clone()));
                return reports.iter().map(failed).collect();
            }
        };
        let fences: Vec<Fence> = reports.iter().map(|report| report.fence.clone()).collect();
        let changes = self.changes(reports, now).await;
        let known: Vec<Change> = changes.iter().flatten().cloned().collect();
        let (mut outcomes, failure) = match self.store.commit(&known, now).await {
            Ok(outcomes) => (outcomes.into_iter(), None),
            Err(error) => (Vec::new().into_iter(), Some(Arc::new(SourceError::from(error)))),
        };
        let mut moved_on = Vec::new();
        let mut answers = Vec::new();
        for (fence, change) in fences.iter().zip(changes) {
            answers.push(match (change, &failure) {
                (Err(error), _) => Err(SourceError::from(error)),
                (Ok(_), Some(failure)) => Err(SourceError::Shared(failure.clone())),
                (Ok(_), None) => {
                    let outcome = outcomes.next().unwrap_or(Outcome::Fenced(None));
                    let (reply, task) = replied(fence, outcome);
                    moved_on.extend(task);
                    Ok(reply)
                }
            });
        }
        if let Err(error) = self.follow(&moved_on, now).await {
            // What the reports say is recorded.
            warn!(%error, "cannot finish jobs now; a claim that finds nothing does");
        }
        answers
    }
}
