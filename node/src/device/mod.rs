//! `node device`: the devices of this machine, the self-test of the networks on each, and their speed.
//!
//! A device that computes wrong results silently would make wrong text of a whole library, so each is compared with the processor
//! before it is trusted, with the same fixed input that a node uses for its self-test. The command runs without a cluster
//! and must leave nothing behind; how the networks work belongs to `models`.

mod batches;
mod report;

use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use parkhang_models::device::{ComputeDevice, DeviceError, DeviceKind, DeviceSpec};
use parkhang_models::inference::InferenceError;
use parkhang_models::self_test::{Answers, SelfTest};

use self::batches::{Batch, of_sizes};
use self::report::{Report, SelfTested, State, Throughput};
use crate::networks::{cores, default_precision, parse_device};

/// Lines in one pass of the measurement.
const LINES_AT_ONCE: usize = 16;
/// Tiles in one pass of the measurement.
const TILES_AT_ONCE: usize = 8;

#[derive(Debug, Args)]
pub struct DeviceArgs {
    /// Test only this device: cpu, cpu-f32, wgpu:0, cuda:1; may be repeated. By default all devices of the machine.
    #[arg(long, value_name = "DEVICE")]
    pub device: Vec<String>,
    /// List the devices without testing them.
    #[arg(long)]
    pub list: bool,
    /// Measure passes of 1, 4, 16 and 64 lines and tiles as well, and print what each takes.
    #[arg(long, conflicts_with = "list")]
    pub batches: bool,
    /// Duration of each measurement of a device.
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = humantime::parse_duration)]
    pub time: Duration,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Runs the command. The exit status is 1 if a named device does not exist, or one does not compute what the processor does.
pub fn run(arguments: &DeviceArgs) -> Result<ExitCode> {
    let mut reports = match arguments.device.as_slice() {
        [] => DeviceKind::ALL.into_iter().flat_map(of_kind).collect(),
        named => named
            .iter()
            .map(|name| Ok(of_spec(&parse_device(name, cores())?)))
            .collect::<Result<Vec<Report>>>()?,
    };
    if !arguments.list {
        // Computed once for all devices, and only if one is tested at all.
        let reference = reference().context("the processor does not compute")?;
        for report in &mut reports {
            if let State::Present = report.state {
                report.state = examine(report, &reference, arguments);
            }
        }
    }
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&report::json(&reports))?);
    } else {
        println!("{}", report::table(&reports));
        if arguments.batches {
            println!("\n{}", batches::table(&reports));
        }
    }
    let named = !arguments.device.is_empty();
    Ok(if reports.iter().any(|report| report.has_failed(named)) {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// Returns reports of all devices of a kind, or one with the reason for which there is none.
fn of_kind(kind: DeviceKind) -> Vec<Report> {
    let spec = |index| DeviceSpec {
        kind,
        index,
        threads: cores(),
        software_renderer: false,
        precision: default_precision(kind),
    };
    match kind.devices() {
        Ok(names) => names
            .into_iter()
            .enumerate()
            .map(|(index, name)| Report::present(&spec(index), described(kind, name)))
            .collect(),
        Err(error) => vec![Report::absent(&spec(0), error.to_string())],
    }
}

fn of_spec(spec: &DeviceSpec) -> Report {
    let names = match spec.kind.devices() {
        Ok(names) => names,
        Err(error) => return Report::absent(spec, error.to_string()),
    };
    let count = names.len();
    match names.into_iter().nth(spec.index) {
        Some(name) => Report::present(spec, described(spec.kind, name)),
        None => Report::absent(
            spec,
            format!(
                "no {} device number {}; this machine has {count}",
                spec.kind, spec.index
            ),
        ),
    }
}

fn described(kind: DeviceKind, name: String) -> String {
    match kind {
        DeviceKind::Cpu => format!("{name}, {} threads", cores()),
        DeviceKind::Wgpu | DeviceKind::Cuda => name,
    }
}

/// Computes the answers of the networks on one thread of the processor, which others are compared with.
fn reference() -> Result<Answers> {
    let device = ComputeDevice::open(&DeviceSpec::cpu(NonZeroUsize::MIN))?;
    Ok(SelfTest::load(&device)?.answers()?)
}

fn examine(report: &Report, reference: &Answers, arguments: &DeviceArgs) -> State {
    let time = arguments.time;
    let device = match ComputeDevice::open(&report.spec) {
        Ok(device) => device,
        // Mesa installs a software renderer on most machines; it means that there is no card, which is no failure.
        Err(error @ DeviceError::SoftwareRenderer { .. }) => return State::Absent(error.to_string()),
        Err(error) => return State::Unusable(error.to_string()),
    };
    let tested = || -> Result<SelfTested> {
        let test = SelfTest::load(&device)?;
        let comparison = test.answers()?.compare(reference);
        Ok(SelfTested {
            comparison,
            throughput: Throughput {
                lines_per_s: rate(LINES_AT_ONCE, time, || test.read_lines(LINES_AT_ONCE))?,
                tiles_per_s: rate(TILES_AT_ONCE, time, || test.segment_tiles(TILES_AT_ONCE))?,
            },
            batches: if arguments.batches {
                of_sizes(&test, time)
            } else {
                Vec::new()
            },
        })
    };
    tested().map_or_else(|error| State::Unusable(format!("{error:#}")), State::Tested)
}

/// Measures the items a second that `pass`, which takes `at_once` of them, processes. The first pass, in which a GPU compiles
/// its kernels, is not counted.
fn rate(
    at_once: usize,
    time: Duration,
    mut pass: impl FnMut() -> Result<(), InferenceError>,
) -> Result<f64, InferenceError> {
    pass()?;
    let began = Instant::now();
    let mut passes = 0;
    loop {
        pass()?;
        passes += at_once;
        let took = began.elapsed();
        // Checked after each pass, so that at least one is measured however slow the device is.
        if took >= time {
            return Ok(passes as f64 / took.as_secs_f64());
        }
    }
}
