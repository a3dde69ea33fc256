//! Leases of a pool: they are renewed while it holds them, and the ends of stages are reported.

use std::sync::Arc;

use ractor::ActorRef;
use tracing::{Instrument, info, warn};

use super::{PoolMsg, PoolState, Slot};
use crate::detached;
use crate::supervisor::ControlPlane;
use parkhang_core::domain::{Fence, LeaseRenewal, LeaseReport, RenewalReply, ReportReply};
use parkhang_core::failpoint::Failpoint;

impl PoolState {
    /// Renews the leases, also those whose report is under way: an expired lease could not be reported any more.
    pub(super) fn beat(&self, myself: &ActorRef<PoolMsg>) {
        if self.slots.is_empty() {
            return;
        }
        let renewals: Vec<LeaseRenewal> = self
            .slots
            .iter()
            .map(|(fence, slot)| LeaseRenewal {
                fence: fence.clone(),
                volume: slot.context.assignment.volume.clone(),
                progress: slot.followed.progress().now(),
            })
            .collect();
        let worker = self.arguments.worker.clone();
        let (control_plane, myself) = (self.arguments.control_plane.clone(), myself.clone());
        detached::spawn(async move {
            let renewal = control_plane.heartbeat(&worker, renewals).await;
            // A pool that stopped meanwhile has no worker left to stop.
            let _ = myself.cast(PoolMsg::Renewed(renewal));
        });
    }

    /// Stops the stages whose leases are lost or cancelled.
    pub(super) fn apply_renewal(&mut self, renewal: RenewalReply, myself: &ActorRef<PoolMsg>) {
        for fence in renewal.lost {
            // Killed and not drained: another worker may be at the volume, and whatever this one reports would be fenced.
            if let Some(slot) = self.slots.remove(&fence) {
                slot.span.in_scope(|| warn!("lease lost; stopping its worker"));
                self.abandon(slot);
            }
        }
        for fence in renewal.cancelled {
            if let Some(slot) = self.slots.get(&fence) {
                slot.span
                    .in_scope(|| info!("no longer wanted; stopping at the next checkpoint"));
                slot.context.drain.cancel();
            }
            self.release_if_accused(&fence, myself);
        }
    }

    /// Slot of a lease whose end the control plane has answered, which is free now.
    pub(super) fn answered(&mut self, fence: &Fence) -> Option<Slot> {
        let slot = self.slots.remove(fence)?;
        Failpoint::ReportAnswered.hit_in(&slot.context.assignment.volume, &fence.stage);
        Some(slot)
    }

    /// Ends the worker of a lease that is lost, and has what it leaves behind removed.
    pub(super) fn abandon(&self, slot: Slot) {
        let Slot {
            worker,
            context,
            span,
            ..
        } = slot;
        let logic = self.arguments.logic.clone();
        let abandoned = async move {
            // A worker that has ended by itself has left as much behind.
            let _ = worker.kill_and_wait(None).await;
            logic.abandon(context).await;
        };
        detached::spawn(abandoned.instrument(span));
    }
}

/// Reports the end of a lease, beside the actor: a report waits for a commit.
pub(super) fn send_report(
    pool: &ActorRef<PoolMsg>,
    control_plane: &Arc<dyn ControlPlane>,
    report: LeaseReport,
) {
    let (pool, control_plane) = (pool.clone(), control_plane.clone());
    detached::spawn(async move {
        let answer = match control_plane.report(report.clone()).await {
            ReportReply::Recorded => PoolMsg::Recorded(report.fence),
            ReportReply::Fenced => PoolMsg::Fenced(report.fence),
            ReportReply::Unrecorded => PoolMsg::Unrecorded(Box::new(report)),
        };
        // A pool that stopped meanwhile needs no answer.
        let _ = pool.cast(answer);
    });
}
