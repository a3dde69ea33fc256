//! What a pool shows of its workers, and what it does to one of them at an operator's order.

use chrono::Utc;
use ractor::ActorRef;

use super::{Phase, PoolMsg, PoolState, StageVerdict};
use parkhang_core::domain::{ActorKind, ActorRecord, ActorState, ActorWork, Fence, Level};

/// A pool as it is now.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::supervisor) struct PoolStanding {
    pub state: ActorState,
    pub slots: Level,
    pub workers: Vec<ActorRecord>,
}

/// What is done to a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::supervisor) enum WorkerFate {
    /// It is stopped, and its lease given back.
    HandedBack,
    /// It is killed, for supervision to find out.
    Killed,
}

impl PoolState {
    pub(super) fn standing(&self) -> PoolStanding {
        let (stage, now) = (self.arguments.logic.info().name(), Utc::now());
        let workers = self.slots.iter().map(|(fence, slot)| {
            let progress = slot.followed.progress().now();
            let state = match slot.phase {
                Phase::Reporting | Phase::Accused(_) => ActorState::Reporting,
                Phase::Running if slot.drain.is_cancelled() => ActorState::Draining,
                Phase::Running => ActorState::Working,
            };
            ActorRecord {
                parent: Some(stage.to_string()),
                since: Some(slot.since),
                work: Some(ActorWork {
                    job: slot.job.clone(),
                    volume: slot.volume.clone(),
                    attempt: fence.attempt,
                    generation: fence.generation,
                    pages: progress.map(|progress| progress.pages),
                    pages_finished: progress.map(|progress| progress.finished()),
                    at_work: slot.followed.progress().at_work(now),
                }),
                ..ActorRecord::new(slot.name(fence), ActorKind::Worker, state)
            }
        });
        let mut workers: Vec<ActorRecord> = workers.collect();
        workers.sort_by(|one, other| one.name.cmp(&other.name));
        PoolStanding {
            state: match self.draining {
                true => ActorState::Draining,
                false => ActorState::busy(!self.slots.is_empty()),
            },
            slots: Level {
                used: self.slots.len() as u64,
                capacity: Some(self.arguments.slots as u64),
            },
            workers,
        }
    }

    /// Ends as soon as its leases are given back, with whatever runs cut off. Another has taken its place.
    pub(super) fn hand_back(&mut self, myself: &ActorRef<PoolMsg>) {
        (self.draining, self.replaced) = (true, true);
        let fences: Vec<Fence> = self.slots.keys().cloned().collect();
        for fence in fences {
            if let Some(slot) = self.slots.get(&fence) {
                slot.worker.kill();
            }
            self.end(&fence, Some(StageVerdict::Interrupted), myself);
        }
    }

    /// Whether there is such a worker at work.
    pub(super) fn end_worker(&mut self, name: &str, fate: WorkerFate, myself: &ActorRef<PoolMsg>) -> bool {
        let mut running = self.slots.iter().filter(|(_, slot)| slot.phase == Phase::Running);
        let Some((fence, slot)) = running.find(|(fence, slot)| slot.name(fence) == name) else {
            return false;
        };
        slot.worker.kill();
        if fate == WorkerFate::HandedBack {
            let fence = fence.clone();
            self.end(&fence, Some(StageVerdict::Interrupted), myself);
        }
        true
    }
}
