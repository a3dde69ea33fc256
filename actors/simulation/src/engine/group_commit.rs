use std::collections::VecDeque;

use parkhang_actors::orchestrator::MAX_BATCH;
use parkhang_state::Change;

/// Queue of the group committer: changes that come while a transaction is under way form the next one. `O` is the source of a change.
#[derive(Debug)]
pub(crate) struct GroupCommit<O> {
    waiting: VecDeque<(Change, O)>,
    under_way: Vec<(Change, O)>,
}

impl<O> GroupCommit<O> {
    pub(crate) fn new() -> Self {
        Self {
            waiting: VecDeque::new(),
            under_way: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, change: Change, origin: O) {
        self.waiting.push_back((change, origin));
    }

    /// Begins a transaction and returns how many changes it has, unless one is under way or nothing waits.
    pub(crate) fn begin(&mut self) -> Option<usize> {
        if !self.under_way.is_empty() || self.waiting.is_empty() {
            return None;
        }
        let size = self.waiting.len().min(MAX_BATCH);
        self.under_way = self.waiting.drain(..size).collect();
        Some(size)
    }

    /// The transaction under way is over.
    pub(crate) fn end(&mut self) -> (Vec<Change>, Vec<O>) {
        std::mem::take(&mut self.under_way).into_iter().unzip()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parkhang_core::domain::testing::fence;
    use parkhang_core::policy::transition::Event;
    use parkhang_state::Expected;

    #[test]
    fn what_comes_meanwhile_forms_the_next_transaction() {
        let change = |task| Change::new(Expected::Lease(fence(task, "read")), Event::Succeeded);
        let mut group = GroupCommit::new();
        assert_eq!(group.begin(), None);
        group.add(change(0), 0);
        assert_eq!(group.begin(), Some(1));
        for task in 1..=1_500 {
            group.add(change(task), task);
        }
        assert_eq!(group.begin(), None, "one at a time");
        assert_eq!(group.end(), (vec![change(0)], vec![0]));
        assert_eq!(group.begin(), Some(1_000));
        assert_eq!(group.end().1, (1..=1_000).collect::<Vec<_>>());
        assert_eq!(group.begin(), Some(500));
    }
}
