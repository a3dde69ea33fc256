use std::collections::{HashMap, HashSet};
use std::time::Duration;

use tokio::time::Instant;

use parkhang_core::domain::{Fence, StageProgress};

/// Time that each stage run of a pool has been without progress.
#[derive(Debug, Default)]
pub(super) struct ProgressWatch {
    last_look: Option<Instant>,
    runs: HashMap<Fence, Standstill>,
}

/// Stage run of a pool, as it is at a look.
#[derive(Debug, Clone)]
pub(super) struct Run {
    pub fence: Fence,
    pub progress: Option<StageProgress>,
    /// True if all its pages at work wait for a service.
    pub awaits_service: bool,
}

#[derive(Debug, Clone, Copy)]
struct Standstill {
    progress: Option<StageProgress>,
    lasts: Duration,
}

impl ProgressWatch {
    /// Takes note of the progress of all stage runs; returns those that finished nothing for longer than `window`, while they had
    /// pages to finish: planning a volume and publishing its table have none, and take as long as the storage takes, which has
    /// deadlines of its own. Nor does the time count for which a run waits for a service. The time between two looks counts for half a window at most: in a process that was stopped nothing
    /// could make progress.
    pub(super) fn stalled(
        &mut self,
        running: impl IntoIterator<Item = Run>,
        window: Duration,
        now: Instant,
    ) -> HashSet<Fence> {
        let elapsed = self.last_look.map_or(Duration::ZERO, |last| now - last);
        self.last_look = Some(now);
        let known = std::mem::take(&mut self.runs);
        let mut stalled = HashSet::new();
        for Run {
            fence,
            progress,
            awaits_service,
        } in running
        {
            let has_pages = progress.is_some_and(|progress| progress.finished() < progress.pages);
            let before = known
                .get(&fence)
                .filter(|run| has_pages && run.progress == progress);
            let counted = match awaits_service {
                true => Duration::ZERO,
                false => elapsed.min(window / 2),
            };
            let lasts = before.map_or(Duration::ZERO, |run| run.lasts + counted);
            if lasts > window {
                stalled.insert(fence.clone());
            }
            self.runs.insert(fence, Standstill { progress, lasts });
        }
        stalled
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parkhang_core::domain::testing;

    const WINDOW: Duration = Duration::from_secs(10);

    fn fence(task: i64) -> Fence {
        testing::fence(task, "ocr")
    }

    fn pages(succeeded: u64) -> Option<StageProgress> {
        Some(StageProgress {
            pages: 100,
            succeeded,
            ..StageProgress::default()
        })
    }

    fn run(task: i64, progress: Option<StageProgress>) -> Run {
        Run {
            fence: fence(task),
            progress,
            awaits_service: false,
        }
    }

    #[test]
    fn a_run_that_waits_for_a_service_is_not_stuck_and_one_that_waited_has_its_window() {
        let (mut watch, start) = (ProgressWatch::default(), Instant::now());
        for seconds in 0..60 {
            let waiting = Run {
                awaits_service: (5..50).contains(&seconds),
                ..run(1, pages(1))
            };
            let stalled = watch.stalled([waiting], WINDOW, start + Duration::from_secs(seconds));
            // Four seconds before the wait, and the rest of the window behind it.
            assert_eq!(stalled.contains(&fence(1)), seconds > 55, "{seconds} s");
        }
    }

    #[test]
    fn only_finished_items_are_progress() {
        let (mut watch, start) = (ProgressWatch::default(), Instant::now());
        for seconds in 0..60 {
            let now = start + Duration::from_secs(seconds);
            // The first finishes a page every 7 s, the second none after its first.
            let running = [run(1, pages(seconds / 7)), run(2, pages(1))];
            let stalled = watch.stalled(running, WINDOW, now);
            assert_eq!(stalled.contains(&fence(2)), seconds > 10, "{seconds} s");
            assert!(!stalled.contains(&fence(1)), "{seconds} s");
        }
    }

    #[test]
    fn planning_and_publishing_take_their_time() {
        let (mut watch, start) = (ProgressWatch::default(), Instant::now());
        for seconds in 0..60 {
            let running = [run(1, None), run(2, pages(100))];
            let now = start + Duration::from_secs(seconds);
            assert!(watch.stalled(running, WINDOW, now).is_empty(), "{seconds} s");
        }
        // The first page has a window of its own.
        let mut look =
            |seconds| watch.stalled([run(1, pages(0))], WINDOW, start + Duration::from_secs(seconds));
        for seconds in [60, 65, 70] {
            assert!(look(seconds).is_empty(), "{seconds} s");
        }
        assert_eq!(look(71), HashSet::from([fence(1)]));
    }

    #[test]
    fn a_process_that_was_stopped_is_not_stuck() {
        let (mut watch, start) = (ProgressWatch::default(), Instant::now());
        let mut look =
            |seconds| watch.stalled([run(1, pages(1))], WINDOW, start + Duration::from_secs(seconds));
        assert!(look(0).is_empty());
        assert!(look(3_600).is_empty());
        assert!(look(3_605).is_empty());
        assert_eq!(look(3_606), HashSet::from([fence(1)]));
    }

    #[test]
    fn a_run_that_ended_is_forgotten() {
        let (mut watch, start) = (ProgressWatch::default(), Instant::now());
        for seconds in [0, 4, 8] {
            let running = (seconds != 8).then(|| run(1, pages(1)));
            assert!(
                watch
                    .stalled(running, WINDOW, start + Duration::from_secs(seconds))
                    .is_empty()
            );
        }
        for seconds in [12, 16, 20] {
            let running = [run(1, pages(1))];
            assert!(
                watch
                    .stalled(running, WINDOW, start + Duration::from_secs(seconds))
                    .is_empty()
            );
        }
    }
}
