//! Ends of messages: deleted, or given back to their queue.

use async_trait::async_trait;

use super::StageQueues;
use crate::source::joined::Together;
use parkhang_core::domain::StageName;
use parkhang_queue::{QueueError, Receipt, ReceiptStatus};

/// End of the message of a lease.
#[derive(Debug)]
pub(super) struct End {
    pub receipt: Receipt,
    /// True if the task is to be worked on further: the message is visible again at once. Otherwise it is deleted.
    pub goes_on: bool,
}

/// Messages of the queue of one stage. Those that end together share requests, of ten messages each.
pub(super) struct Ends {
    pub queues: StageQueues,
    pub stage: StageName,
}

#[async_trait]
impl Together for Ends {
    type Request = End;
    type Answer = Result<ReceiptStatus, QueueError>;
    const MOST: usize = 500;

    async fn carry_out(&self, ends: Vec<End>) -> Vec<Self::Answer> {
        let Some(queue) = self.queues.get(&self.stage) else {
            // They are gone with their queue.
            return ends.iter().map(|_| Ok(ReceiptStatus::Stale)).collect();
        };
        let of = |goes_on: bool| -> Vec<Receipt> {
            let these = ends.iter().filter(|end| end.goes_on == goes_on);
            these.map(|end| end.receipt.clone()).collect()
        };
        let (done, going_on) = (of(false), of(true));
        let (deleted, released) =
            futures::future::join(queue.delete_all(&done), queue.release_all(&going_on)).await;
        let (mut deleted, mut released) = (deleted.into_iter(), released.into_iter());
        let answers = ends.iter().map(|end| {
            let answer = if end.goes_on {
                released.next()
            } else {
                deleted.next()
            };
            // One that the queue says nothing of may be there still; it comes back and is deleted then.
            answer.unwrap_or(Ok(ReceiptStatus::Stale))
        });
        answers.collect()
    }
}
