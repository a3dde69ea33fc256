use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use chrono::{DateTime, TimeDelta, Utc};
use tracing::{debug, info, warn};

use super::StageQueues;
use super::message::new_message;
use crate::source::{Clock, SourceError};
use parkhang_core::domain::{Fence, StageName};
use parkhang_core::failpoint::Failpoint;
use parkhang_queue::{NewMessage, QueueError};
use parkhang_state::{Outbox, Outgoing, StateError};

/// Most messages of a stage that one step sends.
const BATCH: usize = 500;
/// Looks at the counts of the queues within the age after which a message is looked for.
const LOOKS: i32 = 10;

/// Reason why messages are left to a later round.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    #[error(transparent)]
    Source(#[from] SourceError),
    #[error(transparent)]
    State(#[from] StateError),
    #[error(transparent)]
    Queue(#[from] QueueError),
    #[error("a message has no JSON form: {0}")]
    Json(#[from] serde_json::Error),
}

/// Publisher of tasks: sends a message for each that may begin a stage, to the queue of that stage. One process of a cluster runs it;
/// with two, messages come twice.
pub struct Publisher {
    outbox: Arc<dyn Outbox>,
    clock: Arc<dyn Clock>,
    queues: StageQueues,
    /// Age of a message after which it is looked for if its queue says that it has none.
    lost_after: TimeDelta,
    watch: Mutex<Watch>,
}

/// What is known of the queues' counts.
#[derive(Debug, Default)]
struct Watch {
    looked_at: Option<DateTime<Utc>>,
    /// Stages whose queues were empty at the last look.
    empty: Vec<StageName>,
}

impl fmt::Debug for Publisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Publisher")
            .field("queues", &self.queues)
            .finish_non_exhaustive()
    }
}

impl Publisher {
    /// A publisher that takes a message for lost when it is older than `lost_after` and its queue was empty at two looks, a tenth of
    /// that apart. It should be longer than the counts of a server lag behind, which of AWS is a minute.
    pub fn new(
        outbox: Arc<dyn Outbox>,
        clock: Arc<dyn Clock>,
        queues: StageQueues,
        lost_after: TimeDelta,
    ) -> Self {
        Self {
            outbox,
            clock,
            queues,
            lost_after,
            watch: Mutex::default(),
        }
    }

    /// Sends what is to be sent; returns the number of messages. May be repeated, and cut off anywhere.
    ///
    /// # Errors
    ///
    /// When some of it is left to the next round.
    pub async fn round(&self) -> Result<u64, PublishError> {
        let mut sent = 0;
        loop {
            let open = self.queues.open();
            let stages: Vec<StageName> = open.into_iter().map(|(stage, _)| stage).collect();
            let now = self.clock.now().await?;
            let outgoing = self.outbox.outgoing(&stages, BATCH, now).await?;
            Failpoint::PublicationIntended.pass();
            let count = outgoing.len();
            let done = self.send(outgoing).await?;
            Failpoint::MessagesSent.pass();
            self.outbox.published(&done, now).await?;
            sent += done.len() as u64;
            // Those that failed are tried again in the next round, not at once.
            if done.len() < count || count < BATCH {
                return Ok(sent);
            }
        }
    }

    /// Sends messages; returns those that were taken.
    async fn send(&self, outgoing: Vec<Outgoing>) -> Result<Vec<(Fence, i32)>, PublishError> {
        let mut by_stage: BTreeMap<StageName, Vec<Outgoing>> = BTreeMap::new();
        for message in outgoing {
            by_stage
                .entry(message.fence.stage.clone())
                .or_default()
                .push(message);
        }
        let mut done = Vec::new();
        for (stage, outgoing) in by_stage {
            let Some(queue) = self.queues.get(&stage) else {
                continue;
            };
            let messages: Vec<NewMessage> = outgoing
                .iter()
                .map(|message| new_message(message, queue.kind()))
                .collect::<Result<_, _>>()?;
            let mut refused = 0;
            let mut reason = None;
            for (message, answer) in outgoing.into_iter().zip(queue.send_all(&messages).await) {
                match answer {
                    Ok(sent) => {
                        debug!(task = %message.fence.task, %stage, message = sent.id, "published");
                        done.push((message.fence, message.repetition));
                    }
                    Err(error) => {
                        refused += 1;
                        reason.get_or_insert(error);
                    }
                }
            }
            if let Some(error) = reason {
                self.queues.note_missing(&stage, &error);
                warn!(queue = queue.name(), refused, %error, "messages not taken; they are sent again");
            }
        }
        Ok(done)
    }

    /// Has messages sent again that their queues have lost, say by a purge: tasks of a stage whose queue was empty at two looks in a
    /// row, though some of its messages should wait there. Counts are approximate, so one look is no evidence; and
    /// where they were wrong twice, messages come twice, which costs receives and nothing else.
    ///
    /// # Errors
    ///
    /// When a queue or the store does not answer.
    pub async fn look_for_lost(&self) -> Result<u64, PublishError> {
        let now = self.clock.now().await?;
        let before = {
            let mut watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner);
            if watch
                .looked_at
                .is_some_and(|at| now - at < self.lost_after / LOOKS)
            {
                return Ok(0);
            }
            watch.looked_at = Some(now);
            std::mem::take(&mut watch.empty)
        };
        let (mut empty, mut repeated) = (Vec::new(), 0);
        for (stage, queue) in self.queues.open() {
            match queue.counts().await {
                Ok(counts) if counts.total() == 0 => {}
                Ok(_) => continue,
                // What was in it is lost too, once it is there again.
                Err(error) if self.queues.note_missing(&stage, &error) => {}
                Err(error) => return Err(error.into()),
            }
            if before.contains(&stage) {
                let lost = self.outbox.republish(&stage, now - self.lost_after).await?;
                if lost > 0 {
                    info!(
                        queue = queue.name(),
                        lost, "the queue has lost messages; they are sent again"
                    );
                }
                repeated += lost;
            }
            empty.push(stage);
        }
        self.watch.lock().unwrap_or_else(PoisonError::into_inner).empty = empty;
        Ok(repeated)
    }
}
