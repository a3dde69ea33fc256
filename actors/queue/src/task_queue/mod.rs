//! The traits of queues and of their servers.

mod dead_letters;
mod reconciling;

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::{
    Counts, Delivery, Extension, NewMessage, QueueError, QueueFacts, QueueKind, QueueSpec, Receipt, Receive,
    Sent,
};

use dead_letters::letter;
pub(crate) use dead_letters::move_all;
pub use dead_letters::{REASON, SOURCE};
pub use reconciling::reconcile;

/// Outcome of a request about a receipt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReceiptStatus {
    /// The server did what was asked. A standard queue may say so of a stale receipt too, and then it may or may not have done it.
    Honoured,
    /// The lease is lost: its time was over, the message was received again, or it is deleted.
    Stale,
}

/// Outcome of an extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extended {
    /// Nobody else gets the message for this long from now on: shorter than asked where the cap cut it.
    For(Duration),
    /// The lease is lost, as [`ReceiptStatus::Stale`].
    Stale,
    /// The message has been held for as long as any may be ([`MAX_VISIBILITY`](super::limits::MAX_VISIBILITY)), and cannot be kept.
    AtCap,
}

/// Way in which messages leave a dead-letter queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Redrive {
    /// The server moves them, under the name of this task of its own.
    Started { task: String },
    /// They were moved one by one.
    Moved { messages: u64 },
}

/// A queue.
///
/// The methods on many take any number, split it into requests as the protocol wants them, and answer for each entry, in order: a
/// request may be carried out for some of its entries and not for others.
///
/// A request that is dropped before its end may still be carried out. For a receive that means that what it took is invisible until
/// its visibility is over; whoever drains lets a short one end instead.
#[async_trait]
pub trait TaskQueue: Send + Sync + Debug {
    /// Name, unique on its server.
    fn name(&self) -> &str;

    /// Address, by which [`QueueServer::open`] finds it without asking anybody.
    fn url(&self) -> &str;

    fn kind(&self) -> QueueKind {
        QueueKind::of(self.name())
    }

    /// Sends messages. In a FIFO queue a message that fails holds back those of its group that come after it
    /// ([`QueueError::HeldBack`]). Elsewhere a message may be there twice, where an answer was lost.
    async fn send_all(&self, messages: &[NewMessage]) -> Vec<Result<Sent, QueueError>>;

    /// Receives messages, possibly fewer than there are. An empty answer does not mean that the queue is empty.
    ///
    /// # Errors
    ///
    /// [`QueueError::Limit`] for a request that no queue takes, [`QueueError::InFlight`] if too many messages are held, and those of
    /// the server.
    async fn receive(&self, request: Receive) -> Result<Vec<Delivery>, QueueError>;

    /// Sets the visibility of deliveries anew, from now on.
    async fn extend_all(&self, extensions: &[Extension]) -> Vec<Result<Extended, QueueError>>;

    /// Deletes messages for good.
    async fn delete_all(&self, receipts: &[Receipt]) -> Vec<Result<ReceiptStatus, QueueError>>;

    /// Finds the dead-letter queue.
    ///
    /// # Errors
    ///
    /// [`QueueError::NoDeadLetters`] if there is none, and those of the server.
    async fn dead_letters(&self) -> Result<Arc<dyn TaskQueue>, QueueError>;

    /// Counts the messages, about.
    ///
    /// # Errors
    ///
    /// Those of the server.
    async fn counts(&self) -> Result<Counts, QueueError>;

    /// Reads the settings of the queue.
    ///
    /// # Errors
    ///
    /// Those of the server.
    async fn facts(&self) -> Result<QueueFacts, QueueError>;

    /// Changes the settings of the queue; its messages stay. AWS takes up to a minute, for a retention up to a quarter of an hour. Whoever
    /// has opened the queue may go on with the dead-letter queue that was attached before.
    ///
    /// # Errors
    ///
    /// [`QueueError::Limit`] for what no queue can have, [`QueueError::NotFound`] if the dead-letter queue is not there, and those of the
    /// server.
    async fn configure(&self, settings: &QueueFacts) -> Result<(), QueueError>;

    /// Deletes every message, also those that are held. AWS takes up to a minute, and refuses a second purge within one.
    ///
    /// # Errors
    ///
    /// Those of the server.
    async fn purge(&self) -> Result<(), QueueError>;

    /// Moves the messages of this queue, a dead-letter queue, to another one of the same server: about as many as there are when it
    /// begins, as one that fails again at once would otherwise go round for ever.
    ///
    /// # Errors
    ///
    /// Those of the server. What was moved before stays moved.
    async fn redrive(&self, to: &dyn TaskQueue) -> Result<Redrive, QueueError> {
        let messages = move_all(self, to).await?;
        Ok(Redrive::Moved { messages })
    }

