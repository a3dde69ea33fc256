//! Queues of the stages, and the turns of jobs in them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, VecDeque};

use super::{FreeSlots, Held, Placement};
use crate::domain::{Job, JobId, StageName, TaskId};

type Turn = (i32, Reverse<usize>, Reverse<JobId>);

/// Leases in force by job, in all and at each stage.
#[derive(Debug, Default)]
pub struct Shares<'a> {
    in_all: HashMap<JobId, usize>,
    at_stage: HashMap<(JobId, &'a StageName), usize>,
}

impl<'a> Shares<'a> {
    pub fn of(held: &'a [Held]) -> Self {
        let mut shares = Self::default();
        for held in held {
            shares.grow(held.job, &held.stage, held.leases);
        }
        shares
    }

    /// Jobs whose limits leave them another lease at the stage, in the order in which they are served.
    pub fn turns<'j>(&self, jobs: impl IntoIterator<Item = &'j Job>, stage: &'a StageName) -> Vec<&'j Job> {
        let mut turns: Vec<&Job> = jobs.into_iter().filter(|job| self.may_grow(job, stage)).collect();
        turns.sort_by_key(|job| Reverse(self.turn(job, stage)));
        turns
    }

    /// Turn of a job, greater for the one that is served first: by priority, then by how few leases it holds at the stage, then
    /// by age.
    fn turn(&self, job: &Job, stage: &'a StageName) -> Turn {
        let fewest_leases = Reverse(self.at(job.id, stage));
        (job.config.priority, fewest_leases, Reverse(job.id))
    }

    /// Adds leases of a job at a stage.
    pub fn grow(&mut self, job: JobId, stage: &'a StageName, leases: usize) {
        *self.in_all.entry(job).or_default() += leases;
        *self.at_stage.entry((job, stage)).or_default() += leases;
    }

    fn at(&self, job: JobId, stage: &'a StageName) -> usize {
        self.at_stage.get(&(job, stage)).copied().unwrap_or(0)
    }

    /// True if the job's limits leave it another lease at the stage. A limit of 0 is none.
    pub(super) fn may_grow(&self, job: &Job, stage: &'a StageName) -> bool {
        let below = |limit: usize, leases: usize| limit == 0 || leases < limit;
        let in_all = self.in_all.get(&job.id).copied().unwrap_or(0);
        below(job.config.max_running, in_all)
            && below(job.config.max_running_per_stage, self.at(job.id, stage))
    }
}

/// Tasks that wait for each stage.
#[derive(Default)]
pub(super) struct Queues<'a>(HashMap<&'a StageName, StageQueue<'a>>);

/// Tasks that wait for one stage, by job.
pub(super) struct StageQueue<'a> {
    stage: &'a StageName,
    /// Number of stages that the tasks have before them, including this one; the least where pipelines differ.
    to_go: usize,
    jobs: BTreeMap<JobId, (&'a Job, VecDeque<TaskId>)>,
}

impl<'a> Queues<'a> {
    pub(super) fn push(&mut self, job: &'a Job, stage: &'a StageName, task: TaskId) {
        let queue = self.0.entry(stage).or_insert_with(|| StageQueue {
            stage,
            to_go: usize::MAX,
            jobs: BTreeMap::new(),
        });
        let (_, tasks) = queue.jobs.entry(job.id).or_insert_with(|| {
            queue.to_go = queue.to_go.min(job.pipeline.to_go(stage));
            (job, VecDeque::new())
        });
        tasks.push_back(task);
    }

    /// True if a job of higher priority than this one has tasks that could begin the stage.
    pub(super) fn go_before(
        &self,
        job: &Job,
        stage: &'a StageName,
        free: &FreeSlots<'_>,
        shares: &Shares<'a>,
    ) -> bool {
        let waiting = self
            .0
            .get(stage)
            .into_iter()
            .flat_map(|queue| queue.jobs.values());
        let mut above = waiting.filter(|(other, _)| other.config.priority > job.config.priority);
        above.any(|(other, _)| shares.may_grow(other, stage) && free.are_known(stage, other))
    }

    pub(super) fn nearest_to_the_end_first(self) -> Vec<StageQueue<'a>> {
        let mut queues: Vec<StageQueue<'a>> = self.0.into_values().collect();
        // By name where they are equally near: a hash map has no order, and the same facts must give the same
        // placements.
        queues.sort_by_key(|queue| (queue.to_go, queue.stage));
        queues
    }
}

impl<'a> StageQueue<'a> {
    /// Gives the stage's free slots to the jobs in turn.
    pub(super) fn serve(
        mut self,
        free: &mut FreeSlots<'_>,
        shares: &mut Shares<'a>,
        placements: &mut Vec<Placement>,
    ) {
        let stage = self.stage;
        let jobs = self.jobs.values();
        let mut turns: BinaryHeap<_> = jobs.map(|(job, _)| shares.turn(job, stage)).collect();
        while let Some((.., Reverse(id))) = turns.pop() {
            // A job that is passed over does not get another turn: within a pass its leases, its tasks and
            // the pools for it only become scarcer.
            let Some((job, tasks)) = self.jobs.get_mut(&id) else {
                continue;
            };
            if !shares.may_grow(job, stage) {
                continue;
            }
            let Some(task) = tasks.pop_front() else { continue };
            let Some(worker) = free.take(stage, job) else {
                continue;
            };
            shares.grow(id, stage, 1);
            placements.push(Placement {
                task,
                stage: stage.clone(),
                worker: worker.clone(),
            });
            turns.push(shares.turn(job, stage));
        }
    }
}

#[cfg(test)]
mod tests;
