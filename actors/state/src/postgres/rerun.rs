//! Reruns, which may select one task of a million or all of them: tasks are found by an index where one helps, and read a page
//! at a time.
//!
//! Tasks are searched without locks, as a search over a large job takes long, and then sent back in batches, each in a
//! transaction with its job. A task may move between its search and its batch; the fence of the change notices that, and the
//! batch decides again on the row that it has locked by then.

use std::collections::{BTreeSet, VecDeque};

use chrono::{DateTime, Utc};
use glob::Pattern;

use super::jobs::{LOCKED_AT_ONCE, by_id, lock, set_status};
use super::{PostgresStore, commit};
use crate::change::rerun_changes;
use crate::{AtStage, ListedPhase, Outcome, RerunPreview, RerunResult, StateError, TaskQuery};
use parkhang_core::domain::{Job, JobId, RetryScope, Task, TaskId, VolumeId};
use parkhang_core::policy::job_action::{self, JobAction};
use parkhang_core::policy::rerun::{Rerun, TaskFilter};

/// Sends the selected tasks back, in transactions of moderate size.
pub(super) async fn rerun(
    store: &PostgresStore,
    id: JobId,
    rerun: &Rerun,
    now: DateTime<Utc>,
) -> Result<RerunResult, StateError> {
    let job = by_id(&store.pool, id)
        .await?
        .ok_or_else(|| StateError::NoSuchJob(id.to_string()))?;
    job_action::after(job.status, JobAction::Rerun)?;
    let mut result = RerunResult::default();
    let mut selection = RerunSelection::new(store, &job, &rerun.tasks);
    while let Some(batch) = selection.next().await? {
        if !batch.is_empty() {
            rerun_batch(store, id, rerun, batch, now, &mut result).await?;
        }
    }
    Ok(result)
}

impl PostgresStore {
    /// Returns the result that a rerun would have with the tasks as they are.
    ///
    /// # Errors
    ///
    /// Those of every method, see [`StateError`].
    pub async fn preview_rerun(&self, job: &Job, rerun: &Rerun) -> Result<RerunPreview, StateError> {
        let mut preview = RerunPreview::default();
        let mut selection = RerunSelection::new(self, job, &rerun.tasks);
        while let Some(batch) = selection.next().await? {
            let split = rerun.split(job, &batch);
            preview.reached.extend(split.reached.iter().map(|task| task.id));
            preview.result.tasks.extend(split.reached.into_iter().cloned());
            preview
                .result
                .not_reached
                .extend(split.not_reached.into_iter().cloned());
        }
        Ok(preview)
    }
}

/// Sends a batch of tasks back, in one transaction with the reopening of the job.
async fn rerun_batch(
    store: &PostgresStore,
    id: JobId,
    rerun: &Rerun,
    mut tasks: Vec<Task>,
    now: DateTime<Utc>,
    result: &mut RerunResult,
) -> Result<(), StateError> {
    let mut transaction = store.pool.begin().await?;
    // The job before its tasks, as everywhere. With the job locked it can be neither finished nor cancelled while its tasks go
    // back, so no task waits for a stage in a job that is over.
    let job = lock(&mut transaction, id).await?;
    let status = job_action::after(job.status, JobAction::Rerun)?;
    let before = result.tasks.number;
    // More than one round only for tasks that moved since they were read. Those are locked after their first round, so the
    // second one is the last.
    while !tasks.is_empty() {
        let (changes, not_reached) = rerun_changes(&job, rerun, &tasks);
        result.not_reached.extend(not_reached);
        tasks.clear();
        for outcome in commit::apply_all(&mut transaction, &changes, now).await? {
            match outcome {
                Outcome::Applied(task) => result.tasks.extend([task]),
                Outcome::Fenced(Some(task)) => tasks.push(task),
                Outcome::Fenced(None) | Outcome::Illegal(_) | Outcome::Refused(_) => {}
            }
        }
    }
    // Only a batch that sent something back opens the job again: a finished job of which nothing is to be done stays finished.
    if result.tasks.number > before {
        set_status(&mut transaction, job, status).await?;
    }
    transaction.commit().await?;
    Ok(())
}

/// Tasks that a filter selects, in batches, each task once. A task that is sent back meanwhile goes where the search has been
/// already.
struct RerunSelection<'a> {
    store: &'a PostgresStore,
    job: &'a Job,
    filter: &'a TaskFilter,
    search: Search,
}

/// Part of the search that is still to do.
enum Search {
    /// Look-ups of volumes that the filter names.
    ByName(Vec<VolumeId>),
    /// Pages of the phases, the first of them from behind a task; the phase of a page of all tasks is `None`.
    ByPage {
        phases: VecDeque<Option<ListedPhase>>,
        after: Option<TaskId>,
    },
}

impl<'a> RerunSelection<'a> {
    fn new(store: &'a PostgresStore, job: &'a Job, filter: &'a TaskFilter) -> Self {
        // A filter of plain names is looked up name by name; one pattern with a wildcard makes it a search through pages.
        let search = match filter
            .volumes
            .iter()
            .map(name_of)
            .collect::<Option<Vec<VolumeId>>>()
        {
            Some(mut named) if !named.is_empty() => {
                named.sort();
                named.dedup();
                Search::ByName(named)
            }
            _ => Search::ByPage {
                phases: phases(filter).into(),
                after: None,
            },
        };
        Self {
            store,
            job,
            filter,
            search,
        }
    }

    /// Selected tasks of the next page, of which there may be none; `None` behind the last page.
    async fn next(&mut self) -> Result<Option<Vec<Task>>, StateError> {
        let mut tasks = match &mut self.search {
            Search::ByName(names) if names.is_empty() => return Ok(None),
            Search::ByName(names) => {
                let batch = names.split_off(names.len().saturating_sub(LOCKED_AT_ONCE));
                let mut tasks = Vec::with_capacity(batch.len());
                for volume in &batch {
                    tasks.extend(self.store.task_of(self.job.id, volume).await?);
                }
                tasks.sort_by_key(|task| task.id);
                tasks
            }
            Search::ByPage { phases, after } => {
                let Some(phase) = phases.front().copied() else {
                    return Ok(None);
                };
                let query = TaskQuery {
                    phase,
                    stage: self.filter.stage.clone().map(AtStage::Last),
                    after: *after,
                    limit: u32::try_from(LOCKED_AT_ONCE).unwrap_or(u32::MAX),
                };
                let page = self.store.list_tasks(self.job, &query).await?;
                *after = page.next;
                // There is no task to go on from then, so the next phase begins with its first one.
                if page.next.is_none() {
                    phases.pop_front();
                }
                page.tasks
            }
        };
        // The filter decides: a page is by phase and stage alone, and may hold more.
        let scope: RetryScope = self.job.config.retry_scope;
        tasks.retain(|task| self.filter.admits(task, scope));
        Ok(Some(tasks))
    }
}

/// Volume that a pattern without wildcards names.
fn name_of(pattern: &Pattern) -> Option<VolumeId> {
    let text = pattern.as_str();
    (!text.contains(['*', '?', '['])).then(|| text.parse().ok())?
}

/// Phases of the tasks that the filter admits.
fn phases(filter: &TaskFilter) -> Vec<Option<ListedPhase>> {
    if filter.phases.is_empty() {
        return vec![None];
    }
    // Waiting tasks first, in the order of the type: a task that is sent back from another phase waits then, and is not met
    // twice.
    let phases: BTreeSet<ListedPhase> = filter.phases.iter().copied().map(ListedPhase::from).collect();
    phases.into_iter().map(Some).collect()
}
