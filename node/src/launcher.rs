//! Construction of the launcher and the autoscaler from the configuration. The leading orchestrator and the commands both use it, so
//! that they act on the same workers.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use chrono::TimeDelta;
use parkhang_actors::launcher::{
    AsgLauncher, AutoscalerConfig, AwsOptions, EcsLauncher, Launcher, LocalLauncher, LocalOptions,
    WorkerCommand,
};
use parkhang_actors::stage::StageTable;
use parkhang_core::domain::Hardware;
use parkhang_core::policy::autoscale::Limits;

use crate::config::{Bounds, Launched, LauncherKind, Loaded};

/// Time for a process of this machine to end in, besides the time to drain.
pub const GRACE: Duration = Duration::from_secs(8);

/// Opens the launcher of this cluster, if it has one.
///
/// # Errors
///
/// If its configuration is not complete or AWS refuses the credentials.
pub async fn launcher(loaded: &Loaded) -> Result<Option<Arc<dyn Launcher>>> {
    let section = &loaded.config.launcher;
    Ok(Some(match section.kind {
        LauncherKind::None => return Ok(None),
        LauncherKind::Local => Arc::new(LocalLauncher::new(LocalOptions {
            folder: loaded.state_dir()?.join("workers"),
            limit: section.local_limit,
            timeout: loaded.config.node.drain_deadline + GRACE,
            command: worker_command(loaded)?,
        })),
        LauncherKind::Ecs => {
            let cluster = section.ecs_cluster.clone();
            Arc::new(EcsLauncher::open(aws(loaded), cluster, section.ecs_limit).await?)
        }
        LauncherKind::Asg => Arc::new(AsgLauncher::open(aws(loaded)).await?),
    }))
}

/// Returns the section about workers with this hardware.
pub fn section(loaded: &Loaded, hardware: Hardware) -> &Launched {
    let launcher = &loaded.config.launcher;
    match hardware {
        Hardware::Gpu => &launcher.gpu,
        Hardware::Cpu => &launcher.cpu,
    }
}

fn aws(loaded: &Loaded) -> AwsOptions {
    let launcher = &loaded.config.launcher;
    let named = |hardware| Some((hardware, section(loaded, hardware).group.clone()?));
    AwsOptions {
        endpoint: launcher.endpoint.clone(),
        region: launcher.region.clone(),
        names: Hardware::ALL.into_iter().filter_map(named).collect(),
    }
}

/// Returns the command that starts this program with this configuration as a node with one role. Environment variables are inherited.
fn worker_command(loaded: &Loaded) -> Result<Arc<WorkerCommand>> {
    let program = std::env::current_exe().context("where this program is")?;
    // Absolute, so that the file is found whatever the working directory of a worker is.
    let file = loaded.file().map(std::path::absolute).transpose()?;
    let profile = loaded.profile().map(str::to_owned);
    let mut settings = loaded.flags();
    if loaded.config.health.listen.is_some() {
        // The configured port is used by the orchestrator on this machine, so each worker takes a free one.
        settings.push("health.listen=127.0.0.1:0".to_owned());
    }
    Ok(Arc::new(move |hardware, name| {
        let mut command = Command::new(&program);
        if let Some(file) = &file {
            command.arg("--config-file").arg(file);
        }
        if let Some(profile) = &profile {
            command.arg("--config-profile").arg(profile);
        }
        let own = [
            format!("node.name={name}"),
            format!("node.roles={}", hardware.as_str()),
        ];
        // The worker's own settings come last and so win over flags of the orchestrator.
        for setting in settings.iter().chain(&own) {
            command.arg("--set").arg(setting);
        }
        command
    }))
}

/// Returns the configuration of the autoscaler, if it is on.
pub fn autoscaler(loaded: &Loaded) -> Option<AutoscalerConfig> {
    let config = &loaded.config;
    let launched =
        // Local workers need no group; on AWS hardware without one cannot be started.
        |hardware: &Hardware| !config.launcher.kind.is_aws() || section(loaded, *hardware).group.is_some();
    let slots = |slots: usize| u32::try_from(slots).unwrap_or(u32::MAX);
    config.autoscaler.enabled.then(|| AutoscalerConfig {
        limits: limits(loaded)
            .into_iter()
            .filter(|(hardware, _)| launched(hardware))
            .collect(),
        slots: BTreeMap::from([
            (Hardware::Gpu, slots(config.node.slots.gpu)),
            (Hardware::Cpu, slots(config.node.slots.cpu)),
        ]),
        stages: StageTable::built_in(),
    })
}

/// Returns the limits that the autoscaler has or would have.
pub fn limits(loaded: &Loaded) -> BTreeMap<Hardware, Limits> {
    let autoscaler = &loaded.config.autoscaler;
    let span = |duration| TimeDelta::from_std(duration).unwrap_or(TimeDelta::MAX);
    let limits = |bounds: &Bounds| Limits {
        floor: bounds.floor,
        cap: bounds.cap,
        tasks_per_slot: autoscaler.tasks_per_slot,
        max_age: span(autoscaler.max_age),
        scale_out_cooldown: span(autoscaler.scale_out_cooldown),
        scale_in_cooldown: span(autoscaler.scale_in_cooldown),
    };
    BTreeMap::from([
        (Hardware::Gpu, limits(&autoscaler.gpu)),
        (Hardware::Cpu, limits(&autoscaler.cpu)),
    ])
}