    /// Sends one message.
    ///
    /// # Errors
    ///
    /// [`QueueError::Limit`] for a message that no queue takes, and those of the server.
    async fn send(&self, message: NewMessage) -> Result<Sent, QueueError> {
        only(self, "send to", self.send_all(&[message]).await)
    }

    /// Sets the visibility of one delivery anew, from now on.
    ///
    /// # Errors
    ///
    /// Those of the server.
    async fn extend(&self, receipt: &Receipt, visibility: Duration) -> Result<Extended, QueueError> {
        let receipt = receipt.clone();
        let extension = Extension { receipt, visibility };
        only(self, "extend in", self.extend_all(&[extension]).await)
    }

    /// Gives one message back: the next receive may have it.
    ///
    /// # Errors
    ///
    /// Those of the server.
    async fn release(&self, receipt: &Receipt) -> Result<ReceiptStatus, QueueError> {
        let receipts = std::slice::from_ref(receipt);
        only(self, "release in", self.release_all(receipts).await)
    }

    /// Gives messages back, as a node does that is being stopped.
    async fn release_all(&self, receipts: &[Receipt]) -> Vec<Result<ReceiptStatus, QueueError>> {
        let extensions: Vec<Extension> = receipts
            .iter()
            .map(|receipt| Extension {
                receipt: receipt.clone(),
                visibility: Duration::ZERO,
            })
            .collect();
        let extended = self.extend_all(&extensions).await.into_iter();
        let status = |extended| match extended {
            Extended::For(_) => ReceiptStatus::Honoured,
            Extended::Stale | Extended::AtCap => ReceiptStatus::Stale,
        };
        extended.map(|extended| extended.map(status)).collect()
    }

    /// Deletes one message for good.
    ///
    /// # Errors
    ///
    /// Those of the server.
    async fn delete(&self, receipt: &Receipt) -> Result<ReceiptStatus, QueueError> {
        let receipts = std::slice::from_ref(receipt);
        only(self, "delete a message of", self.delete_all(receipts).await)
    }

    /// Puts a message aside that cannot be worked on: sends it to the dead-letter queue with the reason as its attribute
    /// [`REASON`](super::REASON), then deletes it here. Who dies between the two leaves it in both; it is the same message, and in a
    /// FIFO queue it is sent once only.
    ///
    /// # Errors
    ///
    /// Those of [`dead_letters`](Self::dead_letters), and of the server. The message then still is in this queue.
    async fn dead_letter(&self, delivery: &Delivery, reason: &str) -> Result<ReceiptStatus, QueueError> {
        let letters = self.dead_letters().await?;
        letters.send(letter(delivery, self.name(), reason)).await?;
        self.delete(&delivery.receipt).await
    }
}

/// The one result of a request about one thing.
fn only<T, Q: TaskQueue + ?Sized>(
    queue: &Q,
    action: &'static str,
    results: Vec<Result<T, QueueError>>,
) -> Result<T, QueueError> {
    let missing = || QueueError::Remote {
        action,
        queue: queue.name().to_owned(),
        attempts: 0,
        category: parkhang_core::domain::ErrorCategory::Unknown,
        code: "NoResult".to_owned(),
        message: "the queue answered for none of the entries".to_owned(),
    };
    results.into_iter().next().unwrap_or_else(|| Err(missing()))
}

/// Server of queues: an account and a region of SQS, or what stands in for them.
#[async_trait]
pub trait QueueServer: Send + Sync + Debug {
    /// Makes a queue and its dead-letter queue, and does nothing to queues that are there with the same settings.
    ///
    /// # Errors
    ///
    /// [`QueueError::Limit`] for what no server makes, [`QueueError::Exists`] if one of them is there with other settings, and those of
    /// the server.
    async fn create(&self, spec: &QueueSpec) -> Result<Arc<dyn TaskQueue>, QueueError>;

    /// Opens the queue of a name or a URL. Behind a URL it is not looked for.
    ///
    /// # Errors
    ///
    /// [`QueueError::NotFound`] if there is no queue of the name, and those of the server.
    async fn open(&self, name_or_url: &str) -> Result<Arc<dyn TaskQueue>, QueueError>;

    /// Lists the names of queues that begin with `prefix`, sorted.
    ///
    /// # Errors
    ///
    /// Those of the server.
    async fn list(&self, prefix: &str) -> Result<Vec<String>, QueueError>;
}
