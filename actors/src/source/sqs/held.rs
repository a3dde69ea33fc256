//! Messages of the leases in hand.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;
use tracing::{info, warn};

use super::{QueueOptions, StageQueues};
use parkhang_core::domain::{Fence, StageName};
use parkhang_queue::{Extended, Extension, Receipt};

/// Message of a lease.
#[derive(Debug, Clone)]
struct Held {
    receipt: Receipt,
    /// Latest time from which its visibility counts.
    extended: Instant,
}

/// Messages by the fences of their leases. One that is not there any more is back in its queue, or deleted.
#[derive(Debug, Default)]
pub(super) struct HeldMessages(Mutex<HashMap<Fence, Held>>);

impl HeldMessages {
    fn held(&self) -> MutexGuard<'_, HashMap<Fence, Held>> {
        // Entries are written and removed whole, so a panic elsewhere leaves none half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn insert(&self, fence: Fence, receipt: Receipt) {
        let extended = Instant::now();
        self.held().insert(fence, Held { receipt, extended });
    }

    pub(super) fn remove(&self, fence: &Fence) -> Option<Receipt> {
        self.held().remove(fence).map(|held| held.receipt)
    }

    /// Messages of these leases whose visibility is to be extended now, by stage.
    fn due<'a>(
        &self,
        fences: &'a [Fence],
        options: &QueueOptions,
    ) -> BTreeMap<&'a StageName, Vec<(&'a Fence, Extension)>> {
        let mut by_stage: BTreeMap<_, Vec<_>> = BTreeMap::new();
        let held = self.held();
        for fence in fences {
            let Some(message) = held.get(fence) else { continue };
            let (age, set) = (message.receipt.received.elapsed(), message.extended.elapsed());
            let Some(visibility) = options.extension(age, set) else {
                continue;
            };
            let extension = Extension {
                receipt: message.receipt.clone(),
                visibility,
            };
            by_stage.entry(&fence.stage).or_default().push((fence, extension));
        }
        by_stage
    }

    /// Extends the visibility of messages whose leases are renewed, once a third of it is over.
    pub(super) async fn extend(&self, fences: &[Fence], queues: &StageQueues, options: &QueueOptions) {
        for (stage, messages) in self.due(fences, options) {
            let Some(queue) = queues.get(stage) else {
                continue;
            };
            let extensions: Vec<Extension> =
                messages.iter().map(|(_, extension)| extension.clone()).collect();
            let answers = queue.extend_all(&extensions).await;
            let mut held = self.held();
            for ((fence, _), answer) in messages.iter().zip(answers) {
                match answer {
                    Ok(Extended::For(_)) => {
                        if let Some(message) = held.get_mut(*fence) {
                            message.extended = Instant::now();
                        }
                    }
                    // The lease in the database holds all the same; whoever receives the message next waits for its end.
                    Ok(Extended::Stale | Extended::AtCap) => {
                        info!(task = %fence.task, stage = %fence.stage, "the message of a lease is back in its queue");
                        held.remove(*fence);
                    }
                    Err(error) => {
                        warn!(task = %fence.task, %error, "cannot extend the visibility of a message")
                    }
                }
            }
        }
    }
}
