//! Recorder of metrics, which only nodes install: an event costs a branch in other processes.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use metrics_process::Collector;
use parkhang_actors::telemetry::{self, Kind};

/// Interval at which values of histograms are put into their buckets, so that memory stays bounded if nothing scrapes them.
const UPKEEP: Duration = Duration::from_secs(5);

/// Recorder of the metrics of this process.
#[derive(Debug, Clone)]
pub struct Recorder {
    metrics: PrometheusHandle,
    process: Arc<Collector>,
}

impl Recorder {
    /// Installs the recorder.
    ///
    /// # Errors
    ///
    /// If the process has one already.
    pub fn install() -> Result<Self> {
        let mut builder = PrometheusBuilder::new();
        for metric in telemetry::definitions() {
            if let Kind::Histogram(buckets) = metric.kind {
                builder = builder
                    .set_buckets_for_metric(Matcher::Full(metric.name.to_owned()), buckets)
                    .with_context(|| format!("the buckets of {}", metric.name))?;
            }
        }
        let metrics = builder
            .install_recorder()
            .context("metrics are collected already")?;
        telemetry::describe();
        let process = Collector::default();
        process.describe();
        // Nothing may ever scrape this process, and unread values would pile up.
        let upkept = metrics.clone();
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(UPKEEP).await;
                upkept.run_upkeep();
            }
        });
        Ok(Self {
            metrics,
            process: Arc::new(process),
        })
    }

    /// Returns the metrics in the text format of Prometheus.
    pub fn page(&self) -> String {
        // Memory, CPU time and open files are read when somebody asks, as they have no events that would
        // update them.
        self.process.collect();
        self.metrics.render()
    }
}
