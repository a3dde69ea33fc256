use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use parkhang_core::domain::StageName;
use parkhang_queue::{QueueError, TaskQueue};

/// Queues of the stages that a process knows, shared by all of its parts that work on them. One that is not there holds up no other: it is
/// missing until somebody finds it.
#[derive(Debug, Clone, Default)]
pub struct StageQueues(Arc<RwLock<Found>>);

/// Queue of each stage, `None` while it is missing.
type Found = BTreeMap<StageName, Option<Arc<dyn TaskQueue>>>;

impl StageQueues {
    /// Queues of stages, none of which has been found yet.
    pub fn of(stages: impl IntoIterator<Item = StageName>) -> Self {
        let missing = stages.into_iter().map(|stage| (stage, None));
        Self(Arc::new(RwLock::new(missing.collect())))
    }

    fn all(&self) -> RwLockReadGuard<'_, Found> {
        // Entries are written whole, so a panic elsewhere leaves none half done.
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, stage: &StageName, queue: Option<Arc<dyn TaskQueue>>) {
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        all.insert(stage.clone(), queue);
    }

    /// Takes note that the queue of a stage is there.
    pub fn found(&self, stage: &StageName, queue: Arc<dyn TaskQueue>) {
        self.set(stage, Some(queue));
    }

    /// Takes note that the queue of a stage is missing, if that is what the error says; returns whether it does.
    pub fn note_missing(&self, stage: &StageName, error: &QueueError) -> bool {
        let is_missing = matches!(error, QueueError::NotFound { .. });
        if is_missing {
            self.set(stage, None);
        }
        is_missing
    }

    /// Returns the queue of a stage, if it is there.
    pub fn get(&self, stage: &StageName) -> Option<Arc<dyn TaskQueue>> {
        self.all().get(stage).cloned().flatten()
    }

    /// Returns all stages, those without a queue too.
    pub fn stages(&self) -> Vec<StageName> {
        self.all().keys().cloned().collect()
    }

    /// Returns the stages whose queues are missing.
    pub fn missing(&self) -> Vec<StageName> {
        let all = self.all();
        let missing = all.iter().filter(|(_, queue)| queue.is_none());
        missing.map(|(stage, _)| stage.clone()).collect()
    }

    /// Returns the queues that are there.
    pub fn open(&self) -> Vec<(StageName, Arc<dyn TaskQueue>)> {
        let all = self.all();
        let open = all
            .iter()
            .filter_map(|(stage, queue)| Some((stage.clone(), queue.clone()?)));
        open.collect()
    }
}
