//! Faults that operators make on purpose, where the configuration allows it.

use async_trait::async_trait;
use chrono::Utc;
use clap::Args;
use parkhang_core::domain::{JobKey, NodeOrder, VolumeId};
use parkhang_core::policy::transition::Event;
use parkhang_state::{Change, Expected, StateStore};
use serde::Serialize;
use utoipa::ToSchema;

use super::command::{Access, Answer, Command, Verb};
use super::orders::{Obeyed, give};
use super::{Admin, Refusal, find_task};

/// Longest time of a fault that lasts, in seconds.
const LONGEST: u64 = 600;

fn allowed(admin: &Admin) -> Result<(), Refusal> {
    if admin.loaded.config.chaos.allowed {
        return Ok(());
    }
    Err(Refusal::Conflict(
        "faults are not made here: chaos.allowed is false in the configuration".to_owned(),
    ))
}

/// End an actor of a node without a word, as a fault would.
#[derive(Debug, Args)]
pub struct Kill {
    /// Name of its node, or as much of it as tells it apart.
    #[arg(value_name = "NODE")]
    node: String,
    /// Its name in the tree, such as ocr or ocr/press/W1-I1; the supervisor takes its process along.
    #[arg(value_name = "ACTOR")]
    actor: String,
}

#[async_trait]
impl Command for Kill {
    const NAME: [&'static str; 2] = ["chaos", "kill"];
    const ACCESS: Access = Access::Admin;
    const VERB: Verb = Verb::Post;
    const PATH: &'static str = "/chaos/kill";
    type Answer = Obeyed;

    async fn run(self, admin: &Admin) -> Result<Obeyed, Refusal> {
        allowed(admin)?;
        give(admin, &self.node, NodeOrder::Kill { actor: self.actor }).await
    }
}

/// Cut a node off from the orchestrators for a time.
#[derive(Debug, Args)]
pub struct DropLink {
    /// Its name, or as much of it as tells it apart.
    #[arg(value_name = "NODE")]
    node: String,
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=LONGEST))]
    seconds: u64,
}

#[async_trait]
impl Command for DropLink {
    const NAME: [&'static str; 2] = ["chaos", "drop-link"];
    const ACCESS: Access = Access::Admin;
    const VERB: Verb = Verb::Post;
    const PATH: &'static str = "/chaos/drop-link";
    type Answer = Obeyed;

    async fn run(self, admin: &Admin) -> Result<Obeyed, Refusal> {
        allowed(admin)?;
        let order = NodeOrder::DropLink {
            seconds: self.seconds,
        };
        give(admin, &self.node, order).await
    }
}

/// Let every request of a node to its artifact store take longer for a time.
#[derive(Debug, Args)]
pub struct SlowStore {
    /// Its name, or as much of it as tells it apart.
    #[arg(value_name = "NODE")]
    node: String,
    /// Milliseconds that each request waits.
    #[arg(long, value_name = "MS", default_value_t = 500, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    delay_ms: u64,
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=LONGEST))]
    seconds: u64,
}

#[async_trait]
impl Command for SlowStore {
    const NAME: [&'static str; 2] = ["chaos", "slow-store"];
    const ACCESS: Access = Access::Admin;
    const VERB: Verb = Verb::Post;
    const PATH: &'static str = "/chaos/slow-store";
    type Answer = Obeyed;

    async fn run(self, admin: &Admin) -> Result<Obeyed, Refusal> {
        allowed(admin)?;
        let order = NodeOrder::SlowStore {
            delay_ms: self.delay_ms,
            seconds: self.seconds,
        };
        give(admin, &self.node, order).await
    }
}

/// End the lease of a volume as though it had run out; who works on it hears of that with its next heartbeat.
#[derive(Debug, Args)]
pub struct LoseLease {
    #[arg(value_name = "NAME")]
    job: JobKey,
    #[arg(value_name = "VOLUME")]
    volume: VolumeId,
}

/// A lease that was ended.
#[derive(Debug, Serialize, ToSchema)]
pub struct LostLease {
    job: String,
    volume: String,
    stage: String,
    /// Who held it.
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
        let no_lease = || Refusal::Conflict(format!("nobody holds a lease of {}", self.volume));
        let fence = task.fence().ok_or_else(no_lease)?;
        let lease = task.lease.ok_or_else(no_lease)?;
        let stage = fence.stage.to_string();
        let change = Change::new(Expected::Lease(fence), Event::Interrupted);
        let outcomes = admin.store.commit(&[change], Utc::now()).await?;
        // It may have ended by itself meanwhile.
        let lost = outcomes.into_iter().find_map(|outcome| outcome.applied());
        lost.ok_or_else(no_lease)?;
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
