//! One step of the autoscaler: reads the backlog and the workers, decides for each kind of hardware, and tells the launcher.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Demand, Launcher, LauncherError, Observation, idle_workers};
use crate::source::SourceError;
use crate::stage::StageTable;
use crate::telemetry::{Scaled, ScalingFailed};
use futures::future::BoxFuture;
use parkhang_core::domain::{Hardware, ScalingRecord, StageName};
use parkhang_core::policy::autoscale::by_queue::settled;
use parkhang_core::policy::autoscale::{Fleet, Limits, Load, decide, is_overdue};

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

/// Keeps as many workers as the waiting work needs.
#[derive(Debug)]
pub struct Autoscaler {
    demand: Arc<dyn Demand>,
    launcher: Arc<dyn Launcher>,
    config: AutoscalerConfig,
}

impl Autoscaler {
    pub fn new(demand: Arc<dyn Demand>, launcher: Arc<dyn Launcher>, config: AutoscalerConfig) -> Self {
        Self {
            demand,
            launcher,
            config,
        }
    }

    /// Decides once for each hardware. A failure of the launcher is logged, and tried again with the next pass.
    ///
    /// # Errors
    ///
    /// Those of the demand, such as when its store belongs to a leader that was replaced.
    pub fn pass(&self) -> BoxFuture<'_, Result<(), SourceError>> {
        Box::pin(async move {
            let sight = self.demand.observe().await?;
            for (hardware, limits) in &self.config.limits {
                match self.scale(*hardware, limits, &sight).await {
                    Ok(record) => self.demand.record(&record).await?,
                    Err(error) => ScalingFailed {
                        hardware: *hardware,
                        error: &error,
                    }
                    .emit(),
                }
            }
            Ok(())
        })
    }

    async fn scale(
        &self,
        hardware: Hardware,
        limits: &Limits,
        sight: &Observation,
    ) -> Result<ScalingRecord, LauncherError> {
        let is_served = |stage: &StageName| self.config.stages.hardware_of(stage) == Some(hardware);
        let loads = sight.loads.iter().filter(|(stage, _)| is_served(stage));
        let loads: Vec<Load> = loads.map(|(_, load)| *load).collect();
        let busy_at = sight.busy_at.iter().filter(|(stage, _)| is_served(stage));
        let busy_at = busy_at.map(|(_, at)| *at).max();
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
        let decision = match busy_at {
            Some(busy_at) => settled(decision, &fleet, busy_at, sight.now),
            None => decision,
        };
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
