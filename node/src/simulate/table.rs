//! Formatting of a simulation's results as tables.

use std::time::Duration;

use bytesize::ByteSize;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{Cell, CellAlignment, Table};
use parkhang_simulation::{QueueUse, SimulationReport};

use super::Fleet;

/// Longest time that is shown in seconds; longer ones are shown in hours and minutes.
const SHORT_S: f64 = 600.0;

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_FULL_CONDENSED);
    table.set_header(header.iter().copied());
    table
}

fn row(table: &mut Table, name: impl Into<String>, values: impl IntoIterator<Item = String>) {
    let mut cells = vec![Cell::new(name.into())];
    cells.extend(
        values
            .into_iter()
            .map(|value| Cell::new(value).set_alignment(CellAlignment::Right)),
    );
    table.add_row(cells);
}

fn time(seconds: f64) -> String {
    if seconds < SHORT_S {
        return format!("{seconds:.1} s");
    }
    let minutes = Duration::from_secs((seconds / 60.0).round() as u64 * 60);
    humantime::format_duration(minutes).to_string()
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Formats shares that are normally very small.
fn fine_percent(share: f64) -> String {
    format!("{:.4} %", share * 100.0)
}

/// Formats the results of one fleet in full.
pub fn one(report: &SimulationReport, memory: Option<u64>) -> String {
    let mut whole = table(&["", "simulated"]);
    let ends = &report.ends;
    let traffic = &report.traffic;
    for (name, value) in [
        ("volumes", report.volumes.to_string()),
        ("pages", report.pages.to_string()),
        ("makespan", time(report.makespan_s)),
        ("node-hours", format!("{:.0}", report.node_hours)),
        ("finished", report.finished.to_string()),
        ("quarantined", report.quarantined.to_string()),
        ("failed", report.failed.to_string()),
        (
            "ends of nodes",
            format!("{}, announced {}", report.node_ends, report.announced_ends),
        ),
        ("runs killed with their node", ends.killed.to_string()),
        ("runs released by a drain", ends.drained.to_string()),
        ("runs whose worker died", ends.crashed.to_string()),
        ("runs that failed", ends.failed.to_string()),
        (
            "pages repeated",
            format!(
                "{}, {}",
                report.repeated_pages,
                fine_percent(report.repeated_share)
            ),
        ),
        ("slot time lost", fine_percent(report.lost_time_share)),
        ("assignments undelivered", report.undelivered.to_string()),
        ("passes of the reconciler", report.passes.to_string()),
        ("changes of tasks", traffic.changes.to_string()),
        (
            "transactions on disk",
            format!("{}, at most {} changes", traffic.commits, report.largest_group),
        ),
        ("statements to Postgres", traffic.statements.to_string()),
        (
            "  a second",
            format!(
                "{:.1}, at most {:.1}",
                report.round_trips_per_s, report.peak_round_trips_per_s
            ),
        ),
        ("rows read", traffic.rows_read.to_string()),
        ("rows written", traffic.rows_written.to_string()),
    ] {
        row(&mut whole, name, [value]);
    }
    if let Some(devices) = report.devices {
        for (name, value) in [
            ("nodes with a sick device", devices.nodes),
            ("  faults of a stage there", devices.faults),
            ("  ends of their nodes for it", devices.node_ends),
            ("  stages taken out of service", devices.out_of_service),
            ("  volumes held to be at fault", devices.blamed),
        ] {
            row(&mut whole, name, [value.to_string()]);
        }
    }
    let mut classes = table(&["nodes", "number", "slots a stage", "up", "slots in use"]);
    for class in &report.classes {
        let used: Vec<String> = class
            .utilisation
            .iter()
            .map(|(stage, share)| format!("{stage} {}", percent(*share)))
            .collect();
        row(
            &mut classes,
            class.hardware,
            [
                class.nodes.to_string(),
                class.slots.to_string(),
                percent(class.up),
                used.join("\n"),
            ],
        );
    }
    let mut stages = table(&[
        "stage", "hardware", "runs", "pages", "repeated", "wait p50", "wait p95",
    ]);
    for stage in &report.stages {
        row(
            &mut stages,
            stage.stage.as_str(),
            [
                stage.hardware.to_owned(),
                stage.succeeded.to_string(),
                stage.pages.to_string(),
                stage.repeated_pages.to_string(),
                time(stage.wait_p50_s),
                time(stage.wait_p95_s),
            ],
        );
    }
    let queues = report.queues.as_ref().map_or_else(String::new, requests);
    let cost = &report.cost;
    let mut real = table(&["on this machine", ""]);
    row(
        &mut real,
        "the simulation took",
        [format!("{:.1} s", cost.whole_s)],
    );
    row(&mut real, "in decisions", [format!("{:.1} s", cost.deciding_s)]);
    // A simulation that ended at once has made no pass.
    let each = cost.deciding_s / report.passes.max(1) as f64 * 1e6;
    row(&mut real, "  a pass", [format!("{each:.0} µs")]);
    row(&mut real, "in the store", [format!("{:.1} s", cost.storing_s)]);
    if let Some(memory) = memory {
        row(
            &mut real,
            "memory at most, store and history included",
            [ByteSize(memory).to_string()],
        );
    }
    format!("{whole}\n{classes}\n{stages}\n{queues}{real}\n")
}

fn dollars(amount: f64) -> String {
    format!("${amount:.2}")
}

fn requests(queues: &QueueUse) -> String {
    let requests = &queues.requests;
    let mut table = table(&["requests to SQS", ""]);
    for (name, value) in [
        ("SendMessageBatch", requests.sends),
        ("ReceiveMessage", requests.receives),
        ("  in vain", requests.empty_receives),
        ("ChangeMessageVisibilityBatch", requests.visibility_changes),
        ("DeleteMessageBatch", requests.deletes),
        ("GetQueueAttributes", requests.looks),
        ("GetQueueUrl", requests.finds),
        ("in all", queues.total),
        ("messages published", requests.messages),
    ] {
        row(&mut table, name, [value.to_string()]);
    }
    for (name, amount) in [
        ("price with FIFO queues", queues.fifo_dollars),
        ("price with standard queues", queues.standard_dollars),
    ] {
        row(&mut table, name, [dollars(amount)]);
    }
    format!("{table}\n")
}

/// Formats the results of several fleets, one a line.
pub fn several(fleets: &[Fleet]) -> String {
    let mut header = vec![
        "nodes",
        "makespan",
        "node-hours",
        "busiest stage in use",
        "pages repeated",
        "quarantined",
        "round trips/s",
        "at most",
        "decisions",
    ];
    if fleets.iter().any(|fleet| fleet.report.queues.is_some()) {
        header.extend(["requests to SQS", "FIFO"]);
    }
    let mut table = table(&header);
    for Fleet {
        nodes,
        autoscaled,
        report,
    } in fleets
    {
        let name = if *autoscaled {
            format!("up to {nodes}")
        } else {
            nodes.to_string()
        };
        let busiest = report
            .classes
            .iter()
            .flat_map(|class| &class.utilisation)
            .max_by(|(_, one), (_, other)| one.total_cmp(other))
            .map_or_else(String::new, |(stage, share)| {
                format!("{stage} {}", percent(*share))
            });
        let queues = report.queues.into_iter();
        let requests = queues.flat_map(|queues| [queues.total.to_string(), dollars(queues.fifo_dollars)]);
        let values = [
            time(report.makespan_s),
            format!("{:.0}", report.node_hours),
            busiest,
            fine_percent(report.repeated_share),
            report.quarantined.to_string(),
            format!("{:.1}", report.round_trips_per_s),
            format!("{:.1}", report.peak_round_trips_per_s),
            format!("{:.1} s", report.cost.deciding_s),
        ];
        row(&mut table, name, values.into_iter().chain(requests));
    }
    format!("{table}\n")
}
