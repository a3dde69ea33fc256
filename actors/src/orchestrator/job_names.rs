use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use parkhang_core::domain::{JobId, JobKey};
use parkhang_state::StateStore;

/// Names of jobs, for log lines about their tasks; a name never changes, so each is read once.
#[derive(Debug, Clone, Default)]
pub(super) struct JobNames(Arc<Mutex<HashMap<JobId, JobKey>>>);

impl JobNames {
    /// The name of a job; `None` where the store cannot be read.
    pub(super) async fn of(&self, id: JobId, store: &dyn StateStore) -> Option<JobKey> {
        let known = self.with(|names| names.get(&id).cloned());
        if known.is_some() {
            return known;
        }
        let key = store.job_by_id(id).await.ok().flatten()?.key;
        self.with(|names| names.insert(id, key.clone()));
        Some(key)
    }

    /// Works on the map. Every change of it is a single step, so a panic of another thread leaves it whole.
    fn with<T>(&self, change: impl FnOnce(&mut HashMap<JobId, JobKey>) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
