use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::page_steps::PageSteps;
use parkhang_core::domain::{
    Assignment, JobKey, PageAtWork, PageOutcome, PageStep, StageName, StageProgress, VolumeId,
};

/// State of a stage run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum StageState {
    /// The stage has begun with its pages.
    #[default]
    Running,
    /// The stage succeeded.
    Done,
    /// The stage failed.
    Failed,
    /// The stage was stopped before its end.
    Interrupted,
}

/// Progress of a stage run and whether it has ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RunSnapshot {
    /// Counts of its pages.
    pub progress: StageProgress,
    /// State of the run.
    pub state: StageState,
}

/// Counters of one stage run; clones share them. A reader copies them, so that writers never wait for longer than that takes.
#[derive(Debug, Clone, Default)]
pub struct RunProgress {
    pages: Arc<Mutex<Option<RunSnapshot>>>,
    steps: PageSteps,
}

impl RunProgress {
    /// Shows that the stage has planned its pages, and begins with the first of them.
    pub fn started(&self, pages: usize) {
        let progress = StageProgress {
            pages: pages as u64,
            ..StageProgress::default()
        };
        let state = StageState::Running;
        *self.lock() = Some(RunSnapshot { progress, state });
    }

    /// Counts a page.
    pub fn page_finished(&self, outcome: PageOutcome) {
        self.update(|run| run.progress.count(outcome));
    }

    /// Runs the work of a page, which [`RunProgress::at_work`] shows meanwhile.
    pub(crate) async fn follow_page<T>(&self, page: &str, work: impl Future<Output = T>) -> T {
        self.steps.follow(page, work).await
    }

    /// Pages that are worked on at `now`, or the first of them: those that have been at their step for longest.
    pub fn at_work(&self, now: DateTime<Utc>) -> Vec<PageAtWork> {
        self.steps.at_work(now)
    }

    /// True if all pages at work wait for a service, which takes its time.
    pub(crate) fn awaits_service(&self) -> bool {
        self.steps.are_all_at(PageStep::Asking)
    }

    /// Shows that the run has ended.
    pub fn ended(&self, state: StageState) {
        self.update(|run| run.state = state);
    }

    /// Counts of the run's pages; `None` until it has begun with them.
    pub fn now(&self) -> Option<StageProgress> {
        self.lock().map(|run| run.progress)
    }

    fn update(&self, change: impl FnOnce(&mut RunSnapshot)) {
        if let Some(run) = &mut *self.lock() {
            change(run);
        }
    }

    /// The counters, which stay meaningful if a writer panicked between two of them.
    fn lock(&self) -> MutexGuard<'_, Option<RunSnapshot>> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type Place = (JobKey, VolumeId, StageName);

/// Stage runs of a process. A run is on the board for as long as it is [followed](Followed), so the board holds no more than what
/// runs; one that keeps ended runs holds the whole of its jobs.
#[derive(Debug, Default)]
pub struct ProgressBoard {
    runs: Mutex<BTreeMap<Place, RunProgress>>,
    keeps: bool,
}

impl ProgressBoard {
    /// A board that keeps ended runs, for a process that does one job.
    pub fn keeping() -> Self {
        Self {
            keeps: true,
            ..Self::default()
        }
    }

    /// Puts a run on the board, in place of an earlier one of the same stage and volume.
    pub fn follow(self: &Arc<Self>, assignment: &Assignment) -> Followed {
        let Assignment {
            job, volume, fence, ..
        } = assignment;
        let place = (job.clone(), volume.clone(), fence.stage.clone());
        let progress = RunProgress::default();
        self.lock().insert(place.clone(), progress.clone());
        Followed {
            board: Arc::clone(self),
            place,
            progress,
        }
    }

