//! Stall of a pool: it ends its stage runs, and leaves it to its supervisor to find out whether the volumes that stood still
//! made it hang, or the pool would have hung with any volume.

use chrono::Utc;
use ractor::{ActorProcessingErr, ActorRef};
use tokio::time::Instant;
use tracing::{error, warn};

use super::{Phase, PoolMsg, PoolState, Slot, StageVerdict};
use crate::supervisor::node::NodeMsg;
use crate::supervisor::progress_watch::Run;
use parkhang_core::domain::{ErrorCategory, Fence, PageAtWork, StageError};

/// Cause of a stall.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::supervisor) enum Judgement {
    /// The volumes that stood still: the pool works without them.
    Volumes,
    /// The pool, which is out of order; also if the cause can no longer be found.
    Pool,
}

impl PoolState {
    /// Ends all stage runs if one of them made no progress: either it has hung the thread that they share, or the thread has hung
    /// it. The leases of runs that finished pages are released at once; the others wait for the judgement.
    pub(super) fn replace_if_stalled(
        &mut self,
        myself: &ActorRef<PoolMsg>,
    ) -> Result<(), ActorProcessingErr> {
        let running: Vec<_> = self
            .slots
            .iter()
            .filter(|(_, slot)| slot.phase == Phase::Running)
            .map(|(fence, slot)| Run {
                fence: fence.clone(),
                progress: slot.followed.progress().now(),
                awaits_service: slot.followed.progress().awaits_service(),
            })
            .collect();
        let window = self.arguments.health.progress_window;
        let stalled = self
            .watch
            .stalled(running.iter().cloned(), window, Instant::now());
        if stalled.is_empty() {
            return Ok(());
        }
        if self.replaced {
            // Its stages were to stop at their next checkpoint, and do not reach one.
            self.release(myself);
            return Ok(());
        }
        (self.draining, self.replaced) = (true, true);
        for Run { fence, .. } in running {
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

    /// Ends the leases that wait for the judgement: released, or failed where the volumes are to blame.
    pub(super) fn judged(&mut self, judgement: &Judgement, myself: &ActorRef<PoolMsg>) {
        for (fence, evidence) in self.accused() {
            let verdict = match judgement {
                Judgement::Pool => StageVerdict::Interrupted,
                Judgement::Volumes => StageVerdict::Failed(StageError {
                    // Other tries may follow, as after the death of a worker; their number is bounded.
                    retryable: true,
                    ..StageError::new(fence.stage.as_str(), ErrorCategory::Stalled, evidence)
                }),
            };
            if let Some(slot) = self.slots.get(&fence) {
                slot.span
                    .in_scope(|| warn!(?judgement, "the cause of the stall was found"));
            }
            self.end(&fence, Some(verdict), myself);
        }
    }

    /// Releases the leases that nobody will judge.
    pub(super) fn release_accused(&mut self, myself: &ActorRef<PoolMsg>) {
        self.judged(&Judgement::Pool, myself);
    }

    /// Releases this lease, if it waits for a judgement.
    pub(super) fn release_if_accused(&mut self, fence: &Fence, myself: &ActorRef<PoolMsg>) {
        let slot = self.slots.get(fence);
        if slot.is_some_and(|slot| matches!(slot.phase, Phase::Accused(_))) {
            self.end(fence, Some(StageVerdict::Interrupted), myself);
        }
    }

    fn accused(&self) -> Vec<(Fence, String)> {
        self.slots
            .iter()
            .filter_map(|(fence, slot)| match &slot.phase {
                Phase::Accused(evidence) => Some((fence.clone(), evidence.clone())),
                Phase::Running | Phase::Reporting => None,
            })
            .collect()
    }
}

/// Evidence about a run that stood still: the step at which each of its pages was.
fn evidence(slot: &Slot, window_s: u64) -> String {
    let now = Utc::now();
    let pages: Vec<String> = slot
        .followed
        .progress()
        .at_work(now)
        .iter()
        .map(|PageAtWork { page, step, since }| {
            let seconds = (now - *since).num_seconds().max(0);
            format!("{page} {} for {seconds} s", step.as_str())
        })
        .collect();
    if pages.is_empty() {
        format!("no page finished for {window_s} s")
    } else {
        format!("no page finished for {window_s} s: {}", pages.join(", "))
    }
}
