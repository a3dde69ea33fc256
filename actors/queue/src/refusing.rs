//! Queue for tests of its users, that counts requests and refuses as many as it is told to: a server that throttles cannot be had on
//! demand.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use parkhang_core::domain::ErrorCategory;

use crate::{
    Counts, Delivery, Extended, Extension, NewMessage, QueueError, QueueFacts, Receipt, ReceiptStatus,
    Receive, Sent, TaskQueue,
};

/// Requests that are refused, and counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    Receives,
    Extensions,
    Deletions,
    Counts,
}

/// Queue in front of another one.
#[derive(Debug)]
pub struct RefusingQueue {
    inner: Arc<dyn TaskQueue>,
    receives: AtomicUsize,
    extensions: AtomicUsize,
    deletions: AtomicUsize,
    counts: AtomicUsize,
    made: [AtomicUsize; 4],
}

impl RefusingQueue {
    /// Queue that refuses nothing yet.
    pub fn new(inner: Arc<dyn TaskQueue>) -> Self {
        Self {
            inner,
            receives: AtomicUsize::new(0),
            extensions: AtomicUsize::new(0),
            deletions: AtomicUsize::new(0),
            counts: AtomicUsize::new(0),
            made: Default::default(),
        }
    }

    /// Refuses the next requests of a kind.
    pub fn refuse(&self, requests: Refused, number: usize) {
        self.left(requests).store(number, Ordering::Relaxed);
    }

    /// Number of requests of a kind that were made, refused ones too.
    pub fn made(&self, requests: Refused) -> usize {
        self.made[requests as usize].load(Ordering::Relaxed)
    }

    const fn left(&self, requests: Refused) -> &AtomicUsize {
        match requests {
            Refused::Receives => &self.receives,
            Refused::Extensions => &self.extensions,
            Refused::Deletions => &self.deletions,
            Refused::Counts => &self.counts,
        }
    }

    fn admit(&self, requests: Refused) -> Result<(), QueueError> {
        self.made[requests as usize].fetch_add(1, Ordering::Relaxed);
        let one_less = |left: usize| left.checked_sub(1);
        let left = self.left(requests);
        match left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less) {
            Err(_) => Ok(()),
            Ok(_) => Err(QueueError::Remote {
                action: "use",
                queue: self.name().to_owned(),
                attempts: 5,
                category: ErrorCategory::Network,
                code: "ThrottlingException".to_owned(),
                message: "Rate exceeded".to_owned(),
            }),
        }
    }
}

#[async_trait]
impl TaskQueue for RefusingQueue {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn url(&self) -> &str {
        self.inner.url()
    }

    async fn send_all(&self, messages: &[NewMessage]) -> Vec<Result<Sent, QueueError>> {
        self.inner.send_all(messages).await
    }

    async fn receive(&self, request: Receive) -> Result<Vec<Delivery>, QueueError> {
        self.admit(Refused::Receives)?;
        self.inner.receive(request).await
    }

    async fn extend_all(&self, extensions: &[Extension]) -> Vec<Result<Extended, QueueError>> {
        match self.admit(Refused::Extensions) {
            Ok(()) => self.inner.extend_all(extensions).await,
            Err(error) => extensions.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    async fn delete_all(&self, receipts: &[Receipt]) -> Vec<Result<ReceiptStatus, QueueError>> {
        match self.admit(Refused::Deletions) {
            Ok(()) => self.inner.delete_all(receipts).await,
            Err(error) => receipts.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    async fn dead_letters(&self) -> Result<Arc<dyn TaskQueue>, QueueError> {
        self.inner.dead_letters().await
    }

    async fn counts(&self) -> Result<Counts, QueueError> {
        self.admit(Refused::Counts)?;
        self.inner.counts().await
    }

    async fn facts(&self) -> Result<QueueFacts, QueueError> {
        self.inner.facts().await
    }

    async fn configure(&self, settings: &QueueFacts) -> Result<(), QueueError> {
        self.inner.configure(settings).await
    }

    async fn purge(&self) -> Result<(), QueueError> {
        self.inner.purge().await
    }
}
