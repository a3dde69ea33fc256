//! Permits to ask a service, whose number may change while some are held.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::{Semaphore, SemaphorePermit};

/// So many permits, given in the order in which they are asked for.
#[derive(Debug)]
pub(super) struct Permits {
    free: Semaphore,
    count: Mutex<Count>,
}

#[derive(Debug)]
struct Count {
    number: usize,
    /// Permits that are held beyond the number, and are not free again once they are given back.
    surplus: usize,
}

/// Permit that is held.
#[derive(Debug)]
pub(super) struct Permit<'a> {
    of: &'a Permits,
    held: Option<SemaphorePermit<'a>>,
}

impl Permits {
    pub(super) fn new(number: usize) -> Self {
        let number = within_limits(number);
        Self {
            free: Semaphore::new(number),
            count: Mutex::new(Count { number, surplus: 0 }),
        }
    }

    pub(super) async fn acquire(&self) -> Permit<'_> {
        Permit {
            of: self,
            // It is never closed.
            held: self.free.acquire().await.ok(),
        }
    }

    /// Makes it so many, at least one. What is held beyond that is as it was until it is given back.
    pub(super) fn resize(&self, number: usize) {
        let number = within_limits(number);
        let mut count = self.count();
        if number >= count.number {
            let more = number - count.number;
            let kept = more.min(count.surplus);
            count.surplus -= kept;
            self.free.add_permits(more - kept);
        } else {
            let fewer = count.number - number;
            count.surplus += fewer - self.free.forget_permits(fewer);
        }
        count.number = number;
    }

    fn count(&self) -> MutexGuard<'_, Count> {
        // Two numbers that are changed together without a step that could panic.
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        let mut count = self.of.count();
        if count.surplus > 0
            && let Some(held) = self.held.take()
        {
            count.surplus -= 1;
            held.forget();
        }
        // Given back under the lock, so that a change of the number does not miss it.
        drop(self.held.take());
    }
}

fn within_limits(number: usize) -> usize {
    number.clamp(1, Semaphore::MAX_PERMITS)
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn take(permits: &Permits) -> Option<Permit<'_>> {
        permits.acquire().now_or_never()
    }

    #[test]
    fn permits_that_are_too_many_are_not_given_again() {
        let permits = Permits::new(4);
        let mut held: Vec<_> = (0..3).filter_map(|_| take(&permits)).collect();
        permits.resize(1);
        assert!(take(&permits).is_none());
        held.truncate(1);
        assert!(take(&permits).is_none(), "the one is still held");
        held.clear();
        let one = take(&permits);
        assert!(one.is_some() && take(&permits).is_none());
        permits.resize(0);
        assert!(take(&permits).is_none());
        permits.resize(3);
        let others = (take(&permits), take(&permits));
        assert!(others.0.is_some() && others.1.is_some() && take(&permits).is_none());
    }

    #[test]
    fn a_surplus_is_kept_if_there_may_be_as_many_again() {
        let permits = Permits::new(3);
        let held: Vec<_> = (0..3).filter_map(|_| take(&permits)).collect();
        permits.resize(1);
        permits.resize(2);
        assert!(take(&permits).is_none());
        drop(held);
        let again = (take(&permits), take(&permits));
        assert!(again.0.is_some() && again.1.is_some() && take(&permits).is_none());
    }
}
