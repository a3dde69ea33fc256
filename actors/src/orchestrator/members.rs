//! Pools that have joined. This is all that the orchestrator knows besides the store, and pools tell it again after a takeover.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::executor::Executor;
use crate::telemetry::pools_registered;
use parkhang_core::domain::{
    ErrorCategory, Fence, JobKey, PoolInfo, StageLimits, StageName, StageVerdict, TaskId, WorkerId,
};
use parkhang_core::policy::placement::Conduct;

/// Time before work is offered again to a pool that should have had room; doubles as long as it has none. The orchestrator and a
/// pool may disagree for a while, as when a cancelled stage has not reached its next checkpoint, and must not offer and refuse in
/// a busy loop meanwhile.
const FIRST_BACKOFF: Duration = Duration::from_millis(50);
const LAST_REST: Duration = Duration::from_secs(2);

/// Time for which a pool is offered nothing of a job that it has refused. It would refuse the next volume, too, until it is replaced by a
/// newer one or the job is changed.
const REFUSED_FOR: Duration = Duration::from_secs(300);

/// Time for which it is remembered that a volume stood still on a node: long enough for its other tries.
const STOOD_STILL_FOR: Duration = Duration::from_secs(24 * 3_600);

#[derive(Debug, Default)]
pub(super) struct Members {
    pools: Vec<Member>,
    /// Leases that pools have taken and whose end was not reported yet.
    taken: HashMap<Fence, WorkerId>,
    /// Volumes that stood still, and the time until which it counts, by node. A node keeps its record when its process ends: its device is
    /// the same.
    stood_still: BTreeMap<String, BTreeMap<TaskId, Instant>>,
}

#[derive(Debug)]
struct Member {
    pool: Arc<dyn Executor>,
    /// The pool may be given work.
    accepting: bool,
    /// Time before which the pool is given nothing, as it had no room after all.
    backoff_until: Option<Instant>,
    next_rest: Duration,
    /// Jobs that the pool has refused, and the time until which it is offered nothing of them.
    refused: BTreeMap<JobKey, Instant>,
    /// The pool has brought a stage to its end.
    is_proven: bool,
}

impl Members {
    /// Adds a pool, which takes the place of one with the same worker id.
    pub(super) fn join(&mut self, pool: Arc<dyn Executor>) {
        self.pools
            .retain(|member| member.pool.info().worker != pool.info().worker);
        self.pools.push(Member {
            pool,
            accepting: true,
            backoff_until: None,
            next_rest: FIRST_BACKOFF,
            refused: BTreeMap::new(),
            is_proven: false,
        });
        self.notify(None);
    }

    /// Takes out a pool; returns whether it was known.
    pub(super) fn remove(&mut self, worker: &WorkerId) -> bool {
        let Some(index) = self
            .pools
            .iter()
            .position(|member| member.pool.info().worker == *worker)
        else {
            return false;
        };
        let gone = self.pools.swap_remove(index);
        self.taken.retain(|_, holder| holder != worker);
        self.notify(Some(&gone.pool.info().stage));
        true
    }

    /// Gives nothing more to the pool. Returns it, if it is known.
    pub(super) fn suspend(&mut self, worker: &WorkerId) -> Option<Arc<dyn Executor>> {
        let member = self.member(worker)?;
        member.accepting = false;
        Some(member.pool.clone())
    }

    /// The pools that may be given work at `now`.
    pub(super) fn accepting(&self, now: Instant) -> Vec<Arc<dyn Executor>> {
        self.pools
            .iter()
            .filter(|member| member.accepting)
            .filter(|member| member.backoff_until.is_none_or(|until| until <= now))
            .map(|member| member.pool.clone())
            .collect()
    }

    /// Pools that may be given work.
    pub(super) fn pools(&self) -> Vec<PoolInfo> {
        let accepting = self.pools.iter().filter(|member| member.accepting);
        accepting.map(|member| member.pool.info().clone()).collect()
    }

    /// Stages of the pools that may be given work.
    pub(super) fn stages(&self) -> BTreeSet<StageName> {
        self.pools().into_iter().map(|pool| pool.stage).collect()
    }

    /// Limits that a stage has of its own, if a service does it.
    pub(super) fn limits_of(&self, stage: &StageName) -> Option<StageLimits> {
        let mut pools = self.pools.iter().map(|member| &member.pool);
        let terms = pools.find(|pool| pool.info().stage == *stage)?.terms()?;
        Some(terms.limits)
    }

