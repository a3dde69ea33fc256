use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use tracing::{debug, info, warn};

use super::{StageQueues, TaskMessage};
use crate::source::{Clock, SourceError};
use parkhang_core::domain::{ErrorCategory, Fence, StageError, StageName, Task, WorkerId};
use parkhang_core::policy::placement::next_fence;
use parkhang_core::policy::transition::Event;
use parkhang_queue::limits::MAX_BATCH;
use parkhang_queue::{Delivery, QueueError, REASON, Receive, TaskQueue};
use parkhang_state::{Change, Expected, StateStore};

/// Name under which tasks are leased for the moment in which they are set aside.
const HOLDER: &str = "dead-letters";
/// Time for which a dead letter is invisible while it is looked at.
const LOOKING: Duration = Duration::from_secs(30);
/// Most receives of one look at a queue.
const MOST_RECEIVES: usize = 100;

/// Consumer of the dead-letter queues. The server moves a message there that was received too often, without a word to the task; this
/// finds it, sets the task aside as poison with the evidence, and deletes the message: what is dead is in one place, the list of
/// failed tasks, from which `dead redrive` takes it. What is no message about a task stays in the queue, for people to read.
pub struct DeadLetters {
    store: Arc<dyn StateStore>,
    clock: Arc<dyn Clock>,
    queues: StageQueues,
}

impl fmt::Debug for DeadLetters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeadLetters")
            .field("queues", &self.queues)
            .finish_non_exhaustive()
    }
}

impl DeadLetters {
    pub fn new(store: Arc<dyn StateStore>, clock: Arc<dyn Clock>, queues: StageQueues) -> Self {
        Self { store, clock, queues }
    }

    /// Looks at what lies in the dead-letter queues of all stages; returns the number of tasks set aside.
    ///
    /// # Errors
    ///
    /// When a queue or the store does not answer; what was not dealt with is looked at again.
    pub async fn round(&self) -> Result<usize, SourceError> {
        let mut set_aside = 0;
        for (stage, queue) in self.queues.open() {
            let letters = match queue.dead_letters().await {
                Ok(letters) => letters,
                // Made by somebody else, without one.
                Err(QueueError::NoDeadLetters { .. }) => continue,
                Err(error @ QueueError::NotFound { .. }) => {
                    debug!(%stage, %error, "there are no dead letters to look at");
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            set_aside += self.look_at(&stage, letters.as_ref()).await?;
        }
        Ok(set_aside)
    }

    async fn look_at(&self, stage: &StageName, letters: &dyn TaskQueue) -> Result<usize, SourceError> {
        let mut set_aside = 0;
        for _ in 0..MOST_RECEIVES {
            let received = letters.receive(Receive::one(LOOKING).up_to(MAX_BATCH)).await?;
            if received.is_empty() {
                break;
            }
            for letter in received {
                set_aside += usize::from(self.deal_with(stage, letters, &letter).await?);
            }
        }
        Ok(set_aside)
    }

    /// True if the task of the letter was set aside.
    async fn deal_with(
        &self,
        stage: &StageName,
        letters: &dyn TaskQueue,
        letter: &Delivery,
    ) -> Result<bool, SourceError> {
        // A worker put it aside, and said why.
        if letter.attributes.contains_key(REASON) {
            return Ok(false);
        }
        let message = match TaskMessage::read(&letter.body) {
            Ok(message) => message,
            Err(error) => {
                warn!(queue = letters.name(), message = %letter.id, %error, "a dead letter is no message about a task");
                return Ok(false);
            }
        };
        let fence = message.fence(stage);
        let now = self.clock.now().await?;
        let is_set_aside = match self.waiting(&fence, now).await? {
            Waiting::For(task) => self.set_aside(&task, stage, letter, now).await?,
            Waiting::Held => return Ok(false),
            Waiting::No => false,
        };
        letters.delete(&letter.receipt).await?;
        Ok(is_set_aside)
    }

    /// State of the lease that the letter was sent for.
    async fn waiting(&self, fence: &Fence, now: DateTime<Utc>) -> Result<Waiting, SourceError> {
        let Some(task) = self.store.task(fence.task).await? else {
            return Ok(Waiting::No);
        };
        let Some(job) = self.store.job_by_id(task.job_id).await? else {
            return Ok(Waiting::No);
        };
        if task.fence().as_ref() == Some(fence) {
            return Ok(Waiting::Held);
        }
        let is_next = next_fence(&task, &job, now).as_ref() == Some(fence);
        Ok(if is_next {
            Waiting::For(Box::new(task))
        } else {
            Waiting::No
        })
    }

    /// Sets the task aside, unless somebody has leased it meanwhile.
    async fn set_aside(
        &self,
        task: &Task,
        stage: &StageName,
        letter: &Delivery,
        now: DateTime<Utc>,
    ) -> Result<bool, SourceError> {
        let sent = letter.sent.map_or(String::new(), |sent| format!(", sent {sent}"));
        let message = format!(
            "its message {} was received too often and never answered{sent}",
            letter.id
        );
        // The transition table knows a failure of a lease, so the task is leased for it: the history then shows when and by whom.
        let leased = Event::Leased {
            stage: stage.clone(),
            worker: WorkerId(HOLDER.to_owned()),
            until: now + TimeDelta::minutes(1),
        };
        let changes = [Change::new(Expected::of(task), leased)];
        let outcome = self.store.commit(&changes, now).await?.pop();
        let Some(leased) = outcome.and_then(|outcome| outcome.applied()) else {
            return Ok(false);
        };
        let error = StageError::new(stage.as_str(), ErrorCategory::Poison, message);
        let changes = [Change::new(Expected::of(&leased), Event::Quarantined { error })];
        let outcome = self.store.commit(&changes, now).await?.pop();
        let is_set_aside = outcome.and_then(|outcome| outcome.applied()).is_some();
        if is_set_aside {
            info!(task = %task.id, %stage, message = %letter.id, "task set aside: its message was received too often");
            self.store.finish_jobs(now).await?;
        }
        Ok(is_set_aside)
    }
}

/// State of a task in view of a letter.
enum Waiting {
    /// It waits for the lease that the message was sent for.
    For(Box<Task>),
    /// That lease is in force, or ran out and has not been ended.
    Held,
    /// It has moved on.
    No,
}
