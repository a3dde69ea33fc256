//! Index of the memory store, which it keeps beside its rows so that a pass over many tasks finds those it needs without looking
//! at all of them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use chrono::{DateTime, Utc};

use parkhang_core::domain::{JobId, Position, StageName, Task, TaskId, TaskStatus, WorkerId};
use parkhang_core::policy::placement::Held;
use parkhang_core::policy::poison::is_suspect;

/// Position and status of a task.
type Place = (Position, TaskStatus);

/// Open tasks by place, and leases by worker.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// Tasks that are not done.
    open: HashMap<JobId, HashMap<Place, BTreeSet<TaskId>>>,
    leases: BTreeMap<WorkerId, Vec<LeaseEntry>>,
}

/// Lease of a task, with the fields of the task that leases are counted by.
#[derive(Debug)]
struct LeaseEntry {
    task: TaskId,
    job: JobId,
    stage: StageName,
    until: DateTime<Utc>,
    is_suspect: bool,
}

impl Index {
    /// Takes in a new state of a task, in place of the one before it if the task is not new.
    pub(super) fn moved(&mut self, before: Option<&Task>, after: &Task) {
        if let Some(before) = before {
            self.remove(before);
        }
        if after.position != Position::Done {
            let place = (after.position.clone(), after.status);
            let places = self.open.entry(after.job_id).or_default();
            places.entry(place).or_default().insert(after.id);
        }
        if let (Some(lease), Position::At(stage)) = (&after.lease, &after.position) {
            let entry = LeaseEntry {
                task: after.id,
                job: after.job_id,
                stage: stage.clone(),
                until: lease.until,
                is_suspect: is_suspect(after),
            };
            self.leases.entry(lease.worker.clone()).or_default().push(entry);
        }
    }

    fn remove(&mut self, task: &Task) {
        let place = (task.position.clone(), task.status);
        if let Some(tasks) = self
            .open
            .get_mut(&task.job_id)
            .and_then(|places| places.get_mut(&place))
        {
            tasks.remove(&task.id);
        }
        if let Some(lease) = &task.lease
            && let Some(entries) = self.leases.get_mut(&lease.worker)
        {
            entries.retain(|entry| entry.task != task.id);
            if entries.is_empty() {
                self.leases.remove(&lease.worker);
            }
        }
    }

    /// Takes in the new deadline of a lease.
    pub(super) fn renewed(&mut self, task: TaskId, worker: &WorkerId, until: DateTime<Utc>) {
        let entries = self.leases.get_mut(worker);
        if let Some(entry) = entries.into_iter().flatten().find(|entry| entry.task == task) {
            entry.until = until;
        }
    }

    /// Tasks that stand at `place`, in task order.
    pub(super) fn at(&self, job: JobId, place: &Place) -> impl Iterator<Item = TaskId> {
        let tasks = self.open.get(&job).and_then(|places| places.get(place));
        tasks.into_iter().flatten().copied()
    }

    /// True if a task of the job has not come to its end; `has_ended` says it of failed ones.
    pub(super) fn unfinished(&self, job: JobId, has_ended: impl Fn(TaskId) -> bool) -> bool {
        self.open
            .get(&job)
            .into_iter()
            .flatten()
            .any(|((_, status), tasks)| match status {
                TaskStatus::Failed => !tasks.iter().all(|task| has_ended(*task)),
                TaskStatus::Pending | TaskStatus::Running | TaskStatus::Done => !tasks.is_empty(),
            })
    }

    /// Tasks that are leased to the worker, in no order.
    pub(super) fn leased_to(&self, worker: &WorkerId) -> Vec<TaskId> {
        self.leases
            .get(worker)
            .into_iter()
            .flatten()
            .map(|entry| entry.task)
            .collect()
    }

    /// Tasks of the job that are leased, in task order.
    pub(super) fn leased(&self, job: JobId) -> Vec<TaskId> {
        let mut ids: Vec<TaskId> = self
            .open
            .get(&job)
            .into_iter()
            .flatten()
            .filter(|((_, status), _)| *status == TaskStatus::Running)
            .flat_map(|(_, tasks)| tasks)
            .copied()
            .collect();
        ids.sort_unstable();
        ids
    }

    /// Leases in force at `now`, and the tasks whose lease has run out.
    pub(super) fn leases(&self, now: DateTime<Utc>) -> (Vec<Held>, Vec<TaskId>) {
        let (mut held, mut expired) = (Vec::with_capacity(self.leases.len()), Vec::new());
        for (worker, entries) in &self.leases {
            let first = held.len();
            for entry in entries {
                if entry.until <= now {
                    expired.push(entry.task);
                    continue;
                }
                match held[first..]
                    .iter_mut()
                    .find(|held: &&mut Held| held.job == entry.job && held.stage == entry.stage)
                {
                    Some(held) => {
                        held.leases += 1;
                        held.suspects += usize::from(entry.is_suspect);
                    }
                    None => held.push(Held {
                        worker: worker.clone(),
                        job: entry.job,
                        stage: entry.stage.clone(),
                        leases: 1,
                        suspects: usize::from(entry.is_suspect),
                    }),
                }
            }
        }
        expired.sort_unstable();
        (held, expired)
    }
}
