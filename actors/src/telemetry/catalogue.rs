//! Every metric of the program, in the order of the documentation. Labels have few values: stages, outcomes, categories,
//! never volumes, pages or nodes.

use super::metric::{Counter, Definition, Gauge, Histogram};

/// Buckets from a message on one machine to a statement that waits.
const FAST_SECONDS: &[f64] = &[
    0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0,
];
/// Buckets from a page of an instant to a volume of a night.
const SLOW_SECONDS: &[f64] = &[
    0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0, 600.0, 3600.0, 14400.0,
];
/// Buckets of counts.
const COUNTS: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0];

// Services of others.

pub(super) const SERVICE_IN_FLIGHT: Gauge<1> = Gauge::new(
    "parkhang_service_in_flight",
    &["service"],
    "Jobs of tasks that a service has in hand, or requests under way from all nodes",
);
pub(super) const SERVICE_OLDEST_SECONDS: Gauge<1> = Gauge::new(
    "parkhang_service_oldest_seconds",
    &["service"],
    "Time for which a service has had the oldest of them",
);
pub(super) const SERVICE_LEFT_ALONE: Gauge<1> = Gauge::new(
    "parkhang_service_left_alone",
    &["service"],
    "1 while a service gets no work, as it has failed: an alarm",
);
pub(super) const SERVICE_SPENT: Gauge<1> = Gauge::new(
    "parkhang_service_spent_thousandths",
    &["service"],
    "Cost of what the jobs that are there have asked of a service, in thousandths of the currency",
);
pub(super) const SERVICE_SUBMITS: Counter<1> = Counter::new(
    "parkhang_service_submits_total",
    &["service"],
    "Jobs that a service has taken, for tasks or for rows of tables, and requests for pages that it has answered",
);
pub(super) const SERVICE_ERRORS: Counter<2> = Counter::new(
    "parkhang_service_errors_total",
    &["service", "category"],
    "Failures of submits, of requests for pages and of jobs of tasks, by category: access, answer, busy, connection, dns, failed, lost, refused, request, server or timeout",
);
pub(super) const ENTITY_ROWS: Gauge<3> = Gauge::new(
    "parkhang_entity_rows",
    &["entity", "stage", "status"],
    "Rows of a table that services work on, by the status of each stage, as a node with the role entity has counted them",
);

// The orchestrator that leads.

