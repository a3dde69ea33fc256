//! One step of the autoscaler: reads the backlog and the workers, decides for each kind of hardware, and tells the launcher.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::{Launcher, LauncherError, idle_workers};
use crate::stage::StageTable;
use crate::telemetry::{Scaled, ScalingFailed};
use parkhang_core::domain::{Hardware, JobId, NodeRecord, ScalingRecord, StageName};
use parkhang_core::policy::autoscale::{Fleet, Limits, Load, decide, is_overdue, loads};
use parkhang_state::{StateError, StateStore};

/// Settings of the autoscaler.
#[derive(Debug, Clone)]
pub struct AutoscalerConfig {
    /// Limits for each hardware that is scaled; workers with another are left alone.
    pub limits: BTreeMap<Hardware, Limits>,
    /// Slots of a worker for each stage that needs the hardware.
    pub slots: BTreeMap<Hardware, u32>,
    /// Hardware of the stages whose backlog is counted.
    pub stages: StageTable,
}

/// Keeps as many workers as the waiting work needs. The last decision is in the store and not in memory, so that the next
/// leader goes on from it.
#[derive(Debug)]
pub struct Autoscaler {
    store: Arc<dyn StateStore>,
    launcher: Arc<dyn Launcher>,
    config: AutoscalerConfig,
}

/// Everything that a pass decides by.
struct Observation {
    now: DateTime<Utc>,
    loads: BTreeMap<StageName, Load>,
    nodes: Vec<NodeRecord>,
    before: Vec<ScalingRecord>,
}

impl Autoscaler {
    /// An autoscaler on the store of a leader; once another leads, it can record no decision any more.
    pub fn new(store: Arc<dyn StateStore>, launcher: Arc<dyn Launcher>, config: AutoscalerConfig) -> Self {
        Self {
            store,
            launcher,
            config,
        }
    }

    /// Decides once for each hardware. A failure of the launcher is logged, and tried again with the next pass.
    ///
    /// # Errors
    ///
    /// When the store cannot be read or written, or belongs to a leader that was replaced.
    pub async fn pass(&self) -> Result<(), StateError> {
        let sight = self.observe().await?;
        for (hardware, limits) in &self.config.limits {
            match self.scale(*hardware, limits, &sight).await {
                Ok(record) => self.store.record_scaling(&record).await?,
                Err(error) => ScalingFailed {
                    hardware: *hardware,
                    error: &error,
                }
                .emit(),
            }
        }
        Ok(())
    }

    async fn observe(&self) -> Result<Observation, StateError> {
        let backlog = self.store.backlog().await?;
        let jobs = self.store.running_jobs().await?;
        let config = |id: JobId| jobs.iter().find(|job| job.id == id).map(|job| &job.config);
        Ok(Observation {
            now: self.store.now().await?,
            loads: loads(&backlog, config),
            nodes: self.store.nodes().await?,
            before: self.store.scaling().await?,
        })
    }

    async fn scale(
        &self,
        hardware: Hardware,
        limits: &Limits,
        sight: &Observation,
    ) -> Result<ScalingRecord, LauncherError> {
        let loads: Vec<Load> = sight
            .loads
            .iter()
            .filter(|(stage, _)| self.config.stages.hardware_of(stage) == Some(hardware))
            .map(|(_, load)| *load)
            .collect();
        let workers = self.launcher.workers(hardware).await?;
        let (idle, names) = idle_workers(&sight.nodes, hardware, &workers);
        let before = sight.before.iter().find(|record| record.hardware == hardware);
        let changed_at = before.and_then(|record| record.changed_at);
        let fleet = Fleet {
            desired: workers.desired,
            limit: workers.limit,
            idle,
            slots: self.config.slots.get(&hardware).copied().unwrap_or(1),
            changed_at,
        };
        let decision = decide(limits, &loads, &fleet, sight.now);
        // The launcher's own number counts and not the last decision, as it may have been set from elsewhere.
        let changes = decision.desired != workers.desired;
        if changes {
            self.launcher
                .set_desired(hardware, decision.desired, &names)
                .await?;
        }
        let record = ScalingRecord {
            hardware,
            decided_at: sight.now,
            desired: decision.desired,
            cap: limits.cap.min(workers.limit.unwrap_or(u32::MAX)),
            reason: decision.reason.as_str().to_owned(),
            running: workers.running,
            waiting: loads.iter().map(|load| load.waiting).sum(),
            in_work: loads.iter().map(|load| load.running).sum(),
            oldest: loads.iter().filter_map(|load| load.oldest).min(),
            changed_at: if changes { Some(sight.now) } else { changed_at },
        };
        Scaled {
            record: &record,
            before: workers.desired,
            overdue: is_overdue(limits, &loads, sight.now),
        }
        .emit();
        Ok(record)
    }
}

#[cfg(test)]
mod tests;
