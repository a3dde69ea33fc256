//! What a pool does when it stands still: it ends what it runs, and leaves it to its supervisor to find out whether the volumes
//! that stood still made it hang, or the pool would have hung whatever it was given.

use chrono::Utc;
use ractor::{ActorProcessingErr, ActorRef};
use tokio::time::Instant;
use tracing::{error, warn};

use super::{Phase, PoolMsg, PoolState, Slot, StageVerdict};
use crate::supervisor::node::NodeMsg;
use parkhang_core::domain::{ErrorCategory, Fence, PageAtWork, StageError};

/// What a stall turned out to be evidence of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::supervisor) enum Judgement {
    /// The pool works without the volumes that stood still.
    Volumes,
    /// The pool is out of order, or nobody will know.
    Pool,
}

impl PoolState {
    /// A stage run that gets nowhere has hung whatever the pool's runs share, or was hung by it. All that runs is ended. The
    /// leases of those that finished pages go back at once; the others wait for the judgement.
    pub(super) fn replace_if_stalled(
        &mut self,
        myself: &ActorRef<PoolMsg>,
    ) -> Result<(), ActorProcessingErr> {
        let running = self.slots.iter().filter(|(_, slot)| slot.phase == Phase::Running);
        let running: Vec<_> = running
            .map(|(fence, slot)| (fence.clone(), slot.followed.progress().now()))
            .collect();
        let window = self.arguments.health.progress_window;
        let stalled = self
            .watch
            .stalled(running.iter().cloned(), window, Instant::now());
        if stalled.is_empty() {
            return Ok(());
        }
        if self.replaced {
            // It was to stop at its next checkpoint, and does not come to one.
            self.hand_back(myself);
            return Ok(());
        }
        (self.draining, self.replaced) = (true, true);
        for (fence, _) in running {
            let Some(slot) = self.slots.get_mut(&fence) else {
                continue;
            };
            slot.worker.kill();
            if stalled.contains(&fence) {
                let evidence = evidence(slot, window.as_secs());
                slot.span
                    .in_scope(|| error!(evidence, "no progress; its pool is replaced"));
                slot.phase = Phase::Accused(evidence);
            } else {
                self.end(&fence, Some(StageVerdict::Interrupted), myself);
            }
        }
        self.arguments
            .supervisor
            .cast(NodeMsg::Stalled(myself.get_id()))?;
        Ok(())
    }

    pub(super) fn judged(&mut self, judgement: &Judgement, myself: &ActorRef<PoolMsg>) {
        for (fence, evidence) in self.accused() {
            let verdict = match judgement {
                Judgement::Pool => StageVerdict::Interrupted,
                Judgement::Volumes => StageVerdict::Failed(StageError {
                    // Another try is due, as after the death of a worker.
                    retryable: true,
                    ..StageError::new(fence.stage.as_str(), ErrorCategory::Stalled, evidence)
                }),
            };
            if let Some(slot) = self.slots.get(&fence) {
                slot.span
                    .in_scope(|| warn!(?judgement, "the cause of its standstill"));
            }
            self.end(&fence, Some(verdict), myself);
        }
    }

    /// Hands back what nobody will judge.
    pub(super) fn release_accused(&mut self, myself: &ActorRef<PoolMsg>) {
        self.judged(&Judgement::Pool, myself);
    }

    /// As [`PoolState::release_accused`], of one lease.
    pub(super) fn release_if_accused(&mut self, fence: &Fence, myself: &ActorRef<PoolMsg>) {
        let slot = self.slots.get(fence);
        if slot.is_some_and(|slot| matches!(slot.phase, Phase::Accused(_))) {
            self.end(fence, Some(StageVerdict::Interrupted), myself);
        }
    }

    fn accused(&self) -> Vec<(Fence, String)> {
        let slots = self.slots.iter();
        let accused = slots.filter_map(|(fence, slot)| match &slot.phase {
            Phase::Accused(evidence) => Some((fence.clone(), evidence.clone())),
            Phase::Running | Phase::Reporting => None,
        });
        accused.collect()
    }
}

/// What was seen of a run that stood still: where its pages were.
fn evidence(slot: &Slot, window_s: u64) -> String {
    let now = Utc::now();
    let at_work = slot.followed.progress().at_work(now);
    let pages = at_work.iter().map(|PageAtWork { page, step, since }| {
        format!(
            "{page} {} for {} s",
            step.as_str(),
            (now - *since).num_seconds().max(0)
        )
    });
    let pages: Vec<String> = pages.collect();
    match pages.is_empty() {
        true => format!("no page finished for {window_s} s"),
        false => format!("no page finished for {window_s} s: {}", pages.join(", ")),
    }
}
