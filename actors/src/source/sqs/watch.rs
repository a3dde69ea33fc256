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
    name: String,
    /// `None` if it was missing when the watch began.
    queue: Option<Arc<dyn TaskQueue>>,
    retention: OnceCell<TimeDelta>,
}

impl QueueWatch {
    /// Watch over no queue yet, that raises alarms by these limits.
    pub fn new(outbox: Arc<dyn Outbox>, clock: Arc<dyn Clock>, limits: WatchLimits) -> Self {
        Self {
            outbox,
            clock,
            queues: BTreeMap::new(),
            limits,
        }
    }

    /// Watches over a queue, too. One that is missing is an alarm for as long as the watch lasts.
    pub fn add(&mut self, purpose: QueuePurpose, name: &str, queue: Option<Arc<dyn TaskQueue>>) {
        let watched = Watched {
            name: name.to_owned(),
            queue,
            retention: OnceCell::new(),
        };
        self.queues.insert(purpose, watched);
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
            let looked = match &watched.queue {
                Some(queue) => watched.look(queue.as_ref(), purpose, now).await,
                None => Ok(None),
            };
            let looked = match looked {
                Ok(looked) => looked,
                Err(error) => {
                    warn!(queue = watched.name, %error, "cannot look at a queue now");
                    continue;
                }
            };
            let is_missing = looked.is_none();
            let mut record = looked.unwrap_or_else(|| watched.empty(purpose, now));
            record.oldest = match purpose {
                _ if is_missing => None,
                QueuePurpose::Stage(stage) => {
                    let oldest = oldest.get(stage).copied();
                    self.outbox.forget_done(stage, oldest.unwrap_or(now)).await?;
                    oldest
                }
                QueuePurpose::StandingJob(_) => waiting_since(record.visible, before, now),
            };
            let bounds = match watched.bounds(&self.limits, is_missing).await {
                Ok(bounds) => bounds,
                Err(error) => {
                    warn!(queue = watched.name, %error, "cannot read the settings of a queue now");
                    continue;
                }
            };
            let sight = Sight {
                is_missing,
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
    /// Record without messages.
    fn empty(&self, purpose: &QueuePurpose, now: DateTime<Utc>) -> QueueRecord {
        QueueRecord {
            purpose: purpose.clone(),
            queue: self.name.clone(),
            looked_at: now,
            visible: 0,
            in_flight: 0,
            delayed: 0,
            dead_letters: None,
            oldest: None,
            alarms: Vec::new(),
        }
    }

    /// Looks at a queue; `None` if it does not exist.
    async fn look(
        &self,
        queue: &dyn TaskQueue,
        purpose: &QueuePurpose,
        now: DateTime<Utc>,
    ) -> Result<Option<QueueRecord>, QueueError> {
        let Counts {
            visible,
            in_flight,
            delayed,
        } = match queue.counts().await {
            Err(QueueError::NotFound { .. }) => return Ok(None),
            counts => counts?,
        };
        Ok(Some(QueueRecord {
            visible,
            in_flight,
            delayed,
            dead_letters: count_dead_letters(queue).await?,
            ..self.empty(purpose, now)
        }))
    }

    async fn bounds(&self, limits: &WatchLimits, is_missing: bool) -> Result<Bounds, QueueError> {
        let read = async |queue: &dyn TaskQueue| {
            let kept = queue.facts().await?.retention;
            Ok::<_, QueueError>(TimeDelta::from_std(kept).unwrap_or(TimeDelta::MAX))
        };
        let retention = match &self.queue {
            Some(queue) if !is_missing => *self.retention.get_or_try_init(|| read(queue.as_ref())).await?,
            _ => TimeDelta::MAX,
        };
        let (in_flight, scanned) = match QueueKind::of(&self.name) {
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
