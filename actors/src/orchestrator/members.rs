//! The pools that have joined.

use std::sync::Arc;

use super::executor::Executor;
use crate::domain::WorkerId;

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
        self.remove(pool.worker());
        self.0.push(Member {
            pool,
            accepting: true,
        });
    }

    /// Whether the pool was known.
    pub(super) fn remove(&mut self, worker: &WorkerId) -> bool {
        let before = self.0.len();
        self.0.retain(|member| member.pool.worker() != worker);
        self.0.len() < before
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

    pub(super) fn drain(&self) {
        for member in &self.0 {
            member.pool.drain();
        }
    }
}