    /// The runs of a job that have begun with their pages.
    pub fn snapshot(&self, job: &JobKey) -> BTreeMap<(VolumeId, StageName), RunSnapshot> {
        self.lock()
            .iter()
            .filter(|((of, ..), _)| of == job)
            .filter_map(|((_, volume, stage), run)| Some(((volume.clone(), stage.clone()), (*run.lock())?)))
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Place, RunProgress>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Guard that keeps a run on its board.
#[derive(Debug)]
pub struct Followed {
    board: Arc<ProgressBoard>,
    place: Place,
    progress: RunProgress,
}

impl Followed {
    /// The run.
    pub fn progress(&self) -> &RunProgress {
        &self.progress
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        if self.board.keeps {
            return;
        }
        let mut runs = self.board.lock();
        // Another run may have taken its place.
        if runs
            .get(&self.place)
            .is_some_and(|run| Arc::ptr_eq(&run.pages, &self.progress.pages))
        {
            runs.remove(&self.place);
        }
    }
}

#[cfg(test)]
mod tests {
    use chrono::Utc;

    use super::*;
    use parkhang_core::domain::testing::fence;
    use parkhang_core::domain::{Attempt, Fence, JobConfig};

    fn assignment(job: &str, volume: &str, attempt: i32) -> Assignment {
        Assignment {
            fence: Fence {
                attempt: Attempt(attempt),
                ..fence(1, "ocr")
            },
            lease_until: Utc::now(),
            volume: volume.parse().unwrap(),
            document: None,
            job: JobKey::new(job).unwrap(),
            config: Arc::new(JobConfig::default()),
        }
    }

    fn pages(board: &ProgressBoard, job: &str) -> Vec<(String, u64)> {
        let snapshot = board.snapshot(&JobKey::new(job).unwrap());
        let pages = snapshot.into_iter();
        pages
            .map(|((volume, _), run)| (volume.to_string(), run.progress.pages))
            .collect()
    }

    fn shown(volume: &str, pages: u64) -> (String, u64) {
        (volume.to_owned(), pages)
    }

    #[test]
    fn a_run_is_shown_while_it_is_followed() {
        let board = Arc::new(ProgressBoard::default());
        for round in 0..1_000 {
            let run = board.follow(&assignment("job", &format!("W1-I{round}"), 1));
            assert_eq!(pages(&board, "job"), [], "it has not begun with its pages");
            run.progress().started(3);
            assert_eq!(pages(&board, "job"), [shown(&format!("W1-I{round}"), 3)]);
        }
        assert!(board.lock().is_empty());
    }

    #[test]
    fn one_volume_in_two_jobs_is_two_runs() {
        let board = Arc::new(ProgressBoard::default());
        let runs = ["a", "b"].map(|job| board.follow(&assignment(job, "W1-I1", 1)));
        runs[0].progress().started(3);
        runs[1].progress().started(4);
        runs[1].progress().page_finished(PageOutcome::Skipped);
        runs[1].progress().ended(StageState::Done);
        assert_eq!(pages(&board, "a"), [shown("W1-I1", 3)]);
        assert_eq!(pages(&board, "b"), [shown("W1-I1", 4)]);
        assert_eq!(runs[0].progress().now().unwrap().finished(), 0);
        let ended = runs[1].progress().lock().unwrap();
        assert_eq!((ended.progress.finished(), ended.state), (1, StageState::Done));
    }

    #[test]
    fn a_run_that_lost_its_place_neither_writes_there_nor_takes_the_other_away() {
        let board = Arc::new(ProgressBoard::default());
        let first = board.follow(&assignment("job", "W1-I1", 1));
        let second = board.follow(&assignment("job", "W1-I1", 2));
        second.progress().started(5);
        first.progress().started(9);
        drop(first);
        assert_eq!(pages(&board, "job"), [shown("W1-I1", 5)]);
        drop(second);
        assert!(board.lock().is_empty());
    }

    #[test]
    fn a_board_that_keeps_shows_what_has_ended() {
        let board = Arc::new(ProgressBoard::keeping());
        board.follow(&assignment("job", "W1-I1", 1)).progress().started(2);
        assert_eq!(pages(&board, "job"), [shown("W1-I1", 2)]);
    }
}
