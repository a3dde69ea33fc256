//! Queues in memory for tests, as strict as SQS and as quick as the test: time is tokio's, which can be paused.
//!
//! Where SQS leaves something open, the twin does what is harder on its user: a receipt whose time is over is worth nothing in a FIFO
//! queue, and a standard queue confirms deletions that it does not carry out. A request costs the logarithm of the messages that are there,
//! so that backlogs are as long as those of an archive.

mod messages;
mod state;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use tokio::sync::Notify;
use tokio::time::Instant;
use uuid::Uuid;

use crate::checks::{check_message, check_receive, check_spec, check_visibility};
use crate::{
    Counts, Delivery, Extended, Extension, NewMessage, QueueError, QueueFacts, QueueKind, QueueServer,
    QueueSpec, Receipt, ReceiptStatus, Receive, Sent, TaskQueue,
};
use state::{Handed, State, sequence_text};

/// Beginning of the URLs of queues in memory.
const SCHEME: &str = "memory:";

/// Server in memory. Clones share its queues.
#[derive(Debug, Clone)]
pub struct MemoryServer {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    queues: Mutex<BTreeMap<String, State>>,
    /// Told of every change that may make a message receivable.
    changed: Notify,
    /// One moment on the clock that tests can pause and on the wall.
    started: (Instant, DateTime<Utc>),
}

impl Default for MemoryServer {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryServer {
    /// Server without queues.
    pub fn new() -> Self {
        Self {
            shared: Arc::new(Shared {
                queues: Mutex::new(BTreeMap::new()),
                changed: Notify::new(),
                started: (Instant::now(), Utc::now()),
            }),
        }
    }

    fn queue(&self, name: &str) -> MemoryQueue {
        MemoryQueue {
            shared: self.shared.clone(),
            name: name.to_owned(),
            url: format!("{SCHEME}{name}"),
        }
    }
}

impl Shared {
    fn queues(&self) -> MutexGuard<'_, BTreeMap<String, State>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wall(&self, at: Instant) -> DateTime<Utc> {
        let (began, wall) = self.started;
        wall + TimeDelta::from_std(at.saturating_duration_since(began)).unwrap_or_default()
    }
}

#[async_trait]
impl QueueServer for MemoryServer {
    async fn create(&self, spec: &QueueSpec) -> Result<Arc<dyn TaskQueue>, QueueError> {
        check_spec(spec)?;
        let mut queues = self.shared.queues();
        for spec in spec.of_dead_letters().iter().chain([spec]) {
            match queues.get(&spec.name) {
                Some(there) if there.spec != *spec => {
                    return Err(QueueError::Exists {
                        queue: spec.name.clone(),
                        message: format!("it is {:?}", there.spec),
                    });
                }
                Some(_) => {}
                None => {
                    queues.insert(spec.name.clone(), State::new(spec.clone()));
                }
            }
        }
        Ok(Arc::new(self.queue(&spec.name)))
    }

    async fn open(&self, name_or_url: &str) -> Result<Arc<dyn TaskQueue>, QueueError> {
        if let Some(name) = name_or_url.strip_prefix(SCHEME) {
            return Ok(Arc::new(self.queue(name)));
        }
        let queue = self.queue(name_or_url);
        queue.state(|_| ())?;
        Ok(Arc::new(queue))
    }

    async fn list(&self, prefix: &str) -> Result<Vec<String>, QueueError> {
        let queues = self.shared.queues();
        let names = queues.keys().filter(|name| name.starts_with(prefix));
        Ok(names.cloned().collect())
    }
}

#[derive(Debug)]
struct MemoryQueue {
    shared: Arc<Shared>,
    name: String,
    url: String,
}

impl MemoryQueue {
    fn missing(&self) -> QueueError {
        QueueError::NotFound {
            queue: self.name.clone(),
        }
    }

    fn state<T>(&self, work: impl FnOnce(&mut State) -> T) -> Result<T, QueueError> {
        let mut queues = self.shared.queues();
        queues.get_mut(&self.name).map(work).ok_or_else(|| self.missing())
    }

    /// Receives what can be received now, and tells the next time at which that may be more.
    fn receive_now(&self, request: &Receive) -> Result<(Vec<Delivery>, Option<Instant>), QueueError> {
        let now = Instant::now();
        let mut queues = self.shared.queues();
        let state = queues.get_mut(&self.name).ok_or_else(|| self.missing())?;
        let received = state.receive(request.max, request.visibility, now);
        // A FIFO queue answers that it has nothing.
        if received.is_over_limit && self.kind() == QueueKind::Standard {
            return Err(QueueError::InFlight {
                queue: self.name.clone(),
            });
        }
        let next = state.next_change();
        let letters = state
            .spec
            .dead_letters
            .as_ref()
            .map(|letters| letters.queue.clone());
        if let Some(letters) = letters.and_then(|letters| queues.get_mut(&letters)) {
            for dead in received.dead {
                letters.take_dead(dead, &self.name, now);
                self.shared.changed.notify_waiters();
            }
        }
        let deliver = |handed| self.delivery(handed, now);
        Ok((received.handed.into_iter().map(deliver).collect(), next))
    }

