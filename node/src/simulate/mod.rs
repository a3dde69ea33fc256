//! `node simulate`: a simulated cluster that reads a library, to size a fleet before there is one.
//!
//! It runs the pure decisions of the orchestrator with the cluster's configuration against virtual time and stage times that were
//! recorded from a real job, so a change of a policy shows in the simulation without a model of the policy having to be changed. The
//! room only turns flags into settings and results into tables; the simulation itself knows neither the command line nor the network.

mod fleet;
mod record;
mod table;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use parkhang_simulation::{
    Autoscaling, Faults, Polling, Profile, Settings, SickDevices, Sickness, SimulationReport, Timings,
    simulate,
};
use serde_json::json;

use self::record::RecordArgs;
use crate::config::{ConfigArgs, Loaded, Shortcut};
use crate::launcher::limits;
use crate::queues;
use crate::role::health;

/// Pages between two faults of a device that is sick at times.
const PAGES_BETWEEN: f64 = 100.0;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct SimulateArgs {
    #[command(subcommand)]
    pub command: Option<SimulateCommand>,
    #[command(flatten)]
    pub run: RunArgs,
}

#[derive(Debug, Subcommand)]
pub enum SimulateCommand {
    /// Write a profile from the history of a job that has ended.
    Record(RecordArgs),
}

#[derive(Debug, Args)]
pub struct RunArgs {
    /// Number of volumes of the library.
    #[arg(long, default_value_t = 70_000, value_name = "N")]
    pub volumes: usize,
    /// Number of nodes; each runs the stages of one kind of hardware, with the slots of node.slots.
    #[arg(long, default_value_t = 200, value_name = "N")]
    pub nodes: usize,
    /// Share of GPU nodes, 0 to 1; by default the one that the profile's stages need.
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub gpu_share: Option<f64>,
    /// Speed of a GPU node's slot, relative to the profile.
    #[arg(long, default_value_t = 1.0, value_name = "FACTOR", value_parser = factor)]
    pub gpu_speed: f64,
    /// Speed of a CPU node's slot, relative to the profile.
    #[arg(long, default_value_t = 1.0, value_name = "FACTOR", value_parser = factor)]
    pub cpu_speed: f64,
    /// Mean time between failures of a node; 0s is never.
    #[arg(long, default_value = "24h", value_name = "TIME", value_parser = humantime::parse_duration)]
    pub mtbf: Duration,
    /// Mean time to repair of a node.
    #[arg(long, default_value = "10m", value_name = "TIME", value_parser = humantime::parse_duration)]
    pub mttr: Duration,
    /// Share of the failures that are announced, as the ends of spot instances are.
    #[arg(long, default_value_t = 0.7, value_name = "SHARE", value_parser = share)]
    pub announced: f64,
    /// Time from the announcement to the failure.
    #[arg(long, default_value = "2m", value_name = "TIME", value_parser = humantime::parse_duration)]
    pub notice: Duration,
    /// Share of the stage runs that fail with an error that is retried.
    #[arg(long, default_value_t = 0.0005, value_name = "SHARE", value_parser = share)]
    pub failing_runs: f64,
    /// Share of the volumes that kill the worker that reads them.
    #[arg(long, default_value_t = 0.0001, value_name = "SHARE", value_parser = share)]
    pub poison: f64,
    /// Share of the GPU nodes whose device is sick from the beginning to the end.
    #[arg(long, default_value_t = 0.0, value_name = "SHARE", value_parser = share)]
    pub sick: f64,
    /// What the sick devices do: hangs and fails are for good, and also under the node's test of its device; at times is once in a hundred
    /// pages on average, and slow is twenty times as slow.
    #[arg(
        long,
        default_value = "hangs",
        value_name = "KIND",
        value_parser = PossibleValuesParser::new(Sickness::ALL.map(Sickness::as_str)).try_map(sickness)
    )]
    pub sickness: Sickness,
    /// Stage times and sizes of volumes; by default the profile built into the program.
    #[arg(long, value_name = "FILE")]
    pub profile: Option<PathBuf>,
    /// Seed of the random numbers; the same seed gives the same run.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
    /// Simulate several numbers of nodes, such as nodes=50,100,200,400.
    #[arg(long, value_name = "nodes=N,N", value_parser = sweep)]
    pub sweep: Option<Sweep>,
    /// Simulate each fleet once more with the autoscaler of the configuration (section `autoscaler`); the number of nodes is then
    /// the cap.
    #[arg(long)]
    pub autoscale: bool,
    /// Time from the autoscaler's decision until a node has joined with its models loaded.
    #[arg(long, default_value = "4m", value_name = "TIME", value_parser = humantime::parse_duration)]
    pub boot: Duration,
    /// Source of the nodes' work; by default source.kind of the configuration. With sqs the requests to queues and their price are
    /// counted, at the settings of source.sqs; all else is as with direct.
    #[arg(long, value_name = "SOURCE", value_parser = ["direct", "sqs"])]
    pub source: Option<String>,
    /// Simulated time after which a simulation is stopped.
    #[arg(long, default_value = "365d", value_name = "TIME", value_parser = humantime::parse_duration)]
    pub horizon: Duration,
    /// Print the results as JSON: an array with an object for each fleet.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub config: ConfigArgs,
}

