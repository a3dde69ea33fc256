//! The roles cpu and gpu: pools of stages that an orchestrator in another process assigns work to.

use std::collections::HashMap;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Result, bail};
use chrono::Utc;
use parkhang_actors::cluster::{NodeName, RemoteOrchestrator, UplinkConfig};
use parkhang_actors::stage::StageRegistry;
use parkhang_actors::supervisor::{ControlPlane, HealthPolicy, NodeConfig, NodeSupervisor};
use parkhang_actors::telemetry::ProgressBoard;
use parkhang_actors::wire::{NodeAbout, NodePhase};
use parkhang_core::domain::Hardware;
use parkhang_core::policy::pool_health::FaultLimits;
use parkhang_store::storage::StoreDelay;
use tracing::{info, warn};

use super::control::{Faults, WorkerControl};
use super::probes::WorkerProbe;
use super::readiness::ReadinessReporter;
use super::services;
use super::stop::ShutdownSignals;
use crate::config::{Loaded, Role};
use crate::join::{SCOPE, join};
use crate::whoami::host;

/// Exit status of a node that left because it was idle, by which a service manager knows not to start it again.
pub const LEFT_IDLE: u8 = 3;

pub async fn run(loaded: &Loaded, mut readiness: ReadinessReporter) -> Result<ExitCode> {
    let mut stop = ShutdownSignals::listen()?;
    let node = readiness.node.clone();
    let delay = StoreDelay::default();
    let registry = Arc::new(services::stages(loaded, &delay).await?);
    let (manifests, keep) = (services::manifests(loaded)?, loaded.config.node.keep_manifests);
    let cluster = join(loaded, &node, false).await?;
    let roles = super::roles(loaded);
    let orchestrator = RemoteOrchestrator::start(UplinkConfig {
        about: NodeAbout {
            roles: roles.split(',').map(str::to_owned).collect(),
            tags: loaded.config.node.tags.clone(),
            host: host(),
            started_at: Some(Utc::now().timestamp_micros()),
            health: readiness.window.address().map(|address| address.to_string()),
            ..NodeAbout::default()
        },
        engines: registry.engines().to_vec(),
        heartbeat: loaded.config.cluster.heartbeat,
        call_timeout: loaded.config.cluster.call_timeout,
        ..UplinkConfig::new(node.clone(), SCOPE)
    })
    .await?;
    let supervisor = supervise(loaded, &node, registry, Arc::new(orchestrator.clone())).await?;
    // Commands are accepted only once there is a supervisor that can carry them out.
    orchestrator.open_control(Arc::new(WorkerControl {
        supervisor: supervisor.clone(),
        orchestrator: orchestrator.clone(),
        faults: Faults::new(loaded, Some(cluster.partition()), delay),
        manifests: manifests.clone(),
    }));
    readiness.window.probe(Arc::new(WorkerProbe {
        roles: roles.clone(),
        orchestrator: orchestrator.clone(),
        stages: supervisor.out_of_order(),
    }));
    readiness.ready(&roles)?;

    let ends = tokio::select! {
        () = stop.next() => ExitCode::SUCCESS,
        () = nothing_to_do(loaded, &supervisor) => ExitCode::from(LEFT_IDLE),
        () = cluster.ended() => bail!("the cluster transport ended"),
        () = orchestrator.ended() => bail!("the link to the orchestrator ended"),
        () = supervisor.ended() => bail!("the stages keep failing; the node ends"),
        never = services::remove_old_manifests(&manifests, keep) => match never {},
    };
    readiness.stopping();
    // Before the stages are stopped, so that the leader offers nothing to slots that become free by it.
    orchestrator.announce(NodePhase::Draining).await;
    // A standby takes over within this time, if there is one; before that a missing leader does not mean that work cannot be released.
    let absence = orchestrator.absent(loaded.config.cluster.call_timeout);
    wind_down(loaded, supervisor, std::future::ready(()), absence, &mut stop).await;
    // The leader then knows that this end is meant, and does not wait for the node to return.
    orchestrator.announce(NodePhase::Leaving).await;
    orchestrator.stop().await;
    cluster.leave().await;
    Ok(ends)
}

/// Starts the pools of the node's stages, which get their work from `control_plane`.
///
/// # Errors
///
/// If a pool cannot start.
pub async fn supervise(
    loaded: &Loaded,
    node: &NodeName,
    registry: Arc<StageRegistry>,
    control_plane: Arc<dyn ControlPlane>,
) -> Result<NodeSupervisor> {
    let supervisor = NodeSupervisor::start(NodeConfig {
        name: node.to_string(),
        slots: slots(loaded),
        registry,
        progress: Arc::new(ProgressBoard::default()),
        control_plane,
        heartbeat: loaded.config.cluster.heartbeat,
        health: health(loaded),
    });
    Ok(supervisor.await?)
}

/// Waits until the node has been idle for `node.idle_exit`; for ever if that is zero.
pub async fn nothing_to_do(loaded: &Loaded, supervisor: &NodeSupervisor) {
    let idle_exit = loaded.config.node.idle_exit;
    if idle_exit.is_zero() {
        return std::future::pending().await;
    }
    supervisor.idle_for(idle_exit).await;
    info!(?idle_exit, "idle; the node leaves");
}

/// Stops a node's stages at their next checkpoints and releases their leases, while `meanwhile` runs to its end. It gives up waiting when
/// the time to drain is over, on a second signal, or when all is checkpointed and `absence` finds that no leader is there to
/// release the leases to; they expire then.
pub async fn wind_down(
    loaded: &Loaded,
    supervisor: NodeSupervisor,
    meanwhile: impl Future<Output = ()>,
    absence: impl Future<Output = ()>,
    stop: &mut ShutdownSignals,
) {
    let deadline = loaded.config.node.drain_deadline;
    info!(?deadline, "stopping at the next checkpoints");
    let leader_gone = async {
        supervisor.checkpoint().await;
        absence.await;
    };
    tokio::select! {
        // When work and time end together, the work counts: without the command a clean drain could be reported as one that failed.
        biased;
        _ = async { tokio::join!(supervisor.drain(), meanwhile) } => info!("all work is released"),
        // Only after the checkpoints: work must be saved whether or not a leader is there.
        () = leader_gone => warn!("leases are left to expire: no leader is connected to release them to"),
        () = tokio::time::sleep(deadline) => warn!("leases are left to expire: the time to drain is over"),
        () = stop.next() => warn!("leases are left to expire: stopped at once"),
    }
    supervisor.stop().await;
}

/// Limits by which the node takes its stages for stuck.
pub fn health(loaded: &Loaded) -> HealthPolicy {
    let health = &loaded.config.health;
    HealthPolicy {
        progress_window: health.progress_window,
        faults: FaultLimits {
            stalls: health.max_stalls,
            renewals: health.max_renewals,
            ..HealthPolicy::default().faults
        },
        check_limit: HealthPolicy::CHECK_LIMIT,
        max_restarts: health.max_restarts,
        restart_window: health.restart_window,
        restart_backoff: health.restart_backoff,
    }
}

/// Slots of the node, by hardware.
pub fn slots(loaded: &Loaded) -> HashMap<Hardware, usize> {
    let node = &loaded.config.node;
    let of_role = |role: &Role| match role {
        Role::Cpu => Some((Hardware::Cpu, node.slots.cpu)),
        Role::Gpu => Some((Hardware::Gpu, node.slots.gpu)),
        Role::Orchestrator | Role::Autoscaler | Role::Entity => None,
    };
    node.roles.iter().filter_map(of_role).collect()
}
