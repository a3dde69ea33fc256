use serde::{Deserialize, Serialize};

use super::{Job, StageName, WorkerId, WorkerRecord};

/// Capability of one stage pool: which stage it runs, for how many tasks at once, with which models.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolInfo {
    /// Unique per pool, also after a restart.
    pub worker: WorkerId,
    pub stage: StageName,
    /// Number of tasks that it runs at once.
    pub slots: usize,
    /// Names of the models that it keeps loaded.
    pub models: Vec<String>,
}

impl PoolInfo {
    /// Whether the pool may run its stage for the job: it has the models that the job names.
    pub fn suits(&self, job: &Job) -> bool {
        job.config.models.are_loaded(&self.stage, &self.models)
    }
}

impl From<&WorkerRecord> for PoolInfo {
    fn from(record: &WorkerRecord) -> Self {
        Self {
            worker: record.worker.clone(),
            stage: record.stage.clone(),
            slots: usize::try_from(record.slots).unwrap_or(usize::MAX),
            models: record.models.clone(),
        }
    }
}
