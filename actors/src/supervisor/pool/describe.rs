//! Description of a pool and its workers, and commands of operators that end them.

use chrono::Utc;
use ractor::ActorRef;

use super::{Phase, PoolMsg, PoolState, Slot, StageVerdict};
use parkhang_core::domain::{ActorKind, ActorRecord, ActorState, ActorWork, Fence, Level};

/// Description of a pool.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::supervisor) struct PoolStatus {
    pub state: ActorState,
    /// Slots that hold a lease, of all slots.
    pub slots: Level,
    pub workers: Vec<ActorRecord>,
}

/// Manner in which a worker is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::supervisor) enum WorkerFate {
    /// Stopped, and its lease released.
    Released,
    /// Killed, for supervision to notice.
    Killed,
}

impl PoolState {
    pub(super) fn status(&self) -> PoolStatus {
        let (stage, now) = (self.arguments.logic.info().name(), Utc::now());
        let describe_worker = |(fence, slot): (&Fence, &Slot)| {
            let progress = slot.followed.progress().now();
            let state = match slot.phase {
                Phase::Reporting | Phase::Accused(_) => ActorState::Reporting,
                Phase::Running if slot.context.drain.is_cancelled() => ActorState::Draining,
                Phase::Running => ActorState::Working,
            };
            ActorRecord {
                parent: Some(stage.to_string()),
                since: Some(slot.since),
                work: Some(ActorWork {
                    job: slot.context.assignment.job.clone(),
                    volume: slot.context.assignment.volume.clone(),
                    attempt: fence.attempt,
                    generation: fence.generation,
                    pages: progress.map(|progress| progress.pages),
                    pages_finished: progress.map(|progress| progress.finished()),
                    at_work: slot.followed.progress().at_work(now),
                }),
                ..ActorRecord::new(slot.name(fence), ActorKind::Worker, state)
            }
        };
        let mut workers: Vec<ActorRecord> = self.slots.iter().map(describe_worker).collect();
        workers.sort_by(|one, other| one.name.cmp(&other.name));
        PoolStatus {
            state: if self.draining {
                ActorState::Draining
            } else {
                ActorState::busy(!self.slots.is_empty())
            },
            slots: Level {
                used: self.slots.len() as u64,
                capacity: Some(self.arguments.slots as u64),
            },
            workers,
        }
    }

    /// Cuts the stages off and releases their leases; the pool ends with the last one. Another has taken its place.
    pub(super) fn release(&mut self, myself: &ActorRef<PoolMsg>) {
        (self.draining, self.replaced) = (true, true);
        let fences: Vec<Fence> = self.slots.keys().cloned().collect();
        for fence in fences {
            if let Some(slot) = self.slots.get(&fence) {
                slot.worker.kill();
            }
            self.end(&fence, Some(StageVerdict::Interrupted), myself);
        }
    }

    /// Ends the worker of this name; returns whether there was one at work.
    pub(super) fn end_worker(&mut self, name: &str, fate: WorkerFate, myself: &ActorRef<PoolMsg>) -> bool {
        let Some((fence, slot)) = self
            .slots
            .iter()
            .find(|(fence, slot)| slot.phase == Phase::Running && slot.name(fence) == name)
        else {
            return false;
        };
        slot.worker.kill();
        if fate == WorkerFate::Released {
            let fence = fence.clone();
            self.end(&fence, Some(StageVerdict::Interrupted), myself);
        }
        true
    }
}
