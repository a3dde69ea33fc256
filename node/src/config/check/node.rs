//! Checks of the sections about this process.

use std::num::NonZeroUsize;

use parkhang_actors::stage::StageTable;
use tracing_subscriber::EnvFilter;

use super::super::scaling::LauncherKind;
use super::super::sections::ClusterConfig;
use super::super::values::Role;
use super::Findings;
use crate::networks::parse_device;
use crate::traces::Collector;

/// Largest number of tags of a node; every list of nodes shows them.
const MAX_TAGS: usize = 16;

pub(super) fn node(config: &ClusterConfig, findings: &mut Findings) {
    let node = &config.node;
    findings.require(
        !node.roles.is_empty(),
        "node.roles",
        "a node needs a role: orchestrator, cpu, gpu, autoscaler or entity",
    );
    findings.require(
        node.tags.len() <= MAX_TAGS && node.tags.iter().all(|tag| is_tag(tag)),
        "node.tags",
        format!("must be at most {MAX_TAGS} words of up to 64 letters, digits and ._:/=-"),
    );
    findings.require_beside(
        node.idle_exit.is_zero() || config.launcher.kind == LauncherKind::None,
        "node.idle_exit",
        &["launcher.kind"],
        "has no use with a launcher, which replaces workers that leave by themselves; its autoscaler stops idle ones",
    );
    let has_slots = |role, slots| !node.roles.contains(&role) || slots > 0;
    findings.require_beside(
        has_slots(Role::Cpu, node.slots.cpu),
        "node.slots.cpu",
        &["node.roles"],
        "a node with the role cpu needs a slot",
    );
    findings.require_beside(
        has_slots(Role::Gpu, node.slots.gpu),
        "node.slots.gpu",
        &["node.roles"],
        "a node with the role gpu needs a slot",
    );
    let table = StageTable::built_in();
    for stage in &node.stages {
        match table.named(stage.as_str()).map(|row| Role::of(row.hardware)) {
            Ok(role) => findings.require_beside(
                node.roles.contains(&role),
                "node.stages",
                &["node.roles"],
                format!("stage {stage} needs the role {}", role.as_str()),
            ),
            Err(unknown) => findings.require(false, "node.stages", unknown.to_string()),
        }
    }
    if let Err(error) = parse_device(&node.device, NonZeroUsize::MIN) {
        findings.require(false, "node.device", format!("{error:#}"));
    }
    if let Err(error) = EnvFilter::try_new(&config.telemetry.log) {
        findings.require(false, "telemetry.log", error.to_string());
    }
    if let Some(endpoint) = &config.telemetry.otlp_endpoint
        && let Err(error) = Collector::authority(endpoint)
    {
        findings.require(false, "telemetry.otlp_endpoint", error.to_string());
    }
    let frame = config.cluster.max_frame.as_u64();
    findings.require(
        (64 << 10..=64 << 20).contains(&frame),
        "cluster.max_frame",
        "must be 64KiB to 64MiB",
    );
    findings.require(
        config.orchestrator.max_interruptions > 0,
        "orchestrator.max_interruptions",
        "must be 1 or more",
    );
}

fn is_tag(tag: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"._:/=-".contains(&byte);
    (1..=64).contains(&tag.len()) && tag.bytes().all(legal)
}
