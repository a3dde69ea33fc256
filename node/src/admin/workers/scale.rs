//! `workers launch` and `workers scale`: the number of workers.

use std::collections::BTreeSet;

use async_trait::async_trait;
use clap::{Args, ValueEnum};
use parkhang_actors::launcher::{Launcher, idle_workers};
use parkhang_core::domain::{Hardware, JobKey};
use parkhang_state::StateStore;
use serde_json::{Map, Value};

use super::group::LaunchedWorkers;
use super::launcher_of;
use crate::admin::command::{Access, Command, Verb};
use crate::admin::jobs::find;
use crate::admin::wait::Wait;
use crate::admin::{Admin, Refusal};
use crate::launcher::section;

/// Start more workers, in addition to those that there are.
///
/// The number holds for each selected hardware. The new workers take work of all jobs. Not allowed while the autoscaler is on.
/// Example: `workers launch --hardware gpu --count 2`.
#[derive(Debug, Args)]
pub struct Launch {
    #[command(flatten)]
    meant: ScaleRequest,
}

/// Set the number of workers.
///
/// The number holds for each selected hardware. Workers that are stopped release their work first, without charging a try. Not allowed
/// while the autoscaler is on.
#[derive(Debug, Args)]
pub struct Scale {
    #[command(flatten)]
    meant: ScaleRequest,
}

// Number and selection of workers. A doc comment here would become the help of the commands.
#[derive(Debug, Args)]
struct ScaleRequest {
    /// Number of workers, for each selected hardware.
    #[arg(long, value_name = "N")]
    count: u32,
    /// Only hardware that the stages of this job need.
    #[arg(long, value_name = "NAME")]
    job: Option<JobKey>,
    /// Only workers with this hardware.
    #[arg(long, value_enum)]
    hardware: Option<WorkerHardware>,
    /// Only workers on machines of this type, as in launcher.gpu.instance_type or launcher.cpu.instance_type.
    #[arg(long, value_name = "TYPE")]
    instance_type: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum WorkerHardware {
    Gpu,
    Cpu,
}

impl From<WorkerHardware> for Hardware {
    fn from(hardware: WorkerHardware) -> Self {
        match hardware {
            WorkerHardware::Gpu => Self::Gpu,
            WorkerHardware::Cpu => Self::Cpu,
        }
    }
}

#[async_trait]
impl Command for Launch {
    const NAME: [&'static str; 2] = ["workers", "launch"];
    const ACCESS: Access = Access::Operate;
    const VERB: Verb = Verb::Post;
    const PATH: &'static str = "/workers/launch";
    const WAIT: Option<Wait> = Some(Wait {
        help: "Return when they are there, which does not say that they have joined",
        ..UNTIL_SETTLED
    });
    type Answer = LaunchedWorkers;

    async fn run(self, admin: &Admin) -> Result<LaunchedWorkers, Refusal> {
        let count = self.meant.count;
        change(admin, &self.meant, |desired| desired.saturating_add(count)).await
    }
}

#[async_trait]
impl Command for Scale {
    const NAME: [&'static str; 2] = ["workers", "scale"];
    const ACCESS: Access = Access::Operate;
    const VERB: Verb = Verb::Post;
    const PATH: &'static str = "/workers/scale";
    const WAIT: Option<Wait> = Some(UNTIL_SETTLED);
    type Answer = LaunchedWorkers;

    async fn run(self, admin: &Admin) -> Result<LaunchedWorkers, Refusal> {
        let count = self.meant.count;
        change(admin, &self.meant, |_| count).await
    }
}

const UNTIL_SETTLED: Wait = Wait {
    flag: "settle",
    help: "Return when they are there, or gone",
    ask: ["workers", "list"],
    arguments: |_| Map::new(),
    is_over: are_settled,
    progress: |_| Vec::new(),
    answers: true,
};

/// True once there are as many workers as there are to be, of the hardware that was changed.
fn are_settled(changed: &Value, now: &Value) -> bool {
    let groups = |answer: &Value| answer["groups"].as_array().cloned().unwrap_or_default();
    let changed = groups(changed);
    let is_meant = |group: &Value| changed.iter().any(|other| other["hardware"] == group["hardware"]);
    let mut meant = groups(now).into_iter().filter(is_meant);
    meant.all(|group| group["settled"] == true)
}

async fn change(
    admin: &Admin,
    meant: &ScaleRequest,
    to: impl Fn(u32) -> u32,
) -> Result<LaunchedWorkers, Refusal> {
    if admin.loaded.config.autoscaler.enabled {
        return Err(Refusal::Conflict(
            "the autoscaler decides the number of workers (autoscaler.enabled); change its floor and cap instead"
                .to_owned(),
        ));
    }
    let launcher = launcher_of(admin).await?;
    let meant = meant.hardware(admin, &*launcher).await?;
    let nodes = admin.store.nodes().await?;
    for hardware in &meant {
        // Reading and setting are two requests; with the autoscaler off only another operator could come
        // between them.
        let workers = launcher.workers(*hardware).await?;
        // Idle workers are named, so that a smaller number stops those first.
        let (_, idle) = idle_workers(&nodes, *hardware, &workers);
        launcher
            .set_desired(*hardware, to(workers.desired), &idle)
            .await?;
    }
    LaunchedWorkers::of(admin, &*launcher, &meant).await
}

impl ScaleRequest {
    async fn hardware(&self, admin: &Admin, launcher: &dyn Launcher) -> Result<BTreeSet<Hardware>, Refusal> {
        let mut meant = launcher.hardware();
        if let Some(hardware) = self.hardware.map(Hardware::from) {
            // Not intersected with what the launcher serves, so that its own error says what is missing in
            // the configuration.
            meant = BTreeSet::from([hardware]);
        }
        if let Some(key) = &self.job {
            let job = find(admin, key).await?;
            // Stopping workers of a job that is over is a reasonable request; starting some is not.
            if job.status.is_final() && self.count > 0 {
                return Err(Refusal::Conflict(format!(
                    "job {key} is over: {}",
                    job.status.as_str()
                )));
            }
            let needed: BTreeSet<Hardware> = job
                .pipeline
                .stages()
                .iter()
                .filter_map(|stage| admin.stages.hardware_of(stage))
                .collect();
            meant.retain(|hardware| needed.contains(hardware));
        }
        if let Some(wanted) = &self.instance_type {
            let is_wanted = |hardware: &Hardware| {
                section(&admin.loaded, *hardware).instance_type.as_ref() == Some(wanted)
            };
            meant.retain(is_wanted);
        }
        if meant.is_empty() {
            return Err(Refusal::Invalid(self.nobody()));
        }
        Ok(meant)
    }

    fn nobody(&self) -> String {
        match &self.instance_type {
            Some(wanted) => format!(
                "no selected workers are on machines of type {wanted}; the types are those of \
                launcher.gpu.instance_type and launcher.cpu.instance_type"
            ),
            None => "no workers match the selection".to_owned(),
        }
    }
}
