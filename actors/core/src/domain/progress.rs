use serde::{Deserialize, Serialize};

/// Pages of one stage of one volume, counted by how they ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageProgress {
    pub pages: u64,
    pub succeeded: u64,
    /// Pages whose result of an earlier run still stands.
    pub skipped: u64,
    pub failed: u64,
}

impl StageProgress {
    /// Number of pages that have ended, in whichever way.
    pub fn finished(&self) -> u64 {
        self.succeeded + self.skipped + self.failed
    }

    /// Counts one more page that has ended.
    pub fn count(&mut self, outcome: PageOutcome) {
        match outcome {
            PageOutcome::Succeeded => self.succeeded += 1,
            PageOutcome::Skipped => self.skipped += 1,
            PageOutcome::Failed => self.failed += 1,
        }
    }
}

/// End of one page of a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageOutcome {
    Succeeded,
    /// Its result of an earlier run still stands.
    Skipped,
    Failed,
}
