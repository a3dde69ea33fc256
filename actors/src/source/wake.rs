use std::time::Duration;

/// Time within which the nodes that hear of work ask for it, each at a moment of its own.
const FIRST: Duration = Duration::from_millis(100);

/// Pause of a node before it acts on an announcement of work. Many nodes hear of one task, and one of them gets it: those that
/// keep asking in vain wait longer, those that find something do not.
#[derive(Debug, Clone)]
pub(super) struct WakePause {
    window: Duration,
    longest: Duration,
}

impl WakePause {
    /// Pauses that are never longer than `longest`.
    pub(super) fn up_to(longest: Duration) -> Self {
        Self {
            window: FIRST.min(longest),
            longest,
        }
    }

    /// The pause before the next claim; `chance` is from 0 to 1.
    pub(super) fn next(&self, chance: f64) -> Duration {
        self.window.mul_f64(chance)
    }

    /// Takes note of a claim in vain: other nodes were faster.
    pub(super) fn in_vain(&mut self) {
        self.window = (self.window * 2).min(self.longest);
    }

    /// Takes note of a claim that found work.
    pub(super) fn found(&mut self) {
        *self = Self::up_to(self.longest);
    }

    /// Shortens the pause again, as time goes by.
    pub(super) fn relax(&mut self) {
        self.window = (self.window / 2).max(FIRST.min(self.longest));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn waking_in_vain_takes_longer_each_time_and_success_ends_that() {
        let mut pause = WakePause::up_to(Duration::from_secs(5));
        assert_eq!((pause.next(0.0), pause.next(1.0)), (Duration::ZERO, FIRST));
        pause.in_vain();
        assert_eq!(pause.next(1.0), FIRST * 2);
        for _ in 0..10 {
            pause.in_vain();
        }
        assert_eq!(pause.next(1.0), Duration::from_secs(5));
        pause.relax();
        assert_eq!(pause.next(1.0), Duration::from_millis(2500));
        pause.found();
        assert_eq!(pause.next(1.0), FIRST);
    }

    proptest! {
        #[test]
        fn a_pause_is_never_longer_than_the_longest(
            longest in 0..10_000u64, steps in prop::collection::vec(0..3u8, 0..40), chance in 0.0..=1.0f64,
        ) {
            let longest = Duration::from_millis(longest);
            let mut pause = WakePause::up_to(longest);
            for step in steps {
                match step {
                    0 => pause.in_vain(),
                    1 => pause.found(),
                    _ => pause.relax(),
                }
                prop_assert!(pause.next(chance) <= longest);
                prop_assert!(pause.next(1.0) >= FIRST.min(longest));
            }
        }
    }
}
