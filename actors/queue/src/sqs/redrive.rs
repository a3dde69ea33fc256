//! Way out of a dead-letter queue: a task of the server where it has such, our own hands where not.

use std::time::Duration;

use super::failure::{Failure, Meaning};
use super::name_of;
use super::queue::SqsQueue;
use super::retry::Retry;
use crate::task_queue::move_all;
use crate::{QueueError, Redrive, TaskQueue};

/// Longest time in which a server that fails is asked to move messages itself.
const PATIENCE: Duration = Duration::from_secs(5);

/// True if the server seems not to know such a task. Should it have begun one all the same, the two share the messages.
fn is_unknown(failure: &Failure) -> bool {
    failure.meaning == Meaning::Unsupported || failure.is_speechless()
}

/// Moves the messages of `from` to `to`.
///
/// The destination is always named: without one, AWS moves back only what it moved itself, and not what was sent to the queue with a
/// reason.
pub(super) async fn redrive(from: &SqsQueue, to: &dyn TaskQueue) -> Result<Redrive, QueueError> {
    let source = from.arn().await?;
    // The queues of one server differ in their ARNs by the name alone, which spares a right to read the settings of the other one.
    let destination = source
        .strip_suffix(name_of(&source))
        .map(|place| format!("{place}{}", to.name()));
    let retry = Retry {
        patience: from.link.retry.patience.min(PATIENCE),
        ..from.link.retry
    };
    let started = retry.run(|| async {
        let request = from.link.client.start_message_move_task().source_arn(&source);
        let request = request.set_destination_arn(destination.clone());
        Ok(request.send().await?.task_handle.unwrap_or_default())
    });
    match started.await {
        Ok(task) => Ok(Redrive::Started { task }),
        Err(refusal) if is_unknown(&refusal.failure) => {
            let messages = move_all(from, to).await?;
            Ok(Redrive::Moved { messages })
        }
        Err(refusal) => Err(refusal.into_error("redrive", from.name())),
    }
}
