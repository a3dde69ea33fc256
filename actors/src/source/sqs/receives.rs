//! Receives from the queues of several stages, which may wait for long.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::select_all;
use futures::stream::{self, StreamExt};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tracing::warn;

use super::{QueueOptions, StageQueues};
use crate::source::SourceError;
use parkhang_core::domain::StageName;
use parkhang_queue::limits::MAX_BATCH;
use parkhang_queue::{Delivery, QueueError, Receive, TaskQueue};

/// Longest time that a claim waits for receives, which may wait longer: meanwhile slots of other stages may become free.
const GATHERING: Duration = Duration::from_secs(1);

/// Receives that fill the room of one stage at a time.
const AT_ONCE: usize = 8;

/// Receive that is under way.
type Pending = JoinHandle<Result<Vec<Delivery>, QueueError>>;

/// Receives under way, one of a stage at most. One that is dropped may still be carried out, and what it takes is invisible until its
/// visibility is over; so those that a claim does not wait for are kept for the next one.
#[derive(Debug, Default)]
pub(super) struct Receives {
    pending: Mutex<BTreeMap<StageName, Pending>>,
    /// A receive has ended.
    arrived: Arc<Notify>,
}

impl Receives {
    fn pending(&self) -> MutexGuard<'_, BTreeMap<StageName, Pending>> {
        // Entries are written and removed whole, so a panic elsewhere leaves none half done.
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if receives have been begun whose messages no call has returned.
    #[cfg(test)]
    pub(super) fn are_under_way(&self) -> bool {
        !self.pending().is_empty()
    }

    /// Waits until a receive has ended that no call has waited for.
    pub(super) async fn ended(&self) {
        self.arrived.notified().await;
    }

    /// Waits for all receives to end, and returns what they took.
    pub(super) async fn rest(&self) -> Result<Vec<(StageName, Vec<Delivery>)>, SourceError> {
        let pending = std::mem::take(&mut *self.pending());
        let mut taken = Vec::new();
        for (stage, receive) in pending {
            let received = receive
                .await
                .map_err(|_| SourceError::ReceiveEnded(stage.clone()))??;
            taken.push((stage, received));
        }
        Ok(taken)
    }

    /// Receives messages for stages with free slots: as soon as one queue has some, or none of them, or after [`GATHERING`]; what other
    /// queues have brought by then is taken along. Receives that have not ended go on, and what they bring is for the next call, to
    /// which [`ended`](Self::ended) invites.
    pub(super) async fn receive(
        &self,
        rooms: &BTreeMap<StageName, usize>,
        queues: &StageQueues,
        options: &QueueOptions,
    ) -> Result<Vec<(StageName, Vec<Delivery>)>, SourceError> {
        let mut under_way = std::mem::take(&mut *self.pending());
        for (stage, room) in rooms {
            let Some(queue) = queues.get(stage) else {
                continue;
            };
            if under_way.contains_key(stage) {
                continue;
            }
            let arrived = self.arrived.clone();
            let (room, options) = (*room, options.clone());
            let receive = async move {
                let received = fill(queue.as_ref(), room, &options).await;
                // An empty answer of a receive that waited invites to the next one.
                if received
                    .as_ref()
                    .is_ok_and(|found| !found.is_empty() || !options.wait.is_zero())
                {
                    arrived.notify_one();
                }
                received
            };
            under_way.insert(stage.clone(), tokio::spawn(receive));
        }
        let (stages, receives): (Vec<StageName>, Vec<Pending>) = under_way.into_iter().unzip();
        let mut guard = Unfinished {
            source: self,
            stages,
            receives,
        };
        let until = Instant::now() + GATHERING;
        let mut taken = Vec::new();
        while !guard.receives.is_empty() {
            let limit = if taken.is_empty() { until } else { Instant::now() };
            let Ok((stage, answer)) = tokio::time::timeout_at(limit, guard.first()).await else {
                break;
            };
            match answer {
                Ok(deliveries) if deliveries.is_empty() => {}
                Ok(deliveries) => taken.push((stage, deliveries)),
                // It holds up no other queue; whoever looks after the queues finds it again.
                Err(SourceError::Queue(error)) if queues.note_missing(&stage, &error) => {}
                Err(error) if taken.is_empty() => return Err(error),
                // What has been received must be acted on all the same.
                Err(error) => warn!(%stage, %error, "cannot receive messages now"),
            }
        }
        Ok(taken)
    }
}

/// Receives up to `room` messages. One receive waits, as there may be nothing for long and each request costs; where it is full there
/// may be more, and requests that do not wait fill the room.
async fn fill(
    queue: &dyn TaskQueue,
    room: usize,
    options: &QueueOptions,
) -> Result<Vec<Delivery>, QueueError> {
    let request = Receive::one(options.visibility);
    let first = request.up_to(room.min(MAX_BATCH)).waiting(options.wait);
    let mut found = queue.receive(first).await?;
    if found.len() < MAX_BATCH {
        return Ok(found);
    }
    let left = room.saturating_sub(found.len());
    let mut more = Vec::new();
    for from in (0..left).step_by(MAX_BATCH) {
        more.push(queue.receive(request.up_to((left - from).min(MAX_BATCH))));
    }
    let mut answers = stream::iter(more).buffer_unordered(AT_ONCE);
    while let Some(answer) = answers.next().await {
        match answer {
            Ok(more) => found.extend(more),
            Err(error) => warn!(queue = queue.name(), %error, "cannot receive more messages now"),
        }
    }
    drop(answers);
    Ok(found)
}

/// Receives under way, of which those that have not ended go back to the source.
struct Unfinished<'a> {
    source: &'a Receives,
    stages: Vec<StageName>,
    receives: Vec<Pending>,
}

impl Unfinished<'_> {
    /// Waits for the first one to end.
    async fn first(&mut self) -> (StageName, Result<Vec<Delivery>, SourceError>) {
        let (answer, index, _) = select_all(self.receives.iter_mut()).await;
        self.receives.remove(index);
        let stage = self.stages.remove(index);
        let answer = match answer {
            Ok(answer) => answer.map_err(SourceError::from),
            Err(_) => Err(SourceError::ReceiveEnded(stage.clone())),
        };
        (stage, answer)
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        let left = self.stages.drain(..).zip(self.receives.drain(..));
        self.source.pending().extend(left);
    }
}
