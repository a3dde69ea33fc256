use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use tokio::sync::OnceCell;
use tracing::warn;

use crate::source::{Clock, SourceError};
use parkhang_core::domain::{QueuePurpose, QueueRecord, StageName};
use parkhang_core::policy::alarm::{Bounds, Sight, Work, standing, waiting_since};
use parkhang_queue::limits::{FIFO_SCANNED, MAX_IN_FLIGHT};
use parkhang_queue::{Counts, QueueError, QueueKind, TaskQueue};
use parkhang_state::Outbox;

/// Watch over queues: what is in them, and which alarms stand. A look costs two requests for each queue, one about it and one
/// about its dead-letter queue.
#[derive(Debug)]
pub struct QueueWatch {
    outbox: Arc<dyn Outbox>,
    clock: Arc<dyn Clock>,
    queues: BTreeMap<QueuePurpose, Watched>,
    limits: WatchLimits,
}

/// Limits from which on there are alarms, beside those that every queue has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatchLimits {
    /// Age of a message that waits.
    pub max_age: TimeDelta,
    /// Most messages of a FIFO queue that may be in flight, which is a quota of the account.
    pub max_in_flight: u64,
}

/// A queue, with the time for which it keeps messages: read once, as whoever changes it rarely does.
#[derive(Debug)]
struct Watched {
    queue: Arc<dyn TaskQueue>,
    retention: OnceCell<TimeDelta>,
}

impl QueueWatch {
    /// Watch that raises alarms by these limits.
    pub fn new(
        outbox: Arc<dyn Outbox>,
        clock: Arc<dyn Clock>,
        queues: impl IntoIterator<Item = (QueuePurpose, Arc<dyn TaskQueue>)>,
        limits: WatchLimits,
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
                .map(|(purpose, queue)| (purpose, watched(queue)))
                .collect(),
            limits,
        }
    }

    /// Number of queues.
    pub fn queues(&self) -> usize {
        self.queues.len()
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
        let stages: Vec<StageName> = self
            .queues
            .keys()
            .filter_map(QueuePurpose::stage)
            .cloned()
            .collect();
        let oldest = self.outbox.oldest(&stages).await?;
        let now = self.clock.now().await?;
        let mut seen = Vec::new();
        for (purpose, watched) in &self.queues {
            let before = before.iter().find(|record| record.purpose == *purpose);
            let mut record = match watched.look(purpose, now).await {
                Ok(record) => record,
                Err(error) => {
                    warn!(queue = watched.queue.name(), %error, "cannot look at a queue now");
                    continue;
                }
            };
            record.oldest = match purpose {
                QueuePurpose::Stage(stage) => {
                    let oldest = oldest.get(stage).copied();
                    self.outbox.forget_done(stage, oldest.unwrap_or(now)).await?;
                    oldest
                }
                QueuePurpose::StandingJob(_) => waiting_since(record.visible, before, now),
            };
            let bounds = match watched.bounds(&self.limits).await {
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
                oldest: record.oldest,
                work: purpose
                    .stage()
                    .and_then(|stage| work.get(stage))
                    .copied()
                    .unwrap_or_default(),
            };
            let stood = before.map_or(&[][..], |record| &record.alarms);
            record.alarms = standing(&bounds, &sight, stood, now);
            seen.push(record);
        }
        Ok(seen)
    }
}

impl Watched {
    async fn look(&self, purpose: &QueuePurpose, now: DateTime<Utc>) -> Result<QueueRecord, QueueError> {
        let Counts {
            visible,
            in_flight,
            delayed,
        } = self.queue.counts().await?;
        Ok(QueueRecord {
            purpose: purpose.clone(),
            queue: self.queue.name().to_owned(),
            looked_at: now,
            visible,
            in_flight,
            delayed,
            dead_letters: count_dead_letters(self.queue.as_ref()).await?,
            oldest: None,
            alarms: Vec::new(),
        })
    }

    async fn bounds(&self, limits: &WatchLimits) -> Result<Bounds, QueueError> {
        let read = async || {
            let kept = self.queue.facts().await?.retention;
            Ok::<_, QueueError>(TimeDelta::from_std(kept).unwrap_or(TimeDelta::MAX))
        };
        let retention = *self.retention.get_or_try_init(read).await?;
        let (in_flight, scanned) = match self.queue.kind() {
            QueueKind::Fifo => (limits.max_in_flight, Some(FIFO_SCANNED as u64)),
            QueueKind::Standard => (MAX_IN_FLIGHT as u64, None),
        };
        Ok(Bounds {
            max_age: limits.max_age,
            in_flight,
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
