//! `queue`: the queues that tell nodes of work, where `source.kind` is "sqs".

use std::sync::Arc;

use async_trait::async_trait;
use chrono::TimeDelta;
use clap::Args;
use parkhang_actors::source::count_dead_letters;
use parkhang_actors::stage::{StageDefinition, StageTable};
use parkhang_core::domain::StageName;
use parkhang_queue::{Counts, QueueError, QueueServer, QueueSpec, Redrive as Moved, TaskQueue};
use parkhang_state::{Outbox, StateStore};
use serde::Serialize;
use utoipa::ToSchema;

use super::command::{Access, Answer, Command, Verb};
use super::intakes::{self, IntakeSettings, Missing};
use super::text::table;
use super::{Admin, Refusal};
use crate::config::SourceKind;
use crate::queues::queue_of;
use crate::words::pluralize;

fn not_through_queues() -> Refusal {
    Refusal::Conflict("work does not go through queues here: source.kind is not \"sqs\"".to_owned())
}

/// Server of the queues of stages.
async fn servers(admin: &Admin) -> Result<Arc<dyn QueueServer>, Refusal> {
    if admin.loaded.config.source.kind != SourceKind::Sqs {
        return Err(not_through_queues());
    }
    intakes::opened(admin).await
}

/// Stages that have queues.
fn stages() -> Vec<StageName> {
    StageTable::built_in().names()
}

fn stage_named(name: &str) -> Result<StageName, Refusal> {
    let table = StageTable::built_in();
    let stage = table.named(name);
    stage.map(StageDefinition::name)
        .map_err(|unknown| Refusal::NotFound(unknown.to_string()))
}

async fn open(admin: &Admin, stage: &StageName) -> Result<Arc<dyn TaskQueue>, Refusal> {
    let name = queue_of(&admin.loaded.config.source.sqs, stage);
    Ok(servers(admin).await?.open(&name).await?)
}

/// Opens the queues of stages on one connection to their server, and no connection for no stages.
async fn open_all(admin: &Admin, stages: &[StageName]) -> Result<Vec<Arc<dyn TaskQueue>>, Refusal> {
    let mut queues = Vec::new();
    if stages.is_empty() {
        return Ok(queues);
    }
    let server = servers(admin).await?;
    for stage in stages {
        let name = queue_of(&admin.loaded.config.source.sqs, stage);
        queues.push(server.open(&name).await?);
    }
    Ok(queues)
}

/// Settings of the queue of a stage.
#[derive(Debug, Serialize, ToSchema)]
pub struct StageQueueSettings {
    stage: String,
    queue: String,
    /// Time in seconds for which a message is invisible to others where a receive does not say.
    visibility_s: u64,
    /// Time in seconds for which messages are kept.
    retention_s: u64,
    /// Name of the queue for messages that were received too often; absent if there is none.
    dead_letters: Option<String>,
    /// Receives after which a message goes there.
    max_receives: Option<u32>,
}

impl StageQueueSettings {
    async fn of(stage: &StageName, queue: &dyn TaskQueue) -> Result<Self, QueueError> {
        let facts = queue.facts().await?;
        let (dead_letters, max_receives) = facts
            .dead_letters
            .map(|letters| (letters.queue, letters.max_receives))
            .unzip();
        Ok(Self {
            stage: stage.to_string(),
            queue: queue.name().to_owned(),
            visibility_s: facts.visibility.as_secs(),
            retention_s: facts.retention.as_secs(),
            dead_letters,
            max_receives,
        })
    }
}

/// Queues of the stages and of intakes.
#[derive(Debug, Serialize, ToSchema)]
pub struct QueueSettings {
    queues: Vec<StageQueueSettings>,
    /// Queues whose messages ask for volumes of standing jobs.
    intakes: Vec<IntakeSettings>,
}

/// Stages whose queues are shown: none where work goes through no queues, and there are only those of intakes.
fn shown_stages(admin: &Admin, intakes: &[IntakeSettings]) -> Result<Vec<StageName>, Refusal> {
    match (admin.loaded.config.source.kind, intakes) {
        (SourceKind::Sqs, _) => Ok(stages()),
        (_, []) => Err(not_through_queues()),
        (_, [_, ..]) => Ok(Vec::new()),
    }
}