/// Numbers of nodes to try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sweep(Vec<usize>);

fn sweep(text: &str) -> Result<Sweep, String> {
    let numbers = text.strip_prefix("nodes=").ok_or("a sweep is nodes=N,N")?;
    let numbers: Result<Vec<usize>, _> = numbers.split(',').map(|number| number.trim().parse()).collect();
    numbers
        .map(Sweep)
        .map_err(|error| format!("a sweep is nodes=N,N: {error}"))
}

fn share(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "not a number")?;
    if (0.0..=1.0).contains(&value) {
        Ok(value)
    } else {
        Err("a share is 0 to 1".to_owned())
    }
}

fn sickness(name: String) -> Result<Sickness, String> {
    let named = |kind: &Sickness| kind.as_str() == name;
    Sickness::ALL.into_iter().find(named).ok_or(name.clone())
}

fn factor(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "not a number")?;
    if value.is_finite() && value > 0.0 {
        Ok(value)
    } else {
        Err("a factor is above 0".to_owned())
    }
}

pub async fn run(arguments: SimulateArgs) -> Result<ExitCode> {
    match arguments.command {
        Some(SimulateCommand::Record(arguments)) => record::run(arguments).await,
        None => simulate_fleets(arguments.run).await,
    }
}

async fn simulate_fleets(arguments: RunArgs) -> Result<ExitCode> {
    let loaded = Loaded::read(&configuration(&arguments))?.validated()?;
    let profile = match &arguments.profile {
        Some(path) => {
            let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
            Profile::parse(&text).with_context(|| path.display().to_string())?
        }
        None => Profile::built_in()?,
    };
    let sizes = arguments
        .sweep
        .as_ref()
        .map_or_else(|| vec![arguments.nodes], |sweep| sweep.0.clone());
    // One node for each kind of hardware, or a stage would never run.
    if sizes.iter().any(|nodes| *nodes < 2) {
        bail!("a fleet has at least two nodes");
    }
    let mut fleets = Vec::new();
    for nodes in sizes {
        for autoscaled in [false, true] {
            // The fixed fleet comes first and is always simulated, as the other is compared with it.
            if autoscaled && !arguments.autoscale {
                continue;
            }
            let settings = settings(&arguments, &loaded, profile.clone(), nodes, autoscaled);
            // A simulation computes and never waits, so it would block an async thread.
            let report = tokio::task::spawn_blocking(move || futures::executor::block_on(simulate(settings)));
            fleets.push(Fleet {
                nodes,
                autoscaled,
                report: report.await??,
            });
        }
    }
    let memory = peak_memory();
    if arguments.json {
        let objects = fleets.iter().map(|fleet| as_json(fleet, memory));
        println!(
            "{:#}",
            serde_json::Value::Array(objects.collect::<Result<_, _>>()?)
        );
    } else {
        println!("Stage times: {}\n", profile.about);
        match &fleets[..] {
            [fleet] => print!("{}", table::one(&fleet.report, memory)),
            several => print!("{}", table::several(several)),
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn configuration(arguments: &RunArgs) -> ConfigArgs {
    let source = arguments.source.iter().map(|source| Shortcut {
        flag: "--source",
        key: "source.kind",
        value: source.clone(),
    });
    let mut config = arguments.config.clone();
    config.others.extend(source);
    config
}

/// Simulated fleet with its results.
struct Fleet {
    /// Number of nodes, or their cap if autoscaled.
    nodes: usize,
    autoscaled: bool,
    report: SimulationReport,
}

fn settings(
    arguments: &RunArgs,
    loaded: &Loaded,
    profile: Profile,
    nodes: usize,
    autoscaled: bool,
) -> Settings {
    let config = &loaded.config;
    let kinds = fleet::Kinds {
        slots: &config.node.slots,
        gpu_speed: arguments.gpu_speed,
        cpu_speed: arguments.cpu_speed,
    };
    Settings {
        seed: arguments.seed,
        volumes: arguments.volumes,
        fleet: kinds.fleet(&profile, nodes, arguments.gpu_share),
        autoscaling: autoscaled.then(|| Autoscaling {
            limits: limits(loaded),
            interval: config.launcher.interval,
            boot: arguments.boot,
        }),
        profile,
        faults: Faults {
            between: arguments.mtbf,
            repair: arguments.mttr,
            announced: arguments.announced,
            notice: arguments.notice,
            failing_runs: arguments.failing_runs,
            poison: arguments.poison,
        },
        sick: (arguments.sick > 0.0).then(|| SickDevices {
            share: arguments.sick,
            sickness: arguments.sickness,
            pages_between: PAGES_BETWEEN,
            health: health(loaded),
        }),
        queues: config.source.kind.properties().is_published.then(|| Polling {
            options: queues::options(&config.source.sqs),
            poll: config.source.poll,
        }),
        timings: Timings {
            lease: config.cluster.lease,
            heartbeat: config.cluster.heartbeat,
            full_pass: config.orchestrator.full_pass,
            silence: config.cluster.idle_timeout,
            call_timeout: config.cluster.call_timeout,
            max_interruptions: i32::try_from(config.orchestrator.max_interruptions).unwrap_or(i32::MAX),
            ..Timings::default()
        },
        config: config.job.clone(),
        horizon: arguments.horizon,
    }
}

fn as_json(fleet: &Fleet, memory: Option<u64>) -> Result<serde_json::Value> {
    let mut object = json!({
        "nodes": fleet.nodes,
        "autoscaled": fleet.autoscaled,
        "peak_memory_bytes": memory,
    });
    if let (Some(object), serde_json::Value::Object(report)) =
        (object.as_object_mut(), serde_json::to_value(&fleet.report)?)
    {
        object.extend(report);
    }
    Ok(object)
}

/// Peak memory of this process so far, in bytes, if the system reports it.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    // The peak of the whole process, so it grows with the fleets that were simulated before.
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kilobytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_is_a_list_of_numbers() {
        assert_eq!(sweep("nodes=50, 100,200"), Ok(Sweep(vec![50, 100, 200])));
        for wrong in ["50,100", "nodes=", "nodes=a", "slots=1"] {
            assert!(sweep(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn shares_and_factors_are_checked() {
        assert_eq!(share("0.5"), Ok(0.5));
        assert!(share("1.1").is_err() && share("NaN").is_err() && share("half").is_err());
        assert_eq!(factor("20"), Ok(20.0));
        assert!(factor("0").is_err() && factor("inf").is_err());
    }
}
