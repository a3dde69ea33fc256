//! Commands that inject faults, where the configuration allows it.

use async_trait::async_trait;
use chrono::Utc;
use clap::Args;
use parkhang_core::domain::{JobKey, NodeCommand, VolumeId};
use parkhang_core::policy::transition::Event;
use parkhang_state::{Change, Expected, StateStore};
use serde::Serialize;
use utoipa::ToSchema;

use super::command::{Access, Answer, Command, Verb};
use super::orders::{Executed, give};
use super::{Admin, Refusal, find_task};

/// Longest duration of a fault, in seconds.
const LONGEST: u64 = 600;

fn allowed(admin: &Admin) -> Result<(), Refusal> {
    if admin.loaded.config.chaos.allowed {
        return Ok(());
    }
    Err(Refusal::Conflict(
        "faults are not injected here: chaos.allowed is false in the configuration".to_owned(),
    ))
}

/// Kill an actor of a node, without any notice to the others.
///
/// Its supervision must notice and replace it, as after a real fault. Leases of killed workers end without charging a try.
#[derive(Debug, Args)]
pub struct Kill {
    /// Node of the actor: its name, or a unique prefix of it.
    #[arg(value_name = "NODE")]
    node: String,
    /// Name of the actor in the tree, such as ocr or ocr/press/W1-I1; killing the supervisor ends the node's process.
    #[arg(value_name = "ACTOR")]
    actor: String,
}

#[async_trait]
impl Command for Kill {
    const NAME: [&'static str; 2] = ["chaos", "kill"];
    const ACCESS: Access = Access::Admin;
    const VERB: Verb = Verb::Post;
    const PATH: &'static str = "/chaos/kill";
    type Answer = Executed;

    async fn run(self, admin: &Admin) -> Result<Executed, Refusal> {
        // Checked here and again on the node, since each has a configuration of its own.
        allowed(admin)?;
        give(admin, &self.node, NodeCommand::Kill { actor: self.actor }).await
    }
}

/// Cut a node off from the orchestrators for a time.
///
/// Its stages continue. If it is not back within the grace of the orchestrator, its leases are ended and other nodes take over.
#[derive(Debug, Args)]
pub struct DropLink {
    /// Name of the node, or a unique prefix of it.
    #[arg(value_name = "NODE")]
    node: String,
    /// Duration, in seconds.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=LONGEST))]
    seconds: u64,
}

#[async_trait]
impl Command for DropLink {
    const NAME: [&'static str; 2] = ["chaos", "drop-link"];
    const ACCESS: Access = Access::Admin;
    const VERB: Verb = Verb::Post;
    const PATH: &'static str = "/chaos/drop-link";
    type Answer = Executed;

    async fn run(self, admin: &Admin) -> Result<Executed, Refusal> {
        allowed(admin)?;
        let order = NodeCommand::DropLink {
            seconds: self.seconds,
        };
        give(admin, &self.node, order).await
    }
}

/// Delay every request of a node to its artifact store for a time.
///
/// Requests wait before they are sent and are otherwise unchanged.
#[derive(Debug, Args)]
pub struct SlowStore {
    /// Name of the node, or a unique prefix of it.
    #[arg(value_name = "NODE")]
    node: String,
    /// Delay of each request, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 500, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    delay_ms: u64,
    /// Duration, in seconds.
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=LONGEST))]
    seconds: u64,
}

#[async_trait]
impl Command for SlowStore {
    const NAME: [&'static str; 2] = ["chaos", "slow-store"];
    const ACCESS: Access = Access::Admin;
    const VERB: Verb = Verb::Post;
    const PATH: &'static str = "/chaos/slow-store";
    type Answer = Executed;

    async fn run(self, admin: &Admin) -> Result<Executed, Refusal> {
        allowed(admin)?;
        let order = NodeCommand::SlowStore {
            delay_ms: self.delay_ms,
            seconds: self.seconds,
        };
        give(admin, &self.node, order).await
    }
}

/// End the lease of a volume as if it had expired. The worker that held it learns of this with its next heartbeat.
#[derive(Debug, Args)]
pub struct LoseLease {
    /// Name of the job.
    #[arg(value_name = "NAME")]
    job: JobKey,
    /// Volume, as W-I.
    #[arg(value_name = "VOLUME")]
    volume: VolumeId,
}

/// Lease that was ended.
#[derive(Debug, Serialize, ToSchema)]
pub struct LostLease {
    job: String,
    volume: String,
    stage: String,
    /// Worker that held it.
    worker: String,
}

#[async_trait]
impl Command for LoseLease {
    const NAME: [&'static str; 2] = ["chaos", "lose-lease"];
    const ACCESS: Access = Access::Admin;
    const VERB: Verb = Verb::Post;
    const PATH: &'static str = "/chaos/lose-lease";
    type Answer = LostLease;

    async fn run(self, admin: &Admin) -> Result<LostLease, Refusal> {
        allowed(admin)?;
        let (job, task) = find_task(admin, &self.job, &self.volume).await?;
        let no_lease = || Refusal::Conflict(format!("no worker holds a lease on {}", self.volume));
        // The change names the lease that was read, so that a lease that followed it is not ended by mistake.
        let fence = task.fence().ok_or_else(no_lease)?;
        let lease = task.lease.ok_or_else(no_lease)?;
        let stage = fence.stage.to_string();
        let change = Change::new(Expected::Lease(fence), Event::Interrupted);
        let outcomes = admin.store.commit(&[change], Utc::now()).await?;
        // The lease may have ended by itself since the task was read; nothing was applied then.
        outcomes
            .into_iter()
            .find_map(|outcome| outcome.applied())
            .ok_or_else(no_lease)?;
        Ok(LostLease {
            job: job.key.to_string(),
            volume: self.volume.to_string(),
            stage,
            worker: lease.worker.to_string(),
        })
    }
}

impl Answer for LostLease {
    fn text(&self) -> String {
        format!(
            "{} has lost its lease of {} at {}",
            self.worker, self.volume, self.stage
        )
    }
}
