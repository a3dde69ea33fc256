//! Reach of a store: whether this process has had answers of it for long enough to judge others by their silence. While the store was
//! away nobody could renew a lease, so for a while after its return no lease that has run out is a sign of a dead process.

use std::sync::{Mutex, MutexGuard, PoisonError};

use chrono::{DateTime, TimeDelta, Utc};

/// Answers of a store, as far as this process had or missed them.
#[derive(Debug, Default)]
pub(super) struct Reach(Mutex<Answers>);

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Answers {
    /// None has failed to come, as far as this process knows.
    #[default]
    Always,
    /// The last one did not come.
    Missing,
    /// They come again, since this time.
    Since(DateTime<Utc>),
}

impl Reach {
    /// Notes that the store answers at `now`; returns whether leases of others that have run out may be ended. Their holders have half a
    /// lease from the first answer on to renew them.
    pub(super) fn may_end(&self, now: DateTime<Utc>, lease: TimeDelta) -> bool {
        let mut answers = self.answers();
        match *answers {
            Answers::Always => true,
            Answers::Missing => {
                *answers = Answers::Since(now);
                false
            }
            Answers::Since(first) => now - first >= lease / 2,
        }
    }

    /// Passes an answer on, and notes one that is none.
    pub(super) fn heard<T, E>(&self, answer: Result<T, E>) -> Result<T, E> {
        if answer.is_err() {
            *self.answers() = Answers::Missing;
        }
        answer
    }

    fn answers(&self) -> MutexGuard<'_, Answers> {
        // Written whole, so a panic elsewhere leaves nothing half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parkhang_core::domain::testing::at;

    #[test]
    fn holders_have_half_a_lease_from_the_return_of_the_store_on() {
        let reach = Reach::default();
        let may_end = |second| reach.may_end(at(second), TimeDelta::seconds(60));
        let fails = || assert_eq!(reach.heard(Err::<(), _>("away")), Err("away"));
        assert!(may_end(0));
        fails();
        assert!(!may_end(200));
        assert!(!may_end(229));
        assert!(may_end(230));
        assert_eq!(reach.heard(Ok::<_, ()>(7)), Ok(7));
        assert!(may_end(231));
        fails();
        assert!(!may_end(240));
        fails();
        assert!(!may_end(250));
        assert!(!may_end(279), "counted from the last failure");
        assert!(may_end(280));
    }
}
