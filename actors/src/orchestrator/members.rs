//! The pools that have joined.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::executor::Executor;
use crate::telemetry::pools_registered;
use parkhang_core::domain::{Fence, PoolInfo, StageName, WorkerId};

/// Before work is offered again to a pool that should have had room; doubles as long as it has none. Keeps two that
/// disagree from running hot, as when a stage that was cancelled has not come to its next checkpoint.
const FIRST_REST: Duration = Duration::from_millis(50);
const LAST_REST: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
pub(super) struct Members(Vec<Member>);

#[derive(Debug)]
struct Member {
    pool: Arc<dyn Executor>,
    /// Whether it may be given work.
    accepting: bool,
    /// Had no room after all, and is given nothing before this time.
    rests_until: Option<Instant>,
    next_rest: Duration,
}

impl Members {
    /// The pool takes the place of one with the same worker id.
    pub(super) fn join(&mut self, pool: Arc<dyn Executor>) {
        self.0
            .retain(|member| member.pool.info().worker != pool.info().worker);
        self.0.push(Member {
            pool,
            accepting: true,
            rests_until: None,
            next_rest: FIRST_REST,
        });
        self.tell(None);
    }

    /// Whether the pool was known.
    pub(super) fn remove(&mut self, worker: &WorkerId) -> bool {
        let Some(index) = self
            .0
            .iter()
            .position(|member| member.pool.info().worker == *worker)
        else {
            return false;
        };
        let gone = self.0.swap_remove(index);
        self.tell(Some(&gone.pool.info().stage));
        true
    }

    /// Nothing more is given to the pool. Returns it, if it is known.
    pub(super) fn suspend(&mut self, worker: &WorkerId) -> Option<Arc<dyn Executor>> {
        let member = self.member(worker)?;
        member.accepting = false;
        Some(member.pool.clone())
    }

    /// The pools that may be given work at `now`.
    pub(super) fn accepting(&self, now: Instant) -> Vec<Arc<dyn Executor>> {
        let rested = |member: &&Member| member.rests_until.is_none_or(|until| until <= now);
        let accepting = self.0.iter().filter(|member| member.accepting).filter(rested);
        accepting.map(|member| member.pool.clone()).collect()
    }

    /// Pools that may be given work.
    pub(super) fn pools(&self) -> Vec<PoolInfo> {
        let accepting = self.0.iter().filter(|member| member.accepting);
        accepting.map(|member| member.pool.info().clone()).collect()
    }

    /// Stages of the pools that may be given work.
    pub(super) fn stages(&self) -> BTreeSet<StageName> {
        self.pools().into_iter().map(|pool| pool.stage).collect()
    }

    fn tell(&self, gone: Option<&StageName>) {
        let pools = self
            .0
            .iter()
            .map(|member| (&member.pool.info().stage, member.pool.info().slots));
        pools_registered(pools, gone);
    }

    /// The pool had no room; it is given nothing for the time returned.
    pub(super) fn had_no_room(&mut self, worker: &WorkerId, now: Instant) -> Duration {
        let Some(member) = self.member(worker) else {
            return FIRST_REST;
        };
        let rest = member.next_rest;
        member.rests_until = Some(now + rest);
        member.next_rest = (rest * 2).min(LAST_REST);
        rest
    }

    pub(super) fn had_room(&mut self, worker: &WorkerId) {
        if let Some(member) = self.member(worker) {
            member.next_rest = FIRST_REST;
        }
    }

    /// A stage has ended somewhere, so a pool may have room again.
    pub(super) fn end_rests(&mut self) {
        for member in &mut self.0 {
            member.rests_until = None;
        }
    }

    /// Tells the pool to stop what it runs under these leases. One that does not hear it learns it by its next heartbeat.
    pub(super) fn cancel(&mut self, worker: &WorkerId, fences: Vec<Fence>) {
        if let Some(member) = self.member(worker) {
            member.pool.cancel(fences);
        }
    }

    pub(super) fn drain(&self) {
        for member in &self.0 {
            member.pool.drain();
        }
    }

    fn member(&mut self, worker: &WorkerId) -> Option<&mut Member> {
        self.0
            .iter_mut()
            .find(|member| member.pool.info().worker == *worker)
    }
}

impl Drop for Members {
    /// Whoever leads now tells of the pools.
    fn drop(&mut self) {
        let gone: Vec<Member> = self.0.drain(..).collect();
        for member in &gone {
            self.tell(Some(&member.pool.info().stage));
        }
    }
}
