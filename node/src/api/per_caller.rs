//! Places that each caller has a number of, so that none takes those of the others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Places of callers, by name. Clones share them.
#[derive(Debug, Clone)]
pub struct PerCaller {
    most: usize,
    places: Arc<Mutex<HashMap<String, Arc<Semaphore>>>>,
}

impl PerCaller {
    /// So many places for each caller.
    pub fn new(most: usize) -> Self {
        Self {
            most,
            places: Arc::default(),
        }
    }

    /// Takes a place of a caller, until what is returned is dropped; `None` if all are taken.
    pub fn now(&self, caller: &str) -> Option<OwnedSemaphorePermit> {
        self.of(caller).try_acquire_owned().ok()
    }

    /// Waits for a place of a caller.
    pub async fn place(&self, caller: &str) -> Option<OwnedSemaphorePermit> {
        // Nobody closes the semaphore.
        self.of(caller).acquire_owned().await.ok()
    }

    /// There are no more names than tokens.
    fn of(&self, caller: &str) -> Arc<Semaphore> {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let of = places.entry(caller.to_owned());
        of.or_insert_with(|| Arc::new(Semaphore::new(self.most))).clone()
    }
}
