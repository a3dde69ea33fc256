//! The role autoscaler: keeps as many workers as the queues of their stages need, where no orchestrator does. It asks the queues for their
//! counts and the launcher for its workers, and knows no database.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use async_trait::async_trait;
use parkhang_actors::launcher::QueueDemand;
use parkhang_actors::source::SystemClock;
use parkhang_actors::stage::StageTable;
use serde_json::json;

use super::readiness::ReadinessReporter;
use super::stop::ShutdownSignals;
use super::workers::Tended;
use crate::config::Loaded;
use crate::http::{Probe, Readiness};
use crate::queues;

/// Runs the role until the process is stopped. The workers go on.
///
/// # Errors
///
/// If a queue or the launcher cannot be opened.
pub async fn run(loaded: &Loaded, mut readiness: ReadinessReporter) -> Result<ExitCode> {
    let mut stop = ShutdownSignals::listen()?;
    let queues = queues::open(&loaded.config.source.sqs, &StageTable::built_in().names()).await?;
    let demand = Arc::new(QueueDemand::new(queues, Arc::new(SystemClock)));
    let tended = Tended::open(loaded, demand)
        .await?
        .context("launcher.kind names no launcher")?;
    readiness.window.probe(Arc::new(Opened));
    readiness.ready("autoscaler")?;
    tokio::select! {
        () = stop.next() => {}
        () = tended.look_after_for_ever(loaded.config.launcher.interval) => {}
    }
    readiness.stopping();
    Ok(ExitCode::SUCCESS)
}

/// Readiness of an autoscaler, which has opened its queues and its launcher. That they answer later the metrics tell.
#[derive(Debug)]
struct Opened;

#[async_trait]
impl Probe for Opened {
    async fn readiness(&self) -> Readiness {
        Readiness {
            ready: true,
            details: json!({ "role": "autoscaler" }),
        }
    }
}
