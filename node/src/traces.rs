//! Traces for a collector, by OTLP over HTTP in its JSON encoding.
//!
//! The work on one volume is one trace, on whichever nodes it ran. Identifiers are digests of job, volume, task and lease, so that every
//! node derives the same ones from the lease that it was assigned, and no message has to carry them. The export is written by
//! hand: the spans are few and their identifiers our own, and the SDK with its transport would be most of the dependencies of a node.
//! Work never waits for a collector; spans that it does not take in time are dropped.

mod export;

use std::collections::BTreeMap;
use std::fmt;
use std::time::SystemTime;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

pub use export::Collector;

/// Layer that sends the spans of work to the collector.
pub struct VolumeTraces(Collector);

impl VolumeTraces {
    pub fn new(collector: Collector) -> Self {
        Self(collector)
    }
}

/// Span of work that has not ended.
struct Work {
    kind: Kind,
    started: SystemTime,
    fields: BTreeMap<&'static str, String>,
    events: Vec<Value>,
    failure: Option<String>,
}

#[derive(Clone, Copy)]
enum Kind {
    /// The orchestrator assigns a lease to a pool.
    Assign,
    /// A pool runs the stage.
    Stage,
}

impl Kind {
    fn of(span: &str) -> Option<Self> {
        match span {
            "assign" => Some(Self::Assign),
            "stage" => Some(Self::Stage),
            _ => None,
        }
    }
}

impl Work {
    fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }

    fn trace_id(&self) -> String {
        digest(
            &[
                "trace",
                self.field("job"),
                self.field("volume"),
                self.field("task"),
            ],
            16,
        )
    }

    fn span_id(&self, kind: Kind) -> String {
        let kind = match kind {
            Kind::Assign => "assign",
            Kind::Stage => "stage",
        };
        let of_lease = ["job", "task", "stage", "attempt", "generation"].map(|name| self.field(name));
        digest(&[&[kind], &of_lease[..]].concat(), 8)
    }

    /// Converts the span to OTLP.
    fn into_span(self, ended: SystemTime) -> Value {
        let (name, kind, parent) = match self.kind {
            Kind::Assign => ("assign", 3, String::new()),
            // 2 is a server and 3 a client in OTLP: the orchestrator calls, the pool answers.
            Kind::Stage => ("run", 2, self.span_id(Kind::Assign)),
        };
        let attributes = self.fields.iter().map(
            |(name, value)| json!({ "key": format!("parkhang.{name}"), "value": { "stringValue": value } }),
        );
        let status = self
            .failure
            .as_ref()
            .map_or_else(|| json!({}), |failure| json!({ "code": 2, "message": failure }));
        json!({
            "traceId": self.trace_id(),
            "spanId": self.span_id(self.kind),
            "parentSpanId": parent,
            "name": format!("{name} {}", self.field("stage")),
            "kind": kind,
            "startTimeUnixNano": nanoseconds(self.started),
            "endTimeUnixNano": nanoseconds(ended),
            "attributes": attributes.collect::<Vec<_>>(),
            "events": self.events,
            "status": status,
        })
    }
}

/// Returns the first bytes of a digest of the parts, in hexadecimal.
fn digest(parts: &[&str], bytes: usize) -> String {
    // Joined by a character that no id contains, so that no two lists of parts read the same.
    hex::encode(&Sha256::digest(parts.join("\0"))[..bytes])
}

/// Formats nanoseconds since 1970; 64-bit numbers are text in this encoding.
fn nanoseconds(time: SystemTime) -> String {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    since.as_nanos().to_string()
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for VolumeTraces {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if let (Some(kind), Some(span)) = (Kind::of(attributes.metadata().name()), context.span(id)) {
            let mut fields = BTreeMap::new();
            attributes.record(&mut Fields(&mut fields));
            span.extensions_mut().insert(Work {
                kind,
                started: SystemTime::now(),
                fields,
                events: Vec::new(),
                failure: None,
            });
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let level = *event.metadata().level();
        // Debug lines would make most of a trace, and nobody reads them there.
        if level > Level::INFO {
            return;
        }
        // An event may lie in other spans within that of the work, so all of them are looked through.
        for span in context.event_scope(event).into_iter().flatten() {
            if let Some(work) = span.extensions_mut().get_mut::<Work>() {
                let mut fields = BTreeMap::new();
                event.record(&mut Fields(&mut fields));
                let message = fields.remove("message").unwrap_or_default();
                // Work that failed logs a warning or an error, which becomes the status of its span.
                if level <= Level::WARN {
                    let error = fields.get("error").cloned();
                    work.failure = Some(error.unwrap_or_else(|| message.clone()));
                }
                let time = nanoseconds(SystemTime::now());
                work.events.push(json!({ "timeUnixNano": time, "name": message }));
            }
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let work = context
            .span(&id)
            .and_then(|span| span.extensions_mut().remove::<Work>());
        if let Some(work) = work {
            self.0.take(work.into_span(SystemTime::now()));
        }
    }
}

struct Fields<'a>(&'a mut BTreeMap<&'static str, String>);

impl Visit for Fields<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}
