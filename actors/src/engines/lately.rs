//! Number of events in the last minute.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

const MINUTE: Duration = Duration::from_secs(60);
/// Time whose events are counted together.
const GRAIN: Duration = Duration::from_secs(1);

/// Events of the last minute, to a second.
#[derive(Debug, Default)]
pub(super) struct Lately(VecDeque<(Instant, u64)>);

impl Lately {
    /// Counts an event.
    pub(super) fn count(&mut self, now: Instant) {
        self.forget(now);
        match self.0.back_mut() {
            Some((began, events)) if now.saturating_duration_since(*began) < GRAIN => *events += 1,
            _ => self.0.push_back((now, 1)),
        }
    }

    /// Returns the number of events in the minute before now.
    pub(super) fn number(&mut self, now: Instant) -> u64 {
        self.forget(now);
        self.0.iter().map(|(_, events)| events).sum()
    }

    fn forget(&mut self, now: Instant) {
        while self
            .0
            .front()
            .is_some_and(|(began, _)| now.saturating_duration_since(*began) >= MINUTE)
        {
            self.0.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_count_for_a_minute_and_take_no_more_room_than_that() {
        let began = Instant::now();
        let mut lately = Lately::default();
        for tenth in 0..10_000 {
            lately.count(began + Duration::from_millis(100 * tenth));
        }
        let now = began + Duration::from_millis(999_900);
        assert_eq!(lately.number(now), 600);
        assert!(lately.0.len() <= 61);
        assert_eq!(lately.number(now + MINUTE), 0);
    }
}
