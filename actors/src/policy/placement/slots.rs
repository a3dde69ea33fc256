use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BTreeMap, BinaryHeap, HashMap, HashSet};

use super::{Held, Pool};
use crate::domain::{StageName, WorkerId};

/// Slots that no lease in force takes. They are computed anew each time, so nothing that a dead process held can leak.
#[derive(Debug, Clone)]
pub struct FreeSlots<'a> {
    /// Pools with free slots, the roomiest first, and among equals the first by name.
    by_stage: HashMap<&'a StageName, BinaryHeap<(usize, Reverse<&'a WorkerId>)>>,
    held: &'a [Held],
    /// Nodes whose slots are out of reach: a suspect runs there, or will when they are empty.
    closed: HashSet<&'a str>,
}

impl<'a> FreeSlots<'a> {
    pub fn of(pools: &'a [Pool], held: &'a [Held]) -> Self {
        let mut taken: HashMap<&WorkerId, usize> = HashMap::with_capacity(held.len());
        let mut closed = HashSet::new();
        for held in held {
            *taken.entry(&held.worker).or_default() += held.leases;
            if held.suspects > 0 {
                closed.insert(held.worker.node());
            }
        }
        let mut by_stage: HashMap<&StageName, Vec<_>> = HashMap::new();
        for pool in pools {
            let taken = taken.get(&pool.worker).copied().unwrap_or(0);
            let free = pool.slots.saturating_sub(taken);
            if free > 0 && (closed.is_empty() || !closed.contains(pool.worker.node())) {
                let pools = by_stage.entry(&pool.stage).or_default();
                pools.push((free, Reverse(&pool.worker)));
            }
        }
        Self {
            by_stage: by_stage
                .into_iter()
                .map(|(stage, pools)| (stage, BinaryHeap::from(pools)))
                .collect(),
            held,
            closed,
        }
    }

    /// How many tasks could begin each stage; stages that are full are left out.
    pub fn room(&self) -> BTreeMap<StageName, usize> {
        let stages = self.by_stage.iter();
        stages
            .map(|(stage, pools)| ((*stage).clone(), pools.iter().map(|(free, _)| free).sum()))
            .collect()
    }

    pub(super) fn take(&mut self, stage: &StageName) -> Option<&'a WorkerId> {
        let pools = self.by_stage.get_mut(stage)?;
        loop {
            let mut roomiest = pools.peek_mut()?;
            let (_, Reverse(worker)) = *roomiest;
            if !self.closed.is_empty() && self.closed.contains(worker.node()) {
                PeekMut::pop(roomiest);
                continue;
            }
            roomiest.0 -= 1;
            if roomiest.0 == 0 {
                PeekMut::pop(roomiest);
            }
            return Some(worker);
        }
    }

    /// Leases in force by node.
    pub(super) fn leases_by_node(&self) -> HashMap<&'a str, usize> {
        let mut leases = HashMap::new();
        for held in self.held {
            *leases.entry(held.worker.node()).or_default() += held.leases;
        }
        leases
    }

    /// A worker on a node that holds no lease; nothing else is taken on that node afterwards.
    pub(super) fn take_empty_node(
        &mut self,
        stage: &StageName,
        leases: &HashMap<&str, usize>,
    ) -> Option<&'a WorkerId> {
        let (leases, worker) = self.emptiest(stage, leases)?;
        (leases == 0).then(|| {
            self.closed.insert(worker.node());
            worker
        })
    }

    /// Nothing more is taken on the node with the fewest leases of those that run the stage. False if there is none. As its
    /// leases only become fewer, one node or another is empty in the end.
    pub(super) fn close_emptiest_node(&mut self, stage: &StageName, leases: &HashMap<&str, usize>) -> bool {
        let emptiest = self.emptiest(stage, leases);
        emptiest.is_some_and(|(_, worker)| self.closed.insert(worker.node()))
    }

    fn emptiest(&self, stage: &StageName, leases: &HashMap<&str, usize>) -> Option<(usize, &'a WorkerId)> {
        let workers = self
            .by_stage
            .get(stage)?
            .iter()
            .map(|(_, Reverse(worker))| *worker);
        let open = workers.filter(|worker| !self.closed.contains(worker.node()));
        open.map(|worker| (leases.get(worker.node()).copied().unwrap_or(0), worker))
            .min()
    }
}