pub(super) const TASKS: Gauge<2> = Gauge::new(
    "parkhang_tasks",
    &["stage", "status"],
    "Tasks of jobs that are not over, by the stage they have reached",
);
pub(super) const LEASES: Gauge<1> = Gauge::new("parkhang_leases", &["stage"], "Leases in force");
pub(super) const POOLS: Gauge<1> = Gauge::new("parkhang_pools", &["stage"], "Pools that have joined");
pub(super) const POOL_SLOTS: Gauge<1> = Gauge::new(
    "parkhang_pool_slots",
    &["stage"],
    "Slots of the pools that have joined",
);
pub(super) const STAGES_DESERTED: Gauge<1> = Gauge::new(
    "parkhang_stages_deserted",
    &["stage"],
    "1 while tasks wait for a stage that no pool runs: an alarm",
);
pub(super) const JOBS_WITHOUT_MODEL: Gauge<1> = Gauge::new(
    "parkhang_jobs_without_model",
    &["stage"],
    "Jobs that wait for a stage whose nodes have not loaded the models that they name: an alarm",
);
pub(super) const WORKERS_DESIRED: Gauge<1> = Gauge::new(
    "parkhang_workers_desired",
    &["hardware"],
    "Worker nodes that the autoscaler wants to run",
);
pub(super) const WORKERS_RUNNING: Gauge<1> = Gauge::new(
    "parkhang_workers_running",
    &["hardware"],
    "Worker nodes that the launcher saw running when the autoscaler decided",
);
pub(super) const AUTOSCALER_DECISIONS: Counter<2> = Counter::new(
    "parkhang_autoscaler_decisions_total",
    &["hardware", "reason"],
    "Decisions of the autoscaler, including those that change nothing",
);
pub(super) const AUTOSCALER_FAILURES: Counter<1> = Counter::new(
    "parkhang_autoscaler_failures_total",
    &["hardware"],
    "Decisions of the autoscaler that could not be made or carried out",
);
pub(super) const AUTOSCALER_BACKLOG: Gauge<1> = Gauge::new(
    "parkhang_autoscaler_backlog",
    &["hardware"],
    "Tasks that wait for stages of this hardware or are in work",
);
pub(super) const AUTOSCALER_OVERDUE: Gauge<1> = Gauge::new(
    "parkhang_autoscaler_overdue",
    &["hardware"],
    "1 while a task has waited for longer than autoscaler.max_age: an alarm",
);
pub(super) const QUEUE_VISIBLE: Gauge<3> = Gauge::new(
    "parkhang_queue_visible",
    &["stage", "standing_job", "queue"],
    "Messages that wait in the queue of a stage or of a standing job, approximate",
);
pub(super) const QUEUE_IN_FLIGHT: Gauge<3> = Gauge::new(
    "parkhang_queue_in_flight",
    &["stage", "standing_job", "queue"],
    "Messages of the queue that were received and are held, approximate",
);
pub(super) const QUEUE_DELAYED: Gauge<3> = Gauge::new(
    "parkhang_queue_delayed",
    &["stage", "standing_job", "queue"],
    "Messages of the queue whose delay is not over, approximate",
);
pub(super) const QUEUE_DEAD_LETTERS: Gauge<3> = Gauge::new(
    "parkhang_queue_dead_letters",
    &["stage", "standing_job", "queue"],
    "Messages in the dead-letter queue of the queue, approximate",
);
pub(super) const QUEUE_OLDEST_SECONDS: Gauge<3> = Gauge::new(
    "parkhang_queue_oldest_published_seconds",
    &["stage", "standing_job", "queue"],
    "Time since the oldest message was published whose task still waits, by the database: SQS tells the age of its oldest \
     message by CloudWatch alone; of the queue of a standing job, time for which messages have waited there without a break",
);
pub(super) const ALARMS: Gauge<3> = Gauge::new(
    "parkhang_alarm",
    &["stage", "standing_job", "alarm"],
    "1 while an alarm about the queue of the stage, or of the standing job, stands: age, dead_letters, failures, crashes, in_flight, backlog or retention",
);
pub(super) const PASS_SECONDS: Histogram<1> = Histogram::new(
    "parkhang_pass_seconds",
    FAST_SECONDS,
    &["result"],
    "Duration of a reconciler pass",
);
pub(super) const ASSIGNMENTS: Counter<2> = Counter::new(
    "parkhang_assignments_total",
    &["stage", "answer"],
    "Assignments, by the answer of the pool",
);
pub(super) const ASSIGN_SECONDS: Histogram<1> = Histogram::new(
    "parkhang_assign_seconds",
    FAST_SECONDS,
    &["stage"],
    "From the decision to the pool's acceptance, writing the lease included",
);
pub(super) const REPORTS: Counter<3> = Counter::new(
    "parkhang_reports_total",
    &["stage", "verdict", "recording"],
    "Reports of pools, by the verdict and by whether it was recorded",
);
pub(super) const ADVANCE_SECONDS: Histogram<1> = Histogram::new(
    "parkhang_stage_advance_seconds",
    FAST_SECONDS,
    &["stage"],
    "From the report of a stage to the acceptance of the next one, which the label names",
);
pub(super) const LEASES_LOST: Counter<1> = Counter::new(
    "parkhang_leases_lost_total",
    &["stage"],
    "Leases that expired, or whose pool was gone",
);
pub(super) const STORAGE_OUTAGES: Counter<1> = Counter::new(
    "parkhang_storage_outages_total",
    &["stage"],
    "Stages that wait, with no try counted, as the storage was unavailable: an alarm",
);
pub(super) const SERVICE_OUTAGES: Counter<1> = Counter::new(
    "parkhang_service_outages_total",
    &["stage"],
    "Stages that wait, with no try counted, as a service that reads their pages was away",
);
pub(super) const NODE_OUTAGES: Counter<1> = Counter::new(
    "parkhang_node_outages_total",
    &["stage"],
    "Stages that wait, with no try counted, as the node that ran them was out of order: an alarm",
);
pub(super) const JOBS_SETTLED: Counter<1> = Counter::new(
    "parkhang_jobs_settled_total",
    &["status"],
    "Jobs that have completed, failed or been cancelled",
);
pub(super) const MIRROR_BATCH: Histogram<0> = Histogram::new(
    "parkhang_mirror_batch_changes",
    COUNTS,
    &[],
    "State changes in one transaction",
);
pub(super) const MIRROR_SECONDS: Histogram<0> = Histogram::new(
    "parkhang_mirror_commit_seconds",
    FAST_SECONDS,
    &[],
    "Duration of one transaction of state changes",
);
pub(super) const MIRROR_REFUSED: Counter<0> = Counter::new(
    "parkhang_mirror_refused_total",
    &[],
    "Transactions of state changes that the database refused or did not answer",
);

