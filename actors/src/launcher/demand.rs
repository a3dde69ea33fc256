//! Demand for workers, from the database or from queues alone.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use tracing::warn;

use crate::source::{Clock, SourceError, StageQueues};
use parkhang_core::domain::{Hardware, JobId, NodeRecord, ScalingRecord, StageName};
use parkhang_core::policy::autoscale::by_queue::QueueHistory;
use parkhang_core::policy::autoscale::{Load, loads};
use parkhang_state::StateStore;

/// Everything that a pass of the autoscaler decides by, but for the workers themselves.
#[derive(Debug)]
pub struct Observation {
    pub(super) now: DateTime<Utc>,
    pub(super) loads: BTreeMap<StageName, Load>,
    /// Nodes, by which workers that do nothing are found; none where they are not known.
    pub(super) nodes: Vec<NodeRecord>,
    /// Decisions before.
    pub(super) before: Vec<ScalingRecord>,
    /// Times at which the queues of stages were last not seen empty, where the loads are approximate.
    pub(super) busy_at: BTreeMap<StageName, DateTime<Utc>>,
}

/// Source of the demand, which also keeps what was decided.
#[async_trait]
pub trait Demand: Send + Sync + fmt::Debug {
    /// Observes what there is to do.
    ///
    /// # Errors
    ///
    /// When it cannot be told.
    async fn observe(&self) -> Result<Observation, SourceError>;

    /// Keeps a decision for the next observation.
    ///
    /// # Errors
    ///
    /// When it cannot be kept.
    async fn record(&self, record: &ScalingRecord) -> Result<(), SourceError>;
}

/// Demand by the tasks of the database. The last decision is there too, so that the next leader goes on from it.
#[derive(Debug)]
pub struct StoreDemand(
    /// Store of a leader; once another leads, it can record no decision any more.
    pub Arc<dyn StateStore>,
);

#[async_trait]
impl Demand for StoreDemand {
    async fn observe(&self) -> Result<Observation, SourceError> {
        let Self(store) = self;
        let backlog = store.backlog().await?;
        let jobs = store.running_jobs().await?;
        let config = |id: JobId| jobs.iter().find(|job| job.id == id).map(|job| &job.config);
        Ok(Observation {
            now: store.now().await?,
            loads: loads(&backlog, config),
            nodes: store.nodes().await?,
            before: store.scaling().await?,
            busy_at: BTreeMap::new(),
        })
    }

    async fn record(&self, record: &ScalingRecord) -> Result<(), SourceError> {
        Ok(self.0.record_scaling(record).await?)
    }
}

/// Demand by the counts of queues alone, for a process that has no database. What it remembers it forgets with its end; then the
/// queues count as busy again until they have been empty for a while.
#[derive(Debug)]
pub struct QueueDemand {
    queues: StageQueues,
    clock: Arc<dyn Clock>,
    memory: Mutex<Memory>,
}

#[derive(Debug, Default)]
struct Memory {
    histories: BTreeMap<StageName, QueueHistory>,
    loads: BTreeMap<StageName, Load>,
    decisions: BTreeMap<Hardware, ScalingRecord>,
}

impl QueueDemand {
    pub fn new(queues: StageQueues, clock: Arc<dyn Clock>) -> Self {
        Self {
            queues,
            clock,
            memory: Mutex::default(),
        }
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        // Entries are written whole, so a panic elsewhere leaves none half done.
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Demand for QueueDemand {
    /// Counts the messages of every queue. One that does not answer keeps its load, and counts as busy.
    async fn observe(&self) -> Result<Observation, SourceError> {
        let now = self.clock.now().await?;
        for (stage, queue) in self.queues.open() {
            let counts = queue.counts().await;
            let mut memory = self.memory();
            let before = memory.histories.get(&stage).copied();
            let before = before.unwrap_or(QueueHistory::new(now));
            let history = match counts {
                Ok(counts) => {
                    let (waiting, held) = (counts.visible + counts.delayed, counts.in_flight);
                    let history = before.after(waiting, held, now);
                    memory.loads.insert(stage.clone(), history.load(waiting, held));
                    history
                }
                // Nothing waits in it, so that it calls for no workers and keeps none.
                Err(error) if self.queues.note_missing(&stage, &error) => {
                    memory.histories.remove(&stage);
                    memory.loads.remove(&stage);
                    continue;
                }
                Err(error) => {
                    warn!(queue = queue.name(), %error, "cannot count the messages of a queue now");
                    before.unanswered(now)
                }
            };
            memory.histories.insert(stage, history);
        }
        let memory = self.memory();
        let histories = memory.histories.iter();
        Ok(Observation {
            now,
            loads: memory.loads.clone(),
            nodes: Vec::new(),
            before: memory.decisions.values().cloned().collect(),
            busy_at: histories
                .map(|(stage, history)| (stage.clone(), history.busy_at()))
                .collect(),
        })
    }

    async fn record(&self, record: &ScalingRecord) -> Result<(), SourceError> {
        self.memory().decisions.insert(record.hardware, record.clone());
        Ok(())
    }
}

#[cfg(test)]
mod tests;
