//! Reruns, which may mean one task of a million or all of them: they are found by an index where one helps, and read a page at a
//! time.

use std::collections::{BTreeSet, VecDeque};

use chrono::{DateTime, Utc};
use glob::Pattern;
use sqlx::postgres::PgPool;

use super::jobs::{LOCKED_AT_ONCE, by_id, lock, set_status};
use super::{browse, commit};
use crate::domain::{Job, JobId, RetryScope, Task, TaskId, VolumeId};
use crate::policy::job_action::{self, JobAction};
use crate::policy::rerun::{Rerun, TaskFilter};
use crate::state::change::rerun_changes;
use crate::state::{AtStage, ListedPhase, Outcome, RerunPreview, Rewound, StateError, TaskQuery};

/// In transactions of moderate size.
pub(super) async fn rerun(
    pool: &PgPool,
    id: JobId,
    rerun: &Rerun,
    now: DateTime<Utc>,
) -> Result<Rewound, StateError> {
    let job = by_id(pool, id).await?;
    let job = job.ok_or_else(|| StateError::NoSuchJob(id.to_string()))?;
    job_action::after(job.status, JobAction::Rerun)?;
    let mut rewound = Rewound::default();
    let mut meant = Meant::new(pool, &job, &rerun.tasks);
    while let Some(batch) = meant.next().await? {
        if !batch.is_empty() {
            rerun_batch(pool, id, rerun, batch, now, &mut rewound).await?;
        }
    }
    Ok(rewound)
}

/// What a rerun would do; the tasks are as they are now.
pub(super) async fn preview(pool: &PgPool, job: &Job, rerun: &Rerun) -> Result<RerunPreview, StateError> {
    let mut preview = RerunPreview::default();
    let mut meant = Meant::new(pool, job, &rerun.tasks);
    while let Some(batch) = meant.next().await? {
        let split = rerun.split(job, &batch);
        preview.reached.extend(split.reached.iter().map(|task| task.id));
        preview.rewound.tasks.extend(split.reached.into_iter().cloned());
        preview
            .rewound
            .not_reached
            .extend(split.not_reached.into_iter().cloned());
    }
    Ok(preview)
}

/// Locks the job before its tasks, so that it is not settled meanwhile.
async fn rerun_batch(
    pool: &PgPool,
    id: JobId,
    rerun: &Rerun,
    mut tasks: Vec<Task>,
    now: DateTime<Utc>,
    rewound: &mut Rewound,
) -> Result<(), StateError> {
    let mut transaction = pool.begin().await?;
    let job = lock(&mut transaction, id).await?;
    let status = job_action::after(job.status, JobAction::Rerun)?;
    let before = rewound.tasks.number;
    while !tasks.is_empty() {
        let (changes, not_reached) = rerun_changes(&job, rerun, &tasks);
        rewound.not_reached.extend(not_reached);
        tasks.clear();
        for outcome in commit::apply_all(&mut transaction, &changes, now).await? {
            match outcome {
                Outcome::Applied(task) => rewound.tasks.extend([task]),
                // It moved after it was read. Now it is locked, and the next round finds it as it is.
                Outcome::Fenced(Some(task)) => tasks.push(task),
                Outcome::Fenced(None) | Outcome::Illegal(_) => {}
            }
        }
    }
    if rewound.tasks.number > before {
        set_status(&mut transaction, job, status).await?;
    }
    transaction.commit().await?;
    Ok(())
}

/// The tasks that a filter means, in batches, each task once. A task that is sent back meanwhile goes where those have been looked
/// for already.
struct Meant<'a> {
    pool: &'a PgPool,
    job: &'a Job,
    filter: &'a TaskFilter,
    search: Search,
}

enum Search {
    ByName(Vec<VolumeId>),
    /// How far the tasks of a page are; a page of all tasks is of no phase.
    ByPage {
        phases: VecDeque<Option<ListedPhase>>,
        after: Option<TaskId>,
    },
}

impl<'a> Meant<'a> {
    fn new(pool: &'a PgPool, job: &'a Job, filter: &'a TaskFilter) -> Self {
        let named = filter.volumes.iter().map(name_of);
        let named: Option<Vec<VolumeId>> = named.collect();
        let search = match named {
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
            pool,
            job,
            filter,
            search,
        }
    }

    /// The tasks of the next page that are meant, none of them perhaps; `None` behind the last page.
    async fn next(&mut self) -> Result<Option<Vec<Task>>, StateError> {
        let mut tasks = match &mut self.search {
            Search::ByName(names) if names.is_empty() => return Ok(None),
            Search::ByName(names) => {
                let batch = names.split_off(names.len().saturating_sub(LOCKED_AT_ONCE));
                let mut tasks = Vec::with_capacity(batch.len());
                for volume in &batch {
                    let task = browse::task_of(self.pool, self.job.id, volume.w_id(), volume.i_id()).await?;
                    tasks.extend(task);
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
                let page = browse::tasks(self.pool, self.job, &query).await?;
                *after = page.next;
                if page.next.is_none() {
                    phases.pop_front();
                }
                page.tasks
            }
        };
        let scope: RetryScope = self.job.config.retry_scope;
        tasks.retain(|task| self.filter.admits(task, scope));
        Ok(Some(tasks))
    }
}

/// The volume that a pattern without wildcards names.
fn name_of(pattern: &Pattern) -> Option<VolumeId> {
    let text = pattern.as_str();
    (!text.contains(['*', '?', '['])).then(|| text.parse().ok())?
}

/// Where tasks that the filter admits may be.
fn phases(filter: &TaskFilter) -> Vec<Option<ListedPhase>> {
    if filter.phases.is_empty() {
        return vec![None];
    }
    // First those that wait: what is sent back from another phase waits then.
    let phases: BTreeSet<ListedPhase> = filter.phases.iter().copied().map(ListedPhase::from).collect();
    phases.into_iter().map(Some).collect()
}