    fn notify(&self, gone: Option<&StageName>) {
        let pools = self
            .pools
            .iter()
            .map(|member| (&member.pool.info().stage, member.pool.info().slots));
        pools_registered(pools, gone);
    }

    /// Notes that the pool had no room; it is given nothing for the time returned.
    pub(super) fn had_no_room(&mut self, worker: &WorkerId, now: Instant) -> Duration {
        let Some(member) = self.member(worker) else {
            return FIRST_BACKOFF;
        };
        let rest = member.next_rest;
        member.backoff_until = Some(now + rest);
        member.next_rest = (rest * 2).min(LAST_REST);
        rest
    }

    /// Notes that the pool has taken the lease.
    pub(super) fn has_taken(&mut self, worker: &WorkerId, fence: Fence) {
        if let Some(member) = self.member(worker) {
            member.next_rest = FIRST_BACKOFF;
            self.taken.insert(fence, worker.clone());
        }
    }

    /// Notes that the lease has ended with this verdict.
    pub(super) fn has_ended(&mut self, fence: &Fence, verdict: Option<&StageVerdict>, now: Instant) {
        let Some(worker) = self.taken.remove(fence) else {
            return;
        };
        match verdict {
            Some(StageVerdict::Succeeded(_)) => {
                if let Some(member) = self.member(&worker) {
                    member.is_proven = true;
                }
            }
            Some(StageVerdict::Failed(error)) if error.category == ErrorCategory::Stalled => {
                self.stood_still.retain(|_, tasks| {
                    tasks.retain(|_, until| *until > now);
                    !tasks.is_empty()
                });
                let tasks = self.stood_still.entry(worker.node().to_owned()).or_default();
                tasks.insert(fence.task, now + STOOD_STILL_FOR);
            }
            _ => {}
        }
    }

    /// Notes that the pool has refused the job.
    pub(super) fn has_refused(&mut self, worker: &WorkerId, job: JobKey, now: Instant) {
        if let Some(member) = self.member(worker) {
            member.refused.retain(|_, until| *until > now);
            member.refused.insert(job, now + REFUSED_FOR);
        }
    }

    /// Record of what the pools have refused and finished, and of what stood still there, as far as it still counts at `now`.
    pub(super) fn conduct(&self, now: Instant) -> Conduct {
        let refused = self.pools.iter().filter_map(|member| {
            let jobs = member.refused.iter().filter(|(_, until)| **until > now);
            let jobs: BTreeSet<JobKey> = jobs.map(|(job, _)| job.clone()).collect();
            (!jobs.is_empty()).then(|| (member.pool.info().worker.clone(), jobs))
        });
        let proven = self.pools.iter().filter(|member| member.is_proven);
        let stood_still = self.stood_still.iter().map(|(node, tasks)| {
            let tasks = tasks.iter().filter(|(_, until)| **until > now);
            (node.clone(), tasks.map(|(task, _)| *task).collect())
        });
        Conduct {
            refused: refused.collect(),
            proven: proven.map(|member| member.pool.info().worker.clone()).collect(),
            stood_still: stood_still.collect(),
        }
    }

    /// Offers work to all pools again: a stage has ended somewhere, so any of them may have room.
    pub(super) fn end_backoffs(&mut self) {
        for member in &mut self.pools {
            member.backoff_until = None;
        }
    }

    /// Asks the pool to stop the stages that run under these leases. If the request is lost, its next heartbeat tells it.
    pub(super) fn cancel(&mut self, worker: &WorkerId, fences: Vec<Fence>) {
        if let Some(member) = self.member(worker) {
            member.pool.cancel(fences);
        }
    }

    pub(super) fn drain(&self) {
        for member in &self.pools {
            member.pool.drain();
        }
    }

    fn member(&mut self, worker: &WorkerId) -> Option<&mut Member> {
        self.pools
            .iter_mut()
            .find(|member| member.pool.info().worker == *worker)
    }
}

impl Drop for Members {
    /// Takes the pools out of the metrics, which the next leader counts on its own node.
    fn drop(&mut self) {
        let gone: Vec<Member> = self.pools.drain(..).collect();
        for member in &gone {
            self.notify(Some(&member.pool.info().stage));
        }
    }
}
