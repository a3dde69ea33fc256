//! Log lines on standard error, as text or as JSON. A line about work has the fields of its spans: job, task, volume, stage, attempt,
//! generation and node.

use std::fmt;
use std::fs::File;
use std::io::IsTerminal;
use std::sync::Mutex;

use anyhow::{Context, Result};
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::ParseError;
use tracing_subscriber::fmt::format::{JsonFields, Writer};
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

use crate::config::{LogFormat, Telemetry};
use crate::traces::{Collector, VolumeTraces};

/// Environment variable with directives that override those of the configuration.
const VARIABLE: &str = "PARKHANG_LOG";
/// Directives for commands, whose result is on standard output.
const QUIET: &str = "warn";
/// Directives for libraries, which log only errors and warnings unless they are named. Their spans would add fields that mean nothing
/// to an operator.
const LIBRARIES: &str = "ractor=error,sqlx=warn,aws=warn,hyper=warn,h2=warn,rustls=warn";

/// Sets up logging for a command.
pub fn to_terminal() {
    // A variable that is not valid is ignored: a command must not fail because of its logging.
    let filter = filter_of_variable().or_else(|| filter(QUIET).ok());
    filtered_to_terminal(filter.unwrap_or_default());
}

/// Sets up logging for a command that reports errors itself: only if the variable is set.
pub fn if_asked_for() {
    if let Some(filter) = filter_of_variable() {
        filtered_to_terminal(filter);
    }
}

fn filtered_to_terminal(filter: EnvFilter) {
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .without_time()
        .with_target(false)
        .init();
}

fn filter(directives: &str) -> Result<EnvFilter, ParseError> {
    // The user's directives come last and so win over those for libraries.
    EnvFilter::try_new(format!("{LIBRARIES},{directives}"))
}

fn filter_of_variable() -> Option<EnvFilter> {
    filter_of(&std::env::var(VARIABLE).ok()?)
}

/// Filter of a variable's text. One that is empty, as files of services unset variables, asks for nothing; it would silence all but libraries.
fn filter_of(text: &str) -> Option<EnvFilter> {
    if text.trim().is_empty() {
        return None;
    }
    // A node falls back to its configuration, too: a mistyped variable must not keep it from starting.
    filter(text).ok()
}

/// Sets up logging for a node, to standard error or to `file`; returns the collector of its traces, if there is one.
///
/// # Errors
///
/// If the directives or the address of the collector are not valid.
pub fn of_node(node: &str, telemetry: &Telemetry, file: Option<File>) -> Result<Option<Collector>> {
    let filter = match filter_of_variable() {
        Some(filter) => filter,
        None => filter(&telemetry.log).context("telemetry.log")?,
    };
    let collector = telemetry
        .otlp_endpoint
        .as_ref()
        .map(|endpoint| Collector::at(endpoint, node))
        .transpose()
        .context("telemetry.otlp_endpoint")?;
    let traces = collector.clone().map(VolumeTraces::new);
    // Colours in a file are noise.
    let is_terminal = file.is_none() && std::io::stderr().is_terminal();
    let writer = match file {
        Some(file) => BoxMakeWriter::new(Mutex::new(file)),
        None => BoxMakeWriter::new(std::io::stderr),
    };
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(writer)
        .with_ansi(is_terminal);
    let lines = match telemetry.format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines
            .fmt_fields(JsonFields::new())
            .event_format(JsonLines {
                node: node.to_owned(),
            })
            .boxed(),
    };
    tracing_subscriber::registry()
        .with(filter)
        .with(lines)
        .with(traces)
        .init();
    Ok(collector)
}

/// Format of JSON lines: one flat object with the node, the fields of the event and those of its spans. On equal names the event wins
/// over its spans, and an inner span over an outer one.
struct JsonLines {
    node: String,
}

