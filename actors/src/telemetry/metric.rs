//! Metrics as typed constants: the name, the labels and the meaning of each are in one place, and a call with the wrong number
//! of labels does not compile.

use metrics::{Label, Unit};

use super::catalogue;

/// Kind of a metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// A count that only grows.
    Counter,
    /// A level that goes up and down.
    Gauge,
    /// Counts of values by buckets, with the upper bounds of these, ascending.
    Histogram(&'static [f64]),
}

impl Kind {
    /// Name of the kind, as Prometheus has it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram(_) => "histogram",
        }
    }
}

/// Definition of a metric, for serving and documenting it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Definition {
    /// Name, with the suffix that Prometheus has for its kind and unit.
    pub name: &'static str,
    /// Kind.
    pub kind: Kind,
    /// Names of the labels.
    pub labels: &'static [&'static str],
    /// Meaning, without a full stop.
    pub help: &'static str,
}

macro_rules! metric_kind {
    ($(#[$doc:meta])* $kind:ident) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub(super) struct $kind<const LABELS: usize> {
            name: &'static str,
            labels: [&'static str; LABELS],
            definition: Definition,
        }

        impl<const LABELS: usize> $kind<LABELS> {
            const fn of(
                kind: Kind,
                name: &'static str,
                labels: &'static [&'static str; LABELS],
                help: &'static str,
            ) -> Self {
                Self { name, labels: *labels, definition: Definition { name, kind, labels, help } }
            }

            pub(super) const fn definition(&self) -> Definition {
                self.definition
            }

            fn labelled(&self, values: [&str; LABELS]) -> Vec<Label> {
                self.labels
                    .iter()
                    .zip(values)
                    .map(|(name, value)| Label::new(*name, value.to_owned()))
                    .collect()
            }
        }
    };
}

metric_kind!(
    /// Count that only grows.
    Counter
);
metric_kind!(
    /// Level that is set again whenever it may have changed.
    Gauge
);
metric_kind!(
    /// Counts of values by buckets.
    Histogram
);

impl<const LABELS: usize> Counter<LABELS> {
    pub(super) const fn new(
        name: &'static str,
        labels: &'static [&'static str; LABELS],
        help: &'static str,
    ) -> Self {
        Self::of(Kind::Counter, name, labels, help)
    }

    pub(super) fn add(&self, count: u64, values: [&str; LABELS]) {
        metrics::counter!(self.name, self.labelled(values)).increment(count);
    }
}

impl<const LABELS: usize> Gauge<LABELS> {
    pub(super) const fn new(
        name: &'static str,
        labels: &'static [&'static str; LABELS],
        help: &'static str,
    ) -> Self {
        Self::of(Kind::Gauge, name, labels, help)
    }

    pub(super) fn set(&self, value: usize, values: [&str; LABELS]) {
        metrics::gauge!(self.name, self.labelled(values)).set(value as f64);
    }
}

impl<const LABELS: usize> Histogram<LABELS> {
    pub(super) const fn new(
        name: &'static str,
        buckets: &'static [f64],
        labels: &'static [&'static str; LABELS],
        help: &'static str,
    ) -> Self {
        Self::of(Kind::Histogram(buckets), name, labels, help)
    }

    pub(super) fn record(&self, value: f64, values: [&str; LABELS]) {
        metrics::histogram!(self.name, self.labelled(values)).record(value);
    }
}

/// Tells the recorder what every metric means.
pub fn describe() {
    for Definition { name, kind, help, .. } in catalogue::definitions() {
        match kind {
            Kind::Counter => metrics::describe_counter!(name, Unit::Count, help),
            Kind::Gauge => metrics::describe_gauge!(name, Unit::Count, help),
            Kind::Histogram(_) => metrics::describe_histogram!(name, Unit::Count, help),
        }
    }
}
