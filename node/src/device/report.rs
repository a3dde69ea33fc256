//! Report about devices, as a table and as JSON.

use comfy_table::Table;
use comfy_table::presets::NOTHING;
use parkhang_models::device::{DeviceSpec, Precision};
use parkhang_models::self_test::Comparison;
use serde_json::{Value, json};

use super::Batch;
use crate::networks::device_name;

#[derive(Debug)]
pub struct Report {
    pub spec: DeviceSpec,
    /// Name from the driver; empty if there is no device.
    pub name: String,
    pub state: State,
}

#[derive(Debug)]
pub enum State {
    /// Does not exist, with the reason.
    Absent(String),
    /// Exists, and was not tested.
    Present,
    /// Exists and cannot be used, with the reason.
    Unusable(String),
    Tested(SelfTested),
}

#[derive(Debug)]
pub struct SelfTested {
    pub comparison: Comparison,
    pub throughput: Throughput,
    /// Passes of several sizes, if they were asked for.
    pub batches: Vec<Batch>,
}

#[derive(Debug)]
pub struct Throughput {
    pub lines_per_s: f64,
    pub tiles_per_s: f64,
}

impl Report {
    pub fn present(spec: &DeviceSpec, name: String) -> Self {
        Self {
            spec: *spec,
            name,
            state: State::Present,
        }
    }

    pub fn absent(spec: &DeviceSpec, reason: String) -> Self {
        Self {
            spec: *spec,
            name: String::new(),
            state: State::Absent(reason),
        }
    }

    /// Returns whether it makes the exit status 1. An absent device does so only if it was named.
    pub fn has_failed(&self, named: bool) -> bool {
        match &self.state {
            // A machine without a GPU is in order unless somebody asked for the GPU.
            State::Absent(_) => named,
            State::Present => false,
            State::Unusable(_) => true,
            State::Tested(tested) => !tested.comparison.passes(self.spec.precision),
        }
    }

    /// Name of the device for `--device`.
    pub fn device(&self) -> String {
        device_name(&self.spec)
    }

    fn verdict(&self) -> &'static str {
        match &self.state {
            State::Absent(_) => "absent",
            State::Present => "present",
            State::Unusable(_) => "unusable",
            State::Tested(tested) if tested.comparison.passes(self.spec.precision) => "passed",
            State::Tested(_) => "failed",
        }
    }

    fn explanation(&self) -> String {
        match &self.state {
            State::Absent(reason) | State::Unusable(reason) => reason.clone(),
            State::Present | State::Tested(_) => self.name.clone(),
        }
    }
}

pub fn table(reports: &[Report]) -> Table {
    let mut table = Table::new();
    table.load_preset(NOTHING).set_header([
        "device",
        "self-test",
        "difference",
        "text",
        "lines/s",
        "tiles/s",
        "",
    ]);
    for report in reports {
        let [difference, text, lines, tiles] = match &report.state {
            State::Tested(tested) => [
                format!("{:.1e}", tested.comparison.logit_difference),
                compared_text(&tested.comparison, report.spec.precision).to_owned(),
                format!("{:.1}", tested.throughput.lines_per_s),
                format!("{:.1}", tested.throughput.tiles_per_s),
            ],
            _ => [const { String::new() }; 4],
        };
        let verdict = report.verdict().to_owned();
        table.add_row([
            report.device(),
            verdict,
            difference,
            text,
            lines,
            tiles,
            report.explanation(),
        ]);
    }
    table
}

fn compared_text(comparison: &Comparison, precision: Precision) -> &'static str {
    if comparison.text_equal {
        "equal"
    } else if comparison.passes(precision) {
        "equal but for ties"
    } else {
        "differs"
    }
}

pub fn json(reports: &[Report]) -> Value {
    let devices = reports.iter().map(|report| {
        let mut reported = json!({
            "device": report.device(),
            "name": report.name,
            "state": report.verdict(),
        });
        match &report.state {
            State::Absent(reason) | State::Unusable(reason) => reported["reason"] = json!(reason),
            State::Present => {}
            State::Tested(tested) => {
                reported["tolerance"] = json!(Comparison::tolerance(report.spec.precision));
                reported["logit_difference"] = json!(tested.comparison.logit_difference);
                reported["text_equal"] = json!(tested.comparison.text_equal);
                reported["lines_per_s"] = json!(tested.throughput.lines_per_s);
                reported["tiles_per_s"] = json!(tested.throughput.tiles_per_s);
                if !tested.batches.is_empty() {
                    reported["batches"] = json!(tested.batches);
                }
            }
        }
        reported
    });
    json!({ "devices": devices.collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use parkhang_models::device::DeviceKind;

    use super::*;

    fn spec(kind: DeviceKind) -> DeviceSpec {
        DeviceSpec {
            kind,
            index: 0,
            threads: NonZeroUsize::MIN,
            software_renderer: false,
            precision: Precision::Full,
        }
    }

    fn tested(logit_difference: f32) -> Report {
        Report {
            state: State::Tested(SelfTested {
                comparison: Comparison {
                    logit_difference,
                    text_equal: true,
                },
                throughput: Throughput {
                    lines_per_s: 812.25,
                    tiles_per_s: 96.04,
                },
                batches: Vec::new(),
            }),
            ..Report::present(&spec(DeviceKind::Wgpu), "A Card".to_owned())
        }
    }

    #[test]
    fn a_device_that_is_not_there_fails_only_where_it_was_named() {
        let absent = Report::absent(&spec(DeviceKind::Cuda), "no driver".to_owned());
        assert!(absent.has_failed(true));
        assert!(!absent.has_failed(false));
        assert!(!tested(1e-4).has_failed(true));
        assert!(tested(2e-3).has_failed(false));
        assert!(tested(f32::NAN).has_failed(false));
    }

    #[test]
    fn letters_that_are_all_but_tied_are_told_from_another_text() {
        let differing = |logit_difference| Comparison {
            logit_difference,
            text_equal: false,
        };
        assert_eq!(
            compared_text(&differing(0.5), Precision::Int8),
            "equal but for ties"
        );
        assert_eq!(compared_text(&differing(4.0), Precision::Int8), "differs");
        assert_eq!(compared_text(&differing(1e-4), Precision::Full), "differs");
    }

    #[test]
    fn table_and_json_tell_the_same() {
        let reports = [
            tested(1e-4),
            Report::absent(&spec(DeviceKind::Cuda), "no driver".to_owned()),
        ];
        let shown = table(&reports).to_string();
        for reported in [
            "wgpu:0",
            "passed",
            "1.0e-4",
            "812.2",
            "A Card",
            "cuda:0",
            "absent",
            "no driver",
        ] {
            assert!(shown.contains(reported), "{reported}: {shown}");
        }
        let reported = json(&reports);
        assert_eq!(reported["devices"][0]["lines_per_s"], json!(812.25));
        assert_eq!(reported["devices"][1]["state"], json!("absent"));
        assert_eq!(reported["devices"][1]["reason"], json!("no driver"));
    }
}