impl Answer for QueueSettings {
    fn text(&self) -> String {
        let rows = self.queues.iter().map(|queue| {
            [
                queue.stage.clone(),
                queue.queue.clone(),
                format!("{} s", queue.visibility_s),
                format!("{} d", queue.retention_s / 86_400),
                queue.dead_letters.clone().unwrap_or_default(),
                queue
                    .max_receives
                    .map(|most| most.to_string())
                    .unwrap_or_default(),
            ]
        });
        let stages = table(
            ["stage", "queue", "visibility", "kept", "dead letters", "receives"],
            rows,
            6,
        );
        match (self.queues.is_empty(), self.intakes.is_empty()) {
            (_, true) => stages,
            (true, false) => intakes::text(&self.intakes),
            (false, false) => format!("{stages}\n\n{}", intakes::text(&self.intakes)),
        }
    }
}

/// Create the queues of all stages and of intakes, and their dead-letter queues. Those that are there are left as they are.
#[derive(Debug, Args)]
pub struct Create {}

#[async_trait]
impl Command for Create {
    const NAME: [&'static str; 2] = ["queue", "create"];
    const ACCESS: Access = Access::Admin;
    const VERB: Verb = Verb::Post;
    const PATH: &'static str = "/queues/create";
    const MAY_BE_FIRST: bool = true;
    type Answer = QueueSettings;

    async fn run(self, admin: &Admin) -> Result<QueueSettings, Refusal> {
        let config = &admin.loaded.config.source.sqs;
        let intakes = intakes::settings(admin, Missing::Create).await?;
        let mut queues = Vec::new();
        let stages = shown_stages(admin, &intakes)?;
        if stages.is_empty() {
            return Ok(QueueSettings { queues, intakes });
        }
        let server = servers(admin).await?;
        for stage in stages {
            let named = queue_of(config, &stage);
            // A URL names a queue that is there, or else nobody could know it.
            let queue = if named.contains("://") {
                server.open(&named).await
            } else {
                let spec = QueueSpec {
                    visibility: config.visibility,
                    ..QueueSpec::new(named)
                };
                server.create(&spec).await
            };
            queues.push(StageQueueSettings::of(&stage, queue?.as_ref()).await?);
        }
        Ok(QueueSettings { queues, intakes })
    }
}

/// List the queues of the stages and of intakes, and their settings.
#[derive(Debug, Args)]
pub struct List {}

#[async_trait]
impl Command for List {
    const NAME: [&'static str; 2] = ["queue", "list"];
    const ACCESS: Access = Access::Read;
    const VERB: Verb = Verb::Get;
    const PATH: &'static str = "/queues";
    type Answer = QueueSettings;

    async fn run(self, admin: &Admin) -> Result<QueueSettings, Refusal> {
        let intakes = intakes::settings(admin, Missing::Refuse).await?;
        let stages = shown_stages(admin, &intakes)?;
        let mut queues = Vec::new();
        for (stage, queue) in stages.iter().zip(open_all(admin, &stages).await?) {
            queues.push(StageQueueSettings::of(stage, queue.as_ref()).await?);
        }
        Ok(QueueSettings { queues, intakes })
    }
}

/// Numbers of messages of the queue of a stage. They are approximate, and zero does not mean that work is finished.
#[derive(Debug, Serialize, ToSchema)]
pub struct StageQueueCounts {
    stage: String,
    queue: String,
    /// Messages that wait.
    visible: u64,
    /// Messages that nodes have received.
    in_flight: u64,
    /// Messages whose delay is not over.
    delayed: u64,
    /// Seconds since the oldest message was published whose task still waits, by the database and not by the queue; absent if there is
    /// none.
    oldest_published_s: Option<u64>,
    /// Messages in the dead-letter queue; absent if there is none.
    dead_letters: Option<u64>,
}

/// Numbers of messages of all queues.
#[derive(Debug, Serialize, ToSchema)]
pub struct QueueCounts {
    queues: Vec<StageQueueCounts>,
}

impl Answer for QueueCounts {
    fn text(&self) -> String {
        let rows = self.queues.iter().map(|queue| {
            [
                queue.stage.clone(),
                queue.queue.clone(),
                queue.visible.to_string(),
                queue.in_flight.to_string(),
                queue.delayed.to_string(),
                queue
                    .oldest_published_s
                    .map_or(String::new(), |age| format!("{age} s")),
                queue
                    .dead_letters
                    .map(|letters| letters.to_string())
                    .unwrap_or_default(),
            ]
        });
        table(
            [
                "stage",
                "queue",
                "visible",
                "in flight",
                "delayed",
                "oldest",
                "dead",
            ],
            rows,
            2,
        )
    }
}

/// Count the messages of the queues, about: visible, in flight, delayed, and dead letters; and tell how long the oldest has waited.
#[derive(Debug, Args)]
pub struct Stats {}

#[async_trait]
impl Command for Stats {
    const NAME: [&'static str; 2] = ["queue", "stats"];
    const ACCESS: Access = Access::Read;
    const VERB: Verb = Verb::Get;
    const PATH: &'static str = "/queues/stats";
    type Answer = QueueCounts;

    async fn run(self, admin: &Admin) -> Result<QueueCounts, Refusal> {
        let stages = stages();
        let oldest = admin.store.oldest(&stages).await?;
        let now = admin.store.now().await?;
        let seconds = |age: TimeDelta| u64::try_from(age.num_seconds()).unwrap_or(0);
        let mut queues = Vec::new();
        for (stage, queue) in stages.iter().zip(open_all(admin, &stages).await?) {
            let Counts {
                visible,
                in_flight,
                delayed,
            } = queue.counts().await?;
            queues.push(StageQueueCounts {
                stage: stage.to_string(),
                queue: queue.name().to_owned(),
                visible,
                in_flight,
                delayed,
                oldest_published_s: oldest.get(stage).map(|oldest| seconds(now - *oldest)),
                dead_letters: count_dead_letters(queue.as_ref()).await?,
            });
        }
        Ok(QueueCounts { queues })
    }
}

/// What became of the messages of a queue.
#[derive(Debug, Serialize, ToSchema)]
pub struct Purged {
    stage: String,
    queue: String,
    /// Tasks that wait for the stage and are published again.
    published_again: u64,
}

impl Answer for Purged {
    fn text(&self) -> String {
        let tasks = pluralize(self.published_again, "task");
        format!(
            "{}: purged; {tasks} of {} published again",
            self.queue, self.stage
        )
    }
}

/// Delete all messages of the queue of a stage. Tasks that wait for the stage are published again, so no work is lost.
#[derive(Debug, Args)]
pub struct Purge {
    /// Stage whose queue is emptied.
    #[arg(value_name = "STAGE")]
    stage: String,
}

#[async_trait]
impl Command for Purge {
    const NAME: [&'static str; 2] = ["queue", "purge"];
    const ACCESS: Access = Access::Admin;
    const VERB: Verb = Verb::Post;
    const PATH: &'static str = "/queues/{stage}/purge";
    type Answer = Purged;

    async fn run(self, admin: &Admin) -> Result<Purged, Refusal> {
        let stage = stage_named(&self.stage)?;
        let queue = open(admin, &stage).await?;
        // By the clock of the database, before the purge: what is published from now on may survive it, and need not be repeated.
        let before = admin.store.now().await?;
        queue.purge().await?;
        let published_again = admin.store.republish(&stage, before).await?;
        Ok(Purged {
            stage: stage.to_string(),
            queue: queue.name().to_owned(),
            published_again,
        })
    }
}

/// What became of dead letters.
#[derive(Debug, Serialize, ToSchema)]
pub struct Redriven {
    stage: String,
    queue: String,
    /// Messages that were moved; absent where the server moves them itself and has only begun.
    moved: Option<u64>,
}

impl Answer for Redriven {
    fn text(&self) -> String {
        match self.moved {
            Some(moved) => format!("{}: {} moved back", self.queue, pluralize(moved, "message")),
            None => format!("{}: the server moves its dead letters back", self.queue),
        }
    }
}

/// Move the dead letters of a stage back into its queue. Tasks that were set aside are run again by `job rerun`, not by this.
#[derive(Debug, Args)]
pub struct Redrive {
    /// Stage whose dead letters are moved.
    #[arg(value_name = "STAGE")]
    stage: String,
}

#[async_trait]
impl Command for Redrive {
    const NAME: [&'static str; 2] = ["queue", "redrive"];
    const ACCESS: Access = Access::Operate;
    const VERB: Verb = Verb::Post;
    const PATH: &'static str = "/queues/{stage}/redrive";
    type Answer = Redriven;

    async fn run(self, admin: &Admin) -> Result<Redriven, Refusal> {
        let stage = stage_named(&self.stage)?;
        let queue = open(admin, &stage).await?;
        let moved = queue.dead_letters().await?.redrive(queue.as_ref()).await?;
        Ok(Redriven {
            stage: stage.to_string(),
            queue: queue.name().to_owned(),
            moved: match moved {
                Moved::Moved { messages } => Some(messages),
                Moved::Started { .. } => None,
            },
        })
    }
}
