use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use parkhang_core::domain::{JobId, JobKey};
use parkhang_state::StateStore;

/// Names of jobs, for lines about their tasks; a name never changes, so each is read once.
#[derive(Debug, Clone, Default)]
pub(super) struct JobNames(Arc<Mutex<HashMap<JobId, JobKey>>>);

impl JobNames {
    /// `None` where the store cannot say.
    pub(super) async fn of(&self, id: JobId, store: &dyn StateStore) -> Option<JobKey> {
        let known = self.with(|names| names.get(&id).cloned());
        if known.is_some() {
            return known;
        }
        let key = store.job_by_id(id).await.ok().flatten()?.key;
        self.with(|names| names.insert(id, key.clone()));
        Some(key)
    }

    /// Every change of the map is a single step.
    fn with<T>(&self, change: impl FnOnce(&mut HashMap<JobId, JobKey>) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
