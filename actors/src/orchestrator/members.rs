//! The pools that have joined.

use std::sync::Arc;

use super::executor::Executor;
use crate::domain::{StageName, WorkerId};
use crate::telemetry::pools_registered;

#[derive(Debug, Default)]
pub(super) struct Members(Vec<Member>);

#[derive(Debug)]
struct Member {
    pool: Arc<dyn Executor>,
    /// Whether it may be given work.
    accepting: bool,
}

impl Members {
    /// The pool takes the place of one with the same worker id.
    pub(super) fn join(&mut self, pool: Arc<dyn Executor>) {
        self.0.retain(|member| member.pool.worker() != pool.worker());
        self.0.push(Member {
            pool,
            accepting: true,
        });
        self.tell(None);
    }

    /// Whether the pool was known.
    pub(super) fn remove(&mut self, worker: &WorkerId) -> bool {
        let Some(index) = self.0.iter().position(|member| member.pool.worker() == worker) else {
            return false;
        };
        let gone = self.0.swap_remove(index);
        self.tell(Some(gone.pool.stage()));
        true
    }

    /// Nothing more is given to the pool. Returns it, if it is known.
    pub(super) fn suspend(&mut self, worker: &WorkerId) -> Option<Arc<dyn Executor>> {
        let member = self.0.iter_mut().find(|member| member.pool.worker() == worker)?;
        member.accepting = false;
        Some(member.pool.clone())
    }

    /// The pools that may be given work.
    pub(super) fn accepting(&self) -> Vec<Arc<dyn Executor>> {
        let accepting = self.0.iter().filter(|member| member.accepting);
        accepting.map(|member| member.pool.clone()).collect()
    }

    fn tell(&self, gone: Option<&StageName>) {
        let pools = self
            .0
            .iter()
            .map(|member| (member.pool.stage(), member.pool.slots()));
        pools_registered(pools, gone);
    }

    pub(super) fn drain(&self) {
        for member in &self.0 {
            member.pool.drain();
        }
    }
}

impl Drop for Members {
    /// Whoever leads now tells of the pools.
    fn drop(&mut self) {
        let gone: Vec<Member> = self.0.drain(..).collect();
        for member in &gone {
            self.tell(Some(member.pool.stage()));
        }
    }
}
