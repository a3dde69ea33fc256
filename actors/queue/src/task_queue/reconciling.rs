//! Change of the settings of queues that are there to those of their descriptions.

use super::{QueueError, QueueServer, TaskQueue};
use crate::{Difference, QueueSpec};

/// Gives the queue at an address, a name or a URL, and its dead-letter queue the settings of a description, and returns those that
/// differed. One that is missing is made, but for a queue with a URL.
///
/// # Errors
///
/// Those of [`QueueServer::create`] and [`TaskQueue::configure`]. What was changed before stays changed.
pub async fn reconcile(
    server: &dyn QueueServer,
    address: &str,
    spec: &QueueSpec,
) -> Result<Vec<Difference>, QueueError> {
    let found = match server.open(address).await {
        Err(QueueError::NotFound { .. }) => None,
        found => Some(found?),
    };
    let mut changed = match &found {
        Some(queue) => spec.drift(&queue.facts().await?),
        None => Vec::new(),
    };
    let is_changed = !changed.is_empty();
    // It must be there before it can be attached, and as described before a queue is made with it.
    if let Some(letters) = spec.of_dead_letters() {
        match server.open(&letters.name).await {
            Err(QueueError::NotFound { .. }) => _ = server.create(&letters).await?,
            found => changed.extend(mend(&*found?, &letters).await?),
        }
    }
    match found {
        Some(queue) if is_changed => queue.configure(&spec.facts()).await?,
        Some(_) => {}
        None => _ = server.create(spec).await?,
    }
    Ok(changed)
}

async fn mend(queue: &dyn TaskQueue, spec: &QueueSpec) -> Result<Vec<Difference>, QueueError> {
    let drift = spec.drift(&queue.facts().await?);
    if !drift.is_empty() {
        queue.configure(&spec.facts()).await?;
    }
    Ok(drift)
}
