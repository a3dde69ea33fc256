//! What must hold after every fault.

use std::collections::HashSet;
use std::time::Duration;

use parkhang_core::domain::{StageRun, StageRunStatus, Task, TaskStatus};
use parkhang_state::StateStore;
use parkhang_test_support::Wait;

use crate::cluster::{Cluster, LOOK};
use crate::library::JOBS;
use crate::support::assert_same_files;

/// Longest time that all jobs take, whatever happens to their nodes.
const OF_ALL_JOBS: Duration = Duration::from_secs(600);

impl Cluster {
    pub(crate) async fn create_jobs(&mut self) {
        for job in JOBS {
            self.create_job(job).await;
        }
    }

    /// Creates another job where all are over: on a busy machine that may be before anybody has looked.
    pub(crate) async fn keep_busy(&mut self) {
        for job in &self.jobs {
            let found = self.store.job_by_id(job.id).await;
            if !found.is_ok_and(|found| found.is_some_and(|found| found.status.is_final())) {
                return;
            }
        }
        self.create_job(&format!("more-{}", self.jobs.len())).await;
    }

    /// Waits until nothing is left to do. Nodes that ended meanwhile are started again, as their host would.
    pub(crate) async fn settle(&mut self) {
        let wait = Wait::until("nothing is left to do");
        let wait = wait.at_most(OF_ALL_JOBS).looking_every(LOOK);
        let look = async || {
            for worker in self.deaths() {
                let failpoints = self.plan.failpoints_of_successors.clone();
                self.start_worker(worker, &failpoints).await;
            }
            let mut open = Vec::new();
            for job in &self.jobs {
                let found = self.store.job_by_id(job.id).await;
                if !found.is_ok_and(|found| found.is_some_and(|found| found.status.is_final())) {
                    open.push(job.key.clone());
                }
            }
            open
        };
        if let Err(error) = wait.try_sees(look, Vec::is_empty).await {
            self.fail(&error.to_string()).await;
        }
        // The last one may have died of what ended the last job.
        for worker in self.deaths() {
            self.start_worker(worker, "").await;
        }
    }

    /// The places of nodes whose process has ended.
    pub(crate) fn deaths(&mut self) -> Vec<usize> {
        let workers = self.workers.iter_mut().enumerate();
        let ended = workers.filter_map(|(place, worker)| {
            let ended = worker.process.as_mut().is_none_or(|process| process.has_ended());
            ended.then_some(place)
        });
        ended.collect()
    }

    /// Every task is done, every result recorded once, and the artifacts are those of an undisturbed run.
    pub(crate) async fn all_is_well(mut self) {
        self.settle().await;
        for task in self.tasks().await {
            if task.status != TaskStatus::Done || task.attempts != 0 {
                self.fail(&format!("{} of job {} is not done", task.volume, task.job_id))
                    .await;
            }
            self.history_is_sound(&task).await;
        }
        // A node that lost its work unawares may still be at it when the jobs are over.
        self.leave().await;
        for job in &self.jobs {
            let undisturbed = self.plan.library.undisturbed(job.key.as_str());
            let made = self.artifacts().join("jobs").join(job.key.as_str());
            assert_same_files(&made, &undisturbed);
        }
    }

    /// No lease is left, every run has ended, no two share a fence, and of each stage one has succeeded.
    pub(crate) async fn history_is_sound(&self, task: &Task) {
        let runs = self.store.stage_runs(task.id).await.unwrap();
        let fences: HashSet<_> = runs.iter().map(|run| &run.fence).collect();
        let ended = |run: &StageRun| run.status != StageRunStatus::Running && run.ended_at.is_some();
        let mut sound = task.lease.is_none() && fences.len() == runs.len() && runs.iter().all(ended);
        if task.status == TaskStatus::Done {
            let job = self.jobs.iter().find(|job| job.id == task.job_id).unwrap();
            sound &= job.pipeline.stages().iter().all(|stage| {
                let of_stage = runs.iter().filter(|run| run.fence.stage == *stage);
                of_stage.filter(|run| run.status == StageRunStatus::Done).count() == 1
            });
            sound &= self.store.volume_results(task.id).await.unwrap().is_some();
        }
        if !sound {
            self.fail(&format!("the history of {} is not sound", task.volume))
                .await;
        }
    }

    /// How many runs of all tasks did not come to their end.
    pub(crate) async fn interruptions(&self) -> usize {
        let mut interrupted = 0;
        for task in self.tasks().await {
            let runs = self.store.stage_runs(task.id).await.unwrap();
            let cut_off = |run: &&StageRun| run.status == StageRunStatus::Interrupted;
            interrupted += runs.iter().filter(cut_off).count();
        }
        interrupted
    }
}
