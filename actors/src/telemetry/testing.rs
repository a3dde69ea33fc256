//! Metrics that were recorded on this thread while a test ran.

use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};

/// Collects what the current thread records, from its creation on.
pub(crate) struct Measured {
    snapshotter: Snapshotter,
    _guard: metrics::LocalRecorderGuard<'static>,
}

impl Measured {
    pub(crate) fn begin() -> Self {
        // Leaked: the guard borrows it, and a test's worth of metrics is small.
        let recorder: &'static DebuggingRecorder = Box::leak(Box::new(DebuggingRecorder::new()));
        Self {
            snapshotter: recorder.snapshotter(),
            _guard: metrics::set_default_local_recorder(recorder),
        }
    }

    /// Every series with its value, as `name{label=value} 3`; of histograms the number of values.
    pub(crate) fn series(&self) -> Vec<String> {
        let snapshot = self.snapshotter.snapshot().into_vec();
        let mut series: Vec<String> = snapshot
            .into_iter()
            .map(|(key, _, _, value)| {
                let labels = key
                    .key()
                    .labels()
                    .map(|label| format!("{}={}", label.key(), label.value()));
                let value = match value {
                    DebugValue::Counter(count) => count.to_string(),
                    DebugValue::Gauge(level) => level.to_string(),
                    DebugValue::Histogram(values) => values.len().to_string(),
                };
                let labels = labels.collect::<Vec<_>>().join(",");
                format!("{}{{{labels}}} {value}", key.key().name())
            })
            .collect();
        series.sort();
        series
    }

    #[track_caller]
    pub(crate) fn assert_has(&self, expected: &[&str]) {
        let series = self.series();
        for wanted in expected {
            assert!(
                series.iter().any(|found| found == wanted),
                "{wanted}: {series:#?}"
            );
        }
    }
}
