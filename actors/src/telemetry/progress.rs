use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;

use crate::domain::{StageName, VolumeId};

/// How one page of a stage ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageOutcome {
    Succeeded,
    /// Its result of an earlier run still stands.
    Skipped,
    Failed,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum StageState {
    #[default]
    Running,
    Done,
    Failed,
    Interrupted,
}

/// Pages of one stage of one volume.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct StageProgress {
    pub pages: u64,
    pub succeeded: u64,
    pub skipped: u64,
    pub failed: u64,
    pub state: StageState,
}

impl StageProgress {
    pub fn finished(&self) -> u64 {
        self.succeeded + self.skipped + self.failed
    }
}

/// Where every volume stands, as counters that writers never wait for and readers poll. It holds one small entry per
/// volume and stage, so it is bounded by the job.
#[derive(Debug, Default)]
pub struct ProgressBoard {
    entries: Mutex<BTreeMap<(VolumeId, StageName), StageProgress>>,
}

impl ProgressBoard {
    /// A stage of a volume begins (again): its counters start from zero.
    pub fn stage_started(&self, volume: &VolumeId, stage: &StageName, pages: usize) {
        let progress = StageProgress {
            pages: pages as u64,
            ..StageProgress::default()
        };
        self.lock().insert((volume.clone(), stage.clone()), progress);
    }

    pub fn page_finished(&self, volume: &VolumeId, stage: &StageName, outcome: PageOutcome) {
        self.update(volume, stage, |progress| match outcome {
            PageOutcome::Succeeded => progress.succeeded += 1,
            PageOutcome::Skipped => progress.skipped += 1,
            PageOutcome::Failed => progress.failed += 1,
        });
    }

    pub fn stage_ended(&self, volume: &VolumeId, stage: &StageName, state: StageState) {
        self.update(volume, stage, |progress| progress.state = state);
    }

    /// Where one stage of a volume stands; `None` until it has begun.
    pub fn of(&self, volume: &VolumeId, stage: &StageName) -> Option<StageProgress> {
        self.lock().get(&(volume.clone(), stage.clone())).copied()
    }

    /// Takes over counters that another process kept.
    pub fn observe(&self, volume: &VolumeId, stage: &StageName, progress: StageProgress) {
        self.lock().insert((volume.clone(), stage.clone()), progress);
    }

    /// Everything so far, by volume and stage.
    pub fn snapshot(&self) -> BTreeMap<(VolumeId, StageName), StageProgress> {
        self.lock().clone()
    }

    fn update(&self, volume: &VolumeId, stage: &StageName, change: impl FnOnce(&mut StageProgress)) {
        if let Some(progress) = self.lock().get_mut(&(volume.clone(), stage.clone())) {
            change(progress);
        }
    }

    /// Counters stay meaningful when a writer panicked between two of them.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<(VolumeId, StageName), StageProgress>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
