use std::collections::BTreeSet;

use async_trait::async_trait;
use clap::{Args, ValueEnum};
use parkhang_actors::launcher::{Launcher, idle_workers, settled};
use parkhang_core::domain::{Hardware, JobKey};
use parkhang_state::StateStore;

use super::group::LaunchedWorkers;
use super::launcher_of;
use crate::admin::command::{Access, Command, Verb};
use crate::admin::jobs::find;
use crate::admin::{Admin, Refusal};
use crate::launcher::section;

/// Start more workers: so many of each hardware that is meant, beside those there are. They work for all jobs.
#[derive(Debug, Args)]
pub struct Launch {
    #[command(flatten)]
    meant: Meant,
    /// Return when they are there, which does not say that they have joined.
    #[arg(long)]
    settle: bool,
}

/// Say how many workers there are to be, of each hardware that is meant. Those that are to go hand back their work first.
#[derive(Debug, Args)]
pub struct Scale {
    #[command(flatten)]
    meant: Meant,
    /// Return when they are there, or gone.
    #[arg(long)]
    settle: bool,
}

// How many workers, and which. A doc comment would become the help of the commands.
#[derive(Debug, Args)]
struct Meant {
    /// Workers of each hardware that is meant.
    #[arg(long, value_name = "N")]
    count: u32,
    /// Only hardware that the stages of this job need.
    #[arg(long, value_name = "NAME")]
    job: Option<JobKey>,
    /// Only workers with this hardware.
    #[arg(long, value_enum)]
    hardware: Option<WorkerHardware>,
    /// Only workers on machines of this type, as launcher.gpu.instance_type and launcher.cpu.instance_type name them.
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
    const LOCAL: &'static [&'static str] = &["settle"];
    type Answer = LaunchedWorkers;

    async fn run(self, admin: &Admin) -> Result<LaunchedWorkers, Refusal> {
        let count = self.meant.count;
        change(admin, &self.meant, self.settle, |desired| {
            desired.saturating_add(count)
        })
        .await
    }
}

#[async_trait]
impl Command for Scale {
    const NAME: [&'static str; 2] = ["workers", "scale"];
    const ACCESS: Access = Access::Operate;
    const VERB: Verb = Verb::Post;
    const PATH: &'static str = "/workers/scale";
    const LOCAL: &'static [&'static str] = &["settle"];
    type Answer = LaunchedWorkers;

    async fn run(self, admin: &Admin) -> Result<LaunchedWorkers, Refusal> {
        let count = self.meant.count;
        change(admin, &self.meant, self.settle, |_| count).await
    }
}

async fn change(
    admin: &Admin,
    meant: &Meant,
    settle: bool,
    to: impl Fn(u32) -> u32,
) -> Result<LaunchedWorkers, Refusal> {
    if admin.loaded.config.autoscaler.enabled {
        return Err(Refusal::Conflict(
            "the autoscaler says how many workers there are (autoscaler.enabled); its floor and cap bound it"
                .to_owned(),
        ));
    }
    let launcher = launcher_of(admin).await?;
    let meant = meant.hardware(admin, &*launcher).await?;
    let nodes = admin.store.nodes().await?;
    for hardware in &meant {
        let workers = launcher.workers(*hardware).await?;
        let (_, idle) = idle_workers(&nodes, *hardware, &workers);
        launcher
            .set_desired(*hardware, to(workers.desired), &idle)
            .await?;
    }
    if settle {
        for hardware in &meant {
            settled(&*launcher, *hardware).await?;
        }
    }
    LaunchedWorkers::of(admin, &*launcher, &meant).await
}

impl Meant {
    async fn hardware(&self, admin: &Admin, launcher: &dyn Launcher) -> Result<BTreeSet<Hardware>, Refusal> {
        let mut meant = launcher.hardware();
        if let Some(hardware) = self.hardware.map(Hardware::from) {
            meant = BTreeSet::from([hardware]);
        }
        if let Some(key) = &self.job {
            let job = find(admin, key).await?;
            if job.status.is_final() && self.count > 0 {
                return Err(Refusal::Conflict(format!(
                    "job {key} is over: {}",
                    job.status.as_str()
                )));
            }
            let stages = job.pipeline.stages().iter();
            let needed = stages.filter_map(|stage| admin.stages.hardware_of(stage));
            let needed: BTreeSet<Hardware> = needed.collect();
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
                "no workers that fit are on machines of type {wanted}: launcher.gpu.instance_type and \
                 launcher.cpu.instance_type name what there is"
            ),
            None => "there are no workers that fit".to_owned(),
        }
    }
}
