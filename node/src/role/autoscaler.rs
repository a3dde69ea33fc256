//! The role autoscaler: keeps as many workers as the queues of their stages need, where no orchestrator does. It asks the queues for their
//! counts and the launcher for its workers, and knows no database.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use async_trait::async_trait;
use parkhang_actors::launcher::QueueDemand;
use parkhang_actors::source::{StageQueues, SystemClock};
use parkhang_actors::stage::StageTable;
use serde_json::json;

use super::probes::QUEUES_MISSING;
use super::readiness::ReadinessReporter;
use super::stop::ShutdownSignals;
use super::workers::Tended;
use crate::config::Loaded;
use crate::http::{Probe, Readiness};
use crate::queues::QueueFinder;

/// Runs the role until the process is stopped. The workers go on.
///
/// # Errors
///
/// If the server of the queues does not answer, or the launcher cannot be opened.
pub async fn run(loaded: &Loaded, mut readiness: ReadinessReporter) -> Result<ExitCode> {
    let mut stop = ShutdownSignals::listen()?;
    let finder = QueueFinder::open(&loaded.config.source.sqs, &StageTable::built_in().names()).await?;
    let queues = finder.queues();
    let demand = Arc::new(QueueDemand::new(queues.clone(), Arc::new(SystemClock)));
    let tended = Tended::open(loaded, demand)
        .await?
        .context("launcher.kind names no launcher")?;
    readiness.window.probe(Arc::new(AutoscalerProbe(queues)));
    readiness.ready("autoscaler")?;
    tokio::select! {
        () = stop.next() => {}
        () = tended.look_after_for_ever(loaded.config.launcher.interval) => {}
        never = finder.look_for_ever() => match never {},
    }
    readiness.stopping();
    Ok(ExitCode::SUCCESS)
}

/// Readiness of an autoscaler, which has opened its launcher: its queues are there. That they answer the metrics tell.
#[derive(Debug)]
struct AutoscalerProbe(StageQueues);

#[async_trait]
impl Probe for AutoscalerProbe {
    async fn readiness(&self) -> Readiness {
        let missing = self.0.missing();
        let reason = (!missing.is_empty()).then_some(QUEUES_MISSING);
        Readiness {
            ready: reason.is_none(),
            details: json!({
                "role": "autoscaler",
                "without_queue": missing,
                "reason": reason,
            }),
        }
    }
}
