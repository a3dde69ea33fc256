//! Checks of the sections about starting and stopping workers.

use std::time::Duration;

use super::super::scaling::{Bounds, LauncherKind};
use super::super::sections::ClusterConfig;
use super::super::values::Role;
use super::Findings;

pub(super) fn launcher(config: &ClusterConfig, findings: &mut Findings) {
    let launcher = &config.launcher;
    let groups = [
        ("launcher.gpu.group", &launcher.gpu.group),
        ("launcher.cpu.group", &launcher.cpu.group),
    ];
    if launcher.kind.is_aws() {
        findings.require_beside(
            groups.iter().any(|(_, group)| group.is_some()),
            "launcher.gpu.group",
            &["launcher.kind"],
            "this or launcher.cpu.group is required: the ECS service or auto scaling group whose workers are launched",
        );
    }
    for (key, group) in groups {
        findings.require(
            group.is_none() || launcher.kind.is_aws(),
            key,
            "has no effect unless launcher.kind is \"ecs\" or \"asg\"",
        );
    }
    findings.require(
        launcher.ecs_cluster.is_none() || launcher.kind == LauncherKind::Ecs,
        "launcher.ecs_cluster",
        "has no effect unless launcher.kind is \"ecs\"",
    );
    findings.require(
        launcher
            .endpoint
            .as_ref()
            .is_none_or(|url| url.starts_with("http://") || url.starts_with("https://")),
        "launcher.endpoint",
        "must begin with http:// or https://",
    );
    findings.require(
        launcher.local_limit > 0,
        "launcher.local_limit",
        "must be 1 or more",
    );
    findings.require(launcher.ecs_limit > 0, "launcher.ecs_limit", "must be 1 or more");
    findings.require(
        launcher.interval >= Duration::from_millis(100),
        "launcher.interval",
        "must be 100ms or more",
    );
}

pub(super) fn autoscaler(config: &ClusterConfig, findings: &mut Findings) {
    let (autoscaler, source) = (&config.autoscaler, config.source.kind.properties());
    findings.require_beside(
        !autoscaler.enabled || config.launcher.kind != LauncherKind::None,
        "autoscaler.enabled",
        &["launcher.kind"],
        "requires a launcher: set launcher.kind",
    );
    findings.require_beside(
        !autoscaler.enabled || source.is_in_database,
        "autoscaler.enabled",
        &["source.kind"],
        "cannot count the work of shards, which is in no database",
    );
    let is_apart = config.node.roles.contains(&Role::Autoscaler);
    findings.require(
        !is_apart || config.node.roles.len() == 1,
        "node.roles",
        "a node with the role autoscaler has no other",
    );
    findings.require_beside(
        !is_apart || (autoscaler.enabled && source.is_published),
        "node.roles",
        &["autoscaler.enabled", "source.kind"],
        "the role autoscaler goes by queues: it needs autoscaler.enabled, and source.kind = \"sqs\"",
    );
    findings.require(
        autoscaler.tasks_per_slot > 0,
        "autoscaler.tasks_per_slot",
        "must be 1 or more",
    );
    findings.require(
        autoscaler.max_age >= Duration::from_secs(1),
        "autoscaler.max_age",
        "must be a second or more",
    );
    let mut within = |cap, floor: &'static [&'static str], bounds: &Bounds| {
        let message = format!("must not be less than {}", floor.join(""));
        findings.require_beside(bounds.floor <= bounds.cap, cap, floor, message);
    };
    within("autoscaler.gpu.cap", &["autoscaler.gpu.floor"], &autoscaler.gpu);
    within("autoscaler.cpu.cap", &["autoscaler.cpu.floor"], &autoscaler.cpu);
}
