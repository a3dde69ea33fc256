use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

use super::{Held, Pool};
use crate::domain::{StageName, WorkerId};

/// Slots that no lease in force takes. They are computed anew each time, so nothing that a dead process held can leak.
#[derive(Debug, Clone)]
pub struct FreeSlots<'a> {
    /// Pools with free slots, the roomiest first, and among equals the first by name.
    by_stage: HashMap<&'a StageName, BinaryHeap<(usize, Reverse<&'a WorkerId>)>>,
}

impl<'a> FreeSlots<'a> {
    pub fn of(pools: &'a [Pool], held: &[Held]) -> Self {
        let mut taken: HashMap<&WorkerId, usize> = HashMap::with_capacity(held.len());
        for held in held {
            *taken.entry(&held.worker).or_default() += held.leases;
        }
        let mut by_stage: HashMap<&StageName, Vec<_>> = HashMap::new();
        for pool in pools {
            let taken = taken.get(&pool.worker).copied().unwrap_or(0);
            let free = pool.slots.saturating_sub(taken);
            if free > 0 {
                let pools = by_stage.entry(&pool.stage).or_default();
                pools.push((free, Reverse(&pool.worker)));
            }
        }
        Self {
            by_stage: by_stage
                .into_iter()
                .map(|(stage, pools)| (stage, BinaryHeap::from(pools)))
                .collect(),
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
        let mut roomiest = self.by_stage.get_mut(stage)?.peek_mut()?;
        roomiest.0 -= 1;
        let (left, Reverse(worker)) = *roomiest;
        if left == 0 {
            PeekMut::pop(roomiest);
        }
        Some(worker)
    }
}
