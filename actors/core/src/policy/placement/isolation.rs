//! Empty nodes for volumes that may kill their node.

use std::cmp::Reverse;

use super::queues::Queues;
use super::{FreeSlots, Placement, Shares};
use crate::domain::{Job, StageName, TaskId};

/// Suspects that wait for a stage.
#[derive(Default)]
pub(super) struct Suspects<'a>(Vec<Suspect<'a>>);

struct Suspect<'a> {
    job: &'a Job,
    stage: &'a StageName,
    task: TaskId,
}

impl<'a> Suspects<'a> {
    pub(super) fn push(&mut self, job: &'a Job, stage: &'a StageName, task: TaskId) {
        self.0.push(Suspect { job, stage, task });
    }

    /// Places each suspect on an empty node of its own, as far as there are any. For the first that finds none a node is
    /// emptied: one at a time, as an empty slot is work undone. A suspect takes its turn among other tasks as its job would.
    pub(super) fn isolate(
        mut self,
        others: &Queues<'a>,
        free: &mut FreeSlots<'_>,
        shares: &mut Shares<'a>,
        placements: &mut Vec<Placement>,
    ) {
        if self.0.is_empty() {
            return;
        }
        self.0.sort_by_key(|suspect| {
            let to_go = suspect.job.pipeline.to_go(suspect.stage);
            (Reverse(suspect.job.config.priority), to_go, suspect.task)
        });
        // Counted once: whatever is placed below closes its node, so the counts of the open ones stay right.
        let leases = free.leases_by_node();
        let mut empties_one = false;
        for Suspect { job, stage, task } in self.0 {
            if !shares.may_grow(job, stage) || others.go_before(job, stage, free, shares) {
                continue;
            }
            if let Some(worker) = free.take_empty_node(stage, job, task, &leases) {
                placements.push(Placement {
                    task,
                    stage: stage.clone(),
                    worker: worker.clone(),
                });
            } else if empties_one || !free.close_emptiest_node(stage, job, task, &leases) {
                continue;
            } else {
                empties_one = true;
            }
            // The limits of its job hold a place for the one that a node is emptied for, too.
            shares.grow(job.id, stage, 1);
        }
    }
}

#[cfg(test)]
mod tests;