// Nodes that work.

pub(super) const STAGE_RUNS_STARTED: Counter<1> = Counter::new(
    "parkhang_stage_runs_started_total",
    &["stage"],
    "Stage runs begun",
);
pub(super) const STAGE_RUNS: Counter<2> = Counter::new(
    "parkhang_stage_runs_total",
    &["stage", "outcome"],
    "Stage runs ended: done, failed, interrupted, died or lost",
);
pub(super) const STAGE_RUN_SECONDS: Histogram<2> = Histogram::new(
    "parkhang_stage_run_seconds",
    SLOW_SECONDS,
    &["stage", "outcome"],
    "Duration of a stage run",
);
pub(super) const PAGES: Counter<2> = Counter::new(
    "parkhang_pages_total",
    &["stage", "outcome"],
    "Pages finished: succeeded, failed, or skipped as their result stands",
);
pub(super) const PAGE_SECONDS: Histogram<1> = Histogram::new(
    "parkhang_page_seconds",
    SLOW_SECONDS,
    &["stage"],
    "From the first try of a page to the end of its last one",
);
pub(super) const PAGE_ERRORS: Counter<2> = Counter::new(
    "parkhang_page_errors_total",
    &["stage", "category"],
    "Pages that failed for good, by the category of the error",
);
pub(super) const INFERENCE_SECONDS: Histogram<1> = Histogram::new(
    "parkhang_inference_batch_seconds",
    SLOW_SECONDS,
    &["network"],
    "Duration of a batch on its device, halvings included",
);
pub(super) const INFERENCE_REQUESTS: Histogram<1> = Histogram::new(
    "parkhang_inference_batch_requests",
    COUNTS,
    &["network"],
    "Requests in a batch",
);
pub(super) const INFERENCE_HALVED: Counter<1> = Counter::new(
    "parkhang_inference_batches_halved_total",
    &["network"],
    "Batches that were too large for the memory of a device",
);
pub(super) const OUT_OF_ORDER: Gauge<1> = Gauge::new(
    "parkhang_stage_out_of_order",
    &["stage"],
    "1 while this node cannot run the stage, as its device, its threads or its disk do not work: an alarm",
);
pub(super) const SLOTS: Gauge<1> = Gauge::new("parkhang_slots", &["stage"], "Slots of this node");
pub(super) const SLOTS_IN_USE: Gauge<1> = Gauge::new(
    "parkhang_slots_in_use",
    &["stage"],
    "Slots of this node that run a task",
);
pub(super) const HEARTBEATS: Counter<0> = Counter::new(
    "parkhang_heartbeats_total",
    &[],
    "Heartbeats that the orchestrator answered",
);
pub(super) const HEARTBEATS_MISSED: Counter<0> = Counter::new(
    "parkhang_heartbeats_missed_total",
    &[],
    "Heartbeats that were not answered, or for which no orchestrator was connected",
);
pub(super) const SOURCE_OBJECTS_UNREADABLE: Counter<0> = Counter::new(
    "parkhang_source_objects_unreadable_total",
    &[],
    "Times that a part of a job in the storage was passed over because an object could not be read",
);

// Every node.

pub(super) const CONNECTIONS: Counter<0> = Counter::new(
    "parkhang_connections_total",
    &[],
    "Connections to orchestrators that were established",
);
pub(super) const CONNECTIONS_LOST: Counter<0> = Counter::new(
    "parkhang_connections_lost_total",
    &[],
    "Connections to orchestrators that were lost",
);
pub(super) const STORAGE_REQUESTS: Counter<2> = Counter::new(
    "parkhang_storage_requests_total",
    &["operation", "result"],
    "Requests to the artifact store; a failed one names the category of its error",
);
pub(super) const STORAGE_SECONDS: Histogram<1> = Histogram::new(
    "parkhang_storage_request_seconds",
    FAST_SECONDS,
    &["operation"],
    "Duration of a request to the artifact store, retries included",
);
pub(super) const STORAGE_BYTES: Counter<1> = Counter::new(
    "parkhang_storage_bytes_total",
    &["direction"],
    "Bytes of artifacts read and written",
);