    fn delivery(&self, handed: Handed, now: Instant) -> Delivery {
        let Handed {
            receipt,
            sequence,
            stored,
        } = handed;
        Delivery {
            id: stored.id,
            receipt: Receipt {
                handle: receipt.to_string(),
                received: now,
            },
            body: stored.message.body,
            attributes: stored.message.attributes,
            sequence: stored.message.fifo.as_ref().map(|_| sequence_text(sequence)),
            fifo: stored.message.fifo,
            receives: stored.receives,
            sent: Some(self.shared.wall(stored.sent)),
            moved_from: stored.moved_from,
        }
    }

    fn extend_one(&self, extension: &Extension) -> Result<Extended, QueueError> {
        check_visibility(extension.visibility)?;
        let now = Instant::now();
        let Some(visibility) = extension.capped(now) else {
            return Ok(Extended::AtCap);
        };
        let number = number_of(&extension.receipt);
        let status = self.state(|state| state.extend(number, visibility, now))?;
        self.shared.changed.notify_waiters();
        Ok(match status {
            ReceiptStatus::Honoured => Extended::For(visibility),
            ReceiptStatus::Stale => Extended::Stale,
        })
    }
}

/// Number of a receipt; that of none for a text that is not ours.
fn number_of(receipt: &Receipt) -> u64 {
    receipt.handle.parse().unwrap_or(0)
}

#[async_trait]
impl TaskQueue for MemoryQueue {
    fn name(&self) -> &str {
        &self.name
    }

    fn url(&self) -> &str {
        &self.url
    }

    async fn send_all(&self, messages: &[NewMessage]) -> Vec<Result<Sent, QueueError>> {
        let now = Instant::now();
        let mut failed: Vec<&str> = Vec::new();
        let mut results = Vec::new();
        for message in messages {
            let group = message.fifo.as_ref().map(|key| key.group.as_str());
            let result = match group {
                Some(group) if failed.contains(&group) => Err(QueueError::HeldBack {
                    queue: self.name.clone(),
                    group: group.to_owned(),
                }),
                _ => check_message(message, self.kind())
                    .map_err(QueueError::Limit)
                    .and_then(|()| self.state(|state| state.send(message, Uuid::new_v4().to_string(), now))),
            };
            if result.is_err() {
                failed.extend(group);
            }
            results.push(result);
        }
        self.shared.changed.notify_waiters();
        results
    }

    async fn receive(&self, request: Receive) -> Result<Vec<Delivery>, QueueError> {
        check_receive(&request)?;
        let end = Instant::now() + request.wait;
        loop {
            let changed = self.shared.changed.notified();
            tokio::pin!(changed);
            // From here on no change is missed.
            changed.as_mut().enable();
            let (deliveries, next) = self.receive_now(&request)?;
            if !deliveries.is_empty() || Instant::now() >= end {
                return Ok(deliveries);
            }
            let until = next.map_or(end, |next| next.min(end));
            let _ = tokio::time::timeout_at(until, changed).await;
        }
    }

    async fn extend_all(&self, extensions: &[Extension]) -> Vec<Result<Extended, QueueError>> {
        let extend = |extension| self.extend_one(extension);
        extensions.iter().map(extend).collect()
    }

    async fn delete_all(&self, receipts: &[Receipt]) -> Vec<Result<ReceiptStatus, QueueError>> {
        let now = Instant::now();
        let delete = |receipt| self.state(|state| state.delete(number_of(receipt), now));
        let results = receipts.iter().map(delete).collect();
        // The group of a deleted message is free.
        self.shared.changed.notify_waiters();
        results
    }

    async fn dead_letters(&self) -> Result<Arc<dyn TaskQueue>, QueueError> {
        let letters = self.state(|state| state.spec.dead_letters.clone())?;
        let letters = letters.ok_or_else(|| QueueError::NoDeadLetters {
            queue: self.name.clone(),
        })?;
        let server = MemoryServer {
            shared: self.shared.clone(),
        };
        server.open(&letters.queue).await
    }

    async fn counts(&self) -> Result<Counts, QueueError> {
        self.state(|state| state.counts(Instant::now()))
    }

    async fn facts(&self) -> Result<QueueFacts, QueueError> {
        self.state(|state| state.spec.facts())
    }

    async fn configure(&self, settings: &QueueFacts) -> Result<(), QueueError> {
        let spec = settings.of(&self.name);
        check_spec(&spec)?;
        let mut queues = self.shared.queues();
        let letters = spec.dead_letters.as_ref().map(|letters| &letters.queue);
        if let Some(letters) = letters.filter(|letters| !queues.contains_key(*letters)) {
            return Err(QueueError::NotFound {
                queue: letters.clone(),
            });
        }
        let state = queues.get_mut(&self.name).ok_or_else(|| self.missing())?;
        state.spec = spec;
        Ok(())
    }

    async fn purge(&self) -> Result<(), QueueError> {
        let is_done = self.state(|state| state.purge(Instant::now()))?;
        let queue = self.name.clone();
        is_done.then_some(()).ok_or(QueueError::PurgedLately { queue })
    }
}