impl<S, N> FormatEvent<S, N> for JsonLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut line = Map::new();
        let metadata = event.metadata();
        let now = chrono::Utc::now().to_rfc3339_opts(chrono::SecondsFormat::Micros, true);
        line.insert("timestamp".to_owned(), now.into());
        line.insert("level".to_owned(), metadata.level().as_str().into());
        line.insert("target".to_owned(), metadata.target().into());
        // From the outermost span inwards, as later fields replace earlier ones of the same name.
        let spans = context
            .event_scope()
            .into_iter()
            .flat_map(|scope| scope.from_root());
        for span in spans {
            let extensions = span.extensions();
            if let Some(Value::Object(fields)) = extensions
                .get::<FormattedFields<N>>()
                .and_then(|fields| serde_json::from_str(&fields.fields).ok())
            {
                line.extend(fields);
            }
        }
        event.record(&mut Fields(&mut line));
        // Last, so that no field of an event can claim another node.
        line.insert("node".to_owned(), self.node.as_str().into());
        writeln!(writer, "{}", Value::Object(line))
    }
}

struct Fields<'a>(&'a mut Map<String, Value>);

impl Fields<'_> {
    fn set(&mut self, field: &Field, value: impl Into<Value>) {
        self.0.insert(field.name().to_owned(), value.into());
    }
}

impl Visit for Fields<'_> {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.set(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.set(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.set(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field, value);
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.set(field, value.to_string());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.set(field, format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Page(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Page {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn an_empty_variable_is_none() {
        assert!(filter_of("").is_none() && filter_of(" ").is_none());
        assert!(filter_of("info").is_some());
    }

    /// Lines that are written of one event in each of some parts of the program.
    fn shown(directives: &str) -> Vec<String> {
        let page = Page::default();
        let written = page.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_env_filter(filter(directives).unwrap())
            .with_writer(move || page.clone())
            .with_ansi(false)
            .without_time()
            .finish();
        tracing::subscriber::with_default(subscriber, || {
            let _actor = tracing::info_span!(target: "ractor::actor", "Actor", id = "0.7").entered();
            tracing::info!(target: "parkhang_actors::cluster", "ours");
            tracing::warn!(target: "ractor_cluster::node", "a session ended");
            tracing::info!(target: "sqlx::postgres::notice", "it exists already");
            tracing::info!(target: "aws_config::profile", "loaded");
            tracing::error!(target: "ractor_cluster::node", "broken");
        });
        let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        text.lines().map(|line| line.trim().to_owned()).collect()
    }

    /// Rows: F38.
    #[test]
    fn libraries_say_only_what_went_wrong_unless_they_are_named() {
        let ours = "INFO parkhang_actors::cluster: ours";
        let broken = "ERROR ractor_cluster::node: broken";
        assert_eq!(shown("info"), [ours, broken]);
        assert_eq!(shown("debug"), [ours, broken]);
        assert_eq!(shown("warn"), [broken]);
        let named = shown("info,sqlx=info,ractor_cluster=warn");
        assert_eq!(named.len(), 4, "{named:?}");
    }

    /// Rows: F38.
    #[test]
    fn a_line_is_one_flat_object_with_the_fields_of_its_spans() {
        let page = Page::default();
        let written = page.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(move || page.clone())
            .fmt_fields(JsonFields::new())
            .event_format(JsonLines {
                node: "gpu-1.0badcafe".to_owned(),
            })
            .finish();
        tracing::subscriber::with_default(subscriber, || {
            let outer = tracing::info_span!("stage", job = "J1", attempt = 1, volume = tracing::field::Empty);
            let _outer = outer.enter();
            outer.record("volume", "W1-I1");
            let _inner = tracing::info_span!("page", attempt = 2).entered();
            tracing::warn!(took = ?std::time::Duration::from_secs(1), "a \"quoted\"\nline");
        });
        let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text.lines().count(), 1, "{text}");
        let line: Value = serde_json::from_str(&text).unwrap();
        for (field, value) in [
            ("level", Value::from("WARN")),
            ("node", "gpu-1.0badcafe".into()),
            ("job", "J1".into()),
            ("volume", "W1-I1".into()),
            ("attempt", 2.into()),
            ("took", "1s".into()),
            ("message", "a \"quoted\"\nline".into()),
        ] {
            assert_eq!(line[field], value, "{line:#}");
        }
    }
}
