use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use tokio::sync::OnceCell;
use tracing::warn;

use super::StageQueues;
use crate::source::{Clock, SourceError};
use parkhang_core::domain::{QueueRecord, StageName};
use parkhang_core::policy::alarm::{Bounds, Sight, Work, standing};
use parkhang_queue::limits::{FIFO_SCANNED, MAX_IN_FLIGHT, MAX_IN_FLIGHT_FIFO};
use parkhang_queue::{Counts, QueueError, QueueKind, TaskQueue};
use parkhang_state::Outbox;

/// Watch over the queues of stages: what is in them, and which alarms stand. A look costs two requests for each queue, one about it and one
/// about its dead-letter queue.
#[derive(Debug)]
pub struct QueueWatch {
    outbox: Arc<dyn Outbox>,
    clock: Arc<dyn Clock>,
    queues: BTreeMap<StageName, Watched>,
    max_age: TimeDelta,
}

/// A queue, with the time for which it keeps messages: read once, as whoever changes it rarely does.
#[derive(Debug)]
struct Watched {
    queue: Arc<dyn TaskQueue>,
    retention: OnceCell<TimeDelta>,
}

impl QueueWatch {
    /// Watch that raises an alarm where a message has waited for longer than `max_age`.
    pub fn new(
        outbox: Arc<dyn Outbox>,
        clock: Arc<dyn Clock>,
        queues: StageQueues,
        max_age: TimeDelta,
    ) -> Self {
        let watched = |queue| Watched {
            queue,
            retention: OnceCell::new(),
        };
        Self {
            outbox,
            clock,
            queues: queues
                .into_iter()
                .map(|(stage, queue)| (stage, watched(queue)))
                .collect(),
            max_age,
        }
    }

    /// Looks at every queue once; returns what was seen, with the alarms that stand now where those of `before` stood. A queue that
    /// does not answer is left out.
    ///
    /// # Errors
    ///
    /// When the store does not answer.
    pub async fn look(
        &self,
        before: &[QueueRecord],
        work: &BTreeMap<StageName, Work>,
    ) -> Result<Vec<QueueRecord>, SourceError> {
        let stages: Vec<StageName> = self.queues.keys().cloned().collect();
        let oldest = self.outbox.oldest(&stages).await?;
        let now = self.clock.now().await?;
        let mut seen = Vec::new();
        for (stage, watched) in &self.queues {
            let oldest = oldest.get(stage).copied();
            self.outbox.forget_done(stage, oldest.unwrap_or(now)).await?;
            let mut record = match watched.look(stage, oldest, now).await {
                Ok(record) => record,
                Err(error) => {
                    warn!(queue = watched.queue.name(), %error, "cannot look at a queue now");
                    continue;
                }
            };
            let bounds = match watched.bounds(self.max_age).await {
                Ok(bounds) => bounds,
                Err(error) => {
                    warn!(queue = watched.queue.name(), %error, "cannot read the settings of a queue now");
                    continue;
                }
            };
            let sight = Sight {
                visible: record.visible,
                in_flight: record.in_flight,
                dead_letters: record.dead_letters.unwrap_or(0),
                oldest,
                work: work.get(stage).copied().unwrap_or_default(),
            };
            let stood = before.iter().find(|record| record.stage == *stage);
            let stood = stood.map_or(&[][..], |record| &record.alarms);
            record.alarms = standing(&bounds, &sight, stood, now);
            seen.push(record);
        }
        Ok(seen)
    }
}

impl Watched {
    async fn look(
        &self,
        stage: &StageName,
        oldest: Option<DateTime<Utc>>,
        now: DateTime<Utc>,
    ) -> Result<QueueRecord, QueueError> {
        let Counts {
            visible,
            in_flight,
            delayed,
        } = self.queue.counts().await?;
        Ok(QueueRecord {
            stage: stage.clone(),
            queue: self.queue.name().to_owned(),
            looked_at: now,
            visible,
            in_flight,
            delayed,
            dead_letters: count_dead_letters(self.queue.as_ref()).await?,
            oldest,
            alarms: Vec::new(),
        })
    }

    async fn bounds(&self, max_age: TimeDelta) -> Result<Bounds, QueueError> {
        let read = async || {
            let kept = self.queue.facts().await?.retention;
            Ok::<_, QueueError>(TimeDelta::from_std(kept).unwrap_or(TimeDelta::MAX))
        };
        let retention = *self.retention.get_or_try_init(read).await?;
        let (in_flight, scanned) = match self.queue.kind() {
            QueueKind::Fifo => (MAX_IN_FLIGHT_FIFO, Some(FIFO_SCANNED as u64)),
            QueueKind::Standard => (MAX_IN_FLIGHT, None),
        };
        Ok(Bounds {
            max_age,
            in_flight: in_flight as u64,
            scanned,
            retention,
        })
    }
}

/// Counts the messages in the dead-letter queue of a queue, about; `None` if it has none.
///
/// # Errors
///
/// Those of the server.
pub async fn count_dead_letters(queue: &dyn TaskQueue) -> Result<Option<u64>, QueueError> {
    let letters = match queue.dead_letters().await {
        Ok(letters) => letters,
        // Made by somebody else, without one.
        Err(QueueError::NoDeadLetters { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok(Some(letters.counts().await?.total()))
}