/// All metrics.
pub fn definitions() -> impl Iterator<Item = Definition> {
    [
        TASKS.definition(),
        LEASES.definition(),
        POOLS.definition(),
        POOL_SLOTS.definition(),
        STAGES_DESERTED.definition(),
        JOBS_WITHOUT_MODEL.definition(),
        WORKERS_DESIRED.definition(),
        WORKERS_RUNNING.definition(),
        AUTOSCALER_DECISIONS.definition(),
        AUTOSCALER_FAILURES.definition(),
        AUTOSCALER_BACKLOG.definition(),
        AUTOSCALER_OVERDUE.definition(),
        QUEUE_VISIBLE.definition(),
        QUEUE_IN_FLIGHT.definition(),
        QUEUE_DELAYED.definition(),
        QUEUE_DEAD_LETTERS.definition(),
        QUEUE_OLDEST_SECONDS.definition(),
        ALARMS.definition(),
        SERVICE_IN_FLIGHT.definition(),
        SERVICE_OLDEST_SECONDS.definition(),
        SERVICE_LEFT_ALONE.definition(),
        SERVICE_SPENT.definition(),
        SERVICE_SUBMITS.definition(),
        SERVICE_ERRORS.definition(),
        ENTITY_ROWS.definition(),
        PASS_SECONDS.definition(),
        ASSIGNMENTS.definition(),
        ASSIGN_SECONDS.definition(),
        REPORTS.definition(),
        ADVANCE_SECONDS.definition(),
        LEASES_LOST.definition(),
        STORAGE_OUTAGES.definition(),
        SERVICE_OUTAGES.definition(),
        NODE_OUTAGES.definition(),
        JOBS_SETTLED.definition(),
        MIRROR_BATCH.definition(),
        MIRROR_SECONDS.definition(),
        MIRROR_REFUSED.definition(),
        STAGE_RUNS_STARTED.definition(),
        STAGE_RUNS.definition(),
        STAGE_RUN_SECONDS.definition(),
        PAGES.definition(),
        PAGE_SECONDS.definition(),
        PAGE_ERRORS.definition(),
        INFERENCE_SECONDS.definition(),
        INFERENCE_REQUESTS.definition(),
        INFERENCE_HALVED.definition(),
        OUT_OF_ORDER.definition(),
        SLOTS.definition(),
        SLOTS_IN_USE.definition(),
        HEARTBEATS.definition(),
        HEARTBEATS_MISSED.definition(),
        SOURCE_OBJECTS_UNREADABLE.definition(),
        CONNECTIONS.definition(),
        CONNECTIONS_LOST.definition(),
        STORAGE_REQUESTS.definition(),
        STORAGE_SECONDS.definition(),
        STORAGE_BYTES.definition(),
    ]
    .into_iter()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fmt::Write;

    use parkhang_test_support::assert_documented;

    use super::*;
    use crate::telemetry::Kind;

    #[test]
    fn names_follow_the_conventions() {
        let names: BTreeSet<&str> = definitions().map(|metric| metric.name).collect();
        assert_eq!(names.len(), definitions().count(), "a name is taken twice");
        for metric in definitions() {
            assert!(metric.name.starts_with("parkhang_"), "{}", metric.name);
            let counts = metric.name.ends_with("_total");
            assert_eq!(counts, metric.kind == Kind::Counter, "{}", metric.name);
            let seconds = metric.name.ends_with("_seconds");
            match metric.kind {
                Kind::Counter => assert!(!seconds, "{}", metric.name),
                Kind::Gauge => {}
                Kind::Histogram(bounds) => assert_eq!(seconds, bounds != COUNTS, "{}", metric.name),
            }
        }
    }

    #[test]
    fn no_label_is_without_bound() {
        let bounded = [
            "stage",
            "status",
            "result",
            "answer",
            "verdict",
            "recording",
            "outcome",
            "category",
            "network",
            "operation",
            "direction",
            "hardware",
            "reason",
            "queue",
            // Those of the configuration.
            "standing_job",
            "service",
            "entity",
            "alarm",
        ];
        for metric in definitions() {
            for label in metric.labels {
                assert!(bounded.contains(label), "{}: {label}", metric.name);
            }
        }
    }

    fn page() -> String {
        let mut page = include_str!("metrics_intro.md").to_owned();
        page.push_str("| metric | type | labels | meaning |\n|---|---|---|---|\n");
        for metric in definitions() {
            let labels = metric.labels.iter().map(|label| format!("`{label}`"));
            let labels = labels.collect::<Vec<_>>().join(", ");
            let (name, kind, help) = (metric.name, metric.kind.as_str(), metric.help);
            let _ = writeln!(page, "| `{name}` | {kind} | {labels} | {help}. |");
        }
        page
    }

    #[test]
    fn the_documented_metrics_are_those_of_the_code() {
        assert_documented("metrics.md", &page());
    }
}
