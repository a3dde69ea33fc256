//! Search for the queues of stages, which goes on for those that are missing while the others are worked on.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use parkhang_actors::source::StageQueues;
use parkhang_core::domain::StageName;
use parkhang_queue::{QueueError, QueueServer, TaskQueue};
use tracing::{info, warn};

use super::{NamedQueue, is_missing, server};
use crate::config::Sqs;

/// Pause between two looks for queues that are missing. Each costs a request a queue.
const LOOK_FOR_MISSING: Duration = Duration::from_secs(15);

/// Finder of the queues of stages.
pub struct QueueFinder<'a> {
    config: &'a Sqs,
    server: Arc<dyn QueueServer>,
    queues: StageQueues,
    /// Stages whose queues were said to be missing.
    told: BTreeSet<StageName>,
}

impl<'a> QueueFinder<'a> {
    /// Looks for the queues of the stages. The log says which are missing.
    ///
    /// # Errors
    ///
    /// When the server does not answer.
    pub async fn open(config: &'a Sqs, stages: &[StageName]) -> Result<Self> {
        let mut finder = Self {
            config,
            server: server(config).await?,
            queues: StageQueues::of(stages.iter().cloned()),
            told: BTreeSet::new(),
        };
        finder.look().await?;
        Ok(finder)
    }

    /// Returns the queues, to which those that are found later are added.
    pub fn queues(&self) -> StageQueues {
        self.queues.clone()
    }

    /// Looks for those that are missing at intervals, for ever.
    pub async fn look_for_ever(mut self) -> Infallible {
        loop {
            tokio::time::sleep(LOOK_FOR_MISSING).await;
            if let Err(error) = self.look().await {
                warn!("queues that are missing cannot be looked for now: {error:#}");
            }
        }
    }

    async fn look(&mut self) -> Result<()> {
        for stage in self.queues.missing() {
            let named = NamedQueue::of_stage(self.config, &stage);
            match open(self.server.as_ref(), &named).await {
                Ok(queue) => {
                    if self.told.remove(&stage) {
                        info!(%stage, queue = queue.name(), "the queue is there now");
                    }
                    self.queues.found(&stage, queue);
                }
                Err(error) if is_missing(&error) => {
                    if self.told.insert(stage) {
                        warn!("{error:#}; it is looked for again, and the other queues are worked on");
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Opens a queue that is there.
async fn open(server: &dyn QueueServer, named: &NamedQueue) -> Result<Arc<dyn TaskQueue>> {
    let queue = named.open(server).await?;
    // Behind a URL nothing is looked for. A worker need not be allowed to read settings, so only one answer says something.
    if named.is_url()
        && let Err(error @ QueueError::NotFound { .. }) = queue.facts().await
    {
        return Err(named.not_opened(error));
    }
    Ok(queue)
}
